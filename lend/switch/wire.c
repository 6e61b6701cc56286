#include "lend/switch/wire.h"

#include <string.h>

enum switch_wire switch_wire_parse(const uint8_t *bytes, size_t have, size_t *wanted,
                                   struct switch_wire_head *head)
{
    uint32_t length;
    *wanted = sizeof length;
    if (have < *wanted)
        return SWITCH_WIRE_MORE;
    memcpy(&length, bytes, sizeof length);
    if (length == 0)
        return SWITCH_WIRE_END;
    if (length > SWITCH_WIRE_NAME_BYTES)
        return SWITCH_WIRE_TOO_LONG;
    *wanted += length + sizeof head->data_bytes;
    if (have < *wanted)
        return SWITCH_WIRE_MORE;
    memcpy(head->name, bytes + sizeof length, length);
    head->name[length] = 0;
    memcpy(&head->data_bytes, bytes + sizeof length + length, sizeof head->data_bytes);
    return SWITCH_WIRE_HEAD;
}
