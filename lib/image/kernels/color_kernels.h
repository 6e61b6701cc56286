#ifndef SLUICE_IMAGE_KERNELS_COLOR_KERNELS_H
#define SLUICE_IMAGE_KERNELS_COLOR_KERNELS_H

#include "base/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The loops of colour ops (image/color.h) and warps (image/warp.h), one table for each instruction
 * set.  All come from one source, color_loops.inc, which compilers turn into vectors: it has no
 * contraction and no reordering of floats, so every table gives the same bytes.
 *
 * Threads: pure functions over the caller's memory. */

/* A straight line through an image, in fixed point with 16 bits of fraction. */
struct sluice_walk {
    int32_t x, y, step_x, step_y;
};

/* The box of a blur: `radius` whole pixels to either side and a fraction, as weights of 24 bits. */
struct sluice_blur_box {
    uint32_t radius, inner, edge;
};

struct sluice_color_kernels {
    /* Each value to table[channel][value]. */
    void (*map)(const uint8_t *in, size_t num_pixels, const uint8_t table[3][256], uint8_t *out);
    /* The least and the greatest value of each channel, of at least one pixel. */
    void (*range)(const uint8_t *pixels, size_t num_pixels, uint8_t low[3], uint8_t high[3]);
    uint64_t (*luma_sum)(const uint8_t *pixels, size_t num_pixels);
    void (*gray)(const uint8_t *in, size_t num_pixels, uint8_t *out);
    void (*saturate)(const uint8_t *in, size_t num_pixels, float factor, uint8_t *out);
    void (*shift_hue)(const uint8_t *in, size_t num_pixels, uint8_t shift, uint8_t *out);
    /* Bytes [3, row_bytes - 3) of a row that has one above and one beneath. */
    void (*sharpen_row)(const uint8_t *row, size_t row_bytes, float factor, uint8_t *out);
    /* One box blur down the columns of rows without gaps; `sums` has row_bytes entries. */
    void (*blur_down)(const struct sluice_blur_box *box, const uint8_t *in, size_t row_bytes,
                      size_t num_rows, uint8_t *out, uint32_t *sums);
    /* The sums of a symmetric filter: weights[0] * lines[0][i], to which the pairs are added in
     * order, weights[k] * (lines[2 * k - 1][i] + lines[2 * k][i]) for k of 1 to `radius`.  Every
     * operation is rounded. */
    void (*weigh_pairs)(const float *const *lines, const float *weights, size_t radius,
                        size_t count, float *sums);
    /* To the nearest u8, halves to even. */
    void (*round_floats)(const float *values, size_t count, uint8_t *out);
    /* Rows of pixels become columns. */
    void (*transpose)(const uint8_t *in, size_t width, size_t height, uint8_t *out);
    /* A pixel from `count` pixels, and a row from `count` rows of row_bytes: their weighted sums,
     * of weights with SLUICE_RESIZE_BITS of fraction, rounded and clipped. */
    void (*weigh_pixels)(const uint8_t *pixels, const int32_t *weights, size_t count, uint8_t *out);
    void (*weigh_rows)(const uint8_t *rows, size_t row_bytes, const int32_t *weights, size_t count,
                       uint8_t *out);
    /* `count` pixels of the image, all within it: the one at the start, and each a step on. */
    void (*walk)(const uint8_t *in, size_t width, size_t height, const struct sluice_walk *walk,
                 size_t count, uint8_t *out);
    /* The pixels of image/warp.h whose source lies within the image; the others stay. */
    void (*warp)(const uint8_t *in, int width, int height, const double m[6], bool is_bicubic,
                 uint8_t *out);
};

const struct sluice_color_kernels *sluice_color_kernels_for(enum sluice_cpu_level level);

extern const struct sluice_color_kernels sluice_color_kernels_c;
#ifdef SLUICE_HAVE_X86_KERNELS
extern const struct sluice_color_kernels sluice_color_kernels_avx2, sluice_color_kernels_avx512;
#endif

#endif
