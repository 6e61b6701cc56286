#include "image/color.h"

#include "base/rng.h"
#include "image/kernels/color_kernels.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pillow's functions, pixel by pixel, as its C has them; the kernels of this machine's level must
 * give the same bytes (ctest runs this at each level). */

struct hsv {
    uint8_t h, s, v;
};

static struct hsv to_hsv(const uint8_t rgb[3])
{
    const int r = rgb[0], g = rgb[1], b = rgb[2];
    const int most = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const int least = r < g ? (r < b ? r : b) : (g < b ? g : b);
    if (most == least)
        return (struct hsv){.v = (uint8_t)most};
    const float range = (float)(most - least);
    const float s = range / (float)most;
    const float rc = (float)(most - r) / range, gc = (float)(most - g) / range,
                bc = (float)(most - b) / range;
    float h;
    if (r == most)
        h = bc - gc;
    else if (g == most)
        h = (float)(2.0 + (double)rc - (double)bc);
    else
        h = (float)(4.0 + (double)gc - (double)rc);
    h = (float)fmod((double)h / 6.0 + 1.0, 1.0);
    return (struct hsv){(uint8_t)((double)h * 255.0), (uint8_t)((double)s * 255.0), (uint8_t)most};
}

static uint8_t clip(double value)
{
    return (uint8_t)(value <= 0 ? 0 : value >= 255 ? 255 : value);
}

static void to_rgb(struct hsv hsv, uint8_t rgb[3])
{
    if (hsv.s == 0) {
        rgb[0] = rgb[1] = rgb[2] = hsv.v;
        return;
    }
    const double six = (double)(float)hsv.h * 6.0 / 255.0;
    const int i = (int)floor(six);
    const float f = (float)(six - (double)(float)i);
    const float fs = (float)((double)(float)hsv.s / 255.0);
    const double v = (float)hsv.v;
    const uint8_t p = clip(round(v * (1.0 - (double)fs)));
    const uint8_t q = clip(round(v * (1.0 - (double)(fs * f))));
    const uint8_t t = clip(round(v * (1.0 - (double)fs * (1.0 - (double)f))));
    const uint8_t turns[6][3] = {{hsv.v, t, p}, {q, hsv.v, p}, {p, hsv.v, t},
                                 {p, q, hsv.v}, {t, p, hsv.v}, {hsv.v, p, q}};
    memcpy(rgb, turns[i % 6], 3);
}

static uint8_t *random_pixels(size_t num, uint32_t kind)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), kind, 0, 0);
    uint8_t *pixels = malloc(num * 3);
    for (size_t i = 0; i < num * 3; i++)
        pixels[i] = (uint8_t)(kind == 0   ? sluice_rng_below(&rng, 256)
                              : kind == 1 ? (uint32_t[]){0, 1, 127, 128, 254,
                                                         255}[sluice_rng_below(&rng, 6)]
                                          : 100 + sluice_rng_below(&rng, 9));
    return pixels;
}

/* Every colour there is, at some shifts: to HSV and back. */
static void every_hue_is_pillows(void)
{
    enum { NUM = 1 << 16 };
    uint8_t *in = malloc(NUM * 3), *out = malloc(NUM * 3);
    size_t wrong = 0;
    for (uint32_t r = 0; r < 256; r++) {
        const uint8_t shift = (uint8_t)(r * 7);
        for (uint32_t i = 0; i < NUM; i++) {
            in[3 * i] = (uint8_t)r;
            in[3 * i + 1] = (uint8_t)(i >> 8);
            in[3 * i + 2] = (uint8_t)i;
        }
        sluice_shift_hue_rgb(in, NUM, shift, out);
        for (uint32_t i = 0; i < NUM; i++) {
            uint8_t want[3];
            struct hsv hsv = to_hsv(in + 3 * i);
            hsv.h = (uint8_t)(hsv.h + shift);
            to_rgb(hsv, want);
            wrong += memcmp(out + 3 * i, want, 3) != 0;
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    free(out);
    free(in);
}

static void a_table_maps_each_value_of_its_channel(void)
{
    static const size_t lengths[] = {1, 10, 21, 22, 85, 86, 256, 1001};
    for (size_t l = 0; l < SLUICE_ARRAY_LEN(lengths); l++) {
        for (int is_same = 0; is_same < 2; is_same++) {
            const size_t num = lengths[l];
            uint8_t *in = random_pixels(num, 0), *out = malloc(num * 3),
                    *random = random_pixels(256, 0);
            uint8_t table[3][256];
            size_t wrong = 0;
            for (int c = 0; c < 3; c++)
                memcpy(table[c], random + (is_same ? 0 : 256 * c), 256);
            sluice_map_rgb(in, num, table, out);
            for (size_t i = 0; i < num * 3; i++)
                wrong += out[i] != table[i % 3][in[i]];
            CU_ASSERT_EQUAL(wrong, 0);
            free(random);
            free(out);
            free(in);
        }
    }
}

/* Tables of bits and a threshold have a kernel of their own; a table that differs in one value has
 * not. */
static void tables_of_bits_and_a_threshold(void)
{
    uint8_t in[768], out[768], table[3][256];
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)(i * 7);
    size_t wrong = 0;
    for (unsigned mask = 0; mask < 256; mask += mask < 240 ? 37 : 1) {
        for (unsigned threshold = 0; threshold <= 256; threshold += 16) {
            for (unsigned other = 0; other < 257; other += 64) {
                for (unsigned v = 0; v < 256; v++)
                    table[0][v] = (uint8_t)((v < threshold ? v : 255 - v) & mask);
                if (other < 256)
                    table[0][other] ^= 4;
                memcpy(table[1], table[0], 256);
                memcpy(table[2], table[0], 256);
                sluice_map_rgb(in, sizeof(in) / 3, table, out);
                for (size_t i = 0; i < sizeof(in); i++)
                    wrong += out[i] != table[0][in[i]];
            }
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void luma_gray_and_saturation_are_pillows(void)
{
    static const size_t lengths[] = {1, 2, 15, 255, 256, 257, 1000};
    static const float factors[] = {0, 0.25f, 1, 1.27f, 1.9f, 5};
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (size_t l = 0; l < SLUICE_ARRAY_LEN(lengths); l++) {
            const size_t num = lengths[l];
            uint8_t *in = random_pixels(num, kind), *out = malloc(num * 3);
            uint64_t sum = 0;
            size_t wrong = 0;
            for (size_t i = 0; i < num; i++)
                sum += sluice_luma(in + 3 * i);
            CU_ASSERT_EQUAL(sluice_luma_sum(in, num, NULL), sum);
            sluice_gray_rgb(in, num, out);
            for (size_t i = 0; i < num * 3; i++)
                wrong += out[i] != sluice_luma(in + i / 3 * 3);
            for (size_t f = 0; f < SLUICE_ARRAY_LEN(factors); f++) {
                sluice_saturate_rgb(in, num, factors[f], out);
                for (size_t i = 0; i < num * 3; i++)
                    wrong += out[i] != sluice_blend(sluice_luma(in + i / 3 * 3), in[i], factors[f]);
            }
            CU_ASSERT_EQUAL(wrong, 0);
            free(out);
            free(in);
        }
    }
}

static void sharpness_is_pillows(void)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 9}, {3, 3}, {9, 2}, {40, 17}, {257, 5}};
    for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++) {
        const uint32_t w = sizes[s][0], h = sizes[s][1];
        uint8_t *in = random_pixels((size_t)w * h, s % 3), *out = malloc((size_t)w * h * 3);
        size_t wrong = 0;
        sluice_sharpen_rgb(in, w, h, 1.7f, out);
        for (uint32_t y = 0; y < h; y++) {
            for (uint32_t i = 0; i < w * 3; i++) {
                const uint8_t *at = in + y * w * 3 + i;
                uint8_t want = *at;
                if (y > 0 && y + 1 < h && i >= 3 && i + 3 < w * 3) {
                    int sum = 4 * *at;
                    for (int dy = -1; dy <= 1; dy++) {
                        for (int dx = -1; dx <= 1; dx++)
                            sum += at[dy * (int)w * 3 + dx * 3];
                    }
                    const int smooth = (2 * sum + 13) / 26;
                    want = sluice_blend((float)smooth, *at, 1.7f);
                }
                wrong += out[y * w * 3 + i] != want;
            }
        }
        CU_ASSERT_EQUAL(wrong, 0);
        free(out);
        free(in);
    }
}

/* A box of the whole radius and the weights that blur_down() is given, value by value. */
static void a_box_blur_is_its_sum(void)
{
    const struct sluice_color_kernels *kernels = sluice_color_kernels_for(sluice_cpu_level());
    for (uint32_t radius = 0; radius < 12; radius++) {
        const struct sluice_blur_box box = {radius, (1u << 24) / (2 * radius + 2), 1u << 19};
        const size_t row = 51, num = 1 + radius % 5 * 3;
        uint8_t *in = random_pixels(row * num / 3 + 1, radius % 3), out[51 * 16];
        uint32_t sums[51];
        size_t wrong = 0;
        kernels->blur_down(&box, in, row, num, out, sums);
        for (size_t y = 0; y < num; y++) {
            for (size_t i = 0; i < row; i++) {
                uint32_t sum = 0, edges = 0;
                for (long d = -(long)radius - 1; d <= (long)radius + 1; d++) {
                    long at = (long)y + d;
                    at = at < 0 ? 0 : at >= (long)num ? (long)num - 1 : at;
                    const bool is_edge = d == -(long)radius - 1 || d == (long)radius + 1;
                    *(is_edge ? &edges : &sum) += in[(size_t)at * row + i];
                }
                const uint32_t want = (sum * box.inner + edges * box.edge + (1u << 23)) >> 24;
                wrong += out[y * row + i] != (uint8_t)want;
            }
        }
        CU_ASSERT_EQUAL(wrong, 0);
        free(in);
    }
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(every_hue_is_pillows),
        SLUICE_TEST(a_table_maps_each_value_of_its_channel),
        SLUICE_TEST(tables_of_bits_and_a_threshold),
        SLUICE_TEST(luma_gray_and_saturation_are_pillows),
        SLUICE_TEST(sharpness_is_pillows),
        SLUICE_TEST(a_box_blur_is_its_sum),
    };
    return sluice_test_run("color", tests, SLUICE_TEST_COUNT(tests));
}
