/* The device against the CPU: its decoder and resize, and the same kernels' source on the host. */

#include "gpu/decoder.h"

#include "gpu/decode_host.h"
#include "gpu_support.h"
#include "support/test.h"

#include <cuda_runtime_api.h>

static struct sluice_gpu_decoder *decoder;
static cudaStream_t stream;
static uint8_t *device_rows;

static void must(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
}

/* Both ways; the rows of the device are the result. */
static void decode(struct sluice_gpu_batch *batch, uint8_t *rows, sluice_status *statuses)
{
    const struct sluice_gpu_limits *limits = &batch->limits;
    const size_t row_bytes = sluice_gpu_row_bytes(limits);
    const size_t bytes = limits->max_samples * row_bytes;
    const uint32_t num_samples = batch->num_samples;
    uint8_t *host_rows = aligned_alloc(16, (bytes + 15) / 16 * 16);
    sluice_status *host_statuses = calloc(num_samples + 1, sizeof(*host_statuses));
    uint32_t *places = calloc(num_samples + 1, sizeof(*places));
    if (!host_rows || !host_statuses || !places)
        abort();
    for (uint32_t i = 0; i < num_samples; i++) {
        const struct sluice_gpu_index *index = (const struct sluice_gpu_index *)batch->upload;
        places[i] = ((const struct sluice_gpu_sample *)(batch->upload + index[i].at))->row;
    }
    memcpy(host_rows, rows, bytes);
    struct sluice_err err = {{0}};
    REQUIRE_OK(sluice_gpu_decode_host(batch, host_rows, host_statuses, &err));

    must(cudaMemcpyAsync(device_rows, rows, bytes, cudaMemcpyHostToDevice, stream));
    REQUIRE_OK(sluice_gpu_decoder_start(decoder, device_rows, stream, &err));
    REQUIRE_OK(sluice_gpu_decoder_wait(decoder, statuses, &err));
    must(cudaMemcpyAsync(rows, device_rows, bytes, cudaMemcpyDeviceToHost, stream));
    must(cudaStreamSynchronize(stream));
    CU_ASSERT_EQUAL(batch->num_samples, 0);
    for (uint32_t i = 0; i < num_samples; i++) {
        CU_ASSERT_EQUAL_FATAL(statuses[i], host_statuses[i]);
        const size_t at = places[i] * row_bytes;
        CU_ASSERT_FATAL(statuses[i] != SLUICE_OK ||
                        memcmp(rows + at, host_rows + at, row_bytes) == 0);
    }
    free(host_rows);
    free(host_statuses);
    free(places);
}

static void open_decoder(uint32_t out_width, uint32_t out_height)
{
    const struct sluice_gpu_limits limits = {
        .max_samples = 14,
        .num_views = 1,
        .views = {{out_width, out_height}},
        .max_file_bytes = 4 << 20,
        .max_pixels = 1 << 20,
    };
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_gpu_decoder_create(&limits, NULL, &decoder, &err);
    if (status != SLUICE_OK)
        fprintf(stderr, "%s\n", err.text);
    REQUIRE_OK(status);
    CU_ASSERT(sluice_gpu_decoder_bytes(decoder) > limits.max_file_bytes);
    must(cudaMalloc((void **)&device_rows, (size_t)14 * out_width * out_height * 3));
}

static void close_decoder(void)
{
    sluice_gpu_decoder_destroy(decoder);
    must(cudaFree(device_rows));
}

static const uint32_t out_sizes[][2] = {{32, 32}, {1, 1}, {37, 20}, {64, 9}, {3, 150}};

TEST(every_kind_and_box_is_the_cpus)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(out_sizes); i++) {
        open_decoder(out_sizes[i][0], out_sizes[i][1]);
        gpu_test_random_batches(sluice_gpu_decoder_batch(decoder), decode, 12,
                                sluice_test_seed() + i);
        close_decoder();
    }
}

TEST(random_tables_are_libjpegs)
{
    open_decoder(40, 31);
    gpu_test_random_tables(sluice_gpu_decoder_batch(decoder), decode, 40, sluice_test_seed());
    close_decoder();
}

TEST(damage_is_declined_or_decoded_as_the_cpu_does)
{
    open_decoder(24, 24);
    CU_ASSERT(gpu_test_damaged_batches(sluice_gpu_decoder_batch(decoder), decode,
                                       gpu_test_num_damaged_batches(), sluice_test_seed()) > 0);
    close_decoder();
}

TEST(an_empty_batch_is_nothing_to_do)
{
    struct sluice_err err = {{0}};
    float times_ms[SLUICE_GPU_NUM_STAGES];
    open_decoder(4, 4);
    CHECK_OK(sluice_gpu_decoder_start(decoder, device_rows, stream, &err));
    CHECK_OK(sluice_gpu_decoder_wait(decoder, NULL, &err));
    CHECK_OK(sluice_gpu_decoder_times(decoder, times_ms, &err));
    close_decoder();
}

TEST(limits_that_are_0_are_invalid)
{
    struct sluice_err err = {{0}};
    struct sluice_gpu_decoder *none = NULL;
    const struct sluice_gpu_limits limits = {.max_samples = 1};
    CU_ASSERT_EQUAL(sluice_gpu_decoder_create(&limits, NULL, &none, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(none);
}

int main(void)
{
    int num_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&num_devices);
    if (error != cudaSuccess || num_devices == 0)
        sluice_test_skip(cudaGetErrorString(error ? error : cudaErrorNoDevice));
    must(cudaStreamCreate(&stream));
    const int result = sluice_test_main();
    must(cudaStreamDestroy(stream));
    return result;
}
