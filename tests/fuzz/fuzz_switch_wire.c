/* Heads of requests, byte by byte as a server reads them: never more than the parser asks for, which is never
 * more than the longest head, and what it finds is what the bytes say. */

#include "lend/switch/wire.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    while (size > 0) {
        size_t have = 0, wanted = 0;
        enum switch_wire found;
        struct switch_wire_head head;
        uint8_t *copy = NULL; /* of exactly what is there, for the sanitizer */
        while ((found = switch_wire_parse(copy ? copy : data, have, &wanted, &head)) ==
               SWITCH_WIRE_MORE) {
            FUZZ_CHECK(wanted > have && wanted <= SWITCH_WIRE_HEAD_BYTES);
            free(copy);
            copy = NULL;
            if (wanted > size)
                return 0;
            have = wanted;
            copy = malloc(have);
            if (!copy)
                return 0;
            memcpy(copy, data, have);
        }
        uint32_t length = 0;
        memcpy(&length, data, sizeof length);
        FUZZ_CHECK((found == SWITCH_WIRE_END) == (length == 0));
        FUZZ_CHECK((found == SWITCH_WIRE_TOO_LONG) == (length > SWITCH_WIRE_NAME_BYTES));
        FUZZ_CHECK(have == (found == SWITCH_WIRE_HEAD ? 8 + (size_t)length : 4));
        if (found == SWITCH_WIRE_HEAD) {
            FUZZ_CHECK(head.name[length] == 0 && memcmp(head.name, data + 4, length) == 0);
            FUZZ_CHECK(memcmp(&head.data_bytes, data + 4 + length, 4) == 0);
            have += head.data_bytes < size - have ? head.data_bytes : size - have;
        }
        free(copy);
        data += have;
        size -= have;
    }
    return 0;
}
