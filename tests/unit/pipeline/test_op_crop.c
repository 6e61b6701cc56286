#include "pipeline/exact_math.h"
#include "pipeline/op.h"

#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct sluice_op make_crop(double scale_min, double scale_max, double ratio_min,
                                  double ratio_max)
{
    return (struct sluice_op){
        .kind = &sluice_op_random_resized_crop,
        .size = 8,
        .scale_min = scale_min,
        .scale_max = scale_max,
        .ratio_min = ratio_min,
        .ratio_max = ratio_max,
        .log_ratio_min = sluice_exact_log(ratio_min),
        .log_ratio_max = sluice_exact_log(ratio_max),
    };
}

static struct sluice_draws draw(const struct sluice_op *op, uint64_t id, uint32_t width,
                                uint32_t height)
{
    const struct sluice_draw_key key = {.seed = sluice_test_seed(), .epoch = 1, .sample_id = id};
    return sluice_crop_draw(op, &key, 1, (struct sluice_size){width, height});
}

static void boxes_lie_in_the_image_and_have_area_and_ratio(void)
{
    const struct sluice_op op = make_crop(0.08, 1, 3.0 / 4, 4.0 / 3);
    double sum_scale = 0, sum_log_ratio = 0;
    const int n = 20000;
    for (int i = 0; i < n; i++) {
        const struct sluice_draws box = draw(&op, (uint64_t)i, 1600, 1500);
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
}

static void places_are_uniform_in_what_is_left(void)
{
    const struct sluice_op op = make_crop(0.25, 0.25, 1, 1);
    double sum_top = 0, sum_left = 0;
    uint32_t max_top = 0, max_left = 0;
    const int n = 20000;
    for (int i = 0; i < n; i++) {
        const struct sluice_draws box = draw(&op, (uint64_t)i, 20, 20);
        CU_ASSERT(box.width == 10 && box.height == 10);
        sum_top += box.top;
        sum_left += box.left;
        max_top = box.top > max_top ? box.top : max_top;
        max_left = box.left > max_left ? box.left : max_left;
    }
    CU_ASSERT_DOUBLE_EQUAL(sum_top / n, 5, 0.15);
    CU_ASSERT_DOUBLE_EQUAL(sum_left / n, 5, 0.15);
    CU_ASSERT(max_top == 10 && max_left == 10);
}

static void after_ten_tries_the_central_box_is_taken(void)
{
    /* The whole area at these ratios never fits into strips. */
    const struct sluice_op op = make_crop(1, 1, 3.0 / 4, 4.0 / 3);
    struct sluice_draws box = draw(&op, 0, 3, 500);
    CU_ASSERT(box.width == 3 && box.height == 4 && box.left == 0 && box.top == 248);
    box = draw(&op, 0, 500, 3);
    CU_ASSERT(box.width == 4 && box.height == 3 && box.left == 248 && box.top == 0);

    /* Within the bounds of the ratio, but all ten tries ask for other ratios: the whole image. */
    const struct sluice_op sharp = make_crop(1, 1, 0.5, 2);
    unsigned num_whole = 0;
    for (uint64_t id = 0; id < 50; id++) {
        box = draw(&sharp, id, 1000, 1000);
        num_whole += box.width == 1000 && box.height == 1000;
    }
    CU_ASSERT(num_whole > 45);

    /* Bounds so far out that a side would round to nothing. */
    const struct sluice_op extreme = make_crop(1, 1, 100, 200);
    box = draw(&extreme, 0, 1, 1);
    CU_ASSERT(box.width == 1 && box.height == 1 && box.left == 0 && box.top == 0);
}

static void one_pixel_is_a_box(void)
{
    const struct sluice_op op = make_crop(0.08, 1, 3.0 / 4, 4.0 / 3);
    for (uint64_t id = 0; id < 100; id++) {
        const struct sluice_draws box = draw(&op, id, 1, 1);
        CU_ASSERT(box.width == 1 && box.height == 1 && box.left == 0 && box.top == 0);
    }
}

/* torchvision's center_crop as its source reads, pixel by pixel: pad, then cut. */
static uint8_t centre_pixel(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t size,
                            uint32_t x, uint32_t y, unsigned c)
{
    const uint32_t pad_left = size > width ? (size - width) / 2 : 0;
    const uint32_t pad_top = size > height ? (size - height) / 2 : 0;
    const uint32_t padded_width = size > width ? size : width;
    const uint32_t padded_height = size > height ? size : height;
    const long long left = llrint((padded_width - size) / 2.0);
    const long long top = llrint((padded_height - size) / 2.0);
    const long long from_x = x + left - pad_left, from_y = y + top - pad_top;
    if (from_x < 0 || from_y < 0 || from_x >= width || from_y >= height)
        return 0;
    return pixels[((size_t)from_y * width + (size_t)from_x) * 3 + c];
}

static void center_crop_is_pad_and_cut(void)
{
    enum { MAX = 9 };
    uint8_t pixels[MAX * MAX * 3], out[MAX * MAX * 3];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i % 255 + 1);
    for (uint32_t width = 1; width <= MAX; width++) {
        for (uint32_t height = 1; height <= MAX; height++) {
            for (uint32_t size = 1; size <= MAX; size++) {
                const struct sluice_op op = {.kind = &sluice_op_center_crop, .size = size};
                const struct sluice_image_view view = {pixels, width * 3, width, height};
                const struct sluice_size out_size =
                    op.kind->out_size(&op, (struct sluice_size){width, height});
                CU_ASSERT(out_size.width == size && out_size.height == size);
                for (int flip = 0; flip < 2; flip++) {
                    memset(out, 0xee, sizeof(out));
                    CU_ASSERT_EQUAL(op.kind->apply(&op, NULL, &view, flip, out, NULL), SLUICE_OK);
                    bool is_equal = true;
                    for (uint32_t y = 0; y < size; y++) {
                        for (uint32_t x = 0; x < size; x++) {
                            const uint32_t from = flip ? size - 1 - x : x;
                            for (unsigned c = 0; c < 3; c++)
                                is_equal = is_equal && out[(y * size + x) * 3 + c] ==
                                                           centre_pixel(pixels, width, height, size,
                                                                        from, y, c);
                        }
                    }
                    CU_ASSERT(is_equal);
                }
            }
        }
    }
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(boxes_lie_in_the_image_and_have_area_and_ratio),
        SLUICE_TEST(places_are_uniform_in_what_is_left),
        SLUICE_TEST(after_ten_tries_the_central_box_is_taken),
        SLUICE_TEST(one_pixel_is_a_box),
        SLUICE_TEST(center_crop_is_pad_and_cut),
    };
    return sluice_test_run("op_crop", tests, SLUICE_TEST_COUNT(tests));
}
