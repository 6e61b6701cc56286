#include "run_support.h"

#include "op/op.h"
#include "support/test.h"

#define END ",resize=8x8"
#define DETR "decode,random_size_crop=384-600:shorter=400-600/3"

static struct sluice_resample draw(const struct sluice_pipeline *pipeline, uint64_t id,
                                   uint32_t width, uint32_t height)
{
    return run_test_draw(pipeline, 1, id, width, height).resample;
}

/* RandomSelect, RandomResize([400, 500, 600]) and RandomSizeCrop(384, 600). */
TEST(half_of_the_images_are_resized_and_cut)
{
    enum { NUM = 3000 };
    struct sluice_pipeline *pipeline = run_test_parse(DETR END);
    unsigned num_plain = 0, shorter[3] = {0};
    double sum_width = 0, sum_left = 0;
    for (uint64_t id = 0; id < NUM; id++) {
        const struct sluice_resample r = draw(pipeline, id, 640, 480);
        CU_ASSERT(r.from.width == 640 && r.from.height == 480);
        CU_ASSERT(r.out.width == r.keep.width && r.out.height == r.keep.height);
        if (r.to.height == 480) { /* none of the three */
            CU_ASSERT(r.out.width == 640 && r.out.height == 480);
            num_plain++;
            continue;
        }
        CU_ASSERT_FATAL(r.to.height >= 400 && r.to.height <= 600 && r.to.height % 100 == 0);
        shorter[(r.to.height - 400) / 100]++;
        CU_ASSERT_EQUAL(r.to.width, r.to.height * 4 / 3);
        const uint32_t widest = r.to.width < 600 ? r.to.width : 600;
        CU_ASSERT(r.keep.width >= 384 && r.keep.width <= widest);
        CU_ASSERT(r.keep.height >= 384 && r.keep.height <= r.to.height);
        CU_ASSERT(r.keep.left + r.keep.width <= r.to.width);
        CU_ASSERT(r.keep.top + r.keep.height <= r.to.height);
        sum_width += (r.keep.width - 384.0) / (widest - 384.0);
        sum_left +=
            r.to.width == r.keep.width ? 0.5 : r.keep.left / (double)(r.to.width - r.keep.width);
    }
    const double num = NUM - num_plain;
    CU_ASSERT(num > 0.45 * NUM && num < 0.55 * NUM);
    for (int i = 0; i < 3; i++)
        CU_ASSERT(shorter[i] > 0.29 * num && shorter[i] < 0.38 * num);
    CU_ASSERT(sum_width > 0.47 * num && sum_width < 0.53 * num);
    CU_ASSERT(sum_left > 0.47 * num && sum_left < 0.53 * num);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_side_below_the_least_stays)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,random_size_crop=50-60:shorter=40:p=1" END);
    for (uint64_t id = 0; id < 50; id++) {
        const struct sluice_resample r = draw(pipeline, id, 100, 50);
        CU_ASSERT(r.to.width == 80 && r.to.height == 40);
        CU_ASSERT(r.keep.height == 40 && r.keep.top == 0);
        CU_ASSERT(r.keep.width >= 50 && r.keep.width <= 60);
    }
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_such_crop_is_refused)
{
    static const char *const texts[] = {
        "decode,random_size_crop=384-600" END,
        "decode,random_size_crop=600-384:shorter=400" END,
        "decode,random_size_crop=38.5-600:shorter=400" END,
        "decode,random_size_crop=384-600:shorter=~400" END,
        "decode,random_size_crop=384-600:shorter=400:p=2" END,
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    CHECK_FAILS(SLUICE_E_INVALID, "(random_size_crop): its size is drawn",
                sluice_pipeline_check(DETR, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "(random_size_crop): its size is drawn",
                sluice_pipeline_check(DETR ",random_resize=480-800/11", sluice_test_err()));
    CHECK_OK(sluice_pipeline_check(DETR ",random_resize=480-800/11:max=1333,hflip", NULL));
}
