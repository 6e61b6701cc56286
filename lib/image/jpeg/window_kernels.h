#ifndef SLUICE_IMAGE_JPEG_WINDOW_KERNELS_H
#define SLUICE_IMAGE_JPEG_WINDOW_KERNELS_H

#include "base/cpu.h"
#include "image/jpeg/arithmetic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernels from coefficients to pixels, one table for each instruction set.
 *
 * The results are libjpeg-turbo's: its accurate integer DCT (ISLOW), its triangle
 * filters ("fancy upsampling") and its YCbCr to RGB.  jpeg/window_c.c defines them;
 * every other table gives the same bytes and the same answers.
 *
 * Threads: pure functions over the caller's memory. */

/* Two orders of a block's coefficients and quantisers, as tables of the place of row v, column u at
 * v * 8 + u.  In pairs: the rows are paired as the transform combines them, and the columns so that
 * its second pass finds the same pairs.  The other is the order of the file. */
extern const uint8_t sluice_jpeg_place_in_pairs[64];
extern const uint8_t sluice_jpeg_place_in_zigzag[64];

/* Files with larger quantisers are rejected. */
#define SLUICE_JPEG_MAX_QUANTISER 32767

struct sluice_jpeg_block {
    int16_t *coefficients; /* 64, in the order of the quantisers, 64-byte aligned */
    const int16_t *quantisers;
    uint8_t *out; /* 8 rows of 8 samples, `stride` apart */
    size_t stride;
};

struct sluice_jpeg_window_kernels {
    const uint8_t *place; /* one of the above */

    /* Dequantises, transforms to samples, and sets the coefficients to zero.  Quantisers are 1 ..
     * SLUICE_JPEG_MAX_QUANTISER.  False, with undefined samples: a value left the range in which
     * all builds of libjpeg-turbo, with or without 16-bit SIMD arithmetic, agree. The range is
     * -16,384 .. 16,383 for products and between the two passes, and -512 .. 511 for samples around
     * 128. */
    bool (*inverse_dct)(const struct sluice_jpeg_block *blocks, size_t num_blocks);

    /* sums[i] = 3 * near[i] + far[i] */
    void (*blend)(const uint8_t *near, const uint8_t *far, size_t len, uint16_t *sums);

    /* out[i] = (sums[i] + bias) >> 2, for sums of blend() */
    void (*finish_blend)(const uint16_t *sums, size_t len, unsigned bias, uint8_t *out);

    /* Twice as wide: out[2i] = (3 s[i] + s[i - 1] + even) >> shift, out[2i + 1] = (3 s[i] +
     * s[i + 1] + odd) >> shift.  Reads s[-1] .. s[len]. */
    void (*widen)(const uint16_t *sums, size_t len, unsigned even, unsigned odd, unsigned shift,
                  uint8_t *out);

    void (*ycc_to_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t len,
                       uint8_t *rgb);
};

const struct sluice_jpeg_window_kernels *
sluice_jpeg_window_kernels_for(enum sluice_cpu_level level);

extern const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_c;
#ifdef SLUICE_HAVE_X86_KERNELS
extern const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_avx2;
extern const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_avx512;
#endif
#ifdef SLUICE_HAVE_NEON_KERNELS
extern const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_neon;
#endif

#endif
