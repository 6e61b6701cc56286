/* The kind of place that test_place.c tests in gpu/place_cuda: a device's; and what it does with
 * streams, graphs, memory and the current device. */

#include "base/buf.h"
#include "place_support.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const bool place_test_is_host = false;

static void must(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
}

static int num_devices(void)
{
    int num = 0;
    return cudaGetDeviceCount(&num) == cudaSuccess ? num : 0;
}

const char *place_test_skip(void)
{
    return num_devices() > 0 ? NULL : "there is no CUDA device";
}

void place_test_read(const struct sluice_gpu_block *block, size_t bytes, uint8_t *rows)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream;
    int before;
    struct cudaPointerAttributes memory;
    must(cudaThreadExchangeStreamCaptureMode(&mode));
    must(cudaPointerGetAttributes(&memory, sluice_gpu_block_rows(block)));
    must(cudaGetDevice(&before));
    must(cudaSetDevice(memory.device));
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must(
        cudaMemcpyAsync(rows, sluice_gpu_block_rows(block), bytes, cudaMemcpyDeviceToHost, stream));
    must(cudaStreamSynchronize(stream));
    must(cudaStreamDestroy(stream));
    must(cudaSetDevice(before));
    must(cudaThreadExchangeStreamCaptureMode(&mode));
}

/* Uploads rows of one byte value. */
static void fill(struct place_test_batch *batch, struct sluice_gpu_lane *lane,
                 struct sluice_gpu_block *block, int value)
{
    memset(batch->pixels, value, PLACE_TEST_ROWS * batch->row_bytes);
    sluice_gpu_lane_begin(lane, block, NULL);
    for (uint32_t row = 0; row < PLACE_TEST_ROWS; row++)
        REQUIRE_OK(sluice_gpu_lane_upload(lane, row * batch->row_bytes,
                                          batch->pixels + row * batch->row_bytes, batch->row_bytes,
                                          NULL));
    place_test_finish(batch, lane);
}

static bool is_filled(const uint8_t *bytes, size_t len, int value)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != value)
            return false;
    }
    return true;
}

/* What stands before the reader on its stream. */
static void CUDART_CB delay(void *arg)
{
    (void)arg;
    const struct timespec length = {.tv_nsec = 300000000};
    nanosleep(&length, NULL);
}

/* A reader on the stream copies the block late; the next batch in it comes later still. */
static void read_late(cudaStream_t stream)
{
    struct sluice_gpu_place_options options = place_test_options(64, 64);
    options.num_blocks = 1;
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_lane *lane = sluice_gpu_place_lane(place, 0);
    struct place_test_batch *batch = place_test_batch_create(place, &options);
    const size_t bytes = PLACE_TEST_ROWS * batch->row_bytes;
    void *copy;
    must(cudaMallocHost(&copy, bytes));
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    fill(batch, lane, block, 1);
    must(cudaLaunchHostFunc(stream, delay, NULL));
    must(
        cudaMemcpyAsync(copy, sluice_gpu_block_rows(block), bytes, cudaMemcpyDeviceToHost, stream));
    sluice_gpu_block_give_after(block, stream);
    CU_ASSERT_PTR_EQUAL_FATAL(sluice_gpu_place_take(place), block);
    fill(batch, lane, block, 2);
    must(cudaStreamSynchronize(stream));
    CU_ASSERT(is_filled(copy, bytes, 1));
    place_test_read(block, bytes, batch->rows);
    CU_ASSERT(is_filled(batch->rows, bytes, 2));
    sluice_gpu_block_give(block);
    must(cudaFreeHost(copy));
    place_test_batch_destroy(batch);
    sluice_gpu_place_destroy(place);
}

TEST(a_block_given_after_work_waits_for_it)
{
    cudaStream_t stream;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    read_late(stream);
    must(cudaStreamDestroy(stream));
    read_late(NULL);
}

/* What CUDA may take for streams. */
#define CUDAS_OWN ((size_t)4 << 20)

static size_t free_bytes(void)
{
    size_t free, all;
    must(cudaMemGetInfo(&free, &all));
    return free;
}

/* Once the kernels are loaded. */
TEST(memory_is_what_it_says_and_stays_so)
{
    if (getenv("SLUICE_CUDA_SANITIZER")) {
        CU_PASS("compute-sanitizer takes of the device's memory, too"); /* scripts/test-cuda */
        return;
    }
    struct sluice_gpu_place_options options = place_test_options(224, 224);
    options.num_lanes = 2;
    options.num_blocks = 4;
    struct sluice_gpu_place *place = place_test_open(&options);
    place_test_run(place, &options, 0, 1, 2, 1);
    sluice_gpu_place_destroy(place);
    const size_t before = free_bytes();
    place = place_test_open(&options);
    const size_t opened = free_bytes();
    CU_ASSERT(before - opened <= sluice_gpu_place_bytes(place) + CUDAS_OWN);
    CU_ASSERT(before - opened + CUDAS_OWN >= sluice_gpu_place_bytes(place));
    for (unsigned lane = 0; lane < 2; lane++)
        place_test_run(place, &options, lane, 2, 2, lane);
    CU_ASSERT_EQUAL(free_bytes(), opened);
    sluice_gpu_place_destroy(place);
    CU_ASSERT(free_bytes() + CUDAS_OWN >= before);
}

struct worker {
    struct sluice_gpu_place *place;
    const struct sluice_gpu_place_options *options;
};

static void *work(void *arg)
{
    const struct worker *worker = arg;
    place_test_run(worker->place, worker->options, 0, 2, 3, 5);
    struct sluice_gpu_place *other = place_test_open(worker->options);
    sluice_gpu_place_destroy(other);
    return NULL;
}

TEST(a_graph_that_is_captured_meanwhile_is_whole)
{
    const struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct worker worker = {.place = place_test_open(&options), .options = &options};
    cudaStream_t stream;
    cudaGraph_t graph;
    void *memory;
    pthread_t thread;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must(cudaMalloc(&memory, 1024));
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    must(cudaMemsetAsync(memory, 1, 1024, stream));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, work, &worker), 0);
    pthread_join(thread, NULL);
    must(cudaMemsetAsync(memory, 2, 1024, stream));
    CU_ASSERT_EQUAL(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    size_t num_nodes = 0;
    must(cudaGraphGetNodes(graph, NULL, &num_nodes));
    CU_ASSERT_EQUAL(num_nodes, 2);
    must(cudaGraphDestroy(graph));
    must(cudaFree(memory));
    must(cudaStreamDestroy(stream));
    sluice_gpu_place_destroy(worker.place);
}

/* The last device, from a thread whose device is the first. */
TEST(the_current_device_stays)
{
    struct sluice_gpu_place_options options = place_test_options(32, 32);
    options.device = num_devices() - 1;
    must(cudaSetDevice(0));
    struct sluice_gpu_place *place = place_test_open(&options);
    struct sluice_gpu_block *block = sluice_gpu_place_take(place);
    struct cudaPointerAttributes memory;
    must(cudaPointerGetAttributes(&memory, sluice_gpu_block_rows(block)));
    CU_ASSERT_EQUAL(memory.device, options.device);
    sluice_gpu_block_give(block);
    place_test_run(place, &options, 0, 2, 3, sluice_test_seed());
    int device = -1;
    must(cudaGetDevice(&device));
    CU_ASSERT_EQUAL(device, 0);
    sluice_gpu_place_destroy(place);
    must(cudaGetDevice(&device));
    CU_ASSERT_EQUAL(device, 0);
    printf("(device %d) ", options.device);
}

TEST(a_device_that_is_not_there_is_unsupported)
{
    struct sluice_gpu_place_options options = place_test_options(32, 32);
    struct sluice_gpu_place *place = NULL;
    struct sluice_err err = {{0}};
    options.device = num_devices();
    CU_ASSERT_EQUAL(sluice_gpu_place_create(&options, &place, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(place);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "there is no device"));
}
