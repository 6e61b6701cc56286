#include "run_support.h"

#include "op/op.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

/* Bounces between the outer pixels, one step at a time: no arithmetic of the implementation's. */
static uint32_t walk(enum sluice_padding_mode mode, int64_t at, uint32_t count)
{
    if (count == 1 || mode == SLUICE_PADDING_EDGE)
        return at < 0 ? 0 : at >= count ? count - 1 : (uint32_t)at;
    int64_t pixel = 0, step = at < 0 ? -1 : 1;
    for (int64_t left = at < 0 ? -at : at; left > 0; left--) {
        const bool is_last = pixel + step < 0 || pixel + step >= count;
        if (is_last)
            step = -step;
        if (!is_last || mode == SLUICE_PADDING_REFLECT)
            pixel += step;
    }
    return (uint32_t)pixel;
}

static const uint8_t *want(enum sluice_padding_mode mode, const uint8_t *pixels,
                           struct sluice_size in, int64_t x, int64_t y)
{
    static const uint8_t color[3] = {7, 8, 9};
    if (mode == SLUICE_PADDING_CONSTANT && (x < 0 || y < 0 || x >= in.width || y >= in.height))
        return color;
    if (mode == SLUICE_PADDING_CONSTANT)
        return pixels + 3 * (y * in.width + x);
    return pixels + 3 * ((size_t)walk(mode, y, in.height) * in.width + walk(mode, x, in.width));
}

static void check(enum sluice_padding_mode mode, struct sluice_size in,
                  const struct sluice_sides *sides)
{
    char spec[120];
    snprintf(spec, sizeof(spec), "decode,pad=%u/%u/%u/%u:mode=%s:fill=7/8/9", sides->left,
             sides->top, sides->right, sides->bottom, sluice_padding_modes[mode]);
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    const size_t bytes = (size_t)in.width * in.height * 3;
    struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, in.width, in.height, bytes);
    uint8_t pixels[3 * 64];
    CU_ASSERT_FATAL(bytes <= sizeof(pixels));
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = sample.data->data[i] = (uint8_t)(i * 41 + 11);
    CU_ASSERT_EQUAL_FATAL(sluice_pipeline_run(pipeline, scratch, &sample, 2, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL_FATAL(sample.width, in.width + sides->left + sides->right);
    CU_ASSERT_EQUAL_FATAL(sample.height, in.height + sides->top + sides->bottom);
    bool is_equal = true;
    for (uint32_t y = 0; y < sample.height; y++) {
        for (uint32_t x = 0; x < sample.width; x++)
            is_equal = is_equal && memcmp(sample.data->data + 3 * ((size_t)y * sample.width + x),
                                          want(mode, pixels, in, (int64_t)x - sides->left,
                                               (int64_t)y - sides->top),
                                          3) == 0;
    }
    CU_ASSERT(is_equal);
    if (!is_equal)
        printf("%s of %u x %u\n", spec, in.width, in.height);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

TEST(each_mode_pads_as_numpy_does)
{
    static const struct sluice_size sizes[] = {{1, 1}, {2, 1}, {1, 3}, {4, 3}, {7, 9}};
    static const struct sluice_sides sides[] = {
        {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 2}, {2, 3, 1, 4}, {25, 19, 30, 14}};
    for (int mode = SLUICE_PADDING_CONSTANT; mode <= SLUICE_PADDING_SYMMETRIC; mode++) {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
            for (size_t k = 0; k < SLUICE_ARRAY_LEN(sides); k++)
                check((enum sluice_padding_mode)mode, sizes[i], &sides[k]);
        }
    }
}

TEST(sizes_are_known_after_it)
{
    static const struct {
        const char *spec;
        uint32_t width, height;
    } cases[] = {
        {"decode,random_resized_crop=20,pad=3", 26, 26},
        {"decode,center_crop=20,pad=1/2/3/2", 24, 24},
        {"decode,center_crop=20,pad=1/2", 22, 24},
        {"decode,center_crop=20,pad=1/2,pad=4/3,resize=10", 10, 10},
        {"decode,pad=3", 0, 0},
        {"decode,resize=20,pad=3", 0, 0},
        {"decode,resize=20,pad=3,center_crop=22", 22, 22},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = run_test_parse(cases[i].spec);
        const struct sluice_size size = sluice_pipeline_view_size(pipeline, 0);
        CU_ASSERT(size.width == cases[i].width && size.height == cases[i].height);
        sluice_pipeline_destroy(pipeline);
    }
    struct sluice_pipeline *pipeline = run_test_parse("decode,resize=20,pad=3/1,pad=0/5");
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, 4);
    CU_ASSERT_EQUAL(sluice_known_size_pixels(known, 40, 60), (uint64_t)(20 + 6) * (30 + 12));
    CU_ASSERT(sluice_known_size_allows(known, 26, 42) && sluice_known_size_allows(known, 36, 32));
    CU_ASSERT(!sluice_known_size_allows(known, 25, 42) && !sluice_known_size_allows(known, 6, 12));
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_padding_is_refused)
{
    static const char *const texts[] = {"decode,pad",
                                        "decode,pad=1.5",
                                        "decode,pad=-1",
                                        "decode,pad=1/2/3",
                                        "decode,pad=1/2/3/4/5",
                                        "decode,pad=4097",
                                        "decode,pad=0/8192/0/1",
                                        "decode,pad=8192/0/1/0",
                                        "decode,pad=1:mode=wrap",
                                        "decode,pad=1:fill=256"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_check("decode,pad=4096:fill=1/2/3", NULL), SLUICE_OK);
}
