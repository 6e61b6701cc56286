#include "run_support.h"

#include "support/test.h"

/* The size at each split is that of the image which run() makes. */
TEST(sizes_are_those_of_the_images)
{
    static const char *const specs[] = {
        "decode,fit_bucket=20x30/30x20/7x50:crop=random,pad=1/2,hflip,resize=19,pad_to_multiple=4",
        "decode,random_resized_crop=31x17,smart_resize=4:min_pixels=99:max_pixels=900,letterbox="
        "21x9",
        "decode,resize=30:max=41,invert,center_crop=9x80,pad_to_multiple=7",
        "decode,smart_resize=6:min_pixels=99:max_pixels=900,to_tensor",
        "decode",
    };
    static const uint32_t sides[][2] = {{1, 1}, {40, 60}, {61, 40}, {3, 90}, {90, 4}};
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *pipeline = run_test_parse(specs[i]);
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(sides); k++) {
            const uint32_t width = sides[k][0], height = sides[k][1];
            struct sluice_sample sample =
                run_test_zeroes(1, SLUICE_KIND_U8, width, height, (size_t)width * height * 3);
            for (unsigned split = 1; split <= sluice_pipeline_num_ops(pipeline); split++) {
                CU_ASSERT_EQUAL_FATAL(sluice_pipeline_run(pipeline, scratch, &sample, split, NULL),
                                      SLUICE_OK);
                const struct sluice_size size = sluice_pipeline_size_at(
                    pipeline, &(struct sluice_draw_key){0}, split, width, height);
                CU_ASSERT(size.width == sample.width && size.height == sample.height);
                CU_ASSERT(sluice_known_size_allows(sluice_pipeline_known_size(pipeline, split),
                                                   size.width, size.height));
            }
            sluice_sample_clear(&sample);
        }
        sluice_pipeline_destroy(pipeline);
    }
    sluice_scratch_destroy(scratch);
}

TEST(buckets_are_those_of_the_last_fit)
{
    struct sluice_pipeline *pipeline = run_test_parse(
        "decode,fit_bucket=9x9/90x20,fit_bucket=20x30/30x20/100x100,hflip,pad=1/2,to_tensor");
    static const uint32_t sizes[][2] = {{32, 24}, {22, 34}, {102, 104}};
    CU_ASSERT_EQUAL_FATAL(sluice_pipeline_num_buckets(pipeline), 3);
    for (unsigned b = 0; b < 3; b++) {
        const struct sluice_size size = sluice_pipeline_bucket_size(pipeline, b);
        CU_ASSERT(size.width == sizes[b][0] && size.height == sizes[b][1]);
    }
    CU_ASSERT_EQUAL(sluice_pipeline_u8_bytes(pipeline), 0);
    CU_ASSERT_EQUAL(sluice_pipeline_most_u8_bytes(pipeline), 102 * 104 * 3);
    /* As 20 x 90 and 9 x 9 pixels. */
    CU_ASSERT_EQUAL(sluice_pipeline_bucket_of(pipeline, 20, 90), 1);
    CU_ASSERT_EQUAL(sluice_pipeline_bucket_of(pipeline, 40, 50), 2);
    sluice_pipeline_destroy(pipeline);
}

TEST(where_all_images_have_one_size_there_are_no_buckets)
{
    static const char *const specs[] = {"decode,resize=30,center_crop=20",
                                        "decode,resize=30",
                                        "decode,fit_bucket=20x30",
                                        "decode,fit_bucket=20x30/30x20,center_crop=20",
                                        "decode,center_crop=40,fit_bucket=9x9/8x30",
                                        "decode,fit_bucket=20x30/30x20,resize=8x9,pad=1"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *pipeline = run_test_parse(specs[i]);
        CU_ASSERT_EQUAL(sluice_pipeline_num_buckets(pipeline), 0);
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(no_draw_is_above_the_largest_size)
{
    static const char *const specs[] = {
        "decode,random_resize=20-50,hflip",
        "decode,random_resize=20-50:max=60",
        "decode,resize=40,random_resize=20-50:max=60,hflip",
        "decode,zoom_out=1-3,random_resize=20-50:max=60",
        "decode,random_size_crop=20-40:shorter=24-40/3,random_resize=20-50/4:max=60,to_tensor",
        "decode,smart_resize=7:min_pixels=300:max_pixels=2000",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *pipeline = run_test_parse(specs[i]);
        const unsigned end = sluice_pipeline_u8_split(pipeline);
        for (uint64_t id = 0; id < 400; id++) {
            const struct sluice_draw_key key = {.seed = sluice_test_seed(), .sample_id = id};
            const uint32_t width = 1 + (uint32_t)(id * 37 % 200), height = 1 + (uint32_t)(id % 90);
            const struct sluice_size most = sluice_pipeline_largest(pipeline, width, height);
            const struct sluice_size size =
                sluice_pipeline_size_at(pipeline, &key, end, width, height);
            CU_ASSERT((uint64_t)size.width * size.height <= (uint64_t)most.width * most.height);
        }
        sluice_pipeline_destroy(pipeline);
    }
}
