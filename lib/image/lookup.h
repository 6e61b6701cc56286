#ifndef SLUICE_IMAGE_LOOKUP_H
#define SLUICE_IMAGE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Turns u8 pixels into a model's input through a lookup table: to_tensor and normalize in one step.
 *
 * Each channel has 256 values.  The result is the table's, bit for bit, in every layout and at
 * every CPU level, also where a kernel computes values because that is faster than reading them.
 *
 * Threads: a lookup is constant once made and may be shared. */

enum sluice_lookup_type {
    SLUICE_LOOKUP_F32,
    SLUICE_LOOKUP_F16,  /* IEEE binary16 */
    SLUICE_LOOKUP_BF16, /* the upper half of a float32 */
};

enum sluice_lookup_layout {
    SLUICE_LOOKUP_CHW, /* a plane for each channel */
    SLUICE_LOOKUP_NHWC,
};

struct sluice_lookup {
    enum sluice_lookup_type type;
    enum sluice_lookup_layout layout;
    /* The output is read much later or by another CPU, such as a batch's rows: kernels may use
     * non-temporal stores.  False after init. */
    bool is_far;
    bool is_computed; /* kernels may use sluice_lookup_formula(); false after init */
    float mean[3], scale[3], scale_rest[3];
    uint32_t words[3][256];   /* the bits of each value; 16-bit types in the lower half */
    uint8_t bytes[3][4][256]; /* the bytes of each word, lowest first: for byte permutes */
};

/* Makes a lookup from float32 values table[channel][u8 value].  16-bit types are rounded to
 * nearest, ties to even, and overflow to infinity, as torch's to(float16) does.  Infinities stay
 * infinities.  NaNs stay NaNs; in 16 bits they keep their sign and become quiet. */
void sluice_lookup_init(struct sluice_lookup *lookup, const float table[3][256],
                        enum sluice_lookup_type type, enum sluice_lookup_layout layout);

/* States that the float32 table is (v / 255 - mean[c]) / std[c], each step rounded.  Tries the
 * faster sluice_lookup_formula() on all 3 x 256 values; if it gives the table's bits every time,
 * kernels may use it, and this returns true.  False for other types. */
bool sluice_lookup_set_formula(struct sluice_lookup *lookup, const float mean[3],
                               const float std[3]);

/* The formula in float32 without divisions: reciprocals in two parts and fused multiply-add. */
float sluice_lookup_formula(const struct sluice_lookup *lookup, unsigned channel, uint8_t value);
#define SLUICE_LOOKUP_255TH ((float)(1.0 / 255))
#define SLUICE_LOOKUP_255TH_REST ((float)(1.0 / 255 - SLUICE_LOOKUP_255TH))

static inline size_t sluice_lookup_value_bytes(const struct sluice_lookup *lookup)
{
    return lookup->type == SLUICE_LOOKUP_F32 ? 4 : 2;
}

/* height x width RGB pixels (rows `stride` bytes apart), each row mirrored if `flip`, to
 * 3 x height x width or height x width x 3 values at `out`, aligned for them. */
void sluice_lookup_run(const struct sluice_lookup *lookup, const uint8_t *pixels, size_t stride,
                       uint32_t width, uint32_t height, bool flip, void *out);

/* A float32 rounded to the bits of a 16-bit type, as sluice_lookup_init() does. */
uint16_t sluice_f16_bits(float value);
uint16_t sluice_bf16_bits(float value);

#endif
