#include "run_support.h"

#include "support/test.h"

/* The buckets of FLUX.1 Kontext. */
#define KONTEXT                                                                                    \
    "672x1568/688x1504/720x1456/752x1392/800x1328/832x1248/"                                       \
    "880x1184/944x1104/1024x1024/1104x944/1184x880/1248x832/"                                      \
    "1328x800/1392x752/1456x720/1504x688/1568x672"

/* Values of diffusers' find_nearest_bucket(), of torchvision's Resize and of CenterCrop. */
TEST(sizes_and_places_are_those_of_diffusers_and_torchvision)
{
    static const uint32_t cases[][7] = {
        {1, 1, 8, 1024, 1024, 0, 0},          {500, 375, 6, 1184, 888, 0, 4},
        {42, 70, 12, 800, 1333, 0, 2},        {4000, 3000, 6, 1184, 888, 0, 4},
        {65535, 65535, 8, 1024, 1024, 0, 0},  {65535, 1, 0, 44039520, 672, 22018976, 0},
        {3, 900, 16, 672, 201600, 0, 100016}, {1920, 1080, 3, 1392, 783, 0, 16},
        {98, 126, 10, 920, 1184, 20, 0},      {1000, 1234, 9, 944, 1164, 0, 30},
        {333, 500, 11, 832, 1249, 0, 0},      {801, 800, 8, 1025, 1024, 0, 0},
        {1, 2, 14, 728, 1456, 4, 0},          {1300, 1000, 6, 1184, 910, 0, 15},
    };
    struct sluice_pipeline *pipeline = run_test_parse("decode,fit_bucket=" KONTEXT);
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline), "decode,fit_bucket=" KONTEXT);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const uint32_t width = cases[i][0], height = cases[i][1];
        const struct sluice_resample drawn = run_test_draw(pipeline, 1, i, width, height).resample;
        CU_ASSERT_EQUAL(sluice_pipeline_bucket_of(pipeline, width, height), cases[i][2]);
        CU_ASSERT(drawn.to.width == cases[i][3] && drawn.to.height == cases[i][4]);
        CU_ASSERT(drawn.keep.left == cases[i][5] && drawn.keep.top == cases[i][6]);
        const struct sluice_size size = sluice_pipeline_bucket_size(pipeline, cases[i][2]);
        CU_ASSERT(drawn.out.width == size.width && drawn.out.height == size.height);
        CU_ASSERT(drawn.keep.width == size.width && drawn.keep.height == size.height);
    }
    sluice_pipeline_destroy(pipeline);
}

/* Two buckets that are equally near: diffusers compares with <=. */
TEST(of_equally_near_buckets_the_last_is_taken)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,fit_bucket=30x20/20x30/10x10");
    CU_ASSERT_EQUAL(sluice_pipeline_bucket_of(pipeline, 25, 25), 2);
    sluice_pipeline_destroy(pipeline);
    pipeline = run_test_parse("decode,fit_bucket=30x20/20x30");
    CU_ASSERT_EQUAL(sluice_pipeline_bucket_of(pipeline, 25, 25), 1);
    sluice_pipeline_destroy(pipeline);
}

/* Every place of the crop comes, and only places within the resized image. */
TEST(a_random_crop_lies_within_the_image)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,fit_bucket=20x20:crop=random:filter=bicubic");
    unsigned num_at[4] = {0};
    for (uint64_t id = 0; id < 400; id++) {
        const struct sluice_resample drawn = run_test_draw(pipeline, 1, id, 60, 69).resample;
        CU_ASSERT(drawn.to.width == 20 && drawn.to.height == 23);
        CU_ASSERT_FATAL(drawn.keep.left == 0 && drawn.keep.top <= 3);
        num_at[drawn.keep.top]++;
    }
    CU_ASSERT(num_at[0] > 0 && num_at[1] > 0 && num_at[2] > 0 && num_at[3] > 0);
    sluice_pipeline_destroy(pipeline);
}

/* From the whole image, and from the pixels of the crop alone. */
TEST(an_image_too_long_for_its_bucket_is_refused)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,fit_bucket=1024x1024/512x2048");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(300, 1);
    for (unsigned first = 1; first <= 2; first++) {
        struct sluice_sample sample = run_test_sample(file, 1);
        sluice_status status = sluice_pipeline_run(pipeline, scratch, &sample, first, NULL);
        if (status == SLUICE_OK && first == 1)
            status = sluice_pipeline_run(pipeline, scratch, &sample, 2, NULL);
        CU_ASSERT_EQUAL(status, SLUICE_E_UNSUPPORTED);
        sluice_sample_clear(&sample);
    }
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_bucket_is_refused)
{
    static const char *const texts[] = {
        "decode,fit_bucket",
        "decode,fit_bucket=512",
        "decode,fit_bucket=512x512/",
        "decode,fit_bucket=0x512",
        "decode,fit_bucket=512x8193",
        "decode,fit_bucket=9x9/8x8/9x9",
        "decode,fit_bucket=9x9:crop=left",
        "decode,fit_bucket=9x9,512x512",
        "decode,fit_bucket=1x1/1x2/1x3/1x4/1x5/1x6/1x7/1x8/1x9/1x10/1x11/1x12/1x13/1x14/1x15/1x16/"
        "1x17/1x18/1x19/1x20/1x21/1x22/1x23/1x24/1x25/1x26/1x27/1x28/1x29/1x30/1x31/1x32/1x33/1x34/"
        "1x35/1x36/1x37/1x38/1x39/1x40/1x41/1x42/1x43/1x44/1x45/1x46/1x47/1x48/1x49/1x50/1x51/1x52/"
        "1x53/1x54/1x55/1x56/1x57/1x58/1x59/1x60/1x61/1x62/1x63/1x64/1x65"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_check(
                        "decode,fit_bucket=1x1/1x2/1x3/1x4/1x5/1x6/1x7/1x8/1x9/1x10/1x11/1x12/1x13/"
                        "1x14/1x15/1x16/1x17/1x18/1x19/1x20/1x21/1x22/1x23/1x24/1x25/1x26/1x27/"
                        "1x28/1x29/1x30/1x31/1x32/1x33/1x34/1x35/1x36/1x37/1x38/1x39/1x40/1x41/"
                        "1x42/1x43/1x44/1x45/1x46/1x47/1x48/1x49/1x50/1x51/1x52/1x53/1x54/1x55/"
                        "1x56/1x57/1x58/1x59/1x60/1x61/1x62/1x63/1x64:crop=random:filter=random",
                        NULL),
                    SLUICE_OK);
}
