#ifndef SLUICE_TESTS_FUZZ_WIRE_H
#define SLUICE_TESTS_FUZZ_WIRE_H

#include "base/message.h"
#include "fuzz.h"

/* The first byte of an input says how the rest is cut: into segments of so many
 * bytes, 0: one segment.  Borrows `data`. */
static inline struct sluice_message fuzz_message(const uint8_t *data, size_t size)
{
    struct sluice_message message = {0};
    if (size == 0)
        return message;
    const size_t step = data[0] ? data[0] : size;
    for (size_t pos = 1; pos < size; pos += step) {
        const size_t len = size - pos < step ? size - pos : step;
        FUZZ_CHECK(sluice_message_append_ref(&message, data + pos, len, NULL, NULL, NULL) ==
                   SLUICE_OK);
    }
    return message;
}

#endif
