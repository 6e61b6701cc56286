#include "plan/sample_facts.h"

#include "image/codecs/coding.h"
#include "image/image.h"
#include "support/test.h"

#include <math.h>

static struct sluice_pipeline *parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, &err));
    return pipeline;
}

TEST(the_crop_is_the_one_that_the_key_draws)
{
    struct sluice_pipeline *pipeline = parse("decode,random_resized_crop=96,hflip");
    const struct sluice_manifest_entry entry = {
        .bytes = 5000, .width = 640, .height = 480, .coding = SLUICE_CODING_JPEG_444};
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        const struct sluice_draw_key key = {.seed = 7, .epoch = epoch, .sample_id = 3};
        const struct sluice_draws draws = sluice_pipeline_draws(pipeline, &key, 640, 480);
        const struct sluice_sample_facts facts = sluice_sample_facts_of(pipeline, &entry, &key);
        CU_ASSERT_EQUAL(facts.crop.top, draws.top);
        CU_ASSERT_EQUAL(facts.crop.left, draws.left);
        CU_ASSERT_EQUAL(facts.crop.height, draws.height);
        CU_ASSERT_EQUAL(facts.crop.width, draws.width);
        CU_ASSERT_EQUAL(facts.file_bytes, 5000);
        CU_ASSERT_EQUAL(facts.width, 640);
        CU_ASSERT_EQUAL(facts.height, 480);
        CU_ASSERT_EQUAL(facts.coding, SLUICE_CODING_JPEG_444);
        CU_ASSERT_EQUAL(facts.output_size, 96);
        CU_ASSERT(!facts.is_size_guessed);
    }
    sluice_pipeline_destroy(pipeline);
}

TEST(the_crop_is_what_a_center_crop_looks_at)
{
    struct sluice_pipeline *pipeline = parse("decode,center_crop=56");
    struct sluice_pipeline *resized = parse("decode,resize=64,center_crop=56");
    const struct sluice_draw_key key = {.seed = 1};
    struct sluice_sample_facts facts = sluice_sample_facts_make(pipeline, 5000, 320, 200, 0, &key);
    CU_ASSERT(facts.crop.top == 72 && facts.crop.left == 132);
    CU_ASSERT(facts.crop.width == 56 && facts.crop.height == 56);
    facts = sluice_sample_facts_make(resized, 5000, 320, 200, 0, &key);
    struct sluice_box box;
    CU_ASSERT(sluice_pipeline_file_box(resized, &key, 320, 200, 3, SLUICE_FORM_U8, &box));
    CU_ASSERT(facts.crop.top == box.top && facts.crop.left == box.left);
    CU_ASSERT(facts.crop.width == box.width && facts.crop.height == box.height);
    CU_ASSERT(box.width < 200 && box.height < 190); /* 56 / 64 of the shorter side, and taps */
    sluice_pipeline_destroy(pipeline);
    sluice_pipeline_destroy(resized);
}

/* The crop is the union of what the views need; each view resizes its own box. */
TEST(views_share_a_crop_and_each_reads_its_box)
{
    struct sluice_pipeline *pipeline =
        parse("decode,views(2x[random_resized_crop=96],[center_crop=56x40])");
    struct sluice_pipeline *one = parse("decode,random_resized_crop=96");
    for (uint64_t id = 0; id < 20; id++) {
        const struct sluice_draw_key key = {.seed = 1, .sample_id = id};
        const struct sluice_sample_facts facts =
            sluice_sample_facts_make(pipeline, 5000, 320, 200, 0, &key);
        struct sluice_box all;
        uint64_t pixels = 0;
        CU_ASSERT(sluice_pipeline_file_box(pipeline, &key, 320, 200, 2, SLUICE_FORM_U8, &all));
        CU_ASSERT(facts.crop.top == all.top && facts.crop.left == all.left);
        CU_ASSERT(facts.crop.width == all.width && facts.crop.height == all.height);
        for (unsigned v = 0; v < 3; v++) {
            struct sluice_box box;
            CU_ASSERT(sluice_pipeline_file_box(sluice_pipeline_view(pipeline, v), &key, 320, 200, 2,
                                               SLUICE_FORM_U8, &box));
            pixels += (uint64_t)box.width * box.height;
        }
        CU_ASSERT_EQUAL(facts.view_pixels, pixels);
        CU_ASSERT_EQUAL(sluice_sample_facts_make(one, 5000, 320, 200, 0, &key).view_pixels, 0);
    }
    sluice_pipeline_destroy(one);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_pipeline_that_begins_with_no_crop_has_the_whole_image)
{
    struct sluice_pipeline *pipeline = parse("decode,hflip,resize=64,center_crop=56");
    const struct sluice_draw_key key = {.seed = 1};
    const struct sluice_sample_facts facts =
        sluice_sample_facts_make(pipeline, 5000, 320, 200, 0, &key);
    CU_ASSERT_EQUAL(facts.crop.top, 0);
    CU_ASSERT_EQUAL(facts.crop.left, 0);
    CU_ASSERT_EQUAL(facts.crop.width, 320);
    CU_ASSERT_EQUAL(facts.crop.height, 200);
    CU_ASSERT_EQUAL(facts.output_size, 56);
    sluice_pipeline_destroy(pipeline);
}

TEST(sizes_that_are_not_known_are_guessed_from_the_bytes)
{
    struct sluice_pipeline *pipeline = parse("decode,random_resized_crop=224");
    const uint32_t unknown[][2] = {{0, 0}, {640, 0}, {0, 480}, {65536, 10}, {10, UINT32_MAX}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(unknown); i++) {
        const struct sluice_draw_key key = {.sample_id = i};
        const struct sluice_sample_facts facts =
            sluice_sample_facts_make(pipeline, 110000, unknown[i][0], unknown[i][1], 0, &key);
        CU_ASSERT(facts.is_size_guessed);
        CU_ASSERT(facts.width > 400 && facts.width < 600);
        CU_ASSERT(facts.height > 300 && facts.height < facts.width);
        CU_ASSERT(facts.crop.width >= 1 && facts.crop.left + facts.crop.width <= facts.width);
        CU_ASSERT(facts.crop.height >= 1 && facts.crop.top + facts.crop.height <= facts.height);
    }
    /* PNGs of photographs are about three times as large as JPEGs of them. */
    const struct sluice_draw_key any = {0};
    const struct sluice_sample_facts png =
        sluice_sample_facts_make(pipeline, 315000, 0, 0, SLUICE_CODING_PNG, &any);
    CU_ASSERT(png.is_size_guessed && png.width > 400 && png.width < 600);
    const uint64_t bytes[] = {0, 1, UINT64_MAX};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bytes); i++) {
        const struct sluice_draw_key key = {0};
        const struct sluice_sample_facts facts =
            sluice_sample_facts_make(pipeline, bytes[i], 0, 0, 0, &key);
        CU_ASSERT(facts.width >= 1 && facts.width <= 65535);
        CU_ASSERT(facts.height >= 1 && facts.height <= 65535);
    }
    sluice_pipeline_destroy(pipeline);
}
