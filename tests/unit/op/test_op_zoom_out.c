#include "run_support.h"

#include "op/op.h"
#include "support/test.h"

#define END ",resize=8x8"

static struct sluice_resample draw(const char *spec, uint64_t id, uint32_t width, uint32_t height)
{
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    const struct sluice_resample drawn = run_test_draw(pipeline, 1, id, width, height).resample;
    sluice_pipeline_destroy(pipeline);
    return drawn;
}

TEST(the_image_lies_anywhere_in_a_canvas_of_its_proportions)
{
    enum { NUM = 2000 };
    unsigned num_plain = 0;
    double sum = 0, sum_left = 0, sum_top = 0;
    for (uint64_t id = 0; id < NUM; id++) {
        const struct sluice_resample r = draw("decode,zoom_out" END, id, 1000, 700);
        CU_ASSERT(r.keep.width == 1000 && r.keep.height == 700);
        CU_ASSERT(r.out.width >= 1000 && r.out.width < 4000);
        CU_ASSERT(r.left + 1000 <= r.out.width && r.top + 700 <= r.out.height);
        const double by = r.out.width / 1000.0;
        CU_ASSERT(r.out.height >= 700 * by - 1 && r.out.height <= 700 * (by + 0.001));
        num_plain += r.out.width == 1000;
        if (r.out.width < 1500)
            continue;
        sum += by;
        sum_left += r.left / (r.out.width - 1000.0);
        sum_top += r.top / (r.out.height - 700.0);
    }
    const double num = sum / 2.75; /* the mean of 1.5 to 4 */
    CU_ASSERT(num_plain > NUM * 0.45 && num_plain < NUM * 0.55);
    CU_ASSERT(num > NUM * 0.4 * 0.94 && num < NUM * 0.44);
    CU_ASSERT(sum_left > 0.47 * num && sum_left < 0.53 * num);
    CU_ASSERT(sum_top > 0.47 * num && sum_top < 0.53 * num);
}

TEST(the_rest_is_filled)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,zoom_out=2-2:p=1:fill=7/8/9,random_resized_crop=4");
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    for (uint64_t id = 0; id < 20; id++) {
        struct sluice_sample sample = run_test_zeroes(1, SLUICE_KIND_U8, 5, 3, 5 * 3 * 3);
        sample.key =
            (struct sluice_draw_key){.seed = sluice_test_seed(), .epoch = 1, .sample_id = id};
        const struct sluice_resample r = run_test_draw(pipeline, 1, id, 5, 3).resample;
        CU_ASSERT_EQUAL_FATAL(sluice_pipeline_run(pipeline, scratch, &sample, 2, NULL), SLUICE_OK);
        CU_ASSERT_FATAL(sample.width == 10 && sample.height == 6);
        for (uint32_t i = 0; i < 60; i++) {
            const uint32_t x = i % 10, y = i / 10;
            const bool is_in = x >= r.left && x < r.left + 5 && y >= r.top && y < r.top + 3;
            for (uint32_t c = 0; c < 3; c++)
                CU_ASSERT_EQUAL(sample.data->data[3 * i + c], is_in ? 0 : 7 + c);
        }
        sluice_sample_clear(&sample);
    }
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

TEST(its_size_is_known_within_limits)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,resize=20x30,zoom_out=1-3" END);
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, 3);
    CU_ASSERT(known.width == 0 && sluice_known_size_allows(known, 90, 60));
    CU_ASSERT_EQUAL(known.min_pixels, 600);
    CU_ASSERT_EQUAL(known.max_pixels, 5400);
    sluice_pipeline_destroy(pipeline);
}

TEST(a_drawn_size_may_not_remain)
{
    static const char *const texts[] = {
        "decode,zoom_out",
        "decode,zoom_out,resize=20",
        "decode,zoom_out,fit_bucket=20x30/30x20",
        "decode,center_crop=20,zoom_out,hflip,to_tensor",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CHECK_FAILS(SLUICE_E_INVALID, "(zoom_out): its size is drawn",
                    sluice_pipeline_check(texts[i], sluice_test_err()));
    CHECK_OK(sluice_pipeline_check("decode,zoom_out,fit_bucket=20x30", NULL));
    CHECK_OK(sluice_pipeline_check("decode,zoom_out,views(2x[random_resized_crop=9],[resize=8x8])",
                                   NULL));
}

TEST(what_is_no_zoom_is_refused)
{
    static const char *const texts[] = {
        "decode,zoom_out=0.5-2" END,        "decode,zoom_out=1-17" END,
        "decode,zoom_out=2-1" END,          "decode,zoom_out=1-2:p=2" END,
        "decode,zoom_out=1-2:fill=256" END, "decode,zoom_out=1-2:mode=edge" END,
        "decode,one_of(zoom_out)" END,
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
}
