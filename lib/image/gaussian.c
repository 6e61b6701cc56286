#include "image/gaussian.h"

/* Added and subtracted, it rounds a float32 of up to 2^22 to a whole number, halves to even. */
#define ROUNDER 0x1.8p23f

/* A row with `radius` mirrored pixels on both sides. */
static void extend_row(const uint8_t *in, uint32_t width, uint32_t radius, float *row)
{
    for (uint32_t x = 0; x < width + 2 * radius; x++) {
        const uint32_t from = sluice_mirrored((int64_t)x - radius, width);
        for (uint32_t c = 0; c < 3; c++)
            row[x * 3 + c] = in[from * 3 + c];
    }
}

static void begin(const float *middle, float weight, size_t count, float *sum)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = middle[i] * weight;
}

static void add_pair(const float *restrict a, const float *restrict b, float weight, size_t count,
                     float *restrict sum)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += (a[i] + b[i]) * weight;
}

static void finish(const float *restrict sum, size_t count, uint8_t *restrict out)
{
    for (size_t i = 0; i < count; i++) {
        const float rounded = (sum[i] + ROUNDER) - ROUNDER;
        const float least = rounded > 0 ? rounded : 0;
        out[i] = (uint8_t)(least < 255 ? least : 255);
    }
}

size_t sluice_gaussian_memory(uint32_t width, uint32_t height)
{
    const size_t row = (size_t)width + 2 * SLUICE_GAUSSIAN_MAX_RADIUS;
    return ((size_t)height * width + row + width) * 3 * sizeof(float);
}

void sluice_gaussian_rgb(const uint8_t *in, uint32_t width, uint32_t height, const float *weights,
                         uint32_t radius, uint8_t *out, void *memory)
{
    const size_t count = (size_t)width * 3;
    float *rows = memory, *sum = rows + height * count, *wide = sum + count;
    for (uint32_t y = 0; y < height; y++) {
        float *to = rows + y * count;
        const float *middle = wide + (size_t)radius * 3;
        extend_row(in + y * count, width, radius, wide);
        begin(middle, weights[0], count, to);
        for (uint32_t i = 1; i <= radius; i++)
            add_pair(middle - (size_t)i * 3, middle + (size_t)i * 3, weights[i], count, to);
    }
    for (uint32_t y = 0; y < height; y++) {
        begin(rows + y * count, weights[0], count, sum);
        for (uint32_t i = 1; i <= radius; i++)
            add_pair(rows + sluice_mirrored((int64_t)y - i, height) * count,
                     rows + sluice_mirrored((int64_t)y + i, height) * count, weights[i], count,
                     sum);
        finish(sum, count, out + y * count);
    }
}
