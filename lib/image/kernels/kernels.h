#ifndef SLUICE_IMAGE_KERNELS_KERNELS_H
#define SLUICE_IMAGE_KERNELS_KERNELS_H

#include "base/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The inner loops of the image module, one table for each instruction set.
 *
 * kernels_c.c defines the result; every other table (x86/, arm/) gives the same bytes.
 * The level is chosen once, by base/cpu.h.
 *
 * Threads: pure functions over the caller's memory. */

struct sluice_lookup; /* image/lookup.h */

/* Coefficients are fixed point with this many bits after the point. */
#define SLUICE_RESIZE_BITS 22

/* The inputs of one output. */
struct sluice_tap_span {
    uint32_t first, count; /* inputs first .. first + count - 1; count >= 1 */
};

/* The passes of a resize: a row to a narrower or wider one, rows to fewer or more. */
enum sluice_pass {
    SLUICE_PASS_ACROSS,
    SLUICE_PASS_DOWN,
};

/* One pass: num_out outputs of at most `stride` taps each.
 *
 * coeffs[o * stride + k] weighs input spans[o].first + k; zero from count on.
 * first + count <= num_in.
 * Weights are 0 .. 1 << SLUICE_RESIZE_BITS and the weights of one output sum to
 * 1 << SLUICE_RESIZE_BITS but for rounding, at most one half a tap.  The kernels of AVX2 and C
 * take negative weights, too, whose sums fit 32 bits. */
struct sluice_taps {
    uint32_t num_in;
    uint32_t num_out;
    uint32_t stride; /* a multiple of 4 */
    struct sluice_tap_span *spans;
    int32_t *coeffs;
    void *plan; /* the weights in the layout of one table of kernels; 64-byte aligned */
};

/* An upper bound of the taps of one output, for a pass from num_in to num_out. */
uint32_t sluice_max_taps(uint32_t num_in, uint32_t num_out);

/* The inputs of output `o` of such a pass. */
struct sluice_tap_span sluice_tap_span(uint32_t num_in, uint32_t num_out, uint32_t o);

struct sluice_kernels {
    /* Fills spans and coeffs from num_in, num_out and stride (at least sluice_max_taps):
     * antialiased bilinear, docs/NUMERICS.md.  `is_mirrored` stores the outputs from the last to
     * the first. Returns the greatest number of taps of an output. */
    uint32_t (*weigh)(const struct sluice_taps *taps, bool is_mirrored);

    /* Bytes that `plan` needs; 0: none. */
    size_t (*plan_len)(enum sluice_pass pass, uint32_t num_out, uint32_t stride);

    /* Fills taps->plan from the other fields.  Call it before the first resize_rows (across) or
     * blend_rows (down). */
    void (*make_plan)(enum sluice_pass pass, const struct sluice_taps *taps);

    /* Resizes num_rows RGB rows of taps->num_in pixels to rows of taps->num_out pixels: each
     * channel is the weighted sum, plus one half, shifted and clipped to 0 .. 255. Rows start
     * in_stride and out_stride bytes apart.  Reads nothing outside the num_in * 3 bytes of each,
     * writes num_out * 3.  Fastest with eight rows or more at a time. */
    void (*resize_rows)(const struct sluice_taps *taps, const uint8_t *in, size_t in_stride,
                        uint32_t num_rows, uint8_t *out, size_t out_stride);

    /* Output row `o` of a vertical pass, byte by byte: rows[k] is the row that tap
     * k weighs.  Reads and writes exactly num_bytes of each row.  Taps come in fours: up to
     * the next multiple of four, rows[count] and so on are rows too, that weigh nothing. */
    void (*blend_rows)(const struct sluice_taps *taps, uint32_t o, const uint8_t *const *rows,
                       uint8_t *out, size_t num_bytes);

    /* A row of `width` RGB pixels, mirrored.  In and out do not overlap. */
    void (*flip_row)(const uint8_t *in, size_t width, uint8_t *out);

    /* num_pixels RGB pixels in a row through the lookup: channel c of pixel i becomes value
     * c * plane + i at `out` (CHW) or 3 * i + c (NHWC), and no other is written. */
    void (*look_up)(const struct sluice_lookup *lookup, const uint8_t *pixels, size_t num_pixels,
                    void *out, size_t plane);
};

/* The table for a level; the next lower one where a level has none of its own. */
const struct sluice_kernels *sluice_kernels_for(enum sluice_cpu_level level);

/* Kernels that the tables of other levels use, too, where they have nothing faster. */
void sluice_look_up_c(const struct sluice_lookup *lookup, const uint8_t *pixels, size_t num_pixels,
                      void *out, size_t plane);
void sluice_look_up_avx2(const struct sluice_lookup *lookup, const uint8_t *pixels,
                         size_t num_pixels, void *out, size_t plane);
uint32_t sluice_weigh_c(const struct sluice_taps *taps, bool is_mirrored);
uint32_t sluice_weigh_avx2(const struct sluice_taps *taps, bool is_mirrored);
void sluice_flip_row_avx2(const uint8_t *in, size_t width, uint8_t *out);

extern const struct sluice_kernels sluice_kernels_c;
#ifdef SLUICE_HAVE_X86_KERNELS
extern const struct sluice_kernels sluice_kernels_avx2;
extern const struct sluice_kernels sluice_kernels_avx512;
#endif
#ifdef SLUICE_HAVE_NEON_KERNELS
extern const struct sluice_kernels sluice_kernels_neon;
#endif

#endif
