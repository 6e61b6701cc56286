/* The kernels of the device, as the CPU runs their source, against the CPU's decoder and resize. */

#include "gpu/decode_host.h"

#include "base/buf.h"
#include "base/hash.h"
#include "gpu_support.h"
#include "image/codecs/codec.h"
#include "jpeg_support.h"
#include "support/test.h"

static void decode(struct sluice_gpu_batch *batch, uint8_t *rows, sluice_status *statuses)
{
    struct sluice_err err = {{0}};
    REQUIRE_OK(sluice_gpu_decode_host(batch, rows, statuses, &err));
    sluice_gpu_batch_clear(batch);
}

static void batch_create(struct sluice_gpu_batch *batch, uint32_t out_width, uint32_t out_height)
{
    const struct sluice_gpu_limits limits = {
        .max_samples = 14,
        .num_views = 1,
        .views = {{out_width, out_height}},
        .max_file_bytes = 4 << 20,
        .max_pixels = 1 << 20,
    };
    struct sluice_gpu_sizes capacity;
    REQUIRE_OK(sluice_gpu_limits_check(&limits, &capacity, NULL));
    void *upload = aligned_alloc(16, (capacity.upload_bytes + 15) / 16 * 16);
    CU_ASSERT_PTR_NOT_NULL_FATAL(upload);
    sluice_gpu_batch_init(batch, &limits, &capacity, upload);
}

static const uint32_t out_sizes[][2] = {{32, 32}, {1, 1}, {37, 20}, {64, 9}, {3, 150}};

TEST(every_kind_and_box_is_the_cpus)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(out_sizes); i++) {
        struct sluice_gpu_batch batch;
        batch_create(&batch, out_sizes[i][0], out_sizes[i][1]);
        gpu_test_random_batches(&batch, decode, 12, sluice_test_seed() + i);
        sluice_gpu_batch_destroy(&batch);
        free(batch.upload);
    }
}

TEST(random_tables_are_libjpegs)
{
    struct sluice_gpu_batch batch;
    batch_create(&batch, 40, 31);
    gpu_test_random_tables(&batch, decode, 40, sluice_test_seed());
    sluice_gpu_batch_destroy(&batch);
    free(batch.upload);
}

TEST(damage_is_declined_or_decoded_as_the_cpu_does)
{
    struct sluice_gpu_batch batch;
    batch_create(&batch, 24, 24);
    CU_ASSERT(gpu_test_damaged_batches(&batch, decode, gpu_test_num_damaged_batches(),
                                       sluice_test_seed()) > 0);
    free(batch.upload);
}

static struct sluice_buf *copy_of(const struct sluice_buf *file)
{
    struct sluice_buf *copy;
    REQUIRE_OK(sluice_buf_create(NULL, file->len, &copy, NULL));
    memcpy(copy->data, file->data, file->len);
    copy->len = file->len;
    return copy;
}

/* With an index, damage in rows that are needed is found before anything is decoded, and damage in
 * others changes nothing. */
TEST(damage_that_the_index_does_not_know_is_declined)
{
    enum { SIDE = 24 };
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 4, 0, 0);
    struct sluice_gpu_batch batch;
    batch_create(&batch, SIDE, SIDE);
    unsigned num_found = 0, num_beside = 0;
    for (unsigned i = 0; i < 600; i++) {
        uint32_t width, height;
        struct sluice_buf *file = gpu_test_file(&rng, &width, &height), *bad = copy_of(file);
        struct sluice_jpeg_index *index = gpu_test_index(&rng, file);
        struct sluice_gpu_request request;
        gpu_test_requests(&rng, &batch.limits, width, height, 0, &request);
        uint8_t row[SIDE * SIDE * 3], reference[SIDE * SIDE * 3];
        gpu_test_damage(&rng, bad);
        if (sluice_gpu_index_serves(index, bad->data, bad->len)) {
            sluice_status status =
                sluice_gpu_batch_add(&batch, bad->data, bad->len, index, &request, NULL);
            CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
            num_found += status == SLUICE_E_CORRUPT;
            num_beside += status == SLUICE_OK;
            if (status == SLUICE_OK) {
                decode(&batch, row, &status);
                CHECK_OK(status);
                CHECK_OK(
                    gpu_test_reference(&batch.limits, file->data, file->len, &request, reference));
                CU_ASSERT_EQUAL_FATAL(memcmp(row, reference, sizeof(row)), 0);
            }
        }
        sluice_jpeg_index_destroy(index);
        sluice_buf_unref(file);
        sluice_buf_unref(bad);
    }
    CU_ASSERT(num_found > 0);
    CU_ASSERT(num_beside > 0);
    sluice_gpu_batch_destroy(&batch);
    free(batch.upload);
}

/* Moves a point between its neighbours, or changes its predictors; the hashes of rows stay. */
static void forge(struct sluice_rng *rng, struct sluice_jpeg_index *index)
{
    const uint32_t num_points = index->mcus_down * index->points_across;
    for (uint32_t n = 1 + sluice_rng_below(rng, 3); n > 0; n--) {
        const uint32_t i = sluice_rng_below(rng, num_points);
        struct sluice_jpeg_index_point *point = &index->points[i];
        if (sluice_rng_below(rng, 2) || i % index->points_across == 0 || i + 1 == num_points) {
            int16_t *dc = &point->dc[sluice_rng_below(rng, index->num_components)];
            *dc = (int16_t)(*dc ^ (1 << sluice_rng_below(rng, 16)));
            continue;
        }
        const uint64_t from = (uint64_t)point[-1].offset * 8 + point[-1].bit;
        const uint64_t to = (uint64_t)point[1].offset * 8 + point[1].bit;
        const uint64_t bit = from + 1 + sluice_rng_below(rng, (uint32_t)(to - from - 1));
        point->offset = (uint32_t)(bit / 8);
        point->bit = bit % 8;
    }
}

/* It gives a wrong row or none, and leaves those beside it alone. */
TEST(a_forged_index_harms_only_its_own_row)
{
    enum { SIDE = 24, ROW = SIDE * SIDE * 3 };
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 5, 0, 0);
    struct sluice_gpu_batch batch;
    batch_create(&batch, SIDE, SIDE);
    unsigned num_wrong = 0, num_faults = 0, num_declined = 0;
    for (unsigned i = 0; i < 300; i++) {
        uint8_t rows[4 * ROW], reference[4 * ROW];
        memset(rows, 0xA5, sizeof(rows));
        memset(reference, 0xA5, sizeof(reference));
        bool is_added[3];
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t width, height;
            struct sluice_buf *file = gpu_test_file(&rng, &width, &height);
            struct sluice_jpeg_index *index = gpu_test_index(&rng, file);
            struct sluice_gpu_request request;
            gpu_test_requests(&rng, &batch.limits, width, height, k, &request);
            if (k == 1 && index)
                forge(&rng, index);
            is_added[k] = sluice_gpu_batch_add(&batch, file->data, file->len, index, &request,
                                               NULL) == SLUICE_OK;
            CU_ASSERT_FATAL(is_added[k] || k == 1);
            CHECK_OK(gpu_test_reference(&batch.limits, file->data, file->len, &request,
                                        reference + (size_t)k * ROW));
            sluice_jpeg_index_destroy(index);
            sluice_buf_unref(file);
        }
        sluice_status statuses[3];
        decode(&batch, rows, statuses);
        CU_ASSERT_EQUAL_FATAL(memcmp(rows, reference, ROW), 0);
        CU_ASSERT_EQUAL_FATAL(memcmp(rows + 2 * ROW, reference + 2 * ROW, 2 * ROW), 0);
        num_declined += !is_added[1];
        num_faults += is_added[1] && statuses[1] != SLUICE_OK;
        num_wrong += is_added[1] && statuses[1] == SLUICE_OK &&
                     memcmp(rows + ROW, reference + ROW, ROW) != 0;
    }
    printf("(%u declined, %u faults, %u wrong) ", num_declined, num_faults, num_wrong);
    CU_ASSERT(num_faults > 0 && num_wrong > 0);
    sluice_gpu_batch_destroy(&batch);
    free(batch.upload);
}

/* A row of more pixels than a task holds is resized in several tasks. */
static void check_wide(uint32_t width, uint32_t out_width)
{
    static const struct sluice_jpeg_encode_options options = {.quality = 80};
    struct sluice_buf *plain = jpeg_test_file(width, 24, 1, &options);
    struct sluice_buf *file = jpeg_test_with_restarts(plain, 5);
    const size_t row_bytes = (size_t)out_width * 12 * 3;
    uint8_t *rows = malloc(3 * row_bytes), *const reference = rows + 2 * row_bytes;
    struct sluice_gpu_batch batch;
    CU_ASSERT_FATAL(rows != NULL);
    batch_create(&batch, out_width, 12);
    for (unsigned is_flipped = 0; is_flipped < 2; is_flipped++) {
        const struct sluice_box box = {7, 1, width - 11, 21};
        const struct sluice_gpu_request request =
            sluice_gpu_request_whole(&batch, &box, is_flipped, 1);
        sluice_status status;
        REQUIRE_OK(sluice_gpu_batch_add(&batch, file->data, file->len, NULL, &request, NULL));
        decode(&batch, rows, &status);
        CHECK_OK(status);
        CHECK_OK(gpu_test_reference(&batch.limits, file->data, file->len, &request, reference));
        CU_ASSERT_EQUAL(memcmp(rows + row_bytes, reference, row_bytes), 0);
    }
    free(batch.upload);
    free(rows);
    sluice_buf_unref(file);
    sluice_buf_unref(plain);
}

/* Where its pixels or its weights are too many for a task's memory, and where they just fit. */
TEST(a_wide_image_is_resized_in_parts)
{
    check_wide(20001, 48);
    check_wide(1711, 2000);
    check_wide(4100, 1);
}

TEST(an_empty_batch_is_nothing_to_do)
{
    struct sluice_gpu_batch batch;
    batch_create(&batch, 4, 4);
    decode(&batch, NULL, NULL);
    free(batch.upload);
}

/* Parts of a row of `len` bytes, 1 to 4 of them; each may be a byte alone. */
static struct sluice_gpu_row_views random_views(size_t len, uint32_t num_rows,
                                                struct sluice_rng *rng)
{
    struct sluice_gpu_row_views views = {.capacity = num_rows};
    uint32_t end = 0;
    for (uint32_t left = sluice_rng_below(rng, 4); left > 0 && end + 1 < len; left--) {
        const uint32_t most = (uint32_t)len - 1 - end;
        end += 1 + sluice_rng_below(rng, sluice_rng_below(rng, 2) && most > 20 ? 20 : most);
        views.ends[views.num++] = end;
    }
    views.ends[views.num++] = (uint32_t)len;
    return views;
}

static void hash_lengths_from(size_t from, size_t end, size_t step, struct sluice_rng *rng)
{
    enum { NUM_ROWS = 5 };
    for (size_t len = from; len < end; len += step) {
        uint8_t *rows = aligned_alloc(8, (NUM_ROWS * len + 7) / 8 * 8);
        uint8_t *input = malloc(len + 16);
        CU_ASSERT_FATAL(rows && input);
        for (size_t i = 0; i < NUM_ROWS * len; i++)
            rows[i] = (uint8_t)sluice_rng_u32(rng);
        struct sluice_gpu_hash_item items[NUM_ROWS];
        struct sluice_gpu_hash hashes[NUM_ROWS];
        for (uint32_t i = 0; i < NUM_ROWS; i++)
            items[i] = (struct sluice_gpu_hash_item){NUM_ROWS - 1 - i, sluice_rng_u32(rng)};
        struct sluice_gpu_row_views views = random_views(len, NUM_ROWS, rng);
        if (sluice_rng_below(rng, 2)) { /* hashed, too, whatever the views are */
            views.height = 1 + sluice_rng_u32(rng) % 70000;
            views.width = sluice_rng_u32(rng);
        }
        sluice_gpu_hash_host(rows, &views, items, NUM_ROWS, hashes);
        for (uint32_t i = 0; i < NUM_ROWS; i++) {
            const uint64_t label = items[i].label; /* little endian */
            gpu_test_copy_row(&views, rows, items[i].row, input, false);
            size_t end = len;
            if (views.height > 0) {
                memcpy(input + end, &views.height, 4);
                memcpy(input + end + 4, &views.width, 4);
                end += 8;
            }
            memcpy(input + end, &label, 8);
            const struct sluice_hash128 want = sluice_hash128(input, end + 8);
            CU_ASSERT_FATAL(hashes[i].high == want.high && hashes[i].low == want.low);
        }
        free(rows);
        free(input);
    }
}

/* Rows and views begin at every place in a word; blocks and stripes end at every place. */
TEST(hashes_are_the_librarys)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 3, 0, 0);
    hash_lengths_from(233, 1300, 1, &rng);
    hash_lengths_from(2030, 2060, 1, &rng);
    hash_lengths_from(100000, 300000, 39999, &rng);
    hash_lengths_from(128 * 1024 - 20, 128 * 1024 + 20, 1, &rng);
    hash_lengths_from(224 * 224 * 3, 224 * 224 * 3 + 1, 1, &rng);
    hash_lengths_from(299 * 299 * 3, 299 * 299 * 3 + 1, 1, &rng);
}
