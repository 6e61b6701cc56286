#include "image/color.h"

#include "base/rng.h"
#include "image/kernels/color_kernels.h"
#include "support/test.h"

#include <math.h>

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
TEST(every_hue_is_pillows)
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

/* Every hue, saturation and value that a colour can have, on the way back: red, green and blue are
 * v, least and least, whose hue is 0, so the shift is the hue. */
TEST(every_hsv_comes_back_as_pillows)
{
    enum { NUM = 1 << 15 };
    uint8_t *in = malloc((size_t)(NUM + 128) * 3), *out = malloc((size_t)(NUM + 128) * 3);
    size_t num = 0, wrong = 0;
    for (int v = 0; v < 256; v++) {
        for (int least = 0; least <= v; least++, num++) {
            in[3 * num] = (uint8_t)v;
            in[3 * num + 1] = in[3 * num + 2] = (uint8_t)least;
        }
    }
    CU_ASSERT_EQUAL_FATAL(num, NUM + 128);
    for (int hue = 0; hue < 256; hue++) {
        sluice_shift_hue_rgb(in, num, (uint8_t)hue, out);
        for (size_t i = 0; i < num; i++) {
            uint8_t want[3];
            struct hsv hsv = to_hsv(in + 3 * i);
            wrong += hsv.h != 0;
            hsv.h = (uint8_t)hue;
            to_rgb(hsv, want);
            wrong += memcmp(out + 3 * i, want, 3) != 0;
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    free(out);
    free(in);
}

/* Each length has an end of its own behind the last whole vector; nothing behind it is written. */
TEST(hues_of_each_length)
{
    for (size_t num = 1; num <= 100; num++) {
        uint8_t *in = random_pixels(num, num % 3), out[303];
        size_t wrong = 0;
        memset(out, 0xA5, sizeof(out));
        sluice_shift_hue_rgb(in, num, (uint8_t)num, out);
        for (size_t i = 0; i < num; i++) {
            uint8_t want[3];
            struct hsv hsv = to_hsv(in + 3 * i);
            hsv.h = (uint8_t)(hsv.h + num);
            to_rgb(hsv, want);
            wrong += memcmp(out + 3 * i, want, 3) != 0;
        }
        for (size_t i = 3 * num; i < sizeof(out); i++)
            wrong += out[i] != 0xA5;
        CU_ASSERT_EQUAL(wrong, 0);
        free(in);
    }
}

TEST(a_table_maps_each_value_of_its_channel)
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
TEST(tables_of_bits_and_a_threshold)
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

static size_t wrong_in_map(const uint8_t *in, size_t num, const uint8_t table[3][256])
{
    uint8_t *out = malloc(num * 3 + 1), *same = malloc(num * 3);
    size_t wrong = 0;
    out[num * 3] = 0xA5;
    sluice_map_rgb(in, num, table, out);
    memcpy(same, in, num * 3);
    sluice_map_rgb(same, num, table, same);
    for (size_t i = 0; i < num * 3; i++) {
        const uint8_t want = table[i % 3][in[i]];
        wrong += (out[i] != want) + (same[i] != want);
    }
    wrong += out[num * 3] != 0xA5;
    free(same);
    free(out);
    return wrong;
}

/* Tables of brightness, contrast and autocontrast have a kernel of their own in images of 4,096
 * pixels and more; a table that differs in one value has not. */
TEST(tables_that_are_lines)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    for (int i = 0; i < 600; i++) {
        const size_t num = 4090 + sluice_rng_below(&rng, 100);
        uint8_t *in = random_pixels(num, 0), table[3][256];
        for (int c = 0; c < 3; c++) {
            double slope = i % 2 ? 255.0 / (1 + sluice_rng_below(&rng, 255))
                                 : sluice_rng_below(&rng, 190) / 100.0;
            double start = (int)sluice_rng_below(&rng, 512) - 256.0;
            if (i % 7 == 0)
                slope = -slope;
            if (i % 3 == 0 && c > 0) {
                memcpy(table[c], table[0], 256);
                continue;
            }
            for (int v = 0; v < 256; v++) {
                const double at = start + slope * (i % 5 ? v - start : v);
                table[c][v] = (uint8_t)(at <= 0 ? 0 : at >= 255 ? 255 : at);
            }
            if (i % 11 == 0)
                table[c][sluice_rng_below(&rng, 256)] ^= 1;
        }
        CU_ASSERT_EQUAL(wrong_in_map(in, num, (const uint8_t(*)[256])table), 0);
        free(in);
    }
}

/* Alone in its channel, a least and a greatest value stand at each place of each length. */
TEST(the_range_of_each_channel)
{
    for (size_t num = 1; num <= 100; num++) {
        uint8_t *in = malloc(num * 3), low[3], high[3];
        size_t wrong = 0;
        for (size_t at = 0; at < num * 3; at++) {
            for (int is_high = 0; is_high < 2; is_high++) {
                memset(in, 100, num * 3);
                in[at] = is_high ? 255 : 0;
                sluice_range_rgb(in, num, low, high);
                for (size_t c = 0; c < 3; c++) {
                    const bool is_its = c == at % 3;
                    const bool is_alone = is_its && num == 1;
                    wrong += low[c] != (is_its && !is_high ? 0 : is_alone ? 255 : 100);
                    wrong += high[c] != (is_its && is_high ? 255 : is_alone ? 0 : 100);
                }
            }
        }
        CU_ASSERT_EQUAL(wrong, 0);
        free(in);
    }
}

TEST(luma_gray_and_saturation_are_pillows)
{
    static const size_t longer[] = {255, 256, 257, 1000};
    static const float factors[] = {0, 0.25f, 1, 1.27f, 1.9f, 5};
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (size_t l = 1; l <= 100 + SLUICE_ARRAY_LEN(longer); l++) {
            const size_t num = l <= 100 ? l : longer[l - 101];
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

static size_t wrong_in_sharpness(uint32_t w, uint32_t h, uint32_t kind, float factor)
{
    uint8_t *in = random_pixels((size_t)w * h, kind), *out = malloc((size_t)w * h * 3);
    size_t wrong = 0;
    sluice_sharpen_rgb(in, w, h, factor, out);
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
                want = sluice_blend((float)smooth, *at, factor);
            }
            wrong += out[y * w * 3 + i] != want;
        }
    }
    free(out);
    free(in);
    return wrong;
}

TEST(sharpness_is_pillows)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 9}, {9, 2}, {1, 50}, {50, 1}, {257, 5}};
    static const float factors[] = {0, 0.1f, 1, 1.27f, 1.7f, 100};
    for (size_t f = 0; f < SLUICE_ARRAY_LEN(factors); f++) {
        for (uint32_t kind = 0; kind < 3; kind++) {
            for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++)
                CU_ASSERT_EQUAL(wrong_in_sharpness(sizes[s][0], sizes[s][1], kind, factors[f]), 0);
            /* Each length has an end of its own behind the last whole vector and block. */
            for (uint32_t w = 3; w < 200; w += w < 40 ? 1 : 3)
                CU_ASSERT_EQUAL(wrong_in_sharpness(w, 4, kind, factors[f]), 0);
        }
    }
}

/* The values of blur_down() that are not the sums of a box of whole radius and of its edges. */
static size_t wrong_in_blur(const struct sluice_blur_box *box, const uint8_t *in, size_t row,
                            size_t num_rows)
{
    const struct sluice_color_kernels *kernels = sluice_color_kernels_for(sluice_cpu_level());
    const long radius = (long)box->radius, last = (long)num_rows - 1;
    uint8_t *out = malloc(row * num_rows);
    uint32_t *sums = malloc(row * sizeof(*sums));
    size_t wrong = 0;
    kernels->blur_down(box, in, row, num_rows, out, sums);
    for (long y = 0; y <= last; y++) {
        for (size_t i = 0; i < row; i++) {
            uint32_t sum = 0, edges = 0;
            for (long d = -radius - 1; d <= radius + 1; d++) {
                const long at = y + d < 0 ? 0 : y + d > last ? last : y + d;
                const bool is_edge = d == -radius - 1 || d == radius + 1;
                *(is_edge ? &edges : &sum) += in[(size_t)at * row + i];
            }
            const uint32_t want = (sum * box->inner + edges * box->edge + (1u << 23)) >> 24;
            wrong += out[(size_t)y * row + i] != (uint8_t)want;
        }
    }
    free(sums);
    free(out);
    return wrong;
}

TEST(a_box_blur_is_its_sum)
{
    static const uint32_t radii[] = {0, 1, 2, 3, 5, 11, 62, 63, 64, 127, 128};
    for (size_t r = 0; r < SLUICE_ARRAY_LEN(radii); r++) {
        const uint32_t radius = radii[r],
                       inner = (1u << 24) / (2 * radius + 2) + 1000 % (radius + 1);
        const struct sluice_blur_box box = {radius, inner,
                                            ((1u << 24) - (2 * radius + 1) * inner) / 2};
        for (size_t row = 1; row <= 100; row++) {
            const size_t num_rows = 1 + row % 5 * 3;
            uint8_t *in = random_pixels(row * num_rows / 3 + 1, (uint32_t)(row % 3));
            CU_ASSERT_EQUAL(wrong_in_blur(&box, in, row, num_rows), 0);
            free(in);
        }
        /* The greatest sums there are. */
        uint8_t white[64 * 9];
        memset(white, 255, sizeof(white));
        CU_ASSERT_EQUAL(wrong_in_blur(&box, white, 64, 9), 0);
    }
}

/* Each weight that a sigma gives; its two halves are multiplied apart. */
TEST(a_box_blur_of_each_sigma)
{
    uint8_t *in = random_pixels(11 * 40, 0);
    for (int i = 0; i < 110; i++) {
        const struct sluice_blur_box box = sluice_blur_box(0.05F * powf(1.07F, (float)i));
        CU_ASSERT_EQUAL(wrong_in_blur(&box, in, 33, 40), 0);
    }
    free(in);
}

TEST(rows_become_columns)
{
    const struct sluice_color_kernels *kernels = sluice_color_kernels_for(sluice_cpu_level());
    for (size_t w = 1; w <= 100; w += w < 20 ? 1 : 7) {
        for (size_t h = 1; h <= 140; h += h < 20 ? 1 : 11) {
            /* Of its own length each, so that a sanitizer sees what is touched behind it. */
            uint8_t *in = random_pixels(w * h, 0), *out = malloc(w * h * 3);
            size_t wrong = 0;
            kernels->transpose(in, w, h, out);
            for (size_t y = 0; y < h; y++) {
                for (size_t x = 0; x < w; x++)
                    wrong += memcmp(out + 3 * (x * h + y), in + 3 * (y * w + x), 3) != 0;
            }
            CU_ASSERT_EQUAL(wrong, 0);
            free(out);
            free(in);
        }
    }
}

/* Lines from a corner to any other pixel, both ways; one that ends in the last pixel has no byte
 * behind it. */
TEST(a_walk_takes_the_pixels_of_its_line)
{
    const struct sluice_color_kernels *kernels = sluice_color_kernels_for(sluice_cpu_level());
    const int w = 23, h = 9;
    uint8_t *in = random_pixels((size_t)w * (size_t)h, 0);
    for (int count = 1; count <= 100; count++) {
        for (int end = 0; end < w * h; end += end % w == w - 3 ? 1 : 2) {
            const int half = 1 << 15, steps = count > 1 ? count - 1 : 1;
            const struct sluice_walk there = {half, half, end % w * 65536 / steps,
                                              end / w * 65536 / steps};
            const struct sluice_walk back = {there.x + end % w * 65536, there.y + end / w * 65536,
                                             -there.step_x, -there.step_y};
            for (int is_back = 0; is_back < 2; is_back++) {
                const struct sluice_walk *walk = is_back ? &back : &there;
                uint8_t *out = malloc((size_t)count * 3);
                size_t wrong = 0;
                kernels->walk(in, (size_t)w, (size_t)h, walk, (size_t)count, out);
                for (int i = 0; i < count; i++) {
                    const int x = (walk->x + i * walk->step_x) / 65536;
                    const int y = (walk->y + i * walk->step_y) / 65536;
                    wrong += memcmp(out + 3 * i, in + 3 * (y * w + x), 3) != 0;
                }
                CU_ASSERT_EQUAL(wrong, 0);
                free(out);
            }
        }
    }
    free(in);
}

/* By float32, image after image; the last value comes of weights that round above 1. */
TEST(a_mix_is_truncated)
{
    enum { NUM = 1500 };
    static uint8_t pixels[3][NUM], out[NUM];
    static const float weights[3] = {0.3f, 0.6f, 0.1f};
    const uint8_t *images[3] = {pixels[0], pixels[1], pixels[2]};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < NUM; i++)
            pixels[k][i] = (uint8_t)(i == NUM - 1 ? 255 : i * (7 + 30 * k) / 5);
    }
    for (unsigned num = 1; num <= 3; num++) {
        sluice_mix_rgb(images, weights, num, NUM, out);
        bool is_equal = true;
        for (int i = 0; i < NUM; i++) {
            float sum = weights[0] * pixels[0][i];
            for (unsigned k = 1; k < num; k++) {
                const float product = weights[k] * pixels[k][i];
                sum += product;
            }
            is_equal = is_equal && out[i] == (int)sum;
        }
        CU_ASSERT(is_equal);
    }
}
