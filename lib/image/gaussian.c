#include "image/gaussian.h"

#include "image/kernels/color_kernels.h"

/* A row with `radius` mirrored pixels on both sides. */
static void extend_row(const uint8_t *restrict in, uint32_t width, uint32_t radius,
                       float *restrict row)
{
    for (size_t i = 0; i < (size_t)width * 3; i++)
        row[(size_t)radius * 3 + i] = in[i];
    for (uint32_t x = 0; x < 2 * radius; x++) {
        const uint32_t to = x < radius ? x : width + x;
        const uint32_t from = sluice_mirrored((int64_t)to - radius, width);
        for (size_t c = 0; c < 3; c++)
            row[(size_t)to * 3 + c] = in[(size_t)from * 3 + c];
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
    const struct sluice_color_kernels *kernels = sluice_color_kernels_for(sluice_cpu_level());
    const size_t count = (size_t)width * 3;
    float *rows = memory, *sums = rows + height * count, *wide = sums + count;
    const float *lines[2 * SLUICE_GAUSSIAN_MAX_RADIUS + 1];
    lines[0] = wide + (size_t)radius * 3;
    for (size_t i = 1; i <= radius; i++) {
        lines[2 * i - 1] = lines[0] - i * 3;
        lines[2 * i] = lines[0] + i * 3;
    }
    for (uint32_t y = 0; y < height; y++) {
        extend_row(in + y * count, width, radius, wide);
        kernels->weigh_pairs(lines, weights, radius, count, rows + y * count);
    }
    for (uint32_t y = 0; y < height; y++) {
        lines[0] = rows + y * count;
        for (size_t i = 1; i <= radius; i++) {
            lines[2 * i - 1] = rows + sluice_mirrored((int64_t)y - (int64_t)i, height) * count;
            lines[2 * i] = rows + sluice_mirrored((int64_t)y + (int64_t)i, height) * count;
        }
        kernels->weigh_pairs(lines, weights, radius, count, sums);
        kernels->round_floats(sums, count, out + y * count);
    }
}
