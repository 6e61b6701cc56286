#include "run_support.h"

#include "op/op.h"
#include "support/test.h"

#define RT_DETR "decode,hflip,multi_scale=480-800/11:base=640:weight=3:epochs=epoch<71"

static struct sluice_resample draw(const struct sluice_pipeline *pipeline, uint32_t bucket,
                                   uint32_t epoch, uint32_t width, uint32_t height)
{
    const struct sluice_draw_key key = {.schedule = epoch, .bucket = bucket};
    union sluice_drawn drawn;
    sluice_op_draw(run_test_op(pipeline, sluice_pipeline_num_ops(pipeline) - 1), &key,
                   (struct sluice_size){width, height}, &drawn);
    return drawn.resample;
}

TEST(the_buckets_are_the_squares)
{
    struct sluice_pipeline *pipeline = run_test_parse(RT_DETR);
    CU_ASSERT(sluice_pipeline_draws_bucket(pipeline));
    CU_ASSERT_EQUAL_FATAL(sluice_pipeline_num_buckets(pipeline), 11);
    CU_ASSERT_EQUAL(sluice_pipeline_u8_bytes(pipeline), 0);
    CU_ASSERT_EQUAL(sluice_pipeline_most_u8_bytes(pipeline), 800u * 800 * 3);
    for (unsigned i = 0; i < 11; i++) {
        const struct sluice_size size = sluice_pipeline_bucket_size(pipeline, i);
        CU_ASSERT(size.width == 480 + 32 * i && size.height == size.width);
        const struct sluice_resample r = draw(pipeline, i, 0, 333, 500);
        CU_ASSERT(r.out.width == size.width && r.out.height == size.height);
        CU_ASSERT(r.to.width == size.width && r.keep.height == size.height);
        CU_ASSERT(r.from.width == 333 && r.from.height == 500);
    }
    /* Numbers from outside that it does not have are the base. */
    CU_ASSERT_EQUAL(draw(pipeline, 11, 0, 9, 9).out.width, 640);
    CU_ASSERT_EQUAL(draw(pipeline, UINT32_MAX, 0, 9, 9).out.width, 640);
    sluice_pipeline_destroy(pipeline);
    struct sluice_pipeline *other = run_test_parse("decode,fit_bucket=20x30/30x20");
    CU_ASSERT_FALSE(sluice_pipeline_draws_bucket(other));
    sluice_pipeline_destroy(other);
}

/* 3 in 13 for the base, and 1 in 13 for each other, as in RT-DETR's list. */
TEST(each_batch_draws_a_size)
{
    enum { NUM = 13000 };
    struct sluice_pipeline *pipeline = run_test_parse(RT_DETR);
    unsigned counts[11] = {0}, num_same = 0;
    for (uint64_t batch = 0; batch < NUM; batch++) {
        const unsigned bucket = sluice_pipeline_draw_bucket(pipeline, sluice_test_seed(), 5, batch);
        CU_ASSERT_EQUAL_FATAL(bucket,
                              sluice_pipeline_draw_bucket(pipeline, sluice_test_seed(), 5, batch));
        counts[bucket]++;
        num_same += bucket == sluice_pipeline_draw_bucket(pipeline, sluice_test_seed(), 6, batch);
    }
    for (unsigned i = 0; i < 11; i++) {
        const unsigned want = i == 5 ? NUM * 3 / 13 : NUM / 13;
        CU_ASSERT(counts[i] > want * 0.85 && counts[i] < want * 1.15);
    }
    CU_ASSERT(num_same > NUM / 13 && num_same < NUM / 5); /* (9 + 10) / 169 */
    sluice_pipeline_destroy(pipeline);
}

TEST(in_other_epochs_it_is_the_base)
{
    struct sluice_pipeline *pipeline = run_test_parse(RT_DETR);
    CU_ASSERT(sluice_pipeline_has_schedule(pipeline));
    unsigned num_others = 0;
    for (uint64_t batch = 0; batch < 100; batch++) {
        num_others += sluice_pipeline_draw_bucket(pipeline, 1, 70, batch) != 5;
        CU_ASSERT_EQUAL(sluice_pipeline_draw_bucket(pipeline, 1, 71, batch), 5);
    }
    CU_ASSERT(num_others > 50);
    /* The batch has drawn: whatever the epoch, its samples follow it. */
    CU_ASSERT_EQUAL(draw(pipeline, 2, 90, 9, 9).out.width, 544);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_letterbox_keeps_proportions)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,multi_scale=320-640/3:base=640:fit=letterbox:fill=114");
    struct sluice_pipeline *fixed = run_test_parse("decode,letterbox=480:fill=114");
    static const struct sluice_size sizes[] = {{640, 480}, {333, 500}, {480, 480}, {1, 700}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const struct sluice_resample a = draw(pipeline, 1, 0, sizes[i].width, sizes[i].height);
        const struct sluice_resample b = draw(fixed, 1, 0, sizes[i].width, sizes[i].height);
        CU_ASSERT(a.to.width == b.to.width && a.to.height == b.to.height);
        CU_ASSERT(a.keep.width == b.keep.width && a.keep.height == b.keep.height);
        CU_ASSERT(a.out.width == b.out.width && a.out.height == b.out.height);
        CU_ASSERT(a.left == b.left && a.top == b.top && a.padding.color[1] == 114);
    }
    sluice_pipeline_destroy(pipeline);
    sluice_pipeline_destroy(fixed);
}

static void check_base(const char *spec, const char *want)
{
    char text[100];
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    sluice_pipeline_print_base(pipeline, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, want);
    sluice_pipeline_destroy(pipeline);
    char whole[200];
    snprintf(whole, sizeof(whole), "decode,%s", text);
    CHECK_OK(sluice_pipeline_check(whole, NULL));
}

TEST(evaluation_has_the_base)
{
    check_base(RT_DETR, "resize=640x640:filter=bilinear");
    check_base("decode,multi_scale=32-96/3:base=96:filter=bicubic:fit=letterbox:fill=1/2/3",
               "letterbox=96:filter=bicubic:fill=1/2/3");
}

TEST(what_is_no_multi_scale_is_refused)
{
    static const char *const texts[] = {
        "decode,multi_scale=480-800/11",
        "decode,multi_scale=480-800/11:base=650",
        "decode,multi_scale=480-800:base=480",
        "decode,multi_scale=480-800/12:base=480",
        "decode,multi_scale=480:base=480",
        "decode,multi_scale=0-96/4:base=96",
        "decode,multi_scale=1-130/130:base=1",
        "decode,multi_scale=~480-800/11:base=640",
        "decode,multi_scale=480-480/2:base=480",
        "decode,multi_scale=32-96/3:base=64:weight=0",
        "decode,multi_scale=32-96/3:base=64:fit=crop",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    static const char *const others[] = {
        "decode,multi_scale=32-96/3:base=64,center_crop=32",
        "decode,multi_scale=32-96/3:base=64,multi_scale=32-96/3:base=64",
        "decode,multi_scale=32-96/3:base=64,fit_bucket=20x30/30x20",
        "decode,multi_scale=32-96/3:base=64,views([center_crop=9])",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++)
        CHECK_FAILS(SLUICE_E_INVALID, "(multi_scale): its size is drawn for each batch",
                    sluice_pipeline_check(others[i], sluice_test_err()));
    CHECK_FAILS(
        SLUICE_E_INVALID, "a view ends in a fixed size",
        sluice_pipeline_check("decode,views([multi_scale=32-96/3:base=64])", sluice_test_err()));
}
