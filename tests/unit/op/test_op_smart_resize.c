#include "run_support.h"

#include "support/test.h"

static const uint32_t sides[][2] = {{1, 1},       {500, 375},     {42, 70},   {14, 14},
                                    {4000, 3000}, {65535, 65535}, {65535, 1}, {3, 900},
                                    {1920, 1080}, {98, 126}};

/* Values of qwen_vl_utils' smart_resize(), the limit of 200:1 left out. */
TEST(sides_are_those_of_qwen_vl)
{
    static const struct {
        const char *op;
        uint32_t out[10][2];
    } cases[] = {
        {"smart_resize=28:min_pixels=3136:max_pixels=1003520",
         {{56, 56},
          {504, 364},
          {56, 56},
          {56, 56},
          {1148, 840},
          {980, 980},
          {256424, 28},
          {28, 896},
          {1316, 728},
          {112, 112}}},
        {"smart_resize=28:min_pixels=3136:max_pixels=12845056",
         {{56, 56},
          {504, 364},
          {56, 56},
          {56, 56},
          {4004, 2996},
          {3584, 3584},
          {65548, 28},
          {28, 896},
          {1932, 1092},
          {112, 112}}},
        {"smart_resize=32:min_pixels=65536:max_pixels=16777216",
         {{256, 256},
          {512, 384},
          {224, 352},
          {256, 256},
          {4000, 3008},
          {4096, 4096},
          {65536, 32},
          {32, 4448},
          {1920, 1088},
          {256, 320}}},
        {"smart_resize=14:min_pixels=1:max_pixels=196",
         {{14, 14},
          {14, 14},
          {14, 14},
          {14, 14},
          {14, 14},
          {14, 14},
          {3570, 14},
          {14, 238},
          {14, 14},
          {14, 14}}},
        {"smart_resize=1:min_pixels=1:max_pixels=268435456",
         {{1, 1},
          {500, 375},
          {42, 70},
          {14, 14},
          {4000, 3000},
          {16384, 16384},
          {65535, 1},
          {3, 900},
          {1920, 1080},
          {98, 126}}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char spec[96];
        snprintf(spec, sizeof(spec), "decode,%s", cases[i].op);
        struct sluice_pipeline *pipeline = run_test_parse(spec);
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline), spec);
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(sides); k++) {
            const struct sluice_resample drawn =
                run_test_draw(pipeline, 1, k, sides[k][0], sides[k][1]).resample;
            CU_ASSERT_EQUAL(drawn.out.width, cases[i].out[k][0]);
            CU_ASSERT_EQUAL(drawn.out.height, cases[i].out[k][1]);
            CU_ASSERT_EQUAL(drawn.filter, SLUICE_RESIZE_BICUBIC);
        }
        sluice_pipeline_destroy(pipeline);
    }
}

/* For all proportions that Qwen takes. */
TEST(sides_are_multiples_and_the_area_keeps_its_limits)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,smart_resize=28:min_pixels=3136:max_pixels=1003520");
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, 2);
    for (uint32_t width = 1; width < 9000; width += 1 + width / 3) {
        for (uint32_t height = 1; height < 9000; height += 1 + height / 4) {
            if (width > 199 * height || height > 199 * width)
                continue;
            const struct sluice_size out =
                sluice_pipeline_size_at(pipeline, &(struct sluice_draw_key){0}, 2, width, height);
            const uint64_t pixels = (uint64_t)out.width * out.height;
            CU_ASSERT(out.width > 0 && out.width % 28 == 0);
            CU_ASSERT(out.height > 0 && out.height % 28 == 0);
            CU_ASSERT(pixels >= 3136 && pixels <= 1003520);
            CU_ASSERT(sluice_known_size_allows(known, out.width, out.height));
            const uint64_t about = sluice_known_size_pixels(known, width, height);
            CU_ASSERT(about >= 3136 && about <= 1003520);
        }
    }
    sluice_pipeline_destroy(pipeline);
}

TEST(a_known_size_stays_known)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,center_crop=42x70,smart_resize=28:min_pixels=1:max_pixels=9999");
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, 3);
    CU_ASSERT(known.width == 56 && known.height == 56); /* 2.5 and 1.5 are rounded to 2 */
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_limit_is_refused)
{
    static const char *const texts[] = {
        "decode,smart_resize",
        "decode,smart_resize=28",
        "decode,smart_resize=28:min_pixels=4",
        "decode,smart_resize=28:max_pixels=9999",
        "decode,smart_resize=0:min_pixels=1:max_pixels=9999",
        "decode,smart_resize=28:min_pixels=0:max_pixels=9999",
        "decode,smart_resize=28:min_pixels=9999:max_pixels=9998",
        "decode,smart_resize=28:min_pixels=1:max_pixels=783",
        "decode,smart_resize=28:min_pixels=1:max_pixels=268435457",
        "decode,smart_resize=28:min_pixels=1:max_pixels=99999999999999999999999",
        "decode,smart_resize=28:min_pixels=1.5:max_pixels=9999",
        "decode,smart_resize=28:min_pixels=1:max_pixels=9999:filter=cubic"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_check(
                        "decode,smart_resize=28:min_pixels=784:max_pixels=784:filter=box", NULL),
                    SLUICE_OK);
}
