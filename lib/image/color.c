#include "image/color.h"

#include "base/compiler.h"
#include "image/kernels/color_kernels.h"

#include <math.h>
#include <string.h>

static const struct sluice_color_kernels *kernels(void)
{
    return sluice_color_kernels_for(sluice_cpu_level());
}

void sluice_map_rgb(const uint8_t *in, size_t num_pixels, const uint8_t table[3][256], uint8_t *out)
{
    kernels()->map(in, num_pixels, table, out);
}

/* Neighbours are counted apart: they often have the same value, whose count would have to be
 * written before it is read again. */
void sluice_histogram_rgb(const uint8_t *pixels, size_t num_pixels, uint32_t histogram[3][256])
{
    uint32_t counts[4][3][256] = {{{0}}};
    size_t i = 0;
    for (; i + 4 <= num_pixels; i += 4) {
        const uint8_t *four = pixels + 3 * i;
        for (int k = 0; k < 4; k++) {
            counts[k][0][four[3 * k]]++;
            counts[k][1][four[3 * k + 1]]++;
            counts[k][2][four[3 * k + 2]]++;
        }
    }
    for (; i < num_pixels; i++) {
        for (int c = 0; c < 3; c++)
            counts[0][c][pixels[3 * i + (size_t)c]]++;
    }
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            histogram[c][v] = counts[0][c][v] + counts[1][c][v] + counts[2][c][v] + counts[3][c][v];
    }
}

void sluice_range_rgb(const uint8_t *pixels, size_t num_pixels, uint8_t low[3], uint8_t high[3])
{
    kernels()->range(pixels, num_pixels, low, high);
}

uint64_t sluice_luma_sum(const uint8_t *pixels, size_t num_pixels, const uint8_t before[3][256])
{
    if (!before)
        return kernels()->luma_sum(pixels, num_pixels);
    uint64_t sum = 0;
    for (size_t i = 0; i < num_pixels * 3; i += 3) {
        const uint8_t rgb[3] = {before[0][pixels[i]], before[1][pixels[i + 1]],
                                before[2][pixels[i + 2]]};
        sum += sluice_luma(rgb);
    }
    return sum;
}

void sluice_mix_rgb(const uint8_t *const *images, const float *weights, unsigned num,
                    size_t num_values, uint8_t *out)
{
    float sums[512]; /* stay in L1 */
    for (size_t at = 0; at < num_values; at += SLUICE_ARRAY_LEN(sums)) {
        const size_t left = num_values - at;
        const size_t count = left < SLUICE_ARRAY_LEN(sums) ? left : SLUICE_ARRAY_LEN(sums);
        for (size_t i = 0; i < count; i++)
            sums[i] = weights[0] * images[0][at + i];
        for (unsigned k = 1; k < num; k++) {
            for (size_t i = 0; i < count; i++)
                sums[i] += weights[k] * images[k][at + i];
        }
        for (size_t i = 0; i < count; i++)
            out[at + i] = (uint8_t)sums[i];
    }
}

void sluice_gray_rgb(const uint8_t *in, size_t num_pixels, uint8_t *out)
{
    kernels()->gray(in, num_pixels, out);
}

void sluice_saturate_rgb(const uint8_t *in, size_t num_pixels, float factor, uint8_t *out)
{
    kernels()->saturate(in, num_pixels, factor, out);
}

void sluice_shift_hue_rgb(const uint8_t *in, size_t num_pixels, uint8_t shift, uint8_t *out)
{
    kernels()->shift_hue(in, num_pixels, shift, out);
}

void sluice_sharpen_rgb(const uint8_t *in, uint32_t width, uint32_t height, float factor,
                        uint8_t *out)
{
    const size_t row = (size_t)width * 3;
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *at = in + y * row;
        uint8_t *to = out + y * row;
        if (y == 0 || y + 1 == height || width < 3) {
            memcpy(to, at, row);
            continue;
        }
        memcpy(to, at, 3);
        kernels()->sharpen_row(at, row, factor, to);
        memcpy(to + row - 3, at + row - 3, 3);
    }
}

/* --- blur --- */

struct sluice_blur_box sluice_blur_box(float sigma)
{
    const float passes = 3;
    const float sigma2 = sigma * sigma / passes;
    const float length = (float)sqrt(12.0 * (double)sigma2 + 1.0);
    const float whole = (float)floor(((double)length - 1.0) / 2.0);
    float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * sigma2);
    part /= 6 * (sigma2 - (whole + 1) * (whole + 1));
    const float radius = whole + part;
    struct sluice_blur_box box = {.radius = (uint32_t)radius};
    box.inner = (uint32_t)((float)(1u << 24) / (radius * 2 + 1));
    box.edge = ((1u << 24) - (box.radius * 2 + 1) * box.inner) / 2;
    return box;
}

size_t sluice_blur_memory(uint32_t width, uint32_t height)
{
    const size_t longest = width > height ? width : height;
    return 2 * (((size_t)width * height * 3 + 63) & ~(size_t)63) + longest * 3 * sizeof(uint32_t);
}

/* Both directions are blurred down the columns, which takes whole rows at a time. */
void sluice_blur_rgb(const uint8_t *in, uint32_t width, uint32_t height, float sigma, uint8_t *out,
                     uint8_t *memory)
{
    const struct sluice_color_kernels *k = kernels();
    const struct sluice_blur_box box = sluice_blur_box(sigma);
    const size_t bytes = ((size_t)width * height * 3 + 63) & ~(size_t)63;
    uint8_t *first = memory, *second = memory + bytes;
    uint32_t *sums = (uint32_t *)(void *)(memory + 2 * bytes);
    const size_t column = (size_t)height * 3, row = (size_t)width * 3;
    k->transpose(in, width, height, first);
    k->blur_down(&box, first, column, width, second, sums);
    k->blur_down(&box, second, column, width, first, sums);
    k->blur_down(&box, first, column, width, second, sums);
    k->transpose(second, height, width, first);
    k->blur_down(&box, first, row, height, second, sums);
    k->blur_down(&box, second, row, height, first, sums);
    k->blur_down(&box, first, row, height, out, sums);
}
