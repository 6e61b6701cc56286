#include "run_support.h"

#include "support/test.h"

#include <math.h>

static struct sluice_box draw(const struct sluice_pipeline *pipeline, uint64_t id, uint32_t width,
                              uint32_t height)
{
    const struct sluice_resample resample = run_test_draw(pipeline, 1, id, width, height).resample;
    CU_ASSERT(resample.to.width == 8 && resample.to.height == 8);
    CU_ASSERT(resample.out.width == 8 && resample.out.height == 8);
    return resample.from;
}

TEST(boxes_lie_in_the_image_and_have_area_and_ratio)
{
    struct sluice_pipeline *op = run_test_parse("decode,random_resized_crop=8");
    double sum_scale = 0, sum_log_ratio = 0;
    const int n = 20000;
    for (int i = 0; i < n; i++) {
        const struct sluice_box box = draw(op, (uint64_t)i, 1600, 1500);
        CU_ASSERT(box.width >= 1 && box.height >= 1);
        CU_ASSERT(box.left + box.width <= 1600 && box.top + box.height <= 1500);
        const double ratio = (double)box.width / box.height;
        const double scale = (double)box.width * box.height / (1600.0 * 1500.0);
        CU_ASSERT(ratio > 0.745 && ratio < 1.34);
        CU_ASSERT(scale > 0.0795 && scale <= 1);
        sum_scale += scale;
        sum_log_ratio += log(ratio);
    }
    /* Uniform in area but for the boxes that do not fit; log ratios symmetric around 1. */
    CU_ASSERT(sum_scale / n > 0.45 && sum_scale / n < 0.54);
    CU_ASSERT_DOUBLE_EQUAL(sum_log_ratio / n, 0, 0.01);
    sluice_pipeline_destroy(op);
}

TEST(places_are_uniform_in_what_is_left)
{
    struct sluice_pipeline *op =
        run_test_parse("decode,random_resized_crop=8:scale=0.25-0.25:ratio=1-1");
    double sum_top = 0, sum_left = 0;
    uint32_t max_top = 0, max_left = 0;
    const int n = 20000;
    for (int i = 0; i < n; i++) {
        const struct sluice_box box = draw(op, (uint64_t)i, 20, 20);
        CU_ASSERT(box.width == 10 && box.height == 10);
        sum_top += box.top;
        sum_left += box.left;
        max_top = box.top > max_top ? box.top : max_top;
        max_left = box.left > max_left ? box.left : max_left;
    }
    CU_ASSERT_DOUBLE_EQUAL(sum_top / n, 5, 0.15);
    CU_ASSERT_DOUBLE_EQUAL(sum_left / n, 5, 0.15);
    CU_ASSERT(max_top == 10 && max_left == 10);
    sluice_pipeline_destroy(op);
}

TEST(after_ten_tries_the_central_box_is_taken)
{
    /* The whole area at these ratios never fits into strips. */
    struct sluice_pipeline *op = run_test_parse("decode,random_resized_crop=8:scale=1-1");
    struct sluice_box box = draw(op, 0, 3, 500);
    CU_ASSERT(box.width == 3 && box.height == 4 && box.left == 0 && box.top == 248);
    box = draw(op, 0, 500, 3);
    CU_ASSERT(box.width == 4 && box.height == 3 && box.left == 248 && box.top == 0);

    /* Within the bounds of the ratio, but all ten tries ask for other ratios: the whole image. */
    struct sluice_pipeline *sharp =
        run_test_parse("decode,random_resized_crop=8:scale=1-1:ratio=0.5-2");
    unsigned num_whole = 0;
    for (uint64_t id = 0; id < 50; id++) {
        box = draw(sharp, id, 1000, 1000);
        num_whole += box.width == 1000 && box.height == 1000;
    }
    CU_ASSERT(num_whole > 45);

    /* Bounds so far out that a side would round to nothing. */
    struct sluice_pipeline *extreme =
        run_test_parse("decode,random_resized_crop=8:scale=1-1:ratio=100-200");
    box = draw(extreme, 0, 1, 1);
    CU_ASSERT(box.width == 1 && box.height == 1 && box.left == 0 && box.top == 0);
    sluice_pipeline_destroy(op);
    sluice_pipeline_destroy(sharp);
    sluice_pipeline_destroy(extreme);
}

TEST(one_pixel_is_a_box)
{
    struct sluice_pipeline *op = run_test_parse("decode,random_resized_crop=8");
    for (uint64_t id = 0; id < 100; id++) {
        const struct sluice_box box = draw(op, id, 1, 1);
        CU_ASSERT(box.width == 1 && box.height == 1 && box.left == 0 && box.top == 0);
    }
    sluice_pipeline_destroy(op);
}
