/* A client's bytes in pieces, and the verdicts on its requests, from one input: no byte lands outside
 * of the memory that the parser names, and requests are those that a parser of the whole finds. */

#include "lend/switch/wire.h"

#include "fuzz.h"

#define ROOM 64 /* larger requests are refused */

/* The next request of the stream, read plainly. */
static bool next_plain(const uint8_t **at, size_t *left, uint32_t *name_length,
                       uint32_t *data_length)
{
    if (*left < 4)
        return false;
    memcpy(name_length, *at, 4);
    if (*name_length == 0 || *name_length > SWITCH_WIRE_NAME_BYTES || *left - 4 < *name_length ||
        *left - 4 - *name_length < 4)
        return false;
    memcpy(data_length, *at + 4 + *name_length, 4);
    const size_t head = 8 + (size_t)*name_length;
    const size_t rest = *left - head < *data_length ? *left - head : *data_length;
    *at += head + rest;
    *left -= head + rest;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const size_t step = 1 + data[0] % 16 * 7;
    const uint8_t *plain = data + 1;
    size_t plain_left = size - 1, at = 1;
    struct switch_wire *wire = malloc(sizeof *wire);
    uint8_t *room = malloc(ROOM);
    if (wire && room) {
        switch_wire_init(wire);
        while (at < size) {
            void *to;
            size_t most;
            switch_wire_want(wire, &to, &most);
            FUZZ_CHECK(most > 0);
            const size_t left = size - at;
            const size_t n =
                most < step ? (most < left ? most : left) : (step < left ? step : left);
            memcpy(to, data + at, n);
            at += n;
            const enum switch_wire_event event = switch_wire_took(wire, n);
            if (event == SWITCH_WIRE_NAMED) {
                uint32_t name_length, data_length;
                FUZZ_CHECK(next_plain(&plain, &plain_left, &name_length, &data_length));
                FUZZ_CHECK(wire->name_length == name_length && wire->data_length == data_length);
                FUZZ_CHECK(wire->name[name_length] == 0);
                if (data_length <= ROOM)
                    switch_wire_accept(wire, room);
                else
                    switch_wire_refuse(wire);
            }
        }
        uint32_t name_length, data_length;
        FUZZ_CHECK(!next_plain(&plain, &plain_left, &name_length, &data_length));
    }
    free(room);
    free(wire);
    return 0;
}
