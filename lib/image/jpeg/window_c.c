#include "image/jpeg/window_kernels.h"

#include <string.h>

/* Rows and columns in the order 0 4 2 6 7 1 5 3; row pairs are interleaved. */
static const uint8_t order[8] = {0, 4, 2, 6, 7, 1, 5, 3};

#define PLACE(v, u) ((v) / 2 * 16 + (u)*2 + (v) % 2)
#define ROW(v)                                                                                     \
    PLACE(v, 0), PLACE(v, 5), PLACE(v, 2), PLACE(v, 7), PLACE(v, 1), PLACE(v, 6), PLACE(v, 3),     \
        PLACE(v, 4)
const uint8_t sluice_jpeg_place_in_pairs[64] = {
    ROW(0), ROW(5), ROW(2), ROW(7), ROW(1), ROW(6), ROW(3), ROW(4),
};

const uint8_t sluice_jpeg_place_in_zigzag[64] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30,
    41, 43, 9,  11, 18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38,
    46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63,
};

/* Columns, then rows, as in jidctint.c.  Between the passes values have 2 more fraction bits than
 * the samples; they stay within 15 bits, so that the sum of two fits 16. */
static bool transform_block(const struct sluice_jpeg_block *block)
{
    const int16_t *coefficients = block->coefficients, *quantisers = block->quantisers;
    int32_t work[8][8], in[8], sums[8];
    bool is_in_range = true;
    for (unsigned place = 0; place < 8; place++) {
        for (unsigned v = 0; v < 8; v++) {
            const int32_t value = coefficients[PLACE(v, place)] * quantisers[PLACE(v, place)];
            is_in_range &= value >= -16384 && value <= 16383;
            in[order[v]] = value;
        }
        if (!is_in_range)
            return false;
        sluice_jpeg_transform_8(in, sums);
        for (unsigned y = 0; y < 8; y++) {
            const int32_t value = (sums[y] + (1 << 10)) >> 11;
            is_in_range &= value >= -16384 && value <= 16383;
            work[y][order[place]] = value;
        }
    }
    if (!is_in_range)
        return false;
    for (unsigned y = 0; y < 8; y++) {
        sluice_jpeg_transform_8(work[y], sums);
        for (unsigned x = 0; x < 8; x++) {
            const int32_t value = (sums[x] + (1 << 17)) >> 18;
            is_in_range &= value >= -512 && value <= 511;
            const int32_t sample = value + 128;
            block->out[y * block->stride + x] = (uint8_t)(sample < 0     ? 0
                                                          : sample > 255 ? 255
                                                                         : sample);
        }
    }
    return is_in_range;
}

static bool inverse_dct(const struct sluice_jpeg_block *blocks, size_t num_blocks)
{
    bool is_good = true;
    for (size_t i = 0; i < num_blocks; i++) {
        is_good &= transform_block(&blocks[i]);
        memset(blocks[i].coefficients, 0, 64 * sizeof(int16_t));
    }
    return is_good;
}

static void blend(const uint8_t *near, const uint8_t *far, size_t len, uint16_t *sums)
{
    for (size_t i = 0; i < len; i++)
        sums[i] = (uint16_t)(3 * near[i] + far[i]);
}

static void finish_blend(const uint16_t *sums, size_t len, unsigned bias, uint8_t *out)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)((sums[i] + bias) >> 2);
}

static void widen(const uint16_t *sums, size_t len, unsigned even, unsigned odd, unsigned shift,
                  uint8_t *out)
{
    for (size_t i = 0; i < len; i++) {
        const unsigned near = 3u * sums[i];
        out[2 * i] = (uint8_t)((near + sums[(ptrdiff_t)i - 1] + even) >> shift);
        out[2 * i + 1] = (uint8_t)((near + sums[i + 1] + odd) >> shift);
    }
}

static uint8_t clip(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t len,
                       uint8_t *rgb)
{
    for (size_t i = 0; i < len; i++) {
        const int32_t b = cb[i] - 128, r = cr[i] - 128;
        rgb[3 * i] = clip(y[i] + r + ((SLUICE_JPEG_CR_TO_R * r + 32768) >> 16));
        rgb[3 * i + 1] =
            clip(y[i] - r + ((SLUICE_JPEG_CB_TO_G * b + SLUICE_JPEG_CR_TO_G * r + 32768) >> 16));
        rgb[3 * i + 2] = clip(y[i] + 2 * b + ((SLUICE_JPEG_CB_TO_B * b + 32768) >> 16));
    }
}

const struct sluice_jpeg_window_kernels sluice_jpeg_window_kernels_c = {
    .place = sluice_jpeg_place_in_pairs,
    .inverse_dct = inverse_dct,
    .blend = blend,
    .finish_blend = finish_blend,
    .widen = widen,
    .ycc_to_rgb = ycc_to_rgb,
};
