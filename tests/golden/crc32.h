#ifndef SLUICE_TESTS_GOLDEN_CRC32_H
#define SLUICE_TESTS_GOLDEN_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* zlib's CRC-32, as the scripts that make goldens use. */
static inline uint32_t crc32_of(const uint8_t *bytes, size_t len)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

#endif
