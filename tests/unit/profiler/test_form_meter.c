#include "profiler/form_meter.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/codecs/coding.h"
#include "plan/form_menu.h"
#include "support/choices.h"
#include "support/test.h"

#define SPEC "decode,random_resized_crop=32,hflip,to_tensor,normalize=imagenet"

static struct sluice_pipeline *parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, &err));
    return pipeline;
}

static uint8_t rgb[120 * 90 * 3];

static struct sluice_buf *encode_jpeg(void)
{
    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(i * i >> 5);
    struct sluice_buf *file = NULL;
    struct sluice_err err = {0};
    const struct sluice_jpeg_encode_options options = {.h_samp = 1, .v_samp = 1};
    REQUIRE_OK(sluice_jpeg_encode(rgb, 120, 90, &options, &file, &err));
    return file;
}

TEST(measures_every_choice_of_a_jpeg)
{
    struct sluice_pipeline *pipeline = parse(SPEC);
    struct sluice_form_meter meter;
    struct sluice_form_table table = {0};
    struct sluice_err err = {0};
    struct sluice_buf *file = encode_jpeg();
    REQUIRE_OK(sluice_form_meter_init(&meter, pipeline, NULL, 0, &err));
    const struct sluice_draw_key key = {.seed = 5, .epoch = 2, .sample_id = 9};
    REQUIRE_OK(sluice_form_meter_add(&meter, file, 4, &key, &table, &err));
    CU_ASSERT_EQUAL_FATAL(table.num_rows, SLUICE_TEST_CHOICES);
    const uint64_t bytes[] = {file->len,   120 * 90 * 3, 32 * 32 * 3,
                              32 * 32 * 3, 32 * 32 * 12, 32 * 32 * 12};
    const struct sluice_draws draws = sluice_pipeline_draws(pipeline, &key, 120, 90);
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        const struct sluice_form_row *row = &table.rows[c];
        CU_ASSERT_EQUAL(row->choice, c);
        CU_ASSERT_EQUAL(row->index, 4);
        CU_ASSERT_EQUAL(row->epoch, 2);
        CU_ASSERT_EQUAL(row->facts.file_bytes, file->len);
        CU_ASSERT_EQUAL(row->facts.coding, SLUICE_CODING_JPEG_444);
        CU_ASSERT_EQUAL(row->facts.crop.width, draws.width);
        CU_ASSERT_EQUAL(row->facts.crop.height, draws.height);
        CU_ASSERT(row->compute_s > 0);
        if (c < SLUICE_TEST_SPLITS)
            CU_ASSERT_EQUAL(row->bytes, bytes[c]);
    }
    CU_ASSERT(table.rows[SLUICE_TEST_JPEG_CROP].bytes < file->len);
    CU_ASSERT(table.rows[SLUICE_TEST_JPEG_ROWS].bytes != file->len);
    CU_ASSERT(table.rows[SLUICE_TEST_U8_PACKED].bytes <= 32 * 32 * 3);
    sluice_form_table_clear(&table);
    sluice_form_meter_clear(&meter);
    sluice_form_meter_clear(&meter);
    sluice_buf_unref(file);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_png_has_no_rows_for_parts_of_a_jpeg)
{
    struct sluice_pipeline *pipeline = parse(SPEC);
    struct sluice_form_meter meter;
    struct sluice_form_table table = {0};
    struct sluice_err err = {0};
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_png_encode(rgb, 120, 90, 1, &file, &err));
    REQUIRE_OK(sluice_form_meter_init(&meter, pipeline, NULL, 0, &err));
    const struct sluice_draw_key key = {.seed = 5};
    REQUIRE_OK(sluice_form_meter_add(&meter, file, 0, &key, &table, &err));
    CU_ASSERT_EQUAL(table.num_rows, SLUICE_TEST_CHOICES - 2);
    for (size_t i = 0; i < table.num_rows; i++)
        CU_ASSERT(table.rows[i].choice != SLUICE_TEST_JPEG_CROP &&
                  table.rows[i].choice != SLUICE_TEST_JPEG_ROWS);
    sluice_form_table_clear(&table);
    sluice_form_meter_clear(&meter);
    sluice_buf_unref(file);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_file_that_cannot_be_decoded_adds_nothing)
{
    struct sluice_pipeline *pipeline = parse(SPEC);
    struct sluice_form_meter meter;
    struct sluice_form_table table = {0};
    struct sluice_err err = {0};
    struct sluice_buf *file = encode_jpeg();
    file->len /= 2;
    REQUIRE_OK(sluice_form_meter_init(&meter, pipeline, NULL, 0, &err));
    const struct sluice_draw_key key = {.seed = 5};
    CU_ASSERT_EQUAL(sluice_form_meter_add(&meter, file, 0, &key, &table, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(table.num_rows, 0);
    sluice_form_table_clear(&table);
    sluice_form_meter_clear(&meter);
    sluice_buf_unref(file);
    sluice_pipeline_destroy(pipeline);
}

TEST(refuses_pipelines_without_one_output_size)
{
    static const char *const specs[] = {"decode,hflip",
                                        "decode,resize=40,hflip,to_tensor,normalize=imagenet"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *pipeline = parse(specs[i]);
        struct sluice_form_meter meter;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_form_meter_init(&meter, pipeline, NULL, 0, &err), SLUICE_E_INVALID);
        sluice_pipeline_destroy(pipeline);
    }
}
