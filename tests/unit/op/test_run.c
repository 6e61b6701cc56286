#include "op/pipeline.h"

#include "base/buf.h"
#include "run_support.h"
#include "support/test.h"

#include <math.h>

TEST(each_split_has_its_kind_and_size)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(40, 30);
    static const size_t bytes[] = {0,           40 * 30 * 3,  24 * 24 * 3,
                                   24 * 24 * 3, 24 * 24 * 12, 24 * 24 * 12};
    struct sluice_sample sample = run_test_sample(file, 0);
    for (unsigned end = 1; end <= 5; end++) {
        CHECK_OK(sluice_pipeline_run(p, scratch, &sample, end, NULL));
        CU_ASSERT_EQUAL(sample.ops_done, end);
        CU_ASSERT_EQUAL(sample.kind, sluice_pipeline_kind(p, end));
        CU_ASSERT_EQUAL(sample.data->len, bytes[end]);
        CU_ASSERT_EQUAL(sample.channels, 3);
        CHECK_OK(sluice_pipeline_check_sample(p, &sample, 0, NULL));
        /* Nothing left to do is done at once. */
        CHECK_OK(sluice_pipeline_run(p, scratch, &sample, end, NULL));
    }
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 4, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 6, NULL), SLUICE_E_INVALID);
    sluice_sample_clear(&sample);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_scratch_destroy(NULL);
    sluice_pipeline_destroy(p);
}

TEST(finish_clears_the_sample_on_success)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(40, 30);
    float *out = malloc(sluice_pipeline_output_bytes(p));
    struct sluice_sample sample = run_test_sample(file, 0);
    CHECK_OK(
        sluice_pipeline_finish(p, scratch, &sample, out, sluice_pipeline_output_bytes(p), NULL));
    CU_ASSERT_PTR_NULL(sample.data);
    CU_ASSERT_EQUAL(sample.ops_done, 0);
    free(out);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(finish_wants_the_exact_output_size)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN),
                           *open_ended = run_test_parse("decode,hflip,to_tensor");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(40, 30);
    struct sluice_sample sample = run_test_sample(file, 0);
    uint8_t out[16];
    CU_ASSERT_EQUAL(sluice_pipeline_finish(p, scratch, &sample, out, 16, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_finish_u8(p, scratch, &sample, out, 16, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_finish(open_ended, scratch, &sample, out, 0, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_finish_u8(open_ended, scratch, &sample, out, 0, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_EQUAL(sample.data, file);
    uint8_t *own = malloc(40 * 30 * 3);
    CU_ASSERT_EQUAL(
        sluice_pipeline_finish_u8(open_ended, scratch, &sample, own, 40 * 30 * 3 - 3, NULL),
        SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_pipeline_finish_u8(open_ended, scratch, &sample, own, 40 * 30 * 3, NULL),
                    SLUICE_OK);
    free(own);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(open_ended);
    sluice_pipeline_destroy(p);
}

TEST(a_failed_op_leaves_the_sample_as_it_was)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(40, 30);
    file->len /= 2;
    struct sluice_sample sample = run_test_sample(file, 0);
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 5, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_NOT_EQUAL(err.text[0], 0);
    CU_ASSERT_EQUAL(sample.ops_done, 0);
    CU_ASSERT_EQUAL(sample.kind, SLUICE_KIND_FILE);
    CU_ASSERT_PTR_EQUAL(sample.data, file);
    sluice_sample_clear(&sample);

    memset(file->data, 'x', file->len);
    sample = run_test_sample(file, 0);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 5, NULL), SLUICE_E_UNSUPPORTED);
    sluice_sample_clear(&sample);
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(sizes_are_checked_before_memory_is_taken)
{
    struct sluice_buf *file = run_test_file(40, 30);
    const struct sluice_scratch_options options = {.max_image_pixels = 40 * 30 - 1};
    struct sluice_scratch *scratch = run_test_scratch(&options);
    struct sluice_pipeline *p = run_test_parse("decode,resize=256");
    struct sluice_sample sample = run_test_sample(file, 0);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 1, NULL), SLUICE_E_UNSUPPORTED);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);

    /* 40 x 30 passes, what resize makes of it does not; the decoded image stays. */
    const struct sluice_scratch_options larger = {.max_image_pixels = 40 * 30};
    scratch = run_test_scratch(&larger);
    sample = run_test_sample(file, 0);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 2, NULL), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(sample.ops_done, 1);
    CU_ASSERT_EQUAL(sample.width, 40);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_buf_unref(file);

    /* 1 x 300 at a shorter side of 256 would be 76,800 pixels high. */
    scratch = run_test_scratch(NULL);
    file = run_test_file(1, 300);
    sample = run_test_sample(file, 0);
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "256 x 76800",
                sluice_pipeline_run(p, scratch, &sample, 2, sluice_test_err()));
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
    sluice_buf_unref(file);
}

TEST(a_sample_must_be_what_its_split_can_be)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN),
                           *val = run_test_parse("decode,resize=20,center_crop=24");
    static const struct {
        bool is_val;
        unsigned ops_done;
        enum sluice_kind kind;
        uint32_t width, height;
        size_t len;
        sluice_status status;
    } cases[] = {
        {false, 0, SLUICE_KIND_FILE, 0, 0, 5, SLUICE_OK},
        {false, 0, SLUICE_KIND_FILE, 0, 0, 0, SLUICE_OK},
        {false, 0, SLUICE_KIND_FILE, 1, 0, 5, SLUICE_E_CORRUPT},
        {false, 0, SLUICE_KIND_U8, 1, 1, 3, SLUICE_E_CORRUPT},
        {false, 1, SLUICE_KIND_U8, 7, 5, 105, SLUICE_OK},
        {false, 1, SLUICE_KIND_U8, 7, 5, 104, SLUICE_E_CORRUPT},
        {false, 1, SLUICE_KIND_U8, 7, 5, 106, SLUICE_E_CORRUPT},
        {false, 1, SLUICE_KIND_U8, 0, 5, 0, SLUICE_E_CORRUPT},
        {false, 1, SLUICE_KIND_U8, 65536, 1, 196608, SLUICE_E_CORRUPT},
        {false, 1, SLUICE_KIND_U8, 1000, 3, 9000, SLUICE_OK},
        {false, 1, SLUICE_KIND_U8, 1001, 3, 9009, SLUICE_E_CORRUPT}, /* over 3,000 pixels */
        {false, 1, SLUICE_KIND_FILE, 0, 0, 105, SLUICE_E_CORRUPT},
        {false, 2, SLUICE_KIND_U8, 24, 24, 1728, SLUICE_OK},
        {false, 2, SLUICE_KIND_U8, 24, 23, 1656, SLUICE_E_CORRUPT},
        {false, 3, SLUICE_KIND_U8, 24, 24, 1728, SLUICE_OK},
        {false, 3, SLUICE_KIND_F32, 24, 24, 6912, SLUICE_E_CORRUPT},
        {false, 4, SLUICE_KIND_F32, 24, 24, 6912, SLUICE_OK},
        {false, 5, SLUICE_KIND_F32, 24, 24, 6912, SLUICE_OK},
        {false, 5, SLUICE_KIND_F32, 24, 24, 1728, SLUICE_E_CORRUPT},
        {false, 6, SLUICE_KIND_F32, 24, 24, 6912, SLUICE_E_CORRUPT},
        {true, 2, SLUICE_KIND_U8, 20, 31, 1860, SLUICE_OK},
        {true, 2, SLUICE_KIND_U8, 31, 20, 1860, SLUICE_OK},
        {true, 2, SLUICE_KIND_U8, 31, 21, 1953, SLUICE_E_CORRUPT},
        {true, 3, SLUICE_KIND_U8, 24, 24, 1728, SLUICE_OK},
        {true, 3, SLUICE_KIND_U8, 20, 24, 1440, SLUICE_E_CORRUPT},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_sample sample = run_test_zeroes(
            cases[i].ops_done, cases[i].kind, cases[i].width, cases[i].height, cases[i].len);
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(
            sluice_pipeline_check_sample(cases[i].is_val ? val : p, &sample, 3000, &err),
            cases[i].status);
        CU_ASSERT_EQUAL(err.text[0] != 0, cases[i].status != SLUICE_OK);
        sluice_sample_clear(&sample);
    }
    struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, 2, 2, 12);
    sample.channels = 4;
    CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, 0, NULL), SLUICE_E_CORRUPT);
    sluice_sample_clear(&sample);
    CU_ASSERT_EQUAL(sluice_pipeline_check_sample(p, &sample, 0, NULL), SLUICE_E_CORRUPT);

    /* A sample that is not is refused before any op reads it. */
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    sample = run_test_zeroes(2, SLUICE_KIND_U8, 24, 24, 24);
    CU_ASSERT_EQUAL(sluice_pipeline_run(p, scratch, &sample, 5, NULL), SLUICE_E_CORRUPT);
    float out[24 * 24 * 3];
    CU_ASSERT_EQUAL(sluice_pipeline_finish(p, scratch, &sample, out, sizeof(out), NULL),
                    SLUICE_E_CORRUPT);
    sluice_sample_clear(&sample);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(val);
    sluice_pipeline_destroy(p);
}

TEST(a_float_from_no_pixel_is_corrupt)
{
    struct sluice_pipeline *p = run_test_parse("decode,center_crop=2,to_tensor,normalize=imagenet");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    const sluice_pipeline_table *table = sluice_pipeline_tail_table(p);
    const float bad[] = {
        nextafterf((*table)[0][100], 9),
        nextafterf((*table)[0][0], -9),
        NAN,
        INFINITY,
        -INFINITY,
        nextafterf((*table)[0][255], 9),
        1e30f,
        -1e30f,
    };
    for (size_t i = 0; i <= SLUICE_ARRAY_LEN(bad); i++) {
        for (unsigned place = 0; place < 12; place += 4) {
            struct sluice_sample sample = run_test_zeroes(4, SLUICE_KIND_F32, 2, 2, 48);
            float *values = (float *)(void *)sample.data->data;
            for (unsigned k = 0; k < 12; k++)
                values[k] = (*table)[k / 4][k * 21];
            if (i < SLUICE_ARRAY_LEN(bad))
                values[place] = bad[i];
            uint8_t out[12];
            const sluice_status status =
                sluice_pipeline_finish_u8(p, scratch, &sample, out, sizeof(out), NULL);
            if (i < SLUICE_ARRAY_LEN(bad)) {
                /* Another channel's value cannot be in this one's table by chance here. */
                CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
                CU_ASSERT_PTR_NOT_NULL(sample.data);
            } else {
                CHECK_OK(status);
                for (unsigned k = 0; k < 12; k++)
                    CU_ASSERT_EQUAL(out[3 * (k % 4) + k / 4], k * 21);
            }
            sluice_sample_clear(&sample);
        }
    }
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(p);
}

TEST(op_times_are_kept_when_asked_for)
{
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    const struct sluice_scratch_options options = {.measure_ops = true};
    struct sluice_scratch *measured = run_test_scratch(&options), *plain = run_test_scratch(NULL);
    struct sluice_buf *file = run_test_file(300, 200);
    bool was_flipped = false;
    for (uint64_t id = 0; id < 8; id++) {
        struct sluice_sample sample = run_test_sample(file, id);
        const bool flip = sluice_pipeline_draws(p, &sample.key, 300, 200).flip;
        CHECK_OK(sluice_pipeline_run(p, measured, &sample, 5, NULL));
        for (unsigned op = 0; op < 5; op++)
            CU_ASSERT_EQUAL(sluice_scratch_op_ns(measured, op) > 0, op != 2 || flip);
        was_flipped = was_flipped || flip;
        sluice_sample_clear(&sample);

        sample = run_test_sample(file, id);
        CHECK_OK(sluice_pipeline_run(p, plain, &sample, 5, NULL));
        for (unsigned op = 0; op < 5; op++)
            CU_ASSERT_EQUAL(sluice_scratch_op_ns(plain, op), 0);
        sluice_sample_clear(&sample);
    }
    CU_ASSERT_TRUE(was_flipped);
    CU_ASSERT_EQUAL(sluice_scratch_op_ns(measured, SLUICE_PIPELINE_MAX_OPS), 0);
    sluice_buf_unref(file);
    sluice_scratch_destroy(plain);
    sluice_scratch_destroy(measured);
    sluice_pipeline_destroy(p);
}

TEST(a_pool_gets_every_buffer_back)
{
    struct sluice_buf_pool *pool = NULL;
    REQUIRE_OK(sluice_buf_pool_create(1 << 20, &pool, NULL));
    const struct sluice_scratch_options options = {.pool = pool};
    struct sluice_scratch *scratch = run_test_scratch(&options);
    struct sluice_pipeline *p = run_test_parse(TRAIN);
    struct sluice_buf *file = run_test_file(40, 30);
    for (unsigned end = 1; end <= 5; end++) {
        struct sluice_sample sample = run_test_sample(file, end);
        CHECK_OK(sluice_pipeline_run(p, scratch, &sample, end, NULL));
        CU_ASSERT_PTR_EQUAL(sample.data->pool, pool);
        sluice_sample_clear(&sample);
    }
    sluice_buf_unref(file);
    sluice_pipeline_destroy(p);
    sluice_scratch_destroy(scratch);
    sluice_buf_pool_destroy(pool); /* a leak would show under asan */
}
