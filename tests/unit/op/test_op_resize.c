#include "run_support.h"

#include "base/buf.h"
#include "support/test.h"

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
            sluice_size_with_sides(8191, 0, (struct sluice_size){longer, shorter});
        CU_ASSERT_EQUAL(out.width, (uint64_t)8191 * longer / shorter);
        CU_ASSERT_EQUAL(out.height, 8191);
    }
}

static struct sluice_size size_of(const char *op, uint32_t width, uint32_t height)
{
    char spec[64];
    snprintf(spec, sizeof(spec), "decode,%s", op);
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    const struct sluice_size out = run_test_draw(pipeline, 1, 0, width, height).resample.out;
    CU_ASSERT(
        sluice_known_size_allows(sluice_pipeline_known_size(pipeline, 2), out.width, out.height));
    CU_ASSERT(!sluice_known_size_allows(sluice_pipeline_known_size(pipeline, 2), out.width + 1,
                                        out.height + 1));
    CU_ASSERT_EQUAL(
        sluice_known_size_pixels(sluice_pipeline_known_size(pipeline, 2), width, height),
        (uint64_t)out.width * out.height);
    sluice_pipeline_destroy(pipeline);
    return out;
}

/* Values of torchvision's _compute_resized_output_size(). */
TEST(the_longer_side_is_at_most_the_maximum)
{
    static const struct {
        const char *op;
        uint32_t width, height, out_width, out_height;
    } cases[] = {
        {"resize=256:max=300", 500, 375, 300, 225},
        {"resize=256:max=300", 375, 500, 225, 300},
        {"resize=256:max=341", 500, 375, 341, 256},
        {"resize=256:max=340", 500, 375, 340, 255},
        {"resize=800:max=1333", 640, 480, 1066, 800},
        {"resize=800:max=1333", 480, 1000, 640, 1333},
        {"resize=8191:max=8192", 65535, 65534, 8191, 8191},
        {"resize=20:max=21", 1000, 300, 21, 6},
        {"resize=256:max=257", 3, 500, 1, 257},
        {"resize=300:side=longer", 500, 375, 300, 225},
        {"resize=300:side=longer", 375, 500, 225, 300},
        {"resize=224:side=longer", 224, 224, 224, 224},
        {"resize=64:side=longer", 333, 500, 42, 64},
        {"resize=1:side=longer", 1, 1, 1, 1},
        {"resize=8192:side=longer", 65535, 3, 8192, 1}, /* where torchvision fails */
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_size out = size_of(cases[i].op, cases[i].width, cases[i].height);
        CU_ASSERT_EQUAL(out.width, cases[i].out_width);
        CU_ASSERT_EQUAL(out.height, cases[i].out_height);
    }
}

TEST(both_sides_are_whatever_is_given)
{
    const struct sluice_size out = size_of("resize=20x31", 7, 300);
    CU_ASSERT(out.height == 20 && out.width == 31);
    CU_ASSERT(size_of("resize=20x20", 7, 300).width == 20);
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,center_crop=20x40,resize=10,resize=30:side=longer,resize=9:max=17");
    const uint32_t sides[][2] = {{40, 20}, {20, 10}, {30, 15}, {17, 8}};
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(sides); i++) {
        const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, i + 2);
        CU_ASSERT(known.width == sides[i][0] && known.height == sides[i][1]);
    }
    const struct sluice_size end = sluice_pipeline_view_size(pipeline, 0);
    CU_ASSERT(end.width == 17 && end.height == 8);
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_size_is_refused)
{
    static const char *const texts[] = {"decode,resize",
                                        "decode,resize=0x3",
                                        "decode,resize=3x",
                                        "decode,resize=3x8193",
                                        "decode,resize=3X4",
                                        "decode,resize=3x4:side=longer",
                                        "decode,resize=3x4:max=9",
                                        "decode,resize=9:max=9",
                                        "decode,resize=9:max=0",
                                        "decode,resize=9:max=8193",
                                        "decode,resize=9:max=8:side=longer",
                                        "decode,resize=9:side=left",
                                        "decode,center_crop=3x0",
                                        "decode,random_resized_crop=3x4x5",
                                        "decode,random_crop=20x8:padding=8",
                                        "decode,random_crop=20x8:padding=4:mode=edge"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++) {
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
        if (sluice_pipeline_check(texts[i], NULL) == SLUICE_OK)
            printf("%s\n", texts[i]);
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
    CHECK_OK(sluice_pipeline_run(pipeline, scratch, &sample, 2, NULL));
    CU_ASSERT(sample.width == 5 && sample.height == 8);
    CU_ASSERT(memcmp(pixels, sample.data->data, sizeof(pixels)) == 0);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}
