#include "op/op.h"

#include "op/pipeline.h"
#include "support/test.h"

#define NUM_DRAWS 6000

/* The number of draws with the window at each place, `low` the first; all kept pixels are checked.
 */
static void count_places(const char *text, struct sluice_size in, int32_t low, unsigned num_places,
                         unsigned counts[64])
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(text, &pipeline, NULL));
    const uint32_t size = sluice_pipeline_view_size(pipeline, 0).width;
    for (uint32_t i = 0; i < NUM_DRAWS; i++) {
        const struct sluice_draw_key key = {.seed = 4, .epoch = 1, .sample_id = i};
        char *json = NULL;
        REQUIRE_OK(sluice_pipeline_write_draws(pipeline, &key, in.width, in.height, &json, NULL));
        unsigned left, top, width, height;
        CU_ASSERT_EQUAL_FATAL(
            sscanf(json,
                   "[{\"op\":\"random_crop\",\"from\":{\"left\":%u,\"top\":%u,\"width\":%u,"
                   "\"height\":%u}",
                   &left, &top, &width, &height),
            4);
        const char *at = strstr(json, "\"at\":[");
        unsigned x = 0, y = 0;
        CU_ASSERT_FATAL(at && sscanf(at, "\"at\":[%u,%u]", &x, &y) == 2);
        CU_ASSERT_FATAL(width > 0 && left + width <= in.width && x + width <= size);
        CU_ASSERT_FATAL(height > 0 && top + height <= in.height && y + height <= size);
        const int32_t place = (int32_t)left - (int32_t)x - low;
        CU_ASSERT_FATAL(place >= 0 && (unsigned)place < num_places);
        counts[place]++;
        free(json);
    }
    sluice_pipeline_destroy(pipeline);
}

/* Chi-square of num_places - 1 degrees; 3 standard deviations above its mean. */
static void check_uniform(const char *text, struct sluice_size in, int32_t low, unsigned num_places)
{
    unsigned counts[64] = {0};
    count_places(text, in, low, num_places, counts);
    const double want = (double)NUM_DRAWS / num_places;
    double sum = 0;
    for (unsigned i = 0; i < num_places; i++)
        sum += (counts[i] - want) * (counts[i] - want) / want;
    const double degrees = num_places - 1;
    CU_ASSERT((sum - degrees) * (sum - degrees) <= 9 * 2 * degrees + 1e-9);
}

TEST(the_window_is_anywhere)
{
    check_uniform("decode,random_crop=8", (struct sluice_size){20, 9}, 0, 13);
    check_uniform("decode,random_crop=8", (struct sluice_size){8, 8}, 0, 1);
    check_uniform("decode,random_crop=8:padding=3", (struct sluice_size){20, 8}, -3, 19);
    check_uniform("decode,random_crop=8:padding=7", (struct sluice_size){1, 30}, -7, 8);
}

/* As torchvision's pad_if_needed: what is lacking is added on both sides. */
TEST(small_images_are_padded)
{
    check_uniform("decode,random_crop=8", (struct sluice_size){5, 5}, -3, 4);
    check_uniform("decode,random_crop=8:padding=1", (struct sluice_size){4, 40}, -3, 3);
}

TEST(what_is_no_crop_is_refused)
{
    static const char *const texts[] = {
        "decode,random_crop", "decode,random_crop=0", "decode,random_crop=8:padding=8",
        "decode,random_crop=8:padding=1.5", "decode,random_crop=8:padding=-1"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
}
