#include "gpu/decoder.h"

#include "gpu/cuda_error.h"
#include "gpu/decode_cuda.h"
#include "gpu/decode_kernels.h"

#include <assert.h>
#include <stdlib.h>

struct sluice_gpu_decoder {
    struct sluice_gpu_batch batch;
    struct sluice_gpu_memory memory; /* of the device */
    uint64_t device_bytes;
    void *own_upload;  /* page-locked; NULL: the batch was given its memory */
    uint8_t *uploaded; /* the same on the device, at the start of all of its memory */
    uint32_t *faults;  /* page-locked */
    cudaEvent_t marks[SLUICE_GPU_NUM_STAGES + 1]; /* stage s is from mark s to mark s + 1 */
    cudaEvent_t done;
    struct sluice_gpu_gate gate;
    bool is_started;
};

const char *const sluice_gpu_stage_names[SLUICE_GPU_NUM_STAGES] = {
    "upload", "clear", "weigh", "decode", "transform", "across", "down", "pixels",
};

static sluice_status check(cudaError_t error, const char *what, struct sluice_err *err)
{
    return sluice_cuda_check(error, "GPU decoder", what, err);
}

static sluice_status alloc_device(struct sluice_gpu_decoder *decoder,
                                  const struct sluice_gpu_limits *limits,
                                  const struct sluice_gpu_sizes *capacity, struct sluice_err *err)
{
    const struct sluice_gpu_parts parts = sluice_gpu_parts_of(limits, capacity);
    struct sluice_gpu_memory *memory = &decoder->memory;
    uint8_t *start = NULL;
    const sluice_status status = check(cudaMalloc((void **)&start, parts.end), "cudaMalloc", err);
    if (status != SLUICE_OK)
        return status;
    decoder->device_bytes = parts.end;
    decoder->uploaded = start + parts.upload;
    memory->upload = decoder->uploaded;
    memory->coefficients = (int16_t *)(void *)(start + parts.coefficients);
    memory->samples = start + parts.samples;
    memory->weights = (int32_t *)(void *)(start + parts.weights);
    memory->pixels = (uint32_t *)(void *)(start + parts.pixels);
    memory->faults = (uint32_t *)(void *)(start + parts.faults);
    return status;
}

static sluice_status alloc_all(struct sluice_gpu_decoder *decoder,
                               const struct sluice_gpu_limits *limits,
                               const struct sluice_gpu_sizes *capacity, bool has_upload,
                               struct sluice_err *err)
{
    sluice_status status = alloc_device(decoder, limits, capacity, err);
    if (status == SLUICE_OK && !has_upload)
        status = check(cudaMallocHost(&decoder->own_upload, capacity->upload_bytes),
                       "cudaMallocHost", err);
    if (status == SLUICE_OK)
        status =
            check(cudaMallocHost((void **)&decoder->faults, limits->max_samples * sizeof(uint32_t)),
                  "cudaMallocHost", err);
    for (unsigned s = 0; s <= SLUICE_GPU_NUM_STAGES && status == SLUICE_OK; s++)
        status = check(cudaEventCreate(&decoder->marks[s]), "cudaEventCreate", err);
    if (status == SLUICE_OK)
        status = check(cudaEventCreateWithFlags(&decoder->done,
                                                cudaEventDisableTiming | cudaEventBlockingSync),
                       "cudaEventCreate", err);
    return status;
}

static void set_views(struct sluice_gpu_memory *memory, const struct sluice_gpu_limits *limits)
{
    memory->capacity = limits->max_samples;
    memory->num_views = limits->num_views;
    for (uint32_t v = 0; v < limits->num_views; v++) {
        const struct sluice_gpu_view_size *size = &limits->views[v];
        memory->max_width = size->width > memory->max_width ? size->width : memory->max_width;
        memory->max_height = size->height > memory->max_height ? size->height : memory->max_height;
    }
}

sluice_status sluice_gpu_decoder_create(const struct sluice_gpu_limits *limits, void *upload,
                                        struct sluice_gpu_decoder **out, struct sluice_err *err)
{
    struct sluice_gpu_sizes capacity;
    sluice_status status = sluice_gpu_limits_check(limits, &capacity, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_gpu_decoder *decoder = calloc(1, sizeof(*decoder));
    if (!decoder)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a GPU decoder");
    set_views(&decoder->memory, limits);
    status = alloc_all(decoder, limits, &capacity, upload != NULL, err);
    if (status != SLUICE_OK) {
        sluice_gpu_decoder_destroy(decoder);
        return status;
    }
    sluice_gpu_batch_init(&decoder->batch, limits, &capacity,
                          upload ? upload : decoder->own_upload);
    *out = decoder;
    return SLUICE_OK;
}

void sluice_gpu_decoder_destroy(struct sluice_gpu_decoder *decoder)
{
    if (!decoder)
        return;
    if (decoder->is_started)
        cudaEventSynchronize(decoder->done);
    for (unsigned s = 0; s <= SLUICE_GPU_NUM_STAGES; s++) {
        if (decoder->marks[s])
            cudaEventDestroy(decoder->marks[s]);
    }
    if (decoder->done)
        cudaEventDestroy(decoder->done);
    cudaFreeHost(decoder->own_upload);
    cudaFreeHost(decoder->faults);
    cudaFree(decoder->uploaded);
    sluice_gpu_batch_destroy(&decoder->batch);
    free(decoder);
}

uint64_t sluice_gpu_decoder_bytes(const struct sluice_gpu_decoder *decoder)
{
    return decoder->device_bytes;
}

struct sluice_gpu_batch *sluice_gpu_decoder_batch(struct sluice_gpu_decoder *decoder)
{
    assert(!decoder->is_started);
    return &decoder->batch;
}

void sluice_gpu_decoder_set_gate(struct sluice_gpu_decoder *decoder,
                                 const struct sluice_gpu_gate *gate)
{
    decoder->gate = *gate;
}

/* The index and the batch's samples, at once if they follow each other. */
static cudaError_t upload(struct sluice_gpu_decoder *decoder, cudaStream_t stream)
{
    const struct sluice_gpu_batch *batch = &decoder->batch;
    const uint64_t index_bytes = sluice_gpu_index_bytes(&batch->limits);
    const bool is_one = batch->from == index_bytes;
    const cudaError_t error =
        cudaMemcpyAsync(decoder->uploaded, batch->upload, is_one ? batch->end : index_bytes,
                        cudaMemcpyHostToDevice, stream);
    if (error != cudaSuccess || is_one)
        return error;
    return cudaMemcpyAsync(decoder->uploaded + batch->from, batch->upload + batch->from,
                           batch->end - batch->from, cudaMemcpyHostToDevice, stream);
}

/* Stage s of the batch. */
static cudaError_t run_stage(struct sluice_gpu_decoder *decoder, enum sluice_gpu_stage stage,
                             cudaStream_t stream)
{
    const struct sluice_gpu_memory *memory = &decoder->memory;
    const struct sluice_gpu_sizes *used = &decoder->batch.used;
    const struct sluice_gpu_index *sums =
        (const struct sluice_gpu_index *)(const void *)decoder->batch.upload + memory->num_samples;
    switch (stage) {
    case SLUICE_GPU_UPLOAD:
        return upload(decoder, stream);
    case SLUICE_GPU_CLEAR:
        return cudaMemsetAsync(memory->coefficients, 0, used->blocks * 64 * sizeof(int16_t),
                               stream);
    case SLUICE_GPU_WEIGH:
        return sluice_gpu_launch_weigh(stream, memory);
    case SLUICE_GPU_DECODE:
        return sluice_gpu_launch_decode(stream, memory, sums->decode_tasks,
                                        decoder->batch.max_huffman);
    case SLUICE_GPU_TRANSFORM:
        return sluice_gpu_launch_transform(stream, memory, sums->transform_tasks);
    case SLUICE_GPU_PASS_ACROSS:
        return sluice_gpu_launch_across(stream, memory, sums->across_tasks);
    case SLUICE_GPU_PASS_DOWN:
        return sluice_gpu_launch_down(stream, memory);
    case SLUICE_GPU_PIXELS:
        return decoder->batch.has_calls ? sluice_gpu_launch_pixels(stream, memory) : cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}

sluice_status sluice_gpu_decoder_start(struct sluice_gpu_decoder *decoder, uint8_t *rows,
                                       void *stream_of_caller, struct sluice_err *err)
{
    assert(!decoder->is_started);
    cudaStream_t stream = stream_of_caller;
    struct sluice_gpu_memory *memory = &decoder->memory;
    memory->rows = rows;
    memory->num_samples = decoder->batch.num_samples;
    const size_t faults_bytes = memory->num_samples * sizeof(uint32_t);
    sluice_status status = SLUICE_OK;
    if (memory->num_samples > 0)
        status = check(cudaMemsetAsync(memory->faults, 0, faults_bytes, stream), "memset", err);
    for (unsigned s = 0; s < SLUICE_GPU_NUM_STAGES && status == SLUICE_OK; s++) {
        status = check(cudaEventRecord(decoder->marks[s], stream), "cudaEventRecord", err);
        if (status == SLUICE_OK && memory->num_samples > 0)
            status = check(run_stage(decoder, s, stream), sluice_gpu_stage_names[s], err);
        if (status == SLUICE_OK && s == SLUICE_GPU_UPLOAD)
            status = sluice_gpu_stop_at(&decoder->gate, stream, err);
    }
    if (status == SLUICE_OK)
        status = check(cudaEventRecord(decoder->marks[SLUICE_GPU_NUM_STAGES], stream),
                       "cudaEventRecord", err);
    if (status == SLUICE_OK && memory->num_samples > 0)
        status = check(cudaMemcpyAsync(decoder->faults, memory->faults, faults_bytes,
                                       cudaMemcpyDeviceToHost, stream),
                       "download", err);
    if (status == SLUICE_OK)
        status = check(cudaEventRecord(decoder->done, stream), "cudaEventRecord", err);
    if (status != SLUICE_OK)
        cudaStreamSynchronize(stream); /* what was started still uses the memory */
    decoder->is_started = status == SLUICE_OK;
    return status;
}

sluice_status sluice_gpu_decoder_wait(struct sluice_gpu_decoder *decoder, sluice_status *statuses,
                                      struct sluice_err *err)
{
    assert(decoder->is_started);
    const sluice_status status = check(cudaEventSynchronize(decoder->done), "decoding", err);
    decoder->is_started = false;
    for (uint32_t i = 0; status == SLUICE_OK && i < decoder->memory.num_samples; i++)
        statuses[i] = decoder->faults[i] ? SLUICE_E_CORRUPT : SLUICE_OK;
    sluice_gpu_batch_clear(&decoder->batch);
    return status;
}

void sluice_gpu_decoder_drop(struct sluice_gpu_decoder *decoder)
{
    if (decoder->is_started)
        cudaEventSynchronize(decoder->done);
    decoder->is_started = false;
    sluice_gpu_batch_clear(&decoder->batch);
}

sluice_status sluice_gpu_decoder_times(const struct sluice_gpu_decoder *decoder,
                                       float times_ms[SLUICE_GPU_NUM_STAGES],
                                       struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned s = 0; s < SLUICE_GPU_NUM_STAGES && status == SLUICE_OK; s++)
        status = check(cudaEventElapsedTime(&times_ms[s], decoder->marks[s], decoder->marks[s + 1]),
                       "cudaEventElapsedTime", err);
    return status;
}
