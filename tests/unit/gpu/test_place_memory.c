/* Staging buffers, into which workers write what the device needs of files, and page-locked memory.
 */

#include "gpu/place.h"

#include "base/buf.h"
#include "base/log.h"
#include "jpeg_support.h"
#include "place_support.h"
#include "support/test.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

TEST(staging_buffers_run_out_and_come_back)
{
    struct sluice_gpu_place_options options = place_test_options(32, 32);
    options.num_stagings = 2;
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_staging *first = sluice_gpu_place_take_staging(place);
    struct sluice_gpu_staging *second = sluice_gpu_place_take_staging(place);
    CU_ASSERT(first && second && first != second);
    CU_ASSERT_PTR_NULL(sluice_gpu_place_take_staging(place));
    sluice_gpu_staging_give(first);
    CU_ASSERT_PTR_EQUAL(sluice_gpu_place_take_staging(place), first);
    sluice_gpu_staging_give(first);
    sluice_gpu_staging_give(second);
    sluice_gpu_place_destroy(place);
}

TEST(a_lane_gives_its_own_buffer_for_a_batchs)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct sluice_gpu_staging *staging = sluice_gpu_place_take_staging(place);
    CU_ASSERT_PTR_NULL(sluice_gpu_place_take_staging(place));
    sluice_gpu_lane_begin(lane, block, staging);
    struct sluice_gpu_staging *other = sluice_gpu_place_take_staging(place);
    CU_ASSERT(other && other != staging);
    sluice_gpu_lane_begin(lane, block, other);
    CU_ASSERT_PTR_EQUAL(sluice_gpu_place_take_staging(place), staging);
    sluice_gpu_block_give(block);
    sluice_gpu_place_destroy(place);
}

#define NUM_WORKERS 4

struct worker {
    pthread_t thread;
    struct place_test_batch *batch; /* of its own, but for rows and staging */
    struct sluice_gpu_staging *staging;
    unsigned number;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct place_test_batch *batch = worker->batch;
    struct sluice_jpeg_stretch stretch = {0};
    for (uint32_t row = worker->number; row < PLACE_TEST_ROWS; row += NUM_WORKERS) {
        const struct sluice_buf *data = batch->files[row];
        const struct sluice_gpu_file file = {data->data, data->len, batch->indexes[row]};
        batch->refusals[row] =
            sluice_gpu_prepare(batch->place, worker->staging, &file, batch->requests[row], &stretch,
                               NULL, &batch->prepared[row], NULL);
        batch->is_prepared[row] = true;
    }
    sluice_jpeg_stretch_clear(&stretch);
    return NULL;
}

TEST(workers_write_side_by_side)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 24);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    for (unsigned round = 0; round < 20; round++) {
        struct worker workers[NUM_WORKERS];
        struct sluice_gpu_staging *staging = sluice_gpu_place_take_staging(place);
        CU_ASSERT_PTR_NOT_NULL_FATAL(staging);
        place_test_make_files(batch, &rng);
        for (unsigned i = 0; i < NUM_WORKERS; i++) {
            workers[i] = (struct worker){.batch = batch, .staging = staging, .number = i};
            CU_ASSERT_EQUAL_FATAL(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < NUM_WORKERS; i++)
            pthread_join(workers[i].thread, NULL);
        sluice_gpu_lane_begin(lane, block, staging);
        for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++) {
            CU_ASSERT_PTR_NULL(batch->prepared[row].data);
            place_test_add(batch, lane, row, false);
        }
        place_test_finish(batch, lane);
        place_test_check(batch, block);
        place_test_drop_files(batch);
    }
    sluice_gpu_block_give(block);
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

static struct sluice_buf *make_file(uint32_t width, uint32_t height, unsigned interval)
{
    struct sluice_buf *plain =
        jpeg_test_file(width, height, 7, &(struct sluice_jpeg_encode_options){.quality = 98});
    struct sluice_buf *file = interval ? jpeg_test_with_restarts(plain, interval) : plain;
    if (interval)
        sluice_buf_unref(plain);
    return file;
}

/* Files of which a staging buffer holds some are decoded in several rounds, from both kinds of
 * memory. */
TEST(what_does_not_fit_is_written_apart)
{
    struct sluice_gpu_place_options options = place_test_options(24, 24);
    options.memory_bytes = (uint64_t)48 << 20;
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct sluice_gpu_staging *staging = sluice_gpu_place_take_staging(place);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    struct sluice_buf *file = make_file(500, 400, 8);
    place_test_use_file(batch, file, 500, 400);
    unsigned num_apart = 0;
    for (uint32_t i = 0; i < PLACE_TEST_ROWS; i++) {
        const uint32_t row = i * 7 % PLACE_TEST_ROWS;
        place_test_prepare(batch, staging, row);
        num_apart += batch->prepared[row].data != NULL;
    }
    CU_ASSERT(num_apart > 0 && num_apart < PLACE_TEST_ROWS);
    sluice_gpu_lane_begin(lane, block, staging);
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
        place_test_add(batch, lane, row, false);
    place_test_finish(batch, lane);
    CU_ASSERT_EQUAL(batch->work.decoded, PLACE_TEST_ROWS);
    place_test_check(batch, block);

    /* Once more, the last first. */
    sluice_gpu_lane_begin_again(lane);
    for (uint32_t row = PLACE_TEST_ROWS; row > 0; row--)
        place_test_add(batch, lane, row - 1, false);
    place_test_finish(batch, lane);
    place_test_check(batch, block);

    /* And a staged one in the place of another. */
    uint32_t twice = 0, replaced = PLACE_TEST_ROWS - 1;
    while (batch->prepared[twice].data)
        twice++;
    sluice_gpu_lane_begin_again(lane);
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
        REQUIRE_OK(sluice_gpu_lane_decode(lane, &batch->prepared[row == replaced ? twice : row],
                                          row, NULL));
    memcpy(batch->want + replaced * batch->row_bytes, batch->want + twice * batch->row_bytes,
           batch->row_bytes);
    place_test_finish(batch, lane);
    place_test_check(batch, block);
    sluice_gpu_block_give(block);
    sluice_buf_unref(file);
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

TEST(a_refusal_takes_no_room)
{
    const struct sluice_gpu_place_options options = place_test_options(24, 24);
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_staging *staging = sluice_gpu_place_take_staging(place);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    struct sluice_buf *good = make_file(300, 250, 8), *bad = make_file(500, 400, 0);
    place_test_use_file(batch, good, 300, 250);
    sluice_buf_unref(batch->files[0]);
    batch->requests[0][0] = place_test_whole(&options, 500, 400, 0);
    batch->files[0] = sluice_buf_ref(bad); /* of one long segment: all of it is written first */
    for (unsigned i = 0; i < 1000; i++) {
        place_test_prepare(batch, staging, 0);
        CU_ASSERT_EQUAL_FATAL(batch->refusals[0], SLUICE_E_UNSUPPORTED);
    }
    for (uint32_t row = 1; row < PLACE_TEST_ROWS; row++) {
        place_test_prepare(batch, staging, row);
        CHECK_OK(batch->refusals[row]);
        CU_ASSERT_PTR_NULL(batch->prepared[row].data);
    }
    sluice_gpu_staging_give(staging);
    sluice_buf_unref(good);
    sluice_buf_unref(bad);
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

TEST(page_locked_memory_is_counted)
{
    struct sluice_gpu_place_options options = place_test_options(24, 24);
    struct sluice_gpu_place *place = place_test_open(&options);
    const uint64_t before = sluice_gpu_place_locked_bytes(place);
    /* A lane's and a staging buffer's. */
    CU_ASSERT(before > 2 * PLACE_TEST_ROWS * (uint64_t)100000);
    CU_ASSERT(before < 2 * PLACE_TEST_ROWS * (uint64_t)150000);
    void *memory;
    REQUIRE_OK(sluice_gpu_host_alloc(place, 12345, &memory, NULL));
    CU_ASSERT_EQUAL(sluice_gpu_place_locked_bytes(place), before + 12345);
    sluice_gpu_host_free(place, memory, 12345);
    CU_ASSERT_EQUAL(sluice_gpu_place_locked_bytes(place), before);
    sluice_gpu_place_destroy(place);

    options.num_stagings = 4;
    place = place_test_open(&options);
    CU_ASSERT_EQUAL(sluice_gpu_place_locked_bytes(place), before / 2 * 5);
    sluice_gpu_place_destroy(place);
}

/* The sanitizers end a process that asks for so much. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(a_failure_says_what_was_asked_for)
{
    const struct sluice_gpu_place_options options = place_test_options(24, 24);
    struct sluice_gpu_place *place = place_test_open(&options);
    const uint64_t before = sluice_gpu_place_locked_bytes(place);
    void *memory = NULL;
    struct sluice_err err = {{0}};
    CU_ASSERT_NOT_EQUAL(sluice_gpu_host_alloc(place, (size_t)1 << 60, &memory, &err), SLUICE_OK);
    CU_ASSERT_PTR_NULL(memory);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no 1152921504606.8 MB of page-locked memory beside"));
    CU_ASSERT_EQUAL(sluice_gpu_place_locked_bytes(place), before);
    sluice_gpu_place_destroy(place);
}

static uint64_t address_space_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL_FATAL(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* CUDA takes more address space than there is memory. */
TEST(where_memory_is_short_fewer_batches_gather)
{
    struct sluice_gpu_place_options options = place_test_options(24, 24);
    struct rlimit before;
    if (!place_test_is_host)
        return;
    options.num_stagings = 300;
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_AS, &before), 0);
    const struct rlimit little = {address_space_bytes() + ((uint64_t)256 << 20), before.rlim_max};
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_AS, &little), 0);
    sluice_log_set_level(SLUICE_LOG_ERROR);
    struct sluice_gpu_place *place = place_test_open(&options);
    sluice_log_set_level(SLUICE_LOG_INFO);
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_AS, &before), 0);
    unsigned num = 0;
    struct sluice_gpu_staging *taken[300];
    while ((taken[num] = sluice_gpu_place_take_staging(place)) != NULL)
        num++;
    CU_ASSERT(num > 20 && num < 100);
    while (num > 0)
        sluice_gpu_staging_give(taken[--num]);
    place_test_run(place, &options, 0, 3, 2, sluice_test_seed());
    sluice_gpu_place_destroy(place);
}
#endif

int main(void)
{
    if (place_test_skip())
        sluice_test_skip(place_test_skip());
    return sluice_test_main();
}
