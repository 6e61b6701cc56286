#include "image/warp.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

/* Pillow's bilinear and bicubic transforms, value by value, as its C has them; the kernels of this
 * machine's level must give the same bytes (ctest runs this at each level). */

struct image {
    uint8_t *pixels;
    int width, height;
};

static int clamp(int v, int size)
{
    return v < 0 ? 0 : v < size ? v : size - 1;
}

static double value_at(const struct image *in, int x, int y, int c)
{
    return in->pixels[3 * (clamp(y, in->height) * in->width + clamp(x, in->width)) + c];
}

static double bilinear(const struct image *in, double from_x, double from_y, int c)
{
    const int x = (int)floor(from_x), y = (int)floor(from_y);
    double rows[2];
    for (int i = 0; i < 2; i++) {
        const double a = value_at(in, x, y + i, c), b = value_at(in, x + 1, y + i, c);
        rows[i] = a + (b - a) * (from_x - x);
    }
    return rows[0] + (rows[1] - rows[0]) * (from_y - y);
}

static double cubic(const double v[4], double d)
{
    const double p1 = v[1], p2 = -v[0] + v[2], p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
    const double p4 = -v[0] + v[1] - v[2] + v[3];
    return p1 + d * (p2 + d * (p3 + d * p4));
}

static double bicubic(const struct image *in, double from_x, double from_y, int c)
{
    const int x = (int)floor(from_x), y = (int)floor(from_y);
    double rows[4];
    for (int i = 0; i < 4; i++) {
        double v[4];
        for (int k = 0; k < 4; k++)
            v[k] = value_at(in, x - 1 + k, y - 1 + i, c);
        rows[i] = cubic(v, from_x - x);
    }
    return cubic(rows, from_y - y);
}

static void warp(const struct image *in, const double m[6], enum sluice_warp_filter filter,
                 const uint8_t fill[3], uint8_t *out)
{
    for (int y = 0; y < in->height; y++) {
        for (int x = 0; x < in->width; x++, out += 3) {
            const double xc = x + 0.5, yc = y + 0.5;
            const double from_x = m[0] * xc + m[1] * yc + m[2];
            const double from_y = m[3] * xc + m[4] * yc + m[5];
            memcpy(out, fill, 3);
            if (from_x < 0 || from_x >= in->width || from_y < 0 || from_y >= in->height)
                continue;
            for (int c = 0; c < 3; c++) {
                const double v = filter == SLUICE_WARP_BICUBIC
                                     ? bicubic(in, from_x - 0.5, from_y - 0.5, c)
                                     : bilinear(in, from_x - 0.5, from_y - 0.5, c);
                out[c] = (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v);
            }
        }
    }
}

/* --- images --- */

static double uniform(struct sluice_rng *rng, double low, double high)
{
    return low + sluice_rng_double(rng) * (high - low);
}

enum kind { RANDOM, EXTREME, BLOCKS, SMOOTH, NUM_KINDS };

static uint8_t value_of(enum kind kind, struct sluice_rng *rng, int x, int y, int c)
{
    switch (kind) {
    case EXTREME:
        return sluice_rng_below(rng, 2) ? 255 : 0;
    case BLOCKS: /* colours without any change are as frequent as edges */
        return (uint8_t)((x / 9 + y / 7) % 3 * 127 + c % 2);
    case SMOOTH:
        return (uint8_t)(120 + 90 * sin(x / 31.0 + c) * cos(y / 17.0) + sluice_rng_below(rng, 24));
    default:
        return (uint8_t)sluice_rng_below(rng, 256);
    }
}

static struct image make_image(int width, int height, enum kind kind, struct sluice_rng *rng)
{
    struct image image = {malloc((size_t)width * (size_t)height * 3), width, height};
    CU_ASSERT_PTR_NOT_NULL_FATAL(image.pixels);
    for (int i = 0; i < width * height * 3; i++)
        image.pixels[i] = value_of(kind, rng, i / 3 % width, i / 3 / width, i % 3);
    return image;
}

/* Both filters; the buffers have no byte behind the image, so that a sanitizer sees what is touched
 * there. */
static void compare(const struct image *in, const double m[6])
{
    const size_t bytes = (size_t)in->width * (size_t)in->height * 3;
    const uint8_t fill[3] = {7, 200, 99};
    uint8_t *out = calloc(bytes, 1), *want = calloc(bytes, 1);
    for (int filter = SLUICE_WARP_BILINEAR; filter <= SLUICE_WARP_BICUBIC; filter++) {
        size_t wrong = 0;
        sluice_warp_rgb(in->pixels, (uint32_t)in->width, (uint32_t)in->height, m,
                        (enum sluice_warp_filter)filter, fill, out);
        warp(in, m, (enum sluice_warp_filter)filter, fill, want);
        for (size_t i = 0; i < bytes; i++)
            wrong += out[i] != want[i];
        if (wrong)
            fprintf(stderr, "filter %d of %d x %d by %.17g %.17g %.17g  %.17g %.17g %.17g: %zu\n",
                    filter, in->width, in->height, m[0], m[1], m[2], m[3], m[4], m[5], wrong);
        CU_ASSERT_EQUAL(wrong, 0);
    }
    free(want);
    free(out);
}

/* --- matrices --- */

/* About the centre: turned, then stretched. */
static void turn(const struct image *in, double radians, double stretch_x, double stretch_y,
                 double m[6])
{
    const double x = in->width / 2.0, y = in->height / 2.0;
    m[0] = cos(radians) * stretch_x;
    m[1] = -sin(radians) * stretch_y;
    m[3] = sin(radians) * stretch_x;
    m[4] = cos(radians) * stretch_y;
    m[2] = x - m[0] * x - m[1] * y;
    m[5] = y - m[3] * x - m[4] * y;
}

static void random_matrix(const struct image *in, struct sluice_rng *rng, double m[6])
{
    turn(in, uniform(rng, -4, 4), uniform(rng, 0.3, 2), uniform(rng, -2, 2), m);
    m[2] += uniform(rng, -0.3, 0.3) * in->width;
    m[5] += uniform(rng, -0.3, 0.3) * in->height;
}

TEST(any_size_and_any_matrix)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < 1000; i++) {
        const int width = 1 + (int)sluice_rng_below(&rng, i % 4 ? 40 : 5);
        const int height = 1 + (int)sluice_rng_below(&rng, i % 3 ? 40 : 5);
        struct image in = make_image(width, height, (enum kind)(i % NUM_KINDS), &rng);
        double m[6];
        random_matrix(&in, &rng, m);
        compare(&in, m);
        free(in.pixels);
    }
}

/* Sums that are whole numbers, or would be but for the last bit: of parts such as 0.2, of quarter
 * turns whose cosine is not quite 0, and of pixels that are not moved. */
TEST(sums_that_are_nearly_whole)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    static const double parts[] = {0, 0.1, 0.2, -0.25, 0.5, -0.7, 1, 2.5, 1e-17, -1e-9};
    for (size_t p = 0; p < SLUICE_ARRAY_LEN(parts); p++) {
        for (int kind = 0; kind < NUM_KINDS; kind++) {
            struct image in = make_image(97, 71, (enum kind)kind, &rng);
            const double part = parts[p];
            double m[6];
            compare(&in, (double[6]){1, part, 0, 0, 1, 0});
            compare(&in, (double[6]){1, 0, 0, part, 1, 0});
            compare(&in, (double[6]){1, 0, part * 10, 0, 1, part});
            compare(&in, (double[6]){part, 0, 3, 0, part, 2});
            compare(&in, (double[6]){-1, part, 97, 0, -1, 71});
            turn(&in, part * 3.14159265358979323846, 1, 1, m);
            compare(&in, m);
            free(in.pixels);
        }
    }
}

TEST(longer_rows_than_a_block)
{
    static const int widths[] = {63, 64, 65, 66, 67, 68, 69, 70, 127, 128, 129, 130, 131, 300};
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 2, 0, 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(widths); i++) {
        struct image in = make_image(widths[i], 5 + (int)(i % 3), (enum kind)(i % NUM_KINDS), &rng);
        double m[6];
        compare(&in, (double[6]){1, 0.03, 0.1, 0.001, 1, 0.2});
        random_matrix(&in, &rng, m);
        compare(&in, m);
        free(in.pixels);
    }
}

/* Coordinates that no int holds, and images that are seen nowhere. */
TEST(sources_far_away)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 3, 0, 0);
    struct image in = make_image(50, 30, RANDOM, &rng);
    static const double matrices[][6] = {
        {1, 0, 1e6, 0, 1, 1e6},        {1e12, 0, -1e13, 0, 1e12, 0},  {1e300, 1e300, 0, 0, 1, 0},
        {1e-300, 0, 20, 0, 1e-300, 9}, {-1e12, 0, 3e13, 0, 1, 0},     {0, 0, 10, 0, 0, 10},
        {1, 0, -49.6, 0, 1, -29.6},    {1, 0, 48.9, 0, 1, 28.9},      {0, 0, -3, 0, 1, 0},
        {1e-12, 1, 0.5, 1, -1e-12, 0}, {40, 1, -300, 0.3, 35, -170.1}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(matrices); i++)
        compare(&in, matrices[i]);
    free(in.pixels);
}
