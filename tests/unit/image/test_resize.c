#include "image/resize.h"

#include "base/rng.h"

#include "support/test.h"

#include <math.h>

static struct sluice_resizer *resizer;
static struct sluice_rng rng;

static uint8_t *random_pixels(uint32_t width, uint32_t height)
{
    uint8_t *pixels = malloc((size_t)width * height * 3);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        pixels[i] = (uint8_t)sluice_rng_u32(&rng);
    return pixels;
}

static uint8_t *resize(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t out_width,
                       uint32_t out_height, bool flip)
{
    const struct sluice_image_view view = {pixels, (size_t)width * 3, width, height};
    uint8_t *out = malloc((size_t)out_width * out_height * 3);
    struct sluice_err err = {{0}};
    const sluice_status status =
        sluice_resize_rgb(resizer, &view, out_width, out_height, flip, out, &err);
    CHECK_OK(status);
    return out;
}

/* One pass by the definition, over whole images, without any of resize.c's economy:
 * a triangle filter as wide as the scale, weights rounded to 22 bits. */
static uint8_t *reference_pass(const uint8_t *in, uint32_t in_size, uint32_t out_size,
                               uint32_t lines, size_t in_step, size_t line_step, size_t out_step,
                               size_t out_line_step)
{
    uint8_t *out = malloc((size_t)out_size * lines * 3);
    const double scale = (double)in_size / out_size;
    const double support = scale < 1 ? 1 : scale;
    double *weights = malloc(sizeof(double) * in_size);
    for (uint32_t o = 0; o < out_size; o++) {
        const double center = (o + 0.5) * scale;
        double total = 0;
        for (uint32_t i = 0; i < in_size; i++) {
            const double distance = fabs(((int)i - center + 0.5) * (1.0 / support));
            /* Pillow looks only this far; beyond, the filter is zero but for rounding. */
            const bool is_near =
                (int)i >= (int)(center - support + 0.5) && (int)i < (int)(center + support + 0.5);
            weights[i] = is_near && distance < 1 ? 1 - distance : 0;
            total += weights[i];
        }
        for (uint32_t line = 0; line < lines; line++) {
            for (int c = 0; c < 3; c++) {
                int64_t sum = 1 << 21;
                for (uint32_t i = 0; i < in_size; i++)
                    sum += (int64_t)(0.5 + weights[i] / total * (1 << 22)) *
                           in[line * line_step + i * in_step + (size_t)c];
                sum >>= 22;
                out[line * out_line_step + o * out_step + (size_t)c] =
                    (uint8_t)(sum > 255 ? 255 : sum);
            }
        }
    }
    free(weights);
    return out;
}

static uint8_t *reference(const uint8_t *pixels, uint32_t width, uint32_t height,
                          uint32_t out_width, uint32_t out_height)
{
    uint8_t *across = reference_pass(pixels, width, out_width, height, 3, (size_t)width * 3, 3,
                                     (size_t)out_width * 3);
    uint8_t *both = reference_pass(across, height, out_height, out_width, (size_t)out_width * 3, 3,
                                   (size_t)out_width * 3, 3);
    free(across);
    return both;
}

TEST(equals_the_definition_at_random_sizes)
{
    for (int i = 0; i < 120; i++) {
        const uint32_t width = 1 + sluice_rng_below(&rng, 50);
        const uint32_t height = 1 + sluice_rng_below(&rng, 50);
        const uint32_t out_width = 1 + sluice_rng_below(&rng, i % 4 ? 50 : 9);
        const uint32_t out_height = 1 + sluice_rng_below(&rng, i % 4 ? 50 : 9);
        uint8_t *pixels = random_pixels(width, height);
        uint8_t *wanted = reference(pixels, width, height, out_width, out_height);
        uint8_t *got = resize(pixels, width, height, out_width, out_height, false);
        const bool is_equal = memcmp(got, wanted, (size_t)out_width * out_height * 3) == 0;
        if (!is_equal)
            printf("%u x %u to %u x %u\n", width, height, out_width, out_height);
        CU_ASSERT(is_equal);
        free(pixels);
        free(wanted);
        free(got);
    }
}

TEST(flip_mirrors_the_result)
{
    static const uint32_t sizes[][4] = {{31, 20, 17, 9}, {17, 9, 31, 20}, {12, 7, 12, 7},
                                        {12, 7, 12, 3},  {12, 7, 5, 7},   {1, 1, 1, 1}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const uint32_t *s = sizes[i];
        uint8_t *pixels = random_pixels(s[0], s[1]);
        uint8_t *plain = resize(pixels, s[0], s[1], s[2], s[3], false);
        uint8_t *flipped = resize(pixels, s[0], s[1], s[2], s[3], true);
        for (uint32_t y = 0; y < s[3]; y++) {
            for (uint32_t x = 0; x < s[2]; x++)
                CU_ASSERT_EQUAL(memcmp(plain + ((size_t)y * s[2] + x) * 3,
                                       flipped + ((size_t)y * s[2] + s[2] - 1 - x) * 3, 3),
                                0);
        }
        free(pixels);
        free(plain);
        free(flipped);
    }
}

/* The scalar kernels are the definition: every level that this machine runs gives their bytes. */
TEST(levels_agree)
{
    static const uint32_t fixed[][4] = {
        {1, 1, 64, 40},    {1, 5, 7, 1},       {300, 200, 224, 224}, {500, 375, 224, 224},
        {160, 97, 224, 7}, {700, 31, 90, 224}, {1500, 9, 224, 5},    {21, 21, 224, 224},
        {22, 43, 20, 43},  {3000, 3, 16, 3},   {64, 300, 5, 40},     {9, 2000, 6, 11},
        {900, 20, 224, 9}, {1030, 9, 224, 3},  {1700, 9, 224, 3},    {2050, 17, 224, 3},
        {2600, 9, 224, 2}, {3900, 9, 224, 2},  {4300, 9, 224, 2},    {50, 9, 5, 5},
        {41, 9, 4, 3},     {34, 9, 3, 2},      {23, 5, 2, 2},        {17, 9, 1, 3},
        {6, 5, 7, 2},      {5, 9, 30, 2},      {42, 9, 1, 1},        {43, 9, 2, 9},
    };
    const enum sluice_cpu_level detected = sluice_cpu_detected();
    const enum sluice_cpu_level levels[] = {
        SLUICE_CPU_C, detected == SLUICE_CPU_AVX512 ? SLUICE_CPU_AVX2 : detected, detected};
    struct sluice_resizer *at_level[SLUICE_ARRAY_LEN(levels)];
    for (size_t l = 0; l < SLUICE_ARRAY_LEN(levels); l++)
        CHECK_OK(sluice_resizer_create_at(levels[l], &at_level[l], NULL));
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(fixed) + 60; i++) {
        uint32_t s[4];
        for (int k = 0; k < 4; k++)
            s[k] = i < SLUICE_ARRAY_LEN(fixed) ? fixed[i][k]
                                               : 1 + sluice_rng_below(&rng, i % 8 ? 100 : 600);
        const bool flip = sluice_rng_below(&rng, 2) == 0;
        const struct sluice_image_view view = {random_pixels(s[0], s[1]), (size_t)s[0] * 3, s[0],
                                               s[1]};
        const size_t len = (size_t)s[2] * s[3] * 3;
        uint8_t *wanted = malloc(len), *got = malloc(len);
        CHECK_OK(sluice_resize_rgb(at_level[0], &view, s[2], s[3], flip, wanted, NULL));
        for (size_t l = 1; l < SLUICE_ARRAY_LEN(levels); l++) {
            CHECK_OK(sluice_resize_rgb(at_level[l], &view, s[2], s[3], flip, got, NULL));
            const bool is_equal = memcmp(got, wanted, len) == 0;
            if (!is_equal)
                printf("%u x %u to %u x %u, flip %d, %s\n", s[0], s[1], s[2], s[3], flip,
                       sluice_cpu_level_name(levels[l]));
            CU_ASSERT(is_equal);
        }
        free((void *)(uintptr_t)view.pixels);
        free(wanted);
        free(got);
    }
    for (size_t l = 0; l < SLUICE_ARRAY_LEN(levels); l++)
        sluice_resizer_destroy(at_level[l]);
}

static struct sluice_resize_part whole_of(uint32_t in_width, uint32_t in_height, uint32_t out_width,
                                          uint32_t out_height, enum sluice_resize_filter filter)
{
    return (struct sluice_resize_part){
        .in_width = in_width,
        .in_height = in_height,
        .out_width = out_width,
        .out_height = out_height,
        .out = {.width = out_width, .height = out_height},
        .filter = filter,
    };
}

/* At every level, and from nothing but the box that it depends on. */
TEST(a_part_is_that_part_of_the_whole)
{
    const enum sluice_cpu_level levels[] = {SLUICE_CPU_C, SLUICE_CPU_AVX2, sluice_cpu_detected()};
    for (size_t i = 0; i < 120; i++) {
        const enum sluice_cpu_level level = levels[i % SLUICE_ARRAY_LEN(levels)];
        struct sluice_resizer *at_level;
        if (level == SLUICE_CPU_AVX2 && sluice_cpu_detected() != SLUICE_CPU_AVX512)
            continue;
        REQUIRE_OK(sluice_resizer_create_at(level, &at_level, NULL));
        uint32_t s[4];
        for (int k = 0; k < 4; k++)
            s[k] = 1 + sluice_rng_below(&rng, i % 4 ? 60 : 400);
        if (i % 7 == 0)
            s[2] = s[0];
        if (i % 5 == 0)
            s[3] = s[1];
        struct sluice_resize_part part = whole_of(s[0], s[1], s[2], s[3], SLUICE_RESIZE_BILINEAR);
        part.out.width = 1 + sluice_rng_below(&rng, s[2]);
        part.out.height = 1 + sluice_rng_below(&rng, s[3]);
        part.out.left = sluice_rng_below(&rng, s[2] - part.out.width + 1);
        part.out.top = sluice_rng_below(&rng, s[3] - part.out.height + 1);
        const bool flip = sluice_rng_below(&rng, 2) == 0;
        const struct sluice_box in = sluice_resize_part_input(&part);
        CU_ASSERT_FATAL(in.width >= 1 && in.left + in.width <= s[0] && in.height >= 1 &&
                        in.top + in.height <= s[1]);
        uint8_t *pixels = random_pixels(s[0], s[1]);
        uint8_t *whole = resize(pixels, s[0], s[1], s[2], s[3], false);
        /* No pixel around the box may matter, nor any beyond be read. */
        uint8_t *box = malloc((size_t)in.width * in.height * 3);
        for (size_t y = 0; y < in.height; y++)
            memcpy(box + y * in.width * 3, pixels + ((in.top + y) * s[0] + in.left) * 3,
                   (size_t)in.width * 3);
        const struct sluice_image_view view = {box, (size_t)in.width * 3, in.width, in.height};
        uint8_t *got = malloc((size_t)part.out.width * part.out.height * 3);
        CHECK_OK(sluice_resize_rgb_part(at_level, &part, &view, flip, got, NULL));
        size_t num_wrong = 0;
        for (size_t y = 0; y < part.out.height; y++) {
            for (size_t x = 0; x < part.out.width; x++) {
                const size_t to = flip ? part.out.width - 1 - x : x;
                num_wrong +=
                    memcmp(got + (y * part.out.width + to) * 3,
                           whole + ((part.out.top + y) * s[2] + part.out.left + x) * 3, 3) != 0;
            }
        }
        if (num_wrong)
            printf("%u x %u of %u x %u to %u x %u, flip %d, %s: %zu wrong\n", part.out.width,
                   part.out.height, s[0], s[1], s[2], s[3], flip, sluice_cpu_level_name(level),
                   num_wrong);
        CU_ASSERT_EQUAL(num_wrong, 0);
        const struct sluice_image_view larger = {box, (size_t)in.width * 3, in.width + 1,
                                                 in.height};
        CU_ASSERT_EQUAL(sluice_resize_rgb_part(at_level, &part, &larger, flip, got, NULL),
                        SLUICE_E_INVALID);
        free(pixels);
        free(whole);
        free(box);
        free(got);
        sluice_resizer_destroy(at_level);
    }
}

/* A resize of this part, its input cut from the pixels. */
static uint8_t *resize_part(struct sluice_resizer *at_level, const struct sluice_resize_part *part,
                            const uint8_t *pixels, bool flip)
{
    const struct sluice_box in = sluice_resize_part_input(part);
    const size_t stride = (size_t)part->in_width * 3;
    const struct sluice_image_view view = {pixels + in.top * stride + (size_t)in.left * 3, stride,
                                           in.width, in.height};
    uint8_t *out = malloc((size_t)part->out.width * part->out.height * 3);
    CHECK_OK(sluice_resize_rgb_part(at_level, part, &view, flip, out, NULL));
    return out;
}

/* The kernels of x86 with weights that can be negative against the loops of other levels, of the
 * lightest and darkest pixels too, whose sums are clipped; from nothing but the box of the part. */
TEST(filters_are_the_same_at_every_level)
{
    struct sluice_resizer *of_c, *of_avx2, *best;
    CU_ASSERT_EQUAL_FATAL(sluice_resizer_create_at(SLUICE_CPU_C, &of_c, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL_FATAL(sluice_resizer_create_at(sluice_cpu_detected(), &best, NULL), SLUICE_OK);
    const bool has_avx2 = sluice_cpu_detected() == SLUICE_CPU_AVX512;
    CU_ASSERT_EQUAL_FATAL(
        sluice_resizer_create_at(has_avx2 ? SLUICE_CPU_AVX2 : SLUICE_CPU_C, &of_avx2, NULL),
        SLUICE_OK);
    for (size_t i = 0; i < 600; i++) {
        const enum sluice_resize_filter filter = (enum sluice_resize_filter)(i % 6);
        uint32_t s[4];
        for (int k = 0; k < 4; k++)
            s[k] = 1 + sluice_rng_below(&rng, i % 4 ? 50 : 300);
        s[2] = i % 7 == 0 ? s[0] : s[2];
        s[3] = i % 5 == 0 ? s[1] : s[3];
        struct sluice_resize_part part = whole_of(s[0], s[1], s[2], s[3], filter);
        if (i % 3) {
            part.out.width = 1 + sluice_rng_below(&rng, s[2]);
            part.out.height = 1 + sluice_rng_below(&rng, s[3]);
            part.out.left = sluice_rng_below(&rng, s[2] - part.out.width + 1);
            part.out.top = sluice_rng_below(&rng, s[3] - part.out.height + 1);
        }
        const struct sluice_box in = sluice_resize_part_input(&part);
        uint8_t *pixels = random_pixels(in.width, in.height);
        for (size_t k = 0; i % 2 && k < (size_t)in.width * in.height * 3; k++)
            pixels[k] = pixels[k] < 128 ? 0 : 255;
        const struct sluice_image_view view = {pixels, (size_t)in.width * 3, in.width, in.height};
        struct sluice_resizer *const resizers[] = {of_c, of_avx2, best};
        const size_t bytes = (size_t)part.out.width * part.out.height * 3;
        uint8_t *out[3];
        for (int r = 0; r < 3; r++) {
            out[r] = malloc(bytes);
            CU_ASSERT_EQUAL(
                sluice_resize_rgb_part(resizers[r], &part, &view, i % 4 > 1, out[r], NULL),
                SLUICE_OK);
            CU_ASSERT_EQUAL(memcmp(out[r], out[0], bytes), 0);
        }
        for (int r = 0; r < 3; r++)
            free(out[r]);
        free(pixels);
    }
    sluice_resizer_destroy(best);
    sluice_resizer_destroy(of_avx2);
    sluice_resizer_destroy(of_c);
}

/* Against two resizes of one pass each, for every filter and level, whole and in part. */
TEST(pillow_13_begins_with_the_rows_where_that_saves_more)
{
    const enum sluice_cpu_level levels[] = {SLUICE_CPU_C, SLUICE_CPU_AVX2, sluice_cpu_detected()};
    unsigned num_other = 0, num_first = 0;
    for (size_t i = 0; i < 180; i++) {
        const enum sluice_cpu_level level = levels[i % SLUICE_ARRAY_LEN(levels)];
        const enum sluice_resize_filter filter = (enum sluice_resize_filter)(i / 3 % 6);
        struct sluice_resizer *at_level;
        if (level == SLUICE_CPU_AVX2 && sluice_cpu_detected() != SLUICE_CPU_AVX512)
            continue;
        REQUIRE_OK(sluice_resizer_create_at(level, &at_level, NULL));
        const uint32_t w = 1 + sluice_rng_below(&rng, 70), h = 1 + sluice_rng_below(&rng, 70);
        uint32_t ow = 1 + sluice_rng_below(&rng, 70), oh = 1 + sluice_rng_below(&rng, 70);
        if (i % 4 == 0 && h > 2 * ow && w > ow && h > 2 * (w - ow)) /* the bound itself */
            oh = h - 2 * (w - ow);
        if (i % 5 == 0)
            ow = w;
        const int narrower = (int)w - (int)ow, lower = (int)h - (int)oh;
        const bool is_down_first = lower > 0 && lower > 2 * narrower;
        uint8_t *pixels = random_pixels(w, h);
        struct sluice_resize_part part = whole_of(w, h, ow, oh, filter);
        uint8_t *across_first = resize_part(at_level, &part, pixels, false);
        uint8_t *want = across_first;
        if (is_down_first) {
            const struct sluice_resize_part down = whole_of(w, h, w, oh, filter);
            const struct sluice_resize_part across = whole_of(w, oh, ow, oh, filter);
            uint8_t *between = resize_part(at_level, &down, pixels, false);
            want = resize_part(at_level, &across, between, false);
            free(between);
            num_other += memcmp(want, across_first, (size_t)ow * oh * 3) != 0;
            num_first++;
        }
        part.is_pillow13 = true;
        uint8_t *got = resize_part(at_level, &part, pixels, false);
        CU_ASSERT_EQUAL(memcmp(want, got, (size_t)ow * oh * 3), 0);
        free(got);
        part.out.left = sluice_rng_below(&rng, ow);
        part.out.top = sluice_rng_below(&rng, oh);
        part.out.width = 1 + sluice_rng_below(&rng, ow - part.out.left);
        part.out.height = 1 + sluice_rng_below(&rng, oh - part.out.top);
        const bool flip = i % 2;
        got = resize_part(at_level, &part, pixels, flip);
        for (uint32_t y = 0; y < part.out.height; y++) {
            for (uint32_t x = 0; x < part.out.width; x++) {
                const uint32_t to = flip ? part.out.width - 1 - x : x;
                const uint8_t *of_whole =
                    want + 3 * ((size_t)(part.out.top + y) * ow + part.out.left + x);
                CU_ASSERT_EQUAL(memcmp(got + 3 * ((size_t)y * part.out.width + to), of_whole, 3),
                                0);
            }
        }
        free(got);
        if (want != across_first)
            free(want);
        free(across_first);
        free(pixels);
        sluice_resizer_destroy(at_level);
    }
    CU_ASSERT(num_other > 10 && num_other < num_first);
}

TEST(the_same_size_copies)
{
    uint8_t *pixels = random_pixels(23, 11);
    uint8_t *out = resize(pixels, 23, 11, 23, 11, false);
    CU_ASSERT_EQUAL(memcmp(pixels, out, 23 * 11 * 3), 0);
    free(pixels);
    free(out);
}

TEST(one_colour_stays_that_colour)
{
    for (unsigned value = 0; value < 256; value += 17) {
        uint8_t pixels[40 * 30 * 3];
        memset(pixels, (int)value, sizeof(pixels));
        uint8_t *out = resize(pixels, 40, 30, 13, 57, false);
        for (size_t i = 0; i < 13 * 57 * 3; i++)
            CU_ASSERT_EQUAL(out[i], value);
        free(out);
    }
}

TEST(a_view_keeps_inside_its_box)
{
    /* The same box cut out and in place, among neighbours that differ. */
    const uint32_t width = 60, height = 50, box = 21;
    uint8_t *pixels = random_pixels(width, height);
    uint8_t *crop = malloc((size_t)box * box * 3);
    for (size_t y = 0; y < box; y++)
        memcpy(crop + y * box * 3, pixels + ((y + 13) * width + 17) * 3, (size_t)box * 3);
    const struct sluice_image_view view = {pixels + (13 * width + 17) * 3, (size_t)width * 3, box,
                                           box};
    uint8_t in_place[32 * 32 * 3];
    CHECK_OK(sluice_resize_rgb(resizer, &view, 32, 32, false, in_place, NULL));
    uint8_t *cut_out = resize(crop, box, box, 32, 32, false);
    CU_ASSERT_EQUAL(memcmp(in_place, cut_out, sizeof(in_place)), 0);
    free(pixels);
    free(crop);
    free(cut_out);
}

TEST(extreme_sizes_work)
{
    uint8_t *line = random_pixels(65535, 1);
    uint8_t *out = resize(line, 65535, 1, 1, 1, false);
    double mean[3] = {0};
    for (size_t i = 0; i < (size_t)65535 * 3; i++)
        mean[i % 3] += line[i] / 65535.0;
    for (int c = 0; c < 3; c++)
        CU_ASSERT(fabs(mean[c] - out[c]) < 2); /* a triangle, not a box, over noise */
    free(out);
    out = resize(line, 1, 65535, 1, 1, false);
    free(out);
    out = resize(line, 2, 1, 65535, 1, true);
    CU_ASSERT_EQUAL(memcmp(out, line + 3, 3), 0);
    CU_ASSERT_EQUAL(memcmp(out + (size_t)65534 * 3, line, 3), 0);
    free(out);
    out = resize(line, 1, 2, 1, 65535, false);
    CU_ASSERT_EQUAL(memcmp(out, line, 3), 0);
    free(out);
    free(line);
}

TEST(sizes_outside_the_promise_are_refused)
{
    static const uint32_t bad[][4] = {{0, 1, 1, 1},     {1, 0, 1, 1},     {1, 1, 0, 1},
                                      {1, 1, 1, 0},     {65536, 1, 1, 1}, {1, 65536, 1, 1},
                                      {1, 1, 65536, 1}, {1, 1, 1, 65536}};
    uint8_t pixel[3] = {1, 2, 3}, out[3] = {7, 7, 7};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        const struct sluice_image_view view = {pixel, 3, bad[i][0], bad[i][1]};
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_resize_rgb(resizer, &view, bad[i][2], bad[i][3], false, out, &err),
                        SLUICE_E_INVALID);
        CU_ASSERT(strlen(err.text) > 0);
    }
    CU_ASSERT_EQUAL(out[0], 7);
}

TEST(destroy_takes_null)
{
    sluice_resizer_destroy(NULL);
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    if (sluice_resizer_create(&resizer, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_resizer_destroy(resizer);
    return result;
}
