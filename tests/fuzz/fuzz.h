#ifndef SLUICE_TESTS_FUZZ_H
#define SLUICE_TESTS_FUZZ_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in every build, unlike assert(). */
#define FUZZ_CHECK(...)                                                                            \
    do {                                                                                           \
        if (!(__VA_ARGS__)) {                                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #__VA_ARGS__);                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* An input that is read in parts, none of them outside of it. */
struct fuzz_bytes {
    const uint8_t *data;
    size_t len;
};

static inline sluice_status fuzz_read_at(void *ctx, uint64_t at, void *to, size_t len,
                                         struct sluice_err *err)
{
    (void)err;
    const struct fuzz_bytes *bytes = ctx;
    FUZZ_CHECK(at <= bytes->len && len <= bytes->len - at);
    memcpy(to, bytes->data + at, len);
    return SLUICE_OK;
}

#endif
