/* Rows made on a device, or by its kernels' source on the host, against the CPU's decoder, resize
 * and hash. */

#include "gpu/place.h"

#include "base/buf.h"
#include "jpeg_support.h"
#include "place_support.h"
#include "support/test.h"

#include <math.h>
#include <pthread.h>

static const uint32_t out_sizes[][2] = {{32, 32}, {9, 9}, {37, 20}, {64, 9}, {3, 150}};

TEST(rows_and_hashes_are_the_cpus)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(out_sizes); i++) {
        const struct sluice_gpu_place_options options =
            place_test_options(out_sizes[i][0], out_sizes[i][1]);
        struct sluice_gpu_place *place = place_test_open(&options);
        place_test_run(place, &options, 0, 4, 0, sluice_test_seed() + i);
        sluice_gpu_place_destroy(place);
    }
}

TEST(views_of_one_file_are_the_cpus)
{
    static const struct sluice_gpu_view_size sets[][4] = {
        {{32, 32}, {32, 32}, {12, 12}, {12, 12}},
        {{5, 5}, {64, 9}, {3, 7}, {20, 16}},
        {{224, 224}, {96, 96}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sets); i++) {
        struct sluice_gpu_place_options options = place_test_options(1, 1);
        options.num_views = 0;
        while (options.num_views < 4 && sets[i][options.num_views].width) {
            options.views[options.num_views] = sets[i][options.num_views];
            options.num_views++;
        }
        struct sluice_gpu_place *place = place_test_open(&options);
        place_test_run(place, &options, 0, 4, 1, sluice_test_seed() + i);
        sluice_gpu_place_destroy(place);
    }
}

TEST(uploads_and_decodes_make_a_batch_together)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 24);
    struct sluice_gpu_place *place = place_test_open(&options);
    for (uint32_t num_uploaded = 2; num_uploaded <= 8; num_uploaded += 2)
        place_test_run(place, &options, 0, 3, num_uploaded, sluice_test_seed() + num_uploaded);
    sluice_gpu_place_destroy(place);
}

struct counted_gate {
    unsigned num_points, num_without_stream;
    sluice_status status;
};

static sluice_status count_point(void *data, void *stream, struct sluice_err *err)
{
    struct counted_gate *gate = data;
    gate->num_points++;
    gate->num_without_stream += !stream;
    return gate->status ? sluice_fail(err, gate->status, "the gate fails") : SLUICE_OK;
}

/* A batch of one file in each row, which is added to the lane. */
static struct place_test_batch *add_batch(struct sluice_gpu_place *place,
                                          const struct sluice_gpu_place_options *options,
                                          struct sluice_gpu_block *block, bool is_uploaded)
{
    static const struct sluice_jpeg_encode_options quality = {.quality = 85};
    struct sluice_buf *file = jpeg_test_file(100, 80, 7, &quality);
    struct place_test_batch *batch = place_test_batch_create(place, options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    place_test_use_file(batch, file, 100, 80);
    sluice_gpu_lane_begin(lane, block, NULL);
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
        place_test_add(batch, lane, row, is_uploaded);
    sluice_buf_unref(file);
    return batch;
}

TEST(decoding_and_hashes_have_a_point_each_and_uploads_none)
{
    struct counted_gate gate = {0};
    struct sluice_gpu_place_options options = place_test_options(32, 24);
    options.gate = (struct sluice_gpu_gate){count_point, &gate};
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    for (int is_uploaded = 0; is_uploaded < 2; is_uploaded++) {
        struct place_test_batch *batch = add_batch(place, &options, block, is_uploaded);
        place_test_finish(batch, lane);
        place_test_check(batch, block);
        place_test_batch_destroy(batch);
        CU_ASSERT_EQUAL(gate.num_points, 2);
    }
    struct place_test_batch *batch = add_batch(place, &options, block, false);
    REQUIRE_OK(sluice_gpu_lane_finish(lane, batch->labels, batch->statuses, NULL, &batch->work,
                                      NULL)); /* without hashes */
    CU_ASSERT_EQUAL(gate.num_points, 3);
    CU_ASSERT_EQUAL(gate.num_without_stream, options.is_host ? 3 : 0);
    place_test_batch_destroy(batch);
    sluice_gpu_block_give(block);
    sluice_gpu_place_destroy(place);
}

TEST(a_gate_that_fails_fails_the_batch_alone)
{
    struct counted_gate gate = {.status = SLUICE_E_INTERNAL};
    struct sluice_gpu_place_options options = place_test_options(32, 24);
    options.gate = (struct sluice_gpu_gate){count_point, &gate};
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct place_test_batch *batch = add_batch(place, &options, block, false);
    CHECK_FAILS(SLUICE_E_INTERNAL, "the gate fails",
                sluice_gpu_lane_finish(lane, batch->labels, batch->statuses, batch->hashes,
                                       &batch->work, sluice_test_err()));
    place_test_batch_destroy(batch);

    gate.status = SLUICE_OK;
    batch = add_batch(place, &options, block, false);
    place_test_finish(batch, lane);
    place_test_check(batch, block);
    place_test_batch_destroy(batch);
    sluice_gpu_block_give(block);
    sluice_gpu_place_destroy(place);
}

/* Makes a file of some restart segments a bad one: the last bits of its scan are 1s, and no code
 * has 16 of these. */
static void damage(struct sluice_buf *file)
{
    CU_ASSERT_FATAL(file->len > 40);
    for (size_t i = file->len - 12; i < file->len - 2; i++)
        file->data[i] = i % 2 ? 0x00 : 0xFF;
}

static struct sluice_buf *plain_file(uint32_t width, uint32_t height, unsigned interval)
{
    static const struct sluice_jpeg_encode_options options = {.quality = 85};
    struct sluice_buf *plain = jpeg_test_file(width, height, 7, &options);
    if (interval == 0)
        return plain;
    struct sluice_buf *file = jpeg_test_with_restarts(plain, interval);
    sluice_buf_unref(plain);
    return file;
}

/* Rows 3, 8, 13, 18, 23. */
#define NUM_DAMAGED 5

static bool is_damaged(uint32_t row)
{
    return row % 5 == 3;
}

TEST(a_fault_is_its_rows_alone_and_an_upload_mends_it)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    struct sluice_buf *file = plain_file(100, 80, 4);
    place_test_use_file(batch, file, 100, 80);
    sluice_gpu_lane_begin(lane, block, NULL);
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++) {
        if (is_damaged(row))
            damage(batch->files[row]);
        place_test_add(batch, lane, row, false);
        CU_ASSERT_FATAL(batch->is_decoded[row]);
    }
    place_test_finish(batch, lane);
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
        CU_ASSERT_EQUAL_FATAL(batch->statuses[row], is_damaged(row) ? SLUICE_E_CORRUPT : SLUICE_OK);
    CU_ASSERT_EQUAL(batch->work.decoded, PLACE_TEST_ROWS - NUM_DAMAGED);
    for (uint32_t row = 3; row < PLACE_TEST_ROWS; row += 5)
        place_test_upload(batch, lane, row);
    /* Only what was added since is reported. */
    place_test_finish(batch, lane);
    memset(batch->is_decoded, 0, sizeof(batch->is_decoded));
    CU_ASSERT_EQUAL(batch->work.upload_bytes, NUM_DAMAGED * batch->row_bytes);
    place_test_check(batch, block);
    sluice_gpu_block_give(block);
    sluice_buf_unref(file);
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

TEST(more_files_than_memory_take_several_rounds)
{
    struct sluice_gpu_place_options options = place_test_options(24, 24);
    options.memory_bytes = (uint64_t)48 << 20;
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    struct sluice_buf *file = plain_file(800, 600, 10);
    place_test_use_file(batch, file, 800, 600);
    /* Coefficients of all files, luma's alone. */
    CU_ASSERT_FATAL(sluice_gpu_place_bytes(place) < (uint64_t)PLACE_TEST_ROWS * 800 * 600 * 2 * 3);
    sluice_gpu_lane_begin(lane, block, NULL);
    for (uint32_t row = PLACE_TEST_ROWS; row > 0; row--)
        place_test_add(batch, lane, row - 1, row == 5);
    place_test_finish(batch, lane);
    CU_ASSERT(batch->work.decoded >= PLACE_TEST_ROWS - 1);
    place_test_check(batch, block);
    sluice_gpu_block_give(block);
    sluice_buf_unref(file);
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

TEST(a_file_of_one_long_segment_is_the_cpus)
{
    const struct sluice_gpu_place_options options = place_test_options(24, 24);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    sluice_gpu_lane_begin(lane, block, NULL);
    const struct sluice_gpu_request request = place_test_whole(&options, 500, 400, 0);
    struct sluice_buf *file = plain_file(500, 400, 0);
    struct sluice_jpeg_stretch stretch = {0};
    struct sluice_gpu_prepared sample = {NULL, 0, 0};
    struct sluice_gpu_file given = {file->data, file->len, NULL};
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "restart segment",
                sluice_gpu_prepare(place, NULL, &given, &request, &stretch, NULL, &sample,
                                   sluice_test_err()));
    sluice_buf_unref(file);
    file = plain_file(500, 400, 32);
    given = (struct sluice_gpu_file){file->data, file->len, NULL};
    CHECK_OK(sluice_gpu_prepare(place, NULL, &given, &request, &stretch, NULL, &sample,
                                sluice_test_err()));
    CHECK_OK(sluice_gpu_lane_decode(lane, &sample, 0, NULL));
    sluice_buf_unref(file);
    sluice_gpu_prepared_clear(&sample);
    sluice_gpu_lane_drop(lane);
    sluice_gpu_block_give(block);
    sluice_gpu_place_destroy(place);
}

/* Aspect buckets: a batch has the size that it is given, and its hashes may be over that, too. */
TEST(batches_of_any_size_are_the_cpus)
{
    static const struct sluice_gpu_view_size sizes[] = {{40, 24}, {24, 40}, {31, 30}, {9, 9}};
    struct sluice_gpu_place_options any = place_test_options(40, 40);
    any.has_any_size = true;
    any.most_row_bytes = 40 * 24 * 3;
    struct sluice_gpu_place *place = place_test_open(&any);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_buf *file = plain_file(100, 80, 4);
    CU_ASSERT(sluice_gpu_place_has_any_size(place));
    for (unsigned i = 0; i < 2 * SLUICE_ARRAY_LEN(sizes); i++) {
        const struct sluice_gpu_view_size *size = &sizes[i / 2];
        const struct sluice_gpu_place_options options =
            place_test_options(size->width, size->height);
        struct place_test_batch *batch = place_test_batch_create(place, &options);
        struct sluice_gpu_block *block = sluice_gpu_place_take(place);
        place_test_use_file(batch, file, 100, 80);
        sluice_gpu_lane_begin(lane, block, NULL);
        sluice_gpu_lane_set_size(lane, size, i % 2);
        if (i % 2) {
            batch->views.height = size->height;
            batch->views.width = size->width;
        }
        for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
            place_test_add(batch, lane, row, row % 7 == 6);
        place_test_finish(batch, lane);
        CU_ASSERT(batch->work.decoded > 0);
        place_test_check(batch, block);
        sluice_gpu_block_give(block);
        place_test_batch_destroy(batch);
    }
    /* Within the sides, and too large. */
    const struct sluice_gpu_place_options large = place_test_options(40, 25);
    const struct sluice_gpu_request request = place_test_whole(&large, 100, 80, 0);
    const struct sluice_gpu_file as_file = {.bytes = file->data, .len = file->len};
    struct sluice_jpeg_stretch stretch = {0};
    struct sluice_gpu_prepared prepared = {0};
    CU_ASSERT_EQUAL(
        sluice_gpu_prepare(place, NULL, &as_file, &request, &stretch, NULL, &prepared, NULL),
        SLUICE_E_INVALID);
    sluice_jpeg_stretch_clear(&stretch);
    sluice_buf_unref(file);
    sluice_gpu_place_destroy(place);
}

TEST(a_wrong_call_is_refused_and_the_lane_goes_on)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    struct sluice_buf *file = plain_file(60, 50, 4);
    place_test_use_file(batch, file, 60, 50);
    sluice_gpu_lane_begin(lane, block, NULL);
    batch->requests[0][0].box.width++;
    place_test_prepare(batch, NULL, 0);
    CU_ASSERT_EQUAL(batch->refusals[0], SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(batch->prepared[0].data);
    batch->requests[0][0].box.width--;
    place_test_prepare(batch, NULL, 0);
    REQUIRE_OK(batch->refusals[0]);
    CU_ASSERT_EQUAL(sluice_gpu_lane_decode(lane, &batch->prepared[0], PLACE_TEST_ROWS, NULL),
                    SLUICE_E_INVALID);
    const uint64_t room = PLACE_TEST_ROWS * batch->row_bytes;
    CU_ASSERT_EQUAL(sluice_gpu_lane_upload(lane, room, batch->pixels, 1, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_gpu_lane_upload(lane, room - 1, batch->pixels, 2, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_gpu_lane_upload(lane, UINT64_MAX, batch->pixels, 2, NULL),
                    SLUICE_E_INVALID);
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
        place_test_add(batch, lane, row, false);
    CU_ASSERT_EQUAL(sluice_gpu_lane_decode(lane, &batch->prepared[0], 0, NULL), SLUICE_E_INVALID);
    place_test_finish(batch, lane);
    place_test_check(batch, block);
    sluice_gpu_block_give(block);
    sluice_buf_unref(file);
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

TEST(what_is_dropped_leaves_no_trace)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 9, 0, 0);
    place_test_make_files(batch, &rng);
    for (unsigned is_dropped = 0; is_dropped < 2; is_dropped++) {
        struct sluice_gpu_block *block = sluice_gpu_place_take(place);
        sluice_gpu_lane_begin(lane, block, NULL);
        for (uint32_t row = 0; row < PLACE_TEST_ROWS / 2; row++)
            place_test_add(batch, lane, row, row % 3 == 0);
        if (is_dropped) /* else begin does */
            sluice_gpu_lane_drop(lane);
        sluice_gpu_block_give_after(block, NULL);
    }
    place_test_run(place, &options, 0, 2, 2, sluice_test_seed());
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

TEST(an_empty_batch_is_nothing_to_do)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct sluice_gpu_work work = {1, 1, 1};
    sluice_gpu_lane_begin(sluice_gpu_place_lane(place, 0), block, NULL);
    CHECK_OK(
        sluice_gpu_lane_finish(sluice_gpu_place_lane(place, 0), NULL, NULL, NULL, &work, NULL));
    CU_ASSERT(work.decoded == 0 && work.upload_bytes == 0 && work.device_s == 0);
    sluice_gpu_block_give(block);
    sluice_gpu_place_destroy(place);
}

TEST(uploads_have_a_rate_and_leave_the_place_as_it_was)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 24);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_err err = {{0}};
    double bytes_per_s = 0;
    CHECK_OK(sluice_gpu_place_measure_upload(place, &bytes_per_s, &err));
    CU_ASSERT_EQUAL(isinf(bytes_per_s), place_test_is_host);
    CU_ASSERT(bytes_per_s > 1e8);
    place_test_run(place, &options, 0, 2, 4, sluice_test_seed());
    sluice_gpu_place_destroy(place);
}

TEST(blocks_run_out_and_come_back)
{
    struct sluice_gpu_place_options options = place_test_options(32, 32);
    options.num_blocks = 3;
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_block *blocks[3];
    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = sluice_gpu_place_take(place);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
    CU_ASSERT_PTR_NULL(sluice_gpu_place_take(place));
    sluice_gpu_block_give(blocks[1]);
    sluice_gpu_block_give_after(blocks[0], NULL);
    /* The one that was given first has rested most. */
    CU_ASSERT_PTR_EQUAL(sluice_gpu_place_take(place), blocks[1]);
    CU_ASSERT_PTR_EQUAL(sluice_gpu_place_take(place), blocks[0]);
    CU_ASSERT_PTR_NULL(sluice_gpu_place_take(place));
    sluice_gpu_block_give(blocks[2]);
    CU_ASSERT_PTR_EQUAL(sluice_gpu_place_take(place), blocks[2]);
    for (unsigned i = 0; i < 3; i++)
        sluice_gpu_block_give(blocks[i]);
    sluice_gpu_place_destroy(place);
}

struct worker {
    pthread_t thread;
    struct sluice_gpu_place *place;
    const struct sluice_gpu_place_options *options;
    unsigned lane;
};

static void *work(void *arg)
{
    const struct worker *worker = arg;
    place_test_run(worker->place, worker->options, worker->lane, 3, 3, sluice_test_seed());
    return NULL;
}

TEST(lanes_work_side_by_side)
{
    struct sluice_gpu_place_options options = place_test_options(32, 32);
    options.num_lanes = 3;
    options.num_blocks = 3;
    struct sluice_gpu_place *place = place_test_open(&options);
    struct worker workers[3];
    for (unsigned i = 0; i < 3; i++) {
        workers[i] = (struct worker){.place = place, .options = &options, .lane = i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(workers[i].thread, NULL);
    sluice_gpu_place_destroy(place);
}

TEST(too_little_memory_is_said_with_sizes)
{
    struct sluice_gpu_place *place = NULL;
    struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_err err = {{0}};
    options.memory_bytes = 20000000;
    CU_ASSERT_EQUAL(sluice_gpu_place_create(&options, &place, &err), SLUICE_E_NO_MEMORY);
    CU_ASSERT_PTR_NULL(place);
    unsigned needed = 0;
    CU_ASSERT_EQUAL(sscanf(err.text, "batches on the GPU need %u MB", &needed), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "may take 20 MB"));
    options.memory_bytes = needed * (uint64_t)1000000;
    CHECK_OK(sluice_gpu_place_create(&options, &place, NULL));
    sluice_gpu_place_destroy(place);
}

TEST(options_that_cannot_be_are_invalid)
{
    struct sluice_gpu_place *place = NULL;
    struct sluice_gpu_place_options options[8];
    for (unsigned i = 0; i < 8; i++)
        options[i] = place_test_options(32, 32);
    options[0].max_rows = 0;
    options[1].views[0].width = 0;
    options[2].views[0].height = 100000;
    options[3].num_blocks = 0;
    options[4].num_lanes = 0;
    options[5].views[0].width = 2;
    options[6].num_views = 0;
    options[7].num_views = SLUICE_GPU_MAX_VIEWS + 1;
    for (unsigned i = 0; i < 8; i++) {
        CU_ASSERT_EQUAL(sluice_gpu_place_create(&options[i], &place, NULL), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(place);
    }
}

int main(void)
{
    if (place_test_skip())
        sluice_test_skip(place_test_skip());
    return sluice_test_main();
}
