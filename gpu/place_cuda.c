#include "gpu/place_device.h"

#include "gpu/cuda_context.h"
#include "gpu/cuda_error.h"
#include "gpu/decode_cuda.h"
#include "gpu/decoder.h"
#include "gpu/tuning.h"

#include <stdlib.h>
#include <string.h>

struct cuda_device {
    struct sluice_gpu_device base;
    struct sluice_cuda_context *context;
};

struct cuda_engine {
    struct sluice_gpu_engine base;
    struct sluice_gpu_decoder *decoder;
    cudaStream_t stream;
    /* Page-locked, where the kernel reads and writes them itself: a few bytes for each row. */
    struct sluice_gpu_hash_item *items;
    struct sluice_gpu_hash *hashes;
    uint32_t num_hashes;              /* under way */
    cudaEvent_t hash_start, hash_end; /* with times */
    cudaEvent_t done;                 /* what was put on the stream until sync */
    double decode_s;                  /* since the last sync */
};

static sluice_status check(cudaError_t error, const char *what, struct sluice_err *err)
{
    return sluice_cuda_check(error, "GPU", what, err);
}

static struct cuda_engine *engine_of(struct sluice_gpu_engine *base)
{
    return (struct cuda_engine *)base;
}

/* --- device --- */

static struct sluice_gpu_scope cuda_enter(const struct sluice_gpu_device *base)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    const struct sluice_cuda_scope scope = sluice_cuda_enter(device->context);
    return (struct sluice_gpu_scope){scope.before, scope.capture_mode};
}

static void cuda_leave(const struct sluice_gpu_device *base, struct sluice_gpu_scope scope)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    sluice_cuda_leave(device->context,
                      (struct sluice_cuda_scope){scope.context, scope.capture_mode});
}

static void cuda_close(struct sluice_gpu_device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;
    sluice_cuda_context_close(device->context);
    free(device);
}

static sluice_status cuda_alloc(struct sluice_gpu_device *device, bool is_host, size_t bytes,
                                void **memory, struct sluice_err *err)
{
    (void)device;
    void *made = NULL;
    const cudaError_t error = is_host ? cudaMallocHost(&made, bytes) : cudaMalloc(&made, bytes);
    const sluice_status status = check(error, is_host ? "cudaMallocHost" : "cudaMalloc", err);
    if (status == SLUICE_OK)
        *memory = made;
    return status;
}

static void cuda_free(struct sluice_gpu_device *device, bool is_host, void *memory)
{
    (void)device;
    if (is_host)
        cudaFreeHost(memory);
    else
        cudaFree(memory);
}

static sluice_status cuda_mark_open(struct sluice_gpu_device *device, void **mark,
                                    struct sluice_err *err)
{
    (void)device;
    cudaEvent_t event = NULL;
    const sluice_status status =
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate", err);
    *mark = event;
    return status;
}

static void cuda_mark_close(struct sluice_gpu_device *device, void *mark)
{
    (void)device;
    if (mark)
        cudaEventDestroy(mark);
}

static void cuda_mark_set(struct sluice_gpu_device *device, void *mark, void *stream)
{
    (void)device;
    if (cudaEventRecord(mark, stream) == cudaSuccess)
        return;
    cudaStreamSynchronize(stream); /* if that fails, the next call on the device says why */
    cudaGetLastError();            /* or the thread's next launch reports it */
}

/* --- engines --- */

static void cuda_engine_close(struct sluice_gpu_engine *base)
{
    if (!base)
        return;
    struct cuda_engine *engine = engine_of(base);
    if (engine->stream)
        cudaStreamSynchronize(engine->stream);
    sluice_gpu_decoder_destroy(engine->decoder);
    cudaFreeHost(engine->items);
    cudaFreeHost(engine->hashes);
    cuda_mark_close(base->device, engine->hash_start);
    cuda_mark_close(base->device, engine->hash_end);
    cuda_mark_close(base->device, engine->done);
    if (engine->stream)
        cudaStreamDestroy(engine->stream);
    free(engine);
}

static sluice_status open_stream(struct cuda_engine *engine, struct sluice_err *err)
{
    int lowest = 0, highest = 0;
    sluice_status status =
        check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "stream priorities", err);
    if (status != SLUICE_OK)
        return status;
    /* Smaller numbers go first. */
    const int priority =
        lowest - SLUICE_GPU_PRIORITY > highest ? lowest - SLUICE_GPU_PRIORITY : highest;
    status = check(cudaStreamCreateWithPriority(&engine->stream, cudaStreamNonBlocking, priority),
                   "cudaStreamCreate", err);
    if (status == SLUICE_OK)
        status = check(cudaEventCreate(&engine->hash_start), "cudaEventCreate", err);
    if (status == SLUICE_OK)
        status = check(cudaEventCreate(&engine->hash_end), "cudaEventCreate", err);
    if (status == SLUICE_OK)
        status = check(
            cudaEventCreateWithFlags(&engine->done, cudaEventDisableTiming | cudaEventBlockingSync),
            "cudaEventCreate", err);
    return status;
}

static sluice_status cuda_engine_open(struct sluice_gpu_device *device,
                                      const struct sluice_gpu_limits *limits,
                                      const struct sluice_gpu_sizes *capacity, void *upload,
                                      struct sluice_gpu_engine **out, struct sluice_err *err)
{
    (void)capacity;
    struct cuda_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a lane");
    engine->base.device = device;
    sluice_status status = open_stream(engine, err);
    if (status == SLUICE_OK)
        status = sluice_gpu_decoder_create(limits, upload, &engine->decoder, err);
    if (status == SLUICE_OK)
        sluice_gpu_decoder_set_gate(engine->decoder, &device->gate);
    if (status == SLUICE_OK)
        status = check(
            cudaMallocHost((void **)&engine->items, limits->max_samples * sizeof(*engine->items)),
            "cudaMallocHost", err);
    if (status == SLUICE_OK)
        status = check(
            cudaMallocHost((void **)&engine->hashes, limits->max_samples * sizeof(*engine->hashes)),
            "cudaMallocHost", err);
    if (status != SLUICE_OK) {
        cuda_engine_close(&engine->base);
        return status;
    }
    engine->base.batch = sluice_gpu_decoder_batch(engine->decoder);
    *out = &engine->base;
    return SLUICE_OK;
}

static sluice_status cuda_follow(struct sluice_gpu_engine *base, void *mark, struct sluice_err *err)
{
    return check(cudaStreamWaitEvent(engine_of(base)->stream, mark, 0), "cudaStreamWaitEvent", err);
}

static sluice_status cuda_upload(struct sluice_gpu_engine *base, uint8_t *to, const uint8_t *from,
                                 size_t bytes, struct sluice_err *err)
{
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, engine_of(base)->stream),
                 "uploading rows", err);
}

static sluice_status cuda_start(struct sluice_gpu_engine *base, uint8_t *rows,
                                struct sluice_err *err)
{
    struct cuda_engine *engine = engine_of(base);
    return sluice_gpu_decoder_start(engine->decoder, rows, engine->stream, err);
}

static sluice_status cuda_wait(struct sluice_gpu_engine *base, sluice_status *statuses,
                               struct sluice_err *err)
{
    struct cuda_engine *engine = engine_of(base);
    float times_ms[SLUICE_GPU_NUM_STAGES];
    sluice_status status = sluice_gpu_decoder_wait(engine->decoder, statuses, err);
    if (status == SLUICE_OK)
        status = sluice_gpu_decoder_times(engine->decoder, times_ms, err);
    for (unsigned s = SLUICE_GPU_CLEAR; s < SLUICE_GPU_NUM_STAGES && status == SLUICE_OK; s++)
        engine->decode_s += (double)times_ms[s] * 1e-3;
    return status;
}

static sluice_status cuda_hash(struct sluice_gpu_engine *base, const uint8_t *rows,
                               const struct sluice_gpu_row_views *views,
                               const struct sluice_gpu_hash_item *items, uint32_t num_items,
                               struct sluice_err *err)
{
    struct cuda_engine *engine = engine_of(base);
    memcpy(engine->items, items, num_items * sizeof(*items));
    sluice_status status = sluice_gpu_stop_at(&base->device->gate, engine->stream, err);
    if (status == SLUICE_OK)
        status = check(cudaEventRecord(engine->hash_start, engine->stream), "cudaEventRecord", err);
    if (status == SLUICE_OK)
        status = check(sluice_gpu_launch_hash(engine->stream, rows, views, engine->items, num_items,
                                              engine->hashes),
                       "hash", err);
    if (status == SLUICE_OK)
        status = check(cudaEventRecord(engine->hash_end, engine->stream), "cudaEventRecord", err);
    if (status == SLUICE_OK)
        engine->num_hashes = num_items;
    return status;
}

static sluice_status cuda_sync(struct sluice_gpu_engine *base, struct sluice_gpu_hash *hashes,
                               double *device_s, struct sluice_err *err)
{
    struct cuda_engine *engine = engine_of(base);
    float hash_ms = 0;
    sluice_status status =
        check(cudaEventRecord(engine->done, engine->stream), "cudaEventRecord", err);
    if (status == SLUICE_OK)
        status = check(cudaEventSynchronize(engine->done), "making rows", err);
    if (status == SLUICE_OK && engine->num_hashes > 0)
        status = check(cudaEventElapsedTime(&hash_ms, engine->hash_start, engine->hash_end),
                       "cudaEventElapsedTime", err);
    if (status != SLUICE_OK)
        return status;
    memcpy(hashes, engine->hashes, engine->num_hashes * sizeof(*hashes));
    *device_s = engine->decode_s + (double)hash_ms * 1e-3;
    engine->num_hashes = 0;
    engine->decode_s = 0;
    return SLUICE_OK;
}

static void cuda_drop(struct sluice_gpu_engine *base)
{
    struct cuda_engine *engine = engine_of(base);
    sluice_gpu_decoder_drop(engine->decoder);
    if (cudaEventRecord(engine->done, engine->stream) != cudaSuccess ||
        cudaEventSynchronize(engine->done) != cudaSuccess)
        cudaStreamSynchronize(engine->stream);
    engine->num_hashes = 0;
    engine->decode_s = 0;
}

/* Loads all kernels before the first is needed, then reads the free memory. */
static sluice_status prepare(struct cuda_device *device, struct sluice_err *err)
{
    size_t free_bytes = 0, all_bytes = 0;
    sluice_status status = check(sluice_gpu_load_decode(), "loading kernels", err);
    if (status == SLUICE_OK)
        status = check(sluice_gpu_load_pixels(), "loading kernels", err);
    if (status == SLUICE_OK)
        status = check(sluice_gpu_load_hash(), "loading kernels", err);
    if (status == SLUICE_OK)
        status = check(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo", err);
    device->base.free_bytes = free_bytes;
    return status;
}

sluice_status sluice_gpu_device_cuda(int number, struct sluice_gpu_device **device,
                                     struct sluice_err *err)
{
    static const struct sluice_gpu_device_ops ops = {
        .enter = cuda_enter,
        .leave = cuda_leave,
        .close = cuda_close,
        .alloc = cuda_alloc,
        .free = cuda_free,
        .mark_open = cuda_mark_open,
        .mark_close = cuda_mark_close,
        .mark_set = cuda_mark_set,
        .engine_open = cuda_engine_open,
        .engine_close = cuda_engine_close,
        .follow = cuda_follow,
        .upload = cuda_upload,
        .start = cuda_start,
        .wait = cuda_wait,
        .hash = cuda_hash,
        .sync = cuda_sync,
        .drop = cuda_drop,
    };
    struct cuda_device *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a device");
    made->base.ops = &ops;
    made->base.number = number;
    sluice_status status = sluice_cuda_context_open(number, &made->context, err);
    if (status == SLUICE_OK) {
        const struct sluice_cuda_scope scope = sluice_cuda_enter(made->context);
        status = prepare(made, err);
        sluice_cuda_leave(made->context, scope);
    }
    if (status != SLUICE_OK) {
        cuda_close(&made->base);
        return status;
    }
    *device = &made->base;
    return SLUICE_OK;
}
