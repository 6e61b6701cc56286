#include "compute_client/loader/batch/row_layout.h"

#include "compute_client/loader/order/digest.h"
#include "support/test.h"

#include <stdlib.h>

enum { CAPACITY = 5, NUM_VIEWS = 3, ROW_BYTES = (2 * 3 + 4 * 1 + 2 * 3) * 3 };

/* Views of 2 x 3, 4 x 1 and 2 x 3 pixels. */
static const struct sluice_row_layout layout = {
    .num_views = NUM_VIEWS,
    .bytes = ROW_BYTES,
    .views = {{2, 3, 0, 18}, {4, 1, 18, 12}, {2, 3, 30, 18}},
};

/* Byte k of a row. */
static uint8_t byte_of(unsigned row, size_t k)
{
    return (uint8_t)(row * 50 + k);
}

static void fill(uint8_t *batch)
{
    memset(batch, 0xEE, CAPACITY * ROW_BYTES);
    for (unsigned row = 0; row < CAPACITY; row++) {
        for (unsigned view = 0; view < NUM_VIEWS; view++) {
            uint8_t *at = batch + sluice_row_place(&layout, CAPACITY, row, view);
            for (size_t k = 0; k < layout.views[view].bytes; k++)
                at[k] = byte_of(row, layout.views[view].offset + k);
        }
    }
}

TEST(a_pipeline_of_one_view_has_its_size)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse("decode,center_crop=6x10,to_tensor", &pipeline, NULL));
    const struct sluice_row_layout made = sluice_row_layout_of(pipeline, 0);
    CU_ASSERT(made.num_views == 1 && made.bytes == 180);
    CU_ASSERT(made.views[0].height == 6 && made.views[0].width == 10);
    CU_ASSERT(made.views[0].offset == 0 && made.views[0].bytes == 180);
    CU_ASSERT_EQUAL(sluice_row_place(&made, 7, 3, 0), 3 * 180);
    sluice_pipeline_destroy(pipeline);
}

TEST(each_view_of_a_batch_is_one_array)
{
    uint8_t batch[CAPACITY * ROW_BYTES];
    fill(batch);
    size_t at = 0;
    for (unsigned view = 0; view < NUM_VIEWS; view++) {
        for (unsigned row = 0; row < CAPACITY; row++) {
            CU_ASSERT_EQUAL(sluice_row_place(&layout, CAPACITY, row, view), at);
            for (size_t k = 0; k < layout.views[view].bytes; k++)
                CU_ASSERT_EQUAL(batch[at++], byte_of(row, layout.views[view].offset + k));
        }
    }
    CU_ASSERT_EQUAL(at, sizeof(batch));
}

TEST(a_row_is_copied_with_all_views_and_nothing_else)
{
    uint8_t batch[CAPACITY * ROW_BYTES];
    fill(batch);
    sluice_row_copy(&layout, CAPACITY, 3, 1, batch);
    for (unsigned view = 0; view < NUM_VIEWS; view++) {
        for (unsigned row = 0; row < CAPACITY; row++) {
            const uint8_t *at = batch + sluice_row_place(&layout, CAPACITY, row, view);
            for (size_t k = 0; k < layout.views[view].bytes; k++)
                CU_ASSERT_EQUAL(at[k], byte_of(row == 3 ? 1 : row, layout.views[view].offset + k));
        }
    }
}

TEST(the_digest_is_of_the_views_in_their_order)
{
    uint8_t batch[CAPACITY * ROW_BYTES], bytes[ROW_BYTES];
    struct sluice_hasher *hasher = sluice_hasher_create();
    CU_ASSERT_PTR_NOT_NULL_FATAL(hasher);
    fill(batch);
    for (unsigned row = 0; row < CAPACITY; row++) {
        for (size_t k = 0; k < ROW_BYTES; k++)
            bytes[k] = byte_of(row, k);
        const struct sluice_hash128 want = sluice_digest_sample(hasher, bytes, ROW_BYTES, 7 + row);
        const struct sluice_hash128 got =
            sluice_row_digest(&layout, CAPACITY, row, batch, 7 + row, hasher);
        CU_ASSERT(got.low == want.low && got.high == want.high);
    }
    sluice_hasher_destroy(hasher);
}

TEST(a_row_of_a_bucket_has_its_size)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse("decode,fit_bucket=20x30/30x20/8x8,pad=1/2", &pipeline, NULL));
    static const uint32_t sizes[][2] = {{24, 32}, {34, 22}, {12, 10}}; /* height, width */
    for (unsigned b = 0; b < 3; b++) {
        const struct sluice_row_layout layout = sluice_row_layout_of(pipeline, b);
        CU_ASSERT_EQUAL(layout.num_views, 1);
        CU_ASSERT(layout.views[0].height == sizes[b][0] && layout.views[0].width == sizes[b][1]);
        CU_ASSERT_EQUAL(layout.bytes, (size_t)sizes[b][0] * sizes[b][1] * 3);
    }
    sluice_pipeline_destroy(pipeline);
}

TEST(images_have_sizes_of_their_own_without_one_size_and_without_buckets)
{
    static const struct {
        const char *spec;
        bool has_own_size;
    } cases[] = {{"decode", true},
                 {"decode,resize=30:max=50,hflip", true},
                 {"decode,smart_resize=4:min_pixels=4:max_pixels=99", true},
                 {"decode,fit_bucket=8x9/9x8", false},
                 {"decode,resize=30,center_crop=20", false}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL;
        REQUIRE_OK(sluice_pipeline_parse(cases[i].spec, &pipeline, NULL));
        CU_ASSERT_EQUAL(sluice_row_has_own_size(pipeline), cases[i].has_own_size);
        if (cases[i].has_own_size)
            CU_ASSERT_EQUAL(sluice_row_layout_of(pipeline, 0).bytes, 0);
        sluice_pipeline_destroy(pipeline);
    }
}

/* Pixels, the size and the label, spelled out; the shape counts. */
TEST(the_digest_of_an_image_has_its_size)
{
    uint8_t bytes[5 + 18 + 16], batch[5 + 18];
    for (int i = 0; i < 23; i++)
        bytes[i] = batch[i] = (uint8_t)(i * 7);
    memcpy(bytes + 23, "\2\0\0\0\3\0\0\0\x44\x33\x22\x11\0\0\0\0", 16);
    struct sluice_hasher *hasher = sluice_hasher_create();
    CU_ASSERT_PTR_NOT_NULL_FATAL(hasher);
    const struct sluice_row_image image = {.at = 5, .height = 2, .width = 3},
                                  turned = {.at = 5, .height = 3, .width = 2};
    CU_ASSERT_EQUAL(sluice_row_image_bytes(&image), 18);
    const struct sluice_hash128 got = sluice_row_image_digest(&image, batch, 0x11223344, hasher);
    const struct sluice_hash128 want = sluice_hash128(bytes + 5, 18 + 16);
    CU_ASSERT(got.high == want.high && got.low == want.low);
    CU_ASSERT_NOT_EQUAL(sluice_row_image_digest(&turned, batch, 0x11223344, hasher).low, want.low);

    /* A row of a bucket is hashed as an image is. */
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse("decode,fit_bucket=9x9/2x3", &pipeline, NULL));
    const struct sluice_row_layout layout = sluice_row_layout_of(pipeline, 1);
    const struct sluice_hash128 row =
        sluice_row_digest(&layout, 1, 0, batch + 5, 0x11223344, hasher);
    CU_ASSERT(row.high == want.high && row.low == want.low);
    sluice_pipeline_destroy(pipeline);
    sluice_hasher_destroy(hasher);
}
