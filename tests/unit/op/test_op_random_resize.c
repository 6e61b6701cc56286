#include "run_support.h"

#include "op/op.h"
#include "support/test.h"

#define END ",center_crop=8"

static struct sluice_resample draw(const char *spec, uint64_t id, uint32_t width, uint32_t height)
{
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    const struct sluice_resample drawn = run_test_draw(pipeline, 1, id, width, height).resample;
    sluice_pipeline_destroy(pipeline);
    return drawn;
}

TEST(the_shorter_side_is_one_of_all_sizes)
{
    unsigned counts[5] = {0};
    for (uint64_t id = 0; id < 1000; id++) {
        const struct sluice_resample r = draw("decode,random_resize=100-104" END, id, 300, 150);
        CU_ASSERT_FATAL(r.to.height >= 100 && r.to.height <= 104);
        CU_ASSERT_EQUAL(r.to.width, 2 * r.to.height);
        CU_ASSERT(r.out.width == r.to.width && r.out.height == r.to.height);
        counts[r.to.height - 100]++;
    }
    for (int i = 0; i < 5; i++)
        CU_ASSERT(counts[i] > 140 && counts[i] < 260);
}

TEST(a_list_of_sizes_has_equal_steps)
{
    unsigned counts[3] = {0};
    for (uint64_t id = 0; id < 300; id++) {
        const struct sluice_resample r = draw("decode,random_resize=480-544/3" END, id, 100, 100);
        CU_ASSERT_EQUAL_FATAL(r.to.width % 32, 0);
        CU_ASSERT_FATAL(r.to.width >= 480 && r.to.width <= 544);
        counts[(r.to.width - 480) / 32]++;
    }
    CU_ASSERT(counts[0] > 60 && counts[1] > 60 && counts[2] > 60);
}

TEST(the_longer_side_has_a_limit)
{
    for (uint64_t id = 0; id < 50; id++) {
        const struct sluice_resample r =
            draw("decode,random_resize=50-90:max=100" END, id, 300, 150);
        CU_ASSERT(r.to.width <= 100 && r.to.height <= 50 && r.to.height >= 49);
    }
    CU_ASSERT_EQUAL(draw("decode,random_resize=70" END, 0, 300, 150).to.width, 140);
}

TEST(its_size_is_known_within_limits)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,random_resize=20-60" END);
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, 2);
    CU_ASSERT(known.width == 0 && sluice_known_size_allows(known, 90, 60));
    CU_ASSERT_EQUAL(known.min_pixels, 400);
    CU_ASSERT_EQUAL(known.max_pixels, 7200);
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_resize_is_refused)
{
    static const char *const texts[] = {
        "decode,random_resize" END,
        "decode,random_resize=0-9" END,
        "decode,random_resize=9-8" END,
        "decode,random_resize=~9" END,
        "decode,random_resize=8193" END,
        "decode,random_resize=normal(9,1,5,12)" END,
        "decode,random_resize=9-20:max=20" END,
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
}

/* Sizes may remain if the memory that they take has a limit. */
TEST(its_size_may_remain_if_it_has_a_limit)
{
    static const char *const with[] = {
        "decode,random_resize=20-30,hflip",
        "decode,resize=40,random_resize=20-30,hflip",
        "decode,zoom_out,random_resize=20-30:max=40",
        "decode,iou_crop,hflip,random_resize=20-30:max=40,to_tensor",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(with); i++)
        CHECK_OK(sluice_pipeline_check(with[i], sluice_test_err()));
    static const char *const without[] = {
        "decode,zoom_out,random_resize=20-30",
        "decode,zoom_out,random_resize=20-30:max=40,zoom_out",
        "decode,zoom_out,random_resize=20-30:max=40,pad_to_multiple=8",
        "decode,multi_scale=32-96/3:base=64,zoom_out,random_resize=20-30:max=40",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(without); i++)
        CHECK_FAILS(SLUICE_E_INVALID, "(zoom_out): its size is drawn",
                    sluice_pipeline_check(without[i], sluice_test_err()));
    CHECK_FAILS(
        SLUICE_E_INVALID, "(random_resize): its size is drawn",
        sluice_pipeline_check("decode,random_resize=20-30,pad_to_multiple=8", sluice_test_err()));
    CHECK_OK(sluice_pipeline_check("decode,random_resize=9-20:max=21:filter=box" END, NULL));
}
