#include "image/gaussian.h"

#include "base/rng.h"
#include "image/kernels/color_kernels.h"
#include "support/test.h"

#include <math.h>

/* The definition, value by value. */
static void filter(const float *in, uint32_t width, uint32_t height, bool is_down,
                   const float *weights, uint32_t radius, float *out)
{
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            for (uint32_t c = 0; c < 3; c++) {
                volatile float sum = in[((size_t)y * width + x) * 3 + c] * weights[0];
                for (uint32_t i = 1; i <= radius; i++) {
                    const uint32_t x0 = is_down ? x : sluice_mirrored((int64_t)x - i, width),
                                   x1 = is_down ? x : sluice_mirrored((int64_t)x + i, width),
                                   y0 = is_down ? sluice_mirrored((int64_t)y - i, height) : y,
                                   y1 = is_down ? sluice_mirrored((int64_t)y + i, height) : y;
                    volatile float pair = in[((size_t)y0 * width + x0) * 3 + c] +
                                          in[((size_t)y1 * width + x1) * 3 + c];
                    pair *= weights[i];
                    sum += pair;
                }
                out[((size_t)y * width + x) * 3 + c] = sum;
            }
        }
    }
}

/* Also of images smaller than the radius, and of sums outside 0 to 255. */
TEST(it_is_the_definition_on_every_image)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (unsigned round = 0; round < 300; round++) {
        const uint32_t width = 1 + sluice_rng_below(&rng, 70);
        const uint32_t height = 1 + sluice_rng_below(&rng, 40);
        const uint32_t radius =
            sluice_rng_below(&rng, round % 10 ? 12 : SLUICE_GAUSSIAN_MAX_RADIUS + 1);
        const size_t len = (size_t)width * height * 3;
        float weights[SLUICE_GAUSSIAN_MAX_RADIUS + 1], sum = 0;
        for (uint32_t i = 0; i <= radius; i++) {
            weights[i] = (float)sluice_rng_double(&rng) - (round % 7 == 0 ? 0.3f : 0);
            sum += i > 0 ? 2 * weights[i] : weights[i];
        }
        for (uint32_t i = 0; i <= radius && sum > 0.1f; i++)
            weights[i] /= sum;
        uint8_t *in = malloc(len), *out = malloc(len);
        float *floats = malloc(len * sizeof(float)), *across = malloc(len * sizeof(float));
        void *memory = malloc(sluice_gaussian_memory(width, height));
        for (size_t i = 0; i < len; i++) {
            in[i] = (uint8_t)sluice_rng_below(&rng, 256);
            floats[i] = in[i];
        }
        sluice_gaussian_rgb(in, width, height, weights, radius, out, memory);
        filter(floats, width, height, false, weights, radius, across);
        filter(across, width, height, true, weights, radius, floats);
        unsigned num_wrong = 0;
        for (size_t i = 0; i < len; i++) {
            const float value = nearbyintf(floats[i]);
            num_wrong += out[i] != (value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value);
        }
        CU_ASSERT_EQUAL(num_wrong, 0);
        free(memory);
        free(across);
        free(floats);
        free(out);
        free(in);
    }
}

TEST(each_level_gives_the_same_sums)
{
    enum { COUNT = 333, MOST = 2 * SLUICE_GAUSSIAN_MAX_RADIUS + 1 };
    static const enum sluice_cpu_level levels[] = {SLUICE_CPU_AVX2, SLUICE_CPU_AVX512};
    static float values[MOST][COUNT];
    const float *lines[MOST];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    for (size_t i = 0; i < MOST; i++) {
        lines[i] = values[i];
        for (size_t k = 0; k < COUNT; k++)
            values[i][k] = (float)(sluice_rng_double(&rng) * 255);
    }
    for (size_t l = 0; l < SLUICE_ARRAY_LEN(levels); l++) {
        if (sluice_cpu_detected() < levels[l] || sluice_cpu_detected() > SLUICE_CPU_AVX512)
            continue;
        const struct sluice_color_kernels *kernels = sluice_color_kernels_for(levels[l]);
        for (uint32_t radius = 0; radius <= SLUICE_GAUSSIAN_MAX_RADIUS; radius++) {
            float weights[SLUICE_GAUSSIAN_MAX_RADIUS + 1], want[COUNT], got[COUNT];
            uint8_t want_bytes[COUNT], got_bytes[COUNT];
            for (uint32_t i = 0; i <= radius; i++)
                weights[i] = (float)sluice_rng_double(&rng) / (float)(1 + radius);
            const size_t count = COUNT - radius;
            sluice_color_kernels_c.weigh_pairs(lines, weights, radius, count, want);
            kernels->weigh_pairs(lines, weights, radius, count, got);
            CU_ASSERT(memcmp((void *)want, (void *)got, count * sizeof(float)) == 0);
            sluice_color_kernels_c.round_floats(want, count, want_bytes);
            kernels->round_floats(got, count, got_bytes);
            CU_ASSERT(memcmp(want_bytes, got_bytes, count) == 0);
        }
    }
}
