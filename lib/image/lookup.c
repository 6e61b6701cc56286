#include "image/lookup.h"

#include "image/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Pixels.  Rows that must be mirrored or that have gaps between them are first copied to a buffer
 * that stays in the first-level cache, several rows at a time: starting a kernel costs as much as a
 * hundred pixels. */
#define STAGED_PIXELS 2048

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Drops the lowest `count` bits, rounding to nearest, ties to even. */
static uint32_t round_off(uint32_t bits, unsigned count)
{
    const uint32_t half = 1u << (count - 1);
    const uint32_t is_odd = bits >> count & 1;
    return (bits + half - 1 + is_odd) >> count;
}

/* A NaN stays one: its sign and the upper bits of its payload, quiet, as processors convert it.
 * Rounding could carry it to infinity and beyond. */

uint16_t sluice_bf16_bits(float value)
{
    if ((bits_of(value) & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits_of(value) >> 16 | 0x40);
    return (uint16_t)round_off(bits_of(value), 16);
}

uint16_t sluice_f16_bits(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    /* A carry out of the fraction goes on into the exponent, where it belongs. */
    if (magnitude >= 0x47800000) /* 65536, beyond every finite binary16 */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) /* 2^-14, the least that is normal */
        return (uint16_t)(sign | round_off(magnitude - ((127u - 15) << 23), 13));
    /* A subnormal counts units of 2^-24. */
    const unsigned exponent = magnitude >> 23;
    if (exponent < 127 - 25)
        return (uint16_t)sign; /* below half a unit */
    const uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | round_off(fraction, 126 - exponent));
}

void sluice_lookup_init(struct sluice_lookup *lookup, const float table[3][256],
                        enum sluice_lookup_type type, enum sluice_lookup_layout layout)
{
    lookup->type = type;
    lookup->layout = layout;
    lookup->is_far = false;
    lookup->is_computed = false;
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            const float value = table[c][v];
            const uint32_t word = type == SLUICE_LOOKUP_F32   ? bits_of(value)
                                  : type == SLUICE_LOOKUP_F16 ? sluice_f16_bits(value)
                                                              : sluice_bf16_bits(value);
            lookup->words[c][v] = word;
            for (int b = 0; b < 4; b++)
                lookup->bytes[c][b][v] = (uint8_t)(word >> (8 * b));
        }
    }
}

float sluice_lookup_formula(const struct sluice_lookup *lookup, unsigned channel, uint8_t value)
{
    const float v = value;
    const float x = fmaf(v, SLUICE_LOOKUP_255TH, v * SLUICE_LOOKUP_255TH_REST);
    const float difference = x - lookup->mean[channel];
    return fmaf(difference, lookup->scale[channel], difference * lookup->scale_rest[channel]);
}

bool sluice_lookup_set_formula(struct sluice_lookup *lookup, const float mean[3],
                               const float std[3])
{
    lookup->is_computed = lookup->type == SLUICE_LOOKUP_F32;
    for (unsigned c = 0; c < 3; c++) {
        lookup->mean[c] = mean[c];
        lookup->scale[c] = (float)(1.0 / std[c]);
        lookup->scale_rest[c] = (float)(1.0 / std[c] - lookup->scale[c]);
        for (unsigned v = 0; v < 256 && lookup->is_computed; v++)
            lookup->is_computed =
                bits_of(sluice_lookup_formula(lookup, c, (uint8_t)v)) == lookup->words[c][v];
    }
    return lookup->is_computed;
}

void sluice_lookup_run(const struct sluice_lookup *lookup, const uint8_t *pixels, size_t stride,
                       uint32_t width, uint32_t height, bool flip, void *out)
{
    const struct sluice_kernels *kernels = sluice_kernels_for(sluice_cpu_level());
    const size_t plane = (size_t)width * height;
    /* Bytes from pixel to pixel. */
    const size_t step =
        sluice_lookup_value_bytes(lookup) * (lookup->layout == SLUICE_LOOKUP_CHW ? 1 : 3);
    if (!flip && stride == (size_t)width * 3) {
        kernels->look_up(lookup, pixels, plane, out, plane);
        return;
    }
    if (!flip || width > STAGED_PIXELS) {
        /* Row by row; a row too long for the buffer is mirrored in pieces from its end. */
        for (size_t y = 0; y < height; y++) {
            const uint8_t *row = pixels + y * stride;
            uint8_t *to = (uint8_t *)out + y * width * step;
            if (!flip) {
                kernels->look_up(lookup, row, width, to, plane);
                continue;
            }
            uint8_t staged[STAGED_PIXELS * 3];
            for (size_t x = 0; x < width;) {
                const size_t left = width - x;
                const size_t count = left < STAGED_PIXELS ? left : STAGED_PIXELS;
                kernels->flip_row(row + (left - count) * 3, count, staged);
                kernels->look_up(lookup, staged, count, to + x * step, plane);
                x += count;
            }
        }
        return;
    }
    const size_t rows_at_once = STAGED_PIXELS / width;
    for (size_t y = 0; y < height;) {
        uint8_t staged[STAGED_PIXELS * 3];
        const size_t rows = height - y < rows_at_once ? height - y : rows_at_once;
        for (size_t i = 0; i < rows; i++)
            kernels->flip_row(pixels + (y + i) * stride, width, staged + i * width * 3);
        kernels->look_up(lookup, staged, rows * width, (uint8_t *)out + y * width * step, plane);
        y += rows;
    }
}
