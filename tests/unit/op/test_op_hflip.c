#include "run_support.h"

#include "op/run_region.h"
#include "support/test.h"

static unsigned count_flips(const char *probability)
{
    char spec[64];
    snprintf(spec, sizeof(spec), "decode,hflip=%s", probability);
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    unsigned num_flips = 0;
    for (uint64_t id = 0; id < 10000; id++)
        num_flips += run_test_draw(pipeline, 1, id, 1, 1).is_mirrored;
    sluice_pipeline_destroy(pipeline);
    return num_flips;
}

TEST(flips_as_often_as_asked)
{
    CU_ASSERT_EQUAL(count_flips("0"), 0);
    CU_ASSERT_EQUAL(count_flips("1"), 10000);
    const unsigned half = count_flips("0.5"), fifth = count_flips("0.2");
    CU_ASSERT(half > 4800 && half < 5200);
    CU_ASSERT(fifth > 1840 && fifth < 2160);
}

TEST(the_place_in_the_pipeline_names_the_draw)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,hflip,hflip");
    unsigned num_equal = 0;
    for (uint64_t id = 0; id < 1000; id++)
        num_equal += run_test_draw(pipeline, 1, id, 1, 1).is_mirrored ==
                     run_test_draw(pipeline, 2, id, 1, 1).is_mirrored;
    CU_ASSERT(num_equal > 400 && num_equal < 600);
    sluice_pipeline_destroy(pipeline);
}

TEST(copies_mirrored_within_strides)
{
    /* Two rows of three pixels in rows of 12 bytes, to rows of 10. */
    const uint8_t in[24] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  99, 99, 99,
                            11, 12, 13, 14, 15, 16, 17, 18, 19, 99, 99, 99};
    const struct sluice_image_view view = {in, 12, 3, 2};
    static const uint8_t straight[20] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  0,
                                         11, 12, 13, 14, 15, 16, 17, 18, 19, 0};
    static const uint8_t mirrored[20] = {7,  8,  9,  4,  5,  6,  1,  2,  3,  0,
                                         17, 18, 19, 14, 15, 16, 11, 12, 13, 0};
    uint8_t out[20] = {0};
    sluice_copy_rgb(&view, false, out, 10);
    CU_ASSERT(memcmp(out, straight, sizeof(out)) == 0);
    sluice_copy_rgb(&view, true, out, 10);
    CU_ASSERT(memcmp(out, mirrored, sizeof(out)) == 0);
}
