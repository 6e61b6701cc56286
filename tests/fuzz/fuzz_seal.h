#ifndef SLUICE_TESTS_FUZZ_SEAL_H
#define SLUICE_TESTS_FUZZ_SEAL_H

#include "base/hash.h"
#include "fuzz.h"

/* A copy of a safetensors file whose hash is right, where its metadata has one: else nothing would
 * get past the hash.  free() it. */
static inline uint8_t *fuzz_seal_safetensors(const uint8_t *data, size_t size)
{
    static const char key[] = "\"xxh3_128\":\"";
    uint8_t *sealed = malloc(size ? size : 1); /* its own block, so that asan sees its end */
    FUZZ_CHECK(sealed);
    if (size)
        memcpy(sealed, data, size);
    uint8_t *found = size > 8 ? memmem(sealed + 8, size - 8, key, sizeof(key) - 1) : NULL;
    if (!found || (size_t)(sealed + size - found) < sizeof(key) - 1 + 32)
        return sealed;
    char digits[33];
    memset(found + sizeof(key) - 1, '0', 32);
    sluice_hash128_hex(sluice_hash128(sealed, size), digits);
    memcpy(found + sizeof(key) - 1, digits, 32);
    return sealed;
}

#endif
