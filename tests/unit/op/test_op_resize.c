#include "run_support.h"

#include "base/buf.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

/* Values that Python gave for torchvision's int(size * long / short). */
TEST(the_shorter_side_leads)
{
    static const struct {
        uint32_t size, width, height, out_width, out_height;
    } cases[] = {
        {256, 500, 375, 341, 256},      {256, 375, 500, 256, 341},
        {256, 256, 256, 256, 256},      {256, 3, 500, 256, 42666},
        {256, 500, 3, 42666, 256},      {1, 1, 1, 1, 1},
        {256, 333, 500, 256, 384},      {7, 3, 3, 7, 7},
        {224, 65535, 1, 14679840, 224}, {8192, 65535, 65534, 8192, 8192},
        {100, 49, 147, 100, 300},       {8192, 1, 65535, 8192, 536862720},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char spec[64];
        snprintf(spec, sizeof(spec), "decode,resize=%u", cases[i].size);
        struct sluice_pipeline *pipeline = run_test_parse(spec);
        const struct sluice_size out =
            run_test_draw(pipeline, 1, 0, cases[i].width, cases[i].height).resample.out;
        sluice_pipeline_destroy(pipeline);
        CU_ASSERT_EQUAL(out.width, cases[i].out_width);
        CU_ASSERT_EQUAL(out.height, cases[i].out_height);
    }
}

/* The rule in whole numbers: floor, as the true quotient never rounds up to the next one here. */
TEST(the_other_side_is_the_floor_of_the_quotient)
{
    for (uint32_t shorter = 1; shorter < 66000; shorter += 131) {
        const uint32_t longer = 65535 > shorter ? 65535 : shorter;
        const struct sluice_size out =
            sluice_size_with_shorter(8191, (struct sluice_size){longer, shorter});
        CU_ASSERT_EQUAL(out.width, (uint64_t)8191 * longer / shorter);
        CU_ASSERT_EQUAL(out.height, 8191);
    }
}

TEST(an_equal_size_changes_nothing)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,resize=5");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, 5, 8, 5 * 8 * 3);
    uint8_t pixels[5 * 8 * 3];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * 37);
    memcpy(sample.data->data, pixels, sizeof(pixels));
    CU_ASSERT_EQUAL(sluice_pipeline_run(pipeline, scratch, &sample, 2, NULL), SLUICE_OK);
    CU_ASSERT(sample.width == 5 && sample.height == 8);
    CU_ASSERT(memcmp(pixels, sample.data->data, sizeof(pixels)) == 0);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}
