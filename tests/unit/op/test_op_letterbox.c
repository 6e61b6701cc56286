#include "run_support.h"

#include "support/test.h"

/* Values of Pillow's ImageOps.contain() and pad(), but for sides that they round to 0. */
TEST(the_image_stands_where_pillow_puts_it)
{
    static const struct {
        const char *op;
        uint32_t width, height, to_width, to_height, left, top;
    } cases[] = {
        {"letterbox=640", 1, 1, 640, 640, 0, 0},
        {"letterbox=640", 500, 375, 640, 480, 0, 80},
        {"letterbox=640", 42, 70, 384, 640, 128, 0},
        {"letterbox=640", 65535, 65535, 640, 640, 0, 0},
        {"letterbox=640", 65535, 1, 640, 1, 0, 320},
        {"letterbox=640", 3, 900, 2, 640, 319, 0},
        {"letterbox=640", 1920, 1080, 640, 360, 0, 140},
        {"letterbox=640", 98, 126, 498, 640, 71, 0},
        {"letterbox=480x640", 1, 1, 480, 480, 80, 0},
        {"letterbox=480x640", 500, 375, 640, 480, 0, 0},
        {"letterbox=480x640", 42, 70, 288, 480, 176, 0},
        {"letterbox=480x640", 98, 126, 373, 480, 134, 0},
        {"letterbox=8192x7", 1, 1, 7, 7, 0, 4092},
        {"letterbox=8192x7", 500, 375, 7, 5, 0, 4094},
        {"letterbox=8192x7", 42, 70, 7, 12, 0, 4090},
        {"letterbox=8192x7", 65535, 1, 7, 1, 0, 4096},
        {"letterbox=8192x7", 3, 900, 7, 2100, 0, 3046},
        {"letterbox=1", 1920, 1080, 1, 1, 0, 0},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char spec[64];
        snprintf(spec, sizeof(spec), "decode,%s", cases[i].op);
        struct sluice_pipeline *pipeline = run_test_parse(spec);
        const struct sluice_resample drawn =
            run_test_draw(pipeline, 1, 0, cases[i].width, cases[i].height).resample;
        CU_ASSERT(drawn.to.width == cases[i].to_width && drawn.to.height == cases[i].to_height);
        CU_ASSERT(drawn.left == cases[i].left && drawn.top == cases[i].top);
        const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, 2);
        CU_ASSERT(known.width == drawn.out.width && known.height == drawn.out.height);
        sluice_pipeline_destroy(pipeline);
    }
}

/* A crop behind it may keep padding: the two are not run as one. */
TEST(a_crop_behind_it_keeps_the_padding)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,letterbox=12x20:fill=7,center_crop=20x12,hflip=1");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, 30, 3, 30 * 3 * 3);
    CU_ASSERT_EQUAL_FATAL(sluice_pipeline_run(pipeline, scratch, &sample, 4, NULL), SLUICE_OK);
    CU_ASSERT(sample.width == 12 && sample.height == 20);
    /* The image is 20 x 2 pixels, from row 5 of 12; row 9 of the crop's 20. */
    for (uint32_t y = 0; y < 20; y++) {
        const uint8_t want = y < 4 || y >= 16 ? 0 : y == 9 || y == 10 ? 0 : 7;
        CU_ASSERT_EQUAL(sample.data->data[(size_t)y * 12 * 3], want);
    }
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_letterbox_is_refused)
{
    static const char *const texts[] = {
        "decode,letterbox",           "decode,letterbox=0",          "decode,letterbox=8193",
        "decode,letterbox=3x",        "decode,letterbox=9:fill=256", "decode,letterbox=9:mode=edge",
        "decode,letterbox=9:fill=1/2"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_check("decode,letterbox=9x8:fill=1/2/3:filter=random", NULL),
                    SLUICE_OK);
}
