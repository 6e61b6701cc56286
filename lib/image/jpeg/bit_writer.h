#ifndef SLUICE_IMAGE_JPEG_BIT_WRITER_H
#define SLUICE_IMAGE_JPEG_BIT_WRITER_H

#include <stdint.h>
#include <string.h>

/* Writes bits to bytes, for coding blocks.
 *
 * Threads: a writer belongs to one. */

/* Writes to memory that must have 8 bytes of room after the last bit. */
struct sluice_jpeg_bit_writer {
    uint64_t bits;  /* the bits not yet stored, from the top */
    unsigned count; /* 0 .. 7 between calls */
    uint8_t *next;
};

/* Appends the lowest `num_bits` (0 .. 56) of value; its higher bits must be 0. */
static inline void sluice_jpeg_put_bits(struct sluice_jpeg_bit_writer *out, uint64_t value,
                                        unsigned num_bits)
{
    out->count += num_bits;
    uint64_t word = out->bits | (num_bits ? value << (64 - out->count) : 0);
    out->bits = word << (out->count & ~7u);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(out->next, &word, sizeof(word));
    out->next += out->count >> 3;
    out->count &= 7;
}

#endif
