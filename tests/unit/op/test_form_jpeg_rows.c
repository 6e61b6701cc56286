/* Rows of a file as a form to send: what ops make of them is what they make of the file. */

#include "base/buf.h"
#include "base/cpu.h"
#include "image/codecs/codec.h"
#include "image/jpeg/index.h"
#include "op/form.h"
#include "op/pipeline.h"
#include "run_support.h"
#include "support/test.h"

#define VAL "decode,resize=32,center_crop=24,to_tensor,normalize=imagenet"
#define WIDTH 400
#define HEIGHT 300

static struct sluice_buf *make_jpeg(const struct sluice_jpeg_encode_options *options)
{
    uint8_t *pixels = malloc((size_t)WIDTH * HEIGHT * 3);
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT * 3; i++)
        pixels[i] = (uint8_t)(i / 3 % WIDTH + i / 3 / WIDTH * 2 + i % 7 * 5);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_jpeg_encode(pixels, WIDTH, HEIGHT, options, &file, NULL));
    free(pixels);
    return file;
}

/* With a copy of the file, and its index. */
static struct sluice_sample indexed_sample(const struct sluice_buf *file, uint64_t id)
{
    struct sluice_buf *copy;
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    CU_ASSERT_PTR_NOT_NULL_FATAL(index);
    REQUIRE_OK(sluice_buf_create(NULL, file->len, &copy, NULL));
    memcpy(copy->data, file->data, file->len);
    copy->len = file->len;
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 0, SLUICE_JPEG_INDEX_AUTO_STEP, index,
                                       NULL));
    struct sluice_sample sample = run_test_sample(copy, id);
    sluice_buf_unref(copy);
    sample.jpeg_index = index;
    return sample;
}

TEST(ops_make_of_rows_what_they_make_of_the_file)
{
    static const char *const specs[] = {
        TRAIN, VAL, "decode,center_crop=64",
        "decode,views(3x[random_resized_crop=24:scale=0.02-0.1,hflip],[center_crop=20])"};
    unsigned num_taken = 0;
    static const struct sluice_jpeg_encode_options kinds[] = {{0},
                                                              {.h_samp = 1, .v_samp = 1},
                                                              {.h_samp = 2, .v_samp = 1},
                                                              {.h_samp = 1, .v_samp = 2},
                                                              {.is_gray = true},
                                                              {.restart_rows = 1}};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(kinds); k++) {
        struct sluice_buf *file = make_jpeg(&kinds[k]);
        for (size_t s = 0; s < SLUICE_ARRAY_LEN(specs); s++) {
            struct sluice_pipeline *p = run_test_parse(specs[s]);
            struct sluice_scratch *scratch = run_test_scratch(NULL);
            const size_t room = sluice_pipeline_u8_bytes(p);
            uint8_t *want = malloc(room), *got = malloc(room);
            for (uint64_t id = 0; id < 30; id++) {
                struct sluice_sample whole = run_test_sample(file, id);
                struct sluice_sample rows = indexed_sample(file, id);
                const sluice_status status = sluice_pipeline_take_rows(p, NULL, &rows, NULL);
                CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_AGAIN);
                CU_ASSERT_EQUAL(sluice_sample_form(&rows) == SLUICE_FORM_JPEG_ROWS,
                                status == SLUICE_OK);
                CU_ASSERT_EQUAL(rows.jpeg_index == NULL, status == SLUICE_OK);
                CHECK_OK(sluice_pipeline_check_sample(p, &rows, 0, NULL));
                CHECK_OK(sluice_pipeline_run(p, scratch, &rows, 0, NULL));
                num_taken += status == SLUICE_OK;
                CHECK_OK(sluice_pipeline_finish_u8(p, scratch, &whole, want, room, NULL));
                /* Without SIMD the decoder is libjpeg-turbo, which takes no part of a file. */
                const sluice_status expected =
                    status == SLUICE_OK && sluice_cpu_level() == SLUICE_CPU_C ? SLUICE_E_CORRUPT
                                                                              : SLUICE_OK;
                CU_ASSERT_EQUAL(sluice_pipeline_finish_u8(p, scratch, &rows, got, room, NULL),
                                expected);
                CU_ASSERT(expected || memcmp(want, got, room) == 0);
                sluice_sample_clear(&whole);
                sluice_sample_clear(&rows);
            }
            free(want);
            free(got);
            sluice_scratch_destroy(scratch);
            sluice_pipeline_destroy(p);
        }
        sluice_buf_unref(file);
    }
    CU_ASSERT(num_taken > 200);
}

/* The first sample whose rows can be taken. */
static struct sluice_sample taken(const struct sluice_pipeline *p, const struct sluice_buf *file)
{
    for (uint64_t id = 0; id < 100; id++) {
        struct sluice_sample sample = indexed_sample(file, id);
        if (sluice_pipeline_take_rows(p, NULL, &sample, NULL) == SLUICE_OK)
            return sample;
        sluice_sample_clear(&sample);
    }
    CU_FAIL_FATAL("no draw gave a low crop");
    return (struct sluice_sample){0};
}

/* For a decoder beside this CPU, which takes cut files. */
TEST(rows_are_cut_as_their_file_is)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(&(struct sluice_jpeg_encode_options){0});
    struct sluice_sample rows = taken(p, file), whole = run_test_sample(file, 0);
    whole.key = rows.key;
    CHECK_OK(sluice_pipeline_cut_for_gpu(p, scratch, &rows, 8, NULL));
    CHECK_OK(sluice_pipeline_cut_for_gpu(p, scratch, &whole, 8, NULL));
    CU_ASSERT(rows.data->len == whole.data->len &&
              memcmp(rows.data->data, whole.data->data, rows.data->len) == 0);
    CU_ASSERT(sluice_sample_form(&rows) == SLUICE_FORM_JPEG_CROP);
    sluice_sample_clear(&rows);
    sluice_sample_clear(&whole);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(only_a_file_with_an_index_has_rows)
{
    static const char *const specs[] = {"decode,to_tensor",
                                        "decode,exif_transpose,random_resized_crop=24"};
    struct sluice_buf *file = make_jpeg(&(struct sluice_jpeg_encode_options){0});
    for (size_t s = 0; s < SLUICE_ARRAY_LEN(specs); s++) {
        struct sluice_pipeline *p = run_test_parse(specs[s]);
        struct sluice_sample sample = indexed_sample(file, 0);
        CU_ASSERT(!sluice_pipeline_can_take_rows(p));
        CU_ASSERT_EQUAL(sluice_pipeline_take_rows(p, NULL, &sample, NULL), SLUICE_E_INVALID);
        sample.coding = sluice_form_type(SLUICE_FORM_JPEG_ROWS); /* as a server may say */
        CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, 0, NULL), SLUICE_E_CORRUPT);
        sluice_sample_clear(&sample);
        sluice_pipeline_destroy(p);
    }
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_sample plain = run_test_sample(file, 0), rows = taken(p, file);
    CU_ASSERT(sluice_pipeline_can_take_rows(p));
    CU_ASSERT_EQUAL(sluice_pipeline_take_rows(p, NULL, &plain, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_take_rows(p, NULL, &rows, NULL), SLUICE_E_INVALID);
    CU_ASSERT(sluice_sample_form(&rows) == SLUICE_FORM_JPEG_ROWS);
    sluice_sample_clear(&plain);
    sluice_sample_clear(&rows);
    sluice_pipeline_destroy(p);
    sluice_buf_unref(file);
}

TEST(opening_leaves_all_else_alone)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = make_jpeg(&(struct sluice_jpeg_encode_options){0});
    struct sluice_sample plain = run_test_sample(file, 0), rows = taken(p, file);
    CHECK_OK(sluice_sample_open(p, scratch, &plain, NULL));
    CU_ASSERT(plain.data == file && !plain.jpeg_index);
    /* What is no such form stays as it came, and gives no pixels. */
    plain.coding = sluice_form_type(SLUICE_FORM_JPEG_ROWS);
    CU_ASSERT_EQUAL(sluice_sample_open(p, scratch, &plain, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &plain, 2, NULL), SLUICE_E_CORRUPT);
    CU_ASSERT(sluice_sample_form(&plain) == SLUICE_FORM_JPEG_ROWS && plain.data == file &&
              plain.ops_done == 0);
    const size_t len = rows.data->len;
    CHECK_OK(sluice_sample_open(p, scratch, &rows, NULL));
    CU_ASSERT(!rows.coding && rows.data->len < len);
    CU_ASSERT_PTR_NOT_NULL_FATAL(rows.jpeg_index);
    CU_ASSERT(rows.jpeg_index->is_partial);
    CHECK_OK(sluice_sample_open(p, scratch, &rows, NULL));
    sluice_sample_clear(&plain);
    sluice_sample_clear(&rows);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}
