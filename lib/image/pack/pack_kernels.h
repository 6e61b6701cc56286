#ifndef SLUICE_IMAGE_PACK_PACK_KERNELS_H
#define SLUICE_IMAGE_PACK_PACK_KERNELS_H

#include "base/cpu.h"

#include <stddef.h>
#include <stdint.h>

/* The inner loops of packing pixels, one table for each instruction set.
 *
 * pack_c.c defines the result; every other table (x86/, arm/) gives the same bytes.
 *
 * Threads: pure functions over the caller's memory. */

#define SLUICE_PACK_BLOCK 16
#define SLUICE_PACK_SPREADS 6
#define SLUICE_PACK_MIDDLE 128 /* the code of a difference of 0 */

/* The lowest sums of absolute residuals for spreads 1, 2, ... */
#define SLUICE_PACK_BOUNDS                                                                         \
    {                                                                                              \
        12, 24, 44, 80, 144                                                                        \
    }

struct sluice_pack_kernels {
    /* Planes of a row of RGB pixels: g, r - g + 128, b - g + 128. */
    void (*split_row)(const uint8_t *pixels, size_t width, uint8_t *const planes[3]);

    /* The residuals of the median predictor in one plane's row; width >= 1. */
    void (*residual_row)(const uint8_t *row, const uint8_t *above, size_t width, uint8_t *out);

    /* The spread, 0 .. 5, of each block of 16 residuals. */
    void (*find_spreads)(const uint8_t *residuals, size_t num_blocks, uint8_t *spreads);

    /* A row of RGB pixels from its residuals.  `above` holds four bytes a pixel, the planes' values
     * and an unused one, of the row above and afterwards of this row.  Residuals and `above` have
     * room for whole blocks; any byte of them may be read, and any of `above` written; width >= 1.
     */
    void (*restore_row)(const uint8_t *const residuals[3], size_t width, uint8_t *above,
                        uint8_t *pixels);
};

const struct sluice_pack_kernels *sluice_pack_kernels_for(enum sluice_cpu_level level);

extern const struct sluice_pack_kernels sluice_pack_kernels_c;
#ifdef SLUICE_HAVE_X86_KERNELS
extern const struct sluice_pack_kernels sluice_pack_kernels_avx2;
#endif
#ifdef SLUICE_HAVE_NEON_KERNELS
extern const struct sluice_pack_kernels sluice_pack_kernels_neon;
#endif

#endif
