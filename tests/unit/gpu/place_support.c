#include "place_support.h"

#include "base/buf.h"
#include "base/hash.h"
#include "support/test.h"

struct sluice_gpu_place_options place_test_options(uint32_t width, uint32_t height)
{
    return (struct sluice_gpu_place_options){
        .is_host = place_test_is_host,
        .max_rows = PLACE_TEST_ROWS,
        .num_views = 1,
        .views = {{width, height}},
        .num_blocks = 2,
        .num_lanes = 1,
        .num_stagings = 1,
        .memory_bytes = (uint64_t)256 << 20,
    };
}

struct sluice_gpu_place *place_test_open(const struct sluice_gpu_place_options *options)
{
    struct sluice_err err = {{0}};
    struct sluice_gpu_place *place = NULL;
    const sluice_status status = sluice_gpu_place_create(options, &place, &err);
    if (status != SLUICE_OK)
        fprintf(stderr, "%s\n", err.text);
    REQUIRE_OK(status);
    CU_ASSERT_EQUAL(sluice_gpu_place_device(place), options->is_host ? -1 : options->device);
    CU_ASSERT(sluice_gpu_place_bytes(place) <= options->memory_bytes);
    CU_ASSERT_EQUAL(sluice_gpu_place_num_lanes(place), options->num_lanes);
    return place;
}

struct place_test_batch *place_test_batch_create(struct sluice_gpu_place *place,
                                                 const struct sluice_gpu_place_options *options)
{
    struct place_test_batch *batch = calloc(1, sizeof(*batch));
    void *pixels;
    if (!batch)
        abort();
    batch->options = *options;
    batch->place = place;
    batch->limits.num_views = options->num_views;
    memcpy(batch->limits.views, options->views, sizeof(options->views));
    batch->row_bytes = sluice_gpu_row_bytes(&batch->limits);
    batch->limits.max_samples = PLACE_TEST_ROWS;
    batch->views = sluice_gpu_row_views_of(&batch->limits);
    batch->want = malloc(PLACE_TEST_ROWS * batch->row_bytes);
    batch->rows = malloc(PLACE_TEST_ROWS * batch->row_bytes);
    if (!batch->want || !batch->rows)
        abort();
    REQUIRE_OK(sluice_gpu_host_alloc(place, PLACE_TEST_ROWS * batch->row_bytes, &pixels, NULL));
    CU_ASSERT_EQUAL((uintptr_t)pixels % 64, 0);
    batch->pixels = pixels;
    return batch;
}

void place_test_drop_files(struct place_test_batch *batch)
{
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++) {
        sluice_buf_unref(batch->files[row]);
        sluice_jpeg_index_destroy(batch->indexes[row]);
        sluice_gpu_prepared_clear(&batch->prepared[row]);
        batch->is_prepared[row] = false;
        batch->files[row] = NULL;
        batch->indexes[row] = NULL;
    }
}

void place_test_batch_destroy(struct place_test_batch *batch)
{
    place_test_drop_files(batch);
    sluice_gpu_host_free(batch->place, batch->pixels, PLACE_TEST_ROWS * batch->row_bytes);
    sluice_jpeg_stretch_clear(&batch->stretch);
    free(batch->want);
    free(batch->rows);
    free(batch);
}

static void make_row(struct place_test_batch *batch, uint32_t row)
{
    const struct sluice_buf *file = batch->files[row];
    REQUIRE_OK(gpu_test_reference(&batch->limits, file->data, file->len, batch->requests[row],
                                  batch->want + row * batch->row_bytes));
}

void place_test_make_files(struct place_test_batch *batch, struct sluice_rng *rng)
{
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++) {
        uint32_t width, height;
        batch->files[row] = gpu_test_file(rng, &width, &height);
        batch->indexes[row] = gpu_test_index(rng, batch->files[row]);
        gpu_test_requests(rng, &batch->limits, width, height, row, batch->requests[row]);
        batch->labels[row] = sluice_rng_u32(rng);
        make_row(batch, row);
    }
}

void place_test_upload(struct place_test_batch *batch, struct sluice_gpu_lane *lane, uint32_t row)
{
    const struct sluice_gpu_row_views *views = &batch->views;
    gpu_test_copy_row(views, batch->pixels, row, batch->want + row * batch->row_bytes, true);
    for (uint32_t v = 0, start = 0; v < views->num; start = views->ends[v++]) {
        const size_t len = views->ends[v] - start, at = views->capacity * start + row * len;
        REQUIRE_OK(sluice_gpu_lane_upload(lane, at, batch->pixels + at, len, NULL));
    }
}

void place_test_prepare(struct place_test_batch *batch, struct sluice_gpu_staging *staging,
                        uint32_t row)
{
    const struct sluice_buf *data = batch->files[row];
    const struct sluice_gpu_file file = {data->data, data->len, batch->indexes[row]};
    batch->refusals[row] = sluice_gpu_prepare(batch->place, staging, &file, batch->requests[row],
                                              &batch->stretch, NULL, &batch->prepared[row], NULL);
    batch->is_prepared[row] = true;
}

void place_test_add(struct place_test_batch *batch, struct sluice_gpu_lane *lane, uint32_t row,
                    bool is_uploaded)
{
    sluice_status status = SLUICE_E_UNSUPPORTED;
    if (!is_uploaded && !batch->is_prepared[row])
        place_test_prepare(batch, NULL, row);
    if (!is_uploaded)
        status = batch->refusals[row];
    if (status == SLUICE_OK)
        status = sluice_gpu_lane_decode(lane, &batch->prepared[row], row, NULL);
    batch->is_decoded[row] = status == SLUICE_OK;
    if (status == SLUICE_OK)
        return;
    CU_ASSERT_FATAL(status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_CORRUPT);
    place_test_upload(batch, lane, row);
}

void place_test_finish(struct place_test_batch *batch, struct sluice_gpu_lane *lane)
{
    struct sluice_err err = {{0}};
    memset(batch->hashes, 0xA5, sizeof(batch->hashes));
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
        batch->statuses[row] = PLACE_TEST_UNTOUCHED;
    const sluice_status status = sluice_gpu_lane_finish(lane, batch->labels, batch->statuses,
                                                        batch->hashes, &batch->work, &err);
    if (status != SLUICE_OK)
        fprintf(stderr, "%s\n", err.text);
    REQUIRE_OK(status);
}

static void add_u32(struct sluice_hasher *hasher, uint32_t number)
{
    const uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
                              (uint8_t)(number >> 24)};
    sluice_hasher_update(hasher, bytes, sizeof(bytes));
}

static struct sluice_hash128 hash_of(const struct place_test_batch *batch, const uint8_t *row,
                                     uint32_t label)
{
    const uint8_t tail[8] = {(uint8_t)label, (uint8_t)(label >> 8), (uint8_t)(label >> 16),
                             (uint8_t)(label >> 24)};
    struct sluice_hasher *hasher = sluice_hasher_create();
    if (!hasher)
        abort();
    sluice_hasher_update(hasher, row, batch->row_bytes);
    if (batch->views.height > 0) {
        add_u32(hasher, batch->views.height);
        add_u32(hasher, batch->views.width);
    }
    sluice_hasher_update(hasher, tail, sizeof(tail));
    const struct sluice_hash128 hash = sluice_hasher_digest(hasher);
    sluice_hasher_destroy(hasher);
    return hash;
}

void place_test_check(struct place_test_batch *batch, const struct sluice_gpu_block *block)
{
    place_test_read(block, PLACE_TEST_ROWS * batch->row_bytes, batch->rows);
    struct sluice_hash128 untouched;
    memset(&untouched, 0xA5, sizeof(untouched));
    uint32_t num_decoded = 0;
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++) {
        const uint8_t *want = batch->want + row * batch->row_bytes;
        uint8_t *made = malloc(batch->row_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(made);
        gpu_test_copy_row(&batch->views, batch->rows, row, made, false);
        CU_ASSERT_FATAL(memcmp(made, want, batch->row_bytes) == 0);
        free(made);
        CU_ASSERT_EQUAL_FATAL(batch->statuses[row],
                              batch->is_decoded[row] ? SLUICE_OK : PLACE_TEST_UNTOUCHED);
        const struct sluice_hash128 hash =
            batch->is_decoded[row] ? hash_of(batch, want, batch->labels[row]) : untouched;
        CU_ASSERT_FATAL(hash.high == batch->hashes[row].high && hash.low == batch->hashes[row].low);
        num_decoded += batch->is_decoded[row];
    }
    CU_ASSERT_EQUAL(batch->work.decoded, num_decoded);
    CU_ASSERT(num_decoded == 0 || batch->work.device_s > 0);
}

void place_test_run(struct sluice_gpu_place *place, const struct sluice_gpu_place_options *options,
                    unsigned lane_number, unsigned num_batches, uint32_t num_uploaded,
                    uint64_t seed)
{
    struct sluice_rng rng = sluice_rng_init(seed, lane_number, 0, 0);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, lane_number);
    struct place_test_batch *batch = place_test_batch_create(place, options);
    for (unsigned b = 0; b < num_batches; b++) {
        struct sluice_gpu_block *block = sluice_gpu_place_take(place);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL((uintptr_t)sluice_gpu_block_rows(block) % 256, 0);
        place_test_make_files(batch, &rng);
        struct sluice_gpu_staging *staging =
            b % 3 < 2 ? sluice_gpu_place_take_staging(place) : NULL;
        for (uint32_t row = b % 3; row < PLACE_TEST_ROWS; row++) /* the last first */
            place_test_prepare(batch, staging, PLACE_TEST_ROWS - 1 - row);
        sluice_gpu_lane_begin(lane, block, staging);
        for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
            place_test_add(batch, lane, row, sluice_rng_below(&rng, 8) < num_uploaded);
        place_test_finish(batch, lane);
        place_test_check(batch, block);
        CU_ASSERT(batch->work.upload_bytes >=
                  (PLACE_TEST_ROWS - batch->work.decoded) * batch->row_bytes);
        sluice_gpu_block_give(block);
        place_test_drop_files(batch);
    }
    place_test_batch_destroy(batch);
}

struct sluice_gpu_request place_test_whole(const struct sluice_gpu_place_options *options,
                                           uint32_t width, uint32_t height, uint32_t row)
{
    return (struct sluice_gpu_request){
        .box = {0, 0, width, height},
        .part = {width,
                 height,
                 options->views[0].width,
                 options->views[0].height,
                 {0, 0, options->views[0].width, options->views[0].height}},
        .row = row,
    };
}

void place_test_use_file(struct place_test_batch *batch, const struct sluice_buf *file,
                         uint32_t width, uint32_t height)
{
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++) {
        struct sluice_buf *copy;
        if (sluice_buf_create(NULL, file->len, &copy, NULL) != SLUICE_OK)
            abort();
        memcpy(copy->data, file->data, file->len);
        copy->len = file->len;
        batch->files[row] = copy;
        batch->requests[row][0] = place_test_whole(&batch->options, width, height, row);
        batch->requests[row][0].is_flipped = row % 2;
        batch->labels[row] = row * 1000;
        make_row(batch, row);
    }
}
