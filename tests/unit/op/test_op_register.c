#include "run_support.h"

#include "base/buf.h"
#include "support/test.h"

/* An op that the library does not have: inverts every value at or above a threshold, as Pillow's
 * ImageOps.sunlit(image, threshold), with a random threshold.  Nothing but this record names
 * it. */
struct params {
    struct sluice_range threshold;
};

static const struct sluice_op_param param_list[] = {
    {.name = "threshold",
     .kind = SLUICE_PARAM_RANGE,
     .offset = offsetof(struct params, threshold),
     .form = "MIN-MAX",
     .example = "0-255",
     .max = 256},
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct sluice_range range = ((const struct params *)params)->threshold;
    drawn->values[0] = range.min + (range.max - range.min) * sluice_rng_double(rng);
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)unused;
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = (uint8_t)(v < drawn->values[0] ? v : 255 - v);
}

static const struct sluice_op_type sunlit = {
    .name = "sunlit",
    .help = "inverts values from a threshold on",
    .kind = SLUICE_OP_TABLE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .table = table,
};

#define SPEC "decode,random_resized_crop=16,sunlit=0-256,hflip,sunlit=9-200,to_tensor"

TEST(a_name_is_registered_once)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(sluice_pipeline_parse(SPEC, &pipeline, NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_op_register(&sunlit, NULL));
    CU_ASSERT_EQUAL(sluice_op_register(&sunlit, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "there is an op sunlit already");
}

TEST(the_text_and_the_help_come_from_its_parameters)
{
    char list[8192];
    struct sluice_pipeline *pipeline = run_test_parse("decode,sunlit=1-2");
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline), "decode,sunlit=1-2");
    sluice_pipeline_destroy(pipeline);
    sluice_op_list(list, sizeof(list));
    CU_ASSERT_PTR_NOT_NULL(strstr(list, "\nsunlit=0-255: inverts values from a threshold on"));
}

/* What the ops give one by one, by their own records. */
static void reference(const struct sluice_pipeline *pipeline, const struct sluice_sample *file,
                      struct sluice_scratch *scratch, uint8_t out[16 * 16 * 3])
{
    struct sluice_sample sample = {.key = file->key, .data = sluice_buf_ref(file->data)};
    REQUIRE_OK(sluice_pipeline_run(pipeline, scratch, &sample, 2, NULL));
    union sluice_drawn first, mirror, second;
    uint8_t first_table[3][256], second_table[3][256];
    const struct sluice_size size = {16, 16};
    sluice_op_draw(run_test_op(pipeline, 2), &file->key, size, &first);
    sluice_op_draw(run_test_op(pipeline, 3), &file->key, size, &mirror);
    sluice_op_draw(run_test_op(pipeline, 4), &file->key, size, &second);
    table(&first, NULL, first_table);
    table(&second, NULL, second_table);
    for (unsigned y = 0; y < 16; y++) {
        for (unsigned x = 0; x < 16; x++) {
            const unsigned from = mirror.is_mirrored ? 15 - x : x;
            for (unsigned c = 0; c < 3; c++)
                out[(y * 16 + x) * 3 + c] =
                    second_table[c][first_table[c][sample.data->data[(y * 16 + from) * 3 + c]]];
        }
    }
    sluice_sample_clear(&sample);
}

TEST(any_split_gives_what_its_record_says)
{
    struct sluice_pipeline *pipeline = run_test_parse(SPEC);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(60, 40);
    for (uint64_t id = 0; id < 40; id++) {
        struct sluice_sample sample = run_test_sample(file, id);
        uint8_t want[16 * 16 * 3], got[16 * 16 * 3];
        reference(pipeline, &sample, scratch, want);
        for (unsigned split = 0; split <= 6; split++) {
            struct sluice_sample part = {.key = sample.key, .data = sluice_buf_ref(file)};
            REQUIRE_OK(sluice_pipeline_run(pipeline, scratch, &part, split, NULL));
            CU_ASSERT_EQUAL(part.ops_done, split);
            REQUIRE_OK(sluice_pipeline_finish_u8(pipeline, scratch, &part, got, sizeof(got), NULL));
            CU_ASSERT(memcmp(got, want, sizeof(got)) == 0);
        }
        sluice_sample_clear(&sample);
    }
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}
