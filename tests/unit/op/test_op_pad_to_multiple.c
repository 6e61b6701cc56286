#include "run_support.h"

#include "support/test.h"

TEST(sides_become_the_next_multiples)
{
    static const uint32_t cases[][5] = {
        {32, 1, 1, 32, 32},      {32, 32, 64, 32, 64},         {32, 33, 31, 64, 32},
        {1, 65535, 7, 65535, 7}, {8192, 8193, 1, 16384, 8192}, {7, 20, 21, 21, 21},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char spec[64];
        snprintf(spec, sizeof(spec), "decode,pad_to_multiple=%u", cases[i][0]);
        struct sluice_pipeline *pipeline = run_test_parse(spec);
        const struct sluice_resample drawn =
            run_test_draw(pipeline, 1, 0, cases[i][1], cases[i][2]).resample;
        CU_ASSERT(drawn.out.width == cases[i][3] && drawn.out.height == cases[i][4]);
        CU_ASSERT(drawn.left == 0 && drawn.top == 0);
        CU_ASSERT(sluice_known_size_allows(sluice_pipeline_known_size(pipeline, 2), drawn.out.width,
                                           drawn.out.height));
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(a_known_size_stays_known)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,center_crop=20x33,pad_to_multiple=8,resize=30");
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, 3);
    CU_ASSERT(known.width == 40 && known.height == 24);
    CU_ASSERT_EQUAL(sluice_pipeline_known_size(pipeline, 4).width, 50);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_side_over_the_limit_is_refused)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,resize=65x3,pad_to_multiple=8000");
    const struct sluice_scratch_options options = {.max_image_pixels = 1000000};
    struct sluice_scratch *scratch = run_test_scratch(&options);
    struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, 9, 9, 9 * 9 * 3);
    CU_ASSERT_EQUAL(sluice_pipeline_run(pipeline, scratch, &sample, 3, NULL), SLUICE_E_UNSUPPORTED);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_multiple_is_refused)
{
    static const char *const texts[] = {"decode,pad_to_multiple", "decode,pad_to_multiple=0",
                                        "decode,pad_to_multiple=8193", "decode,pad_to_multiple=2x2",
                                        "decode,pad_to_multiple=2:mode=edge"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_check("decode,pad_to_multiple=14:fill=1/2/3", NULL), SLUICE_OK);
}
