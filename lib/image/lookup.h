#ifndef SLUICE_IMAGE_LOOKUP_H
#define SLUICE_IMAGE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* u8 pixels to a model's numbers through a table: to_tensor and normalize at once.
 *
 * An output is one of 256 values of its channel, and the result is the table's, bit for bit, in
 * every layout and at every CPU level, also where it is quicker to compute than to read.
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
    /* Outputs are read much later, if at all on this CPU (a batch's rows): where that is faster
     * they go to memory past the caches.  False after init. */
    bool is_far;
    bool is_computed; /* values may be had by sluice_lookup_formula() too; false after init */
    float mean[3], scale[3], scale_rest[3];
    uint32_t words[3][256];   /* the bits of each value; 16-bit types in the lower half */
    uint8_t bytes[3][4][256]; /* the same, byte by byte, lowest first: for byte permutes */
};

/* From finite float32 values table[channel][u8 value]; to 16 bits they are rounded to nearest,
 * ties to even, and to infinity above the largest, as torch's to(float16) does. */
void sluice_lookup_init(struct sluice_lookup *lookup, const float table[3][256],
                        enum sluice_lookup_type type, enum sluice_lookup_layout layout);

/* Says that the float32 table is (v / 255 - mean[c]) / std[c], each step rounded.  A faster way to
 * compute that is tried on all of its values: true if it gives the table's bits every time, and
 * then kernels may go that way.  False for other types. */
bool sluice_lookup_set_formula(struct sluice_lookup *lookup, const float mean[3],
                               const float std[3]);

/* That way, in float32: reciprocals in two parts, multiplied with one rounding, instead of
 * divisions. */
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

/* The rounding, for others who make such values. */
uint16_t sluice_f16_bits(float value);
uint16_t sluice_bf16_bits(float value);

#endif
