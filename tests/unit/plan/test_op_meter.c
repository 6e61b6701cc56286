#include "plan/op_meter.h"

#include "base/buf.h"
#include "base/clock.h"
#include "image/codecs/codec.h"
#include "image/codecs/coding.h"
#include "image/jpeg/index.h"
#include "support/choices.h"
#include "support/test.h"

#define SPEC "decode,random_resized_crop=32,hflip=1,to_tensor,normalize=imagenet"

enum { PIXELS = 32 * 32 * 3 };

static struct sluice_pipeline *parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, &err));
    return pipeline;
}

static struct sluice_sample encode(bool is_progressive)
{
    static uint8_t rgb[120 * 90 * 3];
    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(i * i >> 5);
    struct sluice_sample sample = {.key = {.seed = 5, .epoch = 1, .sample_id = 3}};
    struct sluice_err err = {0};
    const struct sluice_jpeg_encode_options options = {.is_progressive = is_progressive};
    REQUIRE_OK(sluice_jpeg_encode(rgb, 120, 90, &options, &sample.data, &err));
    return sample;
}

TEST(measures_bytes_and_times_and_gives_the_pixels)
{
    struct sluice_pipeline *pipeline = parse(SPEC);
    struct sluice_op_meter meter;
    struct sluice_err err = {0};
    struct sluice_sample file = encode(true);
    const size_t file_bytes = file.data->len;
    struct sluice_sample_cost row = {.op_s = {0.25, 7, 7, 7, 7, 7}};
    uint8_t pixels[PIXELS], expected[PIXELS];
    REQUIRE_OK(sluice_op_meter_init(&meter, NULL, 0, &err));
    const uint64_t start_ns = sluice_clock_ns();
    REQUIRE_OK(sluice_op_meter_measure(&meter, pipeline, &file, (uint8_t *const[]){pixels}, PIXELS,
                                       &row, &err));
    const double elapsed_s = (double)(sluice_clock_ns() - start_ns) * 1e-9;
    const uint64_t bytes[] = {file_bytes, 120 * 90 * 3, PIXELS, PIXELS, 4 * PIXELS, 4 * PIXELS};
    for (int k = 0; k < SLUICE_TEST_SPLITS; k++)
        CU_ASSERT_EQUAL(row.bytes[k], bytes[k]);
    CU_ASSERT_EQUAL(row.op_s[0], 0.25); /* the caller's */
    for (int op = 1; op < SLUICE_TEST_SPLITS - 1; op++)
        CU_ASSERT(row.op_s[op] > 0 && row.op_s[op] < elapsed_s);
    CU_ASSERT_EQUAL(row.op_s[5], 0); /* counts under to_tensor */
    CU_ASSERT_EQUAL(row.width, 120);
    CU_ASSERT_EQUAL(row.height, 90);
    CU_ASSERT_EQUAL(row.coding, SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE);

    /* The file stays, and the pixels are those of any run. */
    CU_ASSERT_EQUAL(file.ops_done, 0);
    CU_ASSERT_EQUAL(file.data->len, file_bytes);
    REQUIRE_OK(sluice_pipeline_finish_u8(pipeline, meter.whole, &file, expected, PIXELS, &err));
    CU_ASSERT_EQUAL(memcmp(pixels, expected, PIXELS), 0);
    sluice_op_meter_clear(&meter);
    sluice_op_meter_clear(&meter);
    sluice_pipeline_destroy(pipeline);
}

TEST(an_index_stays_the_sample_s)
{
    struct sluice_pipeline *pipeline = parse(SPEC);
    struct sluice_op_meter meter;
    struct sluice_err err = {0};
    struct sluice_sample file = encode(false);
    file.jpeg_index = calloc(1, sizeof(*file.jpeg_index));
    CU_ASSERT_PTR_NOT_NULL_FATAL(file.jpeg_index);
    REQUIRE_OK(
        sluice_jpeg_index_build(file.data->data, file.data->len, 0, 0, file.jpeg_index, &err));
    struct sluice_sample_cost row = {.op_s = {0.25}};
    uint8_t pixels[PIXELS], expected[PIXELS];
    REQUIRE_OK(sluice_op_meter_init(&meter, NULL, 0, &err));
    REQUIRE_OK(sluice_op_meter_measure(&meter, pipeline, &file, (uint8_t *const[]){pixels}, PIXELS,
                                       &row, &err));
    CU_ASSERT_EQUAL(file.jpeg_index->width, 120);
    REQUIRE_OK(sluice_pipeline_finish_u8(pipeline, meter.whole, &file, expected, PIXELS, &err));
    CU_ASSERT_EQUAL(memcmp(pixels, expected, PIXELS), 0);
    sluice_op_meter_clear(&meter);
    sluice_pipeline_destroy(pipeline);
}

TEST(what_cannot_be_decoded_never_pays)
{
    struct sluice_pipeline *pipeline = parse(SPEC);
    struct sluice_op_meter meter;
    struct sluice_err err = {0};
    struct sluice_sample file = encode(true);
    file.data->len /= 2;
    struct sluice_sample_cost row = {.op_s = {0.25, 7, 7, 7, 7, 7}, .width = 9};
    REQUIRE_OK(sluice_op_meter_init(&meter, NULL, 0, &err));
    CU_ASSERT_EQUAL(sluice_op_meter_measure(&meter, pipeline, &file, NULL, 0, &row, &err),
                    SLUICE_E_CORRUPT);
    for (int k = 0; k < SLUICE_TEST_SPLITS; k++) {
        CU_ASSERT_EQUAL(row.bytes[k], file.data->len);
        CU_ASSERT_EQUAL(row.op_s[k], k == 0 ? 0.25 : 0);
    }
    CU_ASSERT_EQUAL(row.width, 0);
    sluice_sample_clear(&file);
    sluice_op_meter_clear(&meter);
    sluice_pipeline_destroy(pipeline);
}

TEST(measures_any_pipeline)
{
    static const struct {
        const char *spec;
        uint64_t bytes[SLUICE_MAX_STAGES]; /* [0]: any */
    } cases[] = {
        {"decode,random_resized_crop=32", {0, 32400, PIXELS}},
        {"decode,random_resized_crop=32,to_tensor", {0, 32400, PIXELS, 4 * PIXELS}},
        {"decode,resize=45,center_crop=32,hflip,to_tensor,normalize=imagenet",
         {0, 32400, 60 * 45 * 3, PIXELS, PIXELS, 4 * PIXELS, 4 * PIXELS}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = parse(cases[i].spec);
        struct sluice_op_meter meter;
        struct sluice_err err = {0};
        struct sluice_sample file = encode(true);
        struct sluice_sample_cost row = {.width = 9};
        uint8_t pixels[PIXELS], expected[PIXELS];
        REQUIRE_OK(sluice_op_meter_init(&meter, NULL, 0, &err));
        REQUIRE_OK(sluice_op_meter_measure(&meter, pipeline, &file, (uint8_t *const[]){pixels},
                                           PIXELS, &row, &err));
        CU_ASSERT_EQUAL(row.bytes[0], file.data->len);
        for (unsigned k = 1; k < SLUICE_MAX_STAGES; k++)
            CU_ASSERT_EQUAL(row.bytes[k], cases[i].bytes[k]);
        REQUIRE_OK(sluice_pipeline_finish_u8(pipeline, meter.whole, &file, expected, PIXELS, &err));
        CU_ASSERT_EQUAL(memcmp(pixels, expected, PIXELS), 0);
        sluice_op_meter_clear(&meter);
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(refuses_pixels_of_another_size)
{
    struct sluice_pipeline *pipeline = parse(SPEC);
    struct sluice_op_meter meter;
    struct sluice_err err = {0};
    struct sluice_sample file = encode(true);
    struct sluice_sample_cost row = {.width = 9};
    uint8_t pixels[PIXELS];
    REQUIRE_OK(sluice_op_meter_init(&meter, NULL, 0, &err));
    CU_ASSERT_EQUAL(sluice_op_meter_measure(&meter, pipeline, &file, (uint8_t *const[]){pixels},
                                            PIXELS - 1, &row, &err),
                    SLUICE_E_INVALID);
    sluice_sample_clear(&file);
    sluice_op_meter_clear(&meter);
    sluice_pipeline_destroy(pipeline);
}
