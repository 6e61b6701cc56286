#include "train/cuda/train_cuda_state.h"

#include <math.h>
#include <string.h>

/* Bytes of pinned memory to measure with: pinning takes longer than the uploads. */
#define MAX_UPLOAD_BYTES ((size_t)16 << 20)
/* After one that is not measured. */
#define NUM_UPLOADS 4

/* The block's parts within its memory. */
static struct step_block parts_of(const struct cuda_trainer *cuda, uint8_t *memory)
{
    const size_t n = cuda->base.options.batch_size;
    const size_t labels = sizeof(struct sluice_cuda_step);
    const size_t rows = labels + (n * sizeof(uint32_t) + 15) / 16 * 16;
    return (struct step_block){
        .memory = memory,
        .step = (struct sluice_cuda_step *)memory,
        .labels = (uint32_t *)(memory + labels),
        .rows = (struct sluice_mix_row *)(memory + rows),
    };
}

static size_t block_bytes(const struct cuda_trainer *cuda)
{
    const size_t n = cuda->base.options.batch_size;
    const struct step_block parts = parts_of(cuda, NULL);
    return (size_t)(uintptr_t)parts.rows +
           (cuda->base.mix.rows ? n * sizeof(struct sluice_mix_row) : 0);
}

static sluice_status make_slot(struct cuda_trainer *cuda, struct slot *slot, struct sluice_err *err)
{
    const unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
    const size_t n = cuda->base.options.batch_size;
    uint8_t *memory = NULL;
    void *pinned = NULL;
    sluice_status status = cuda_alloc(cuda, n * sluice_shape_elements(cuda->base.net.layers[0].in),
                                      &slot->pixels, err);
    if (!status)
        status = cuda_alloc(cuda, cuda->block_bytes, &memory, err);
    if (!status)
        status = cuda_host_alloc(&cuda->base, cuda->block_bytes, &pinned, err);
    if (status)
        return status;
    slot->block = parts_of(cuda, memory);
    slot->pinned = parts_of(cuda, pinned);
    status = cuda_check(cudaEventCreateWithFlags(&slot->uploaded, flags), "cudaEventCreate", err);
    if (!status)
        status =
            cuda_check(cudaEventCreateWithFlags(&slot->consumed, flags), "cudaEventCreate", err);
    return status;
}

/* A table of the host's on the device. */
static sluice_status make_table(struct cuda_trainer *cuda, const void *from, size_t bytes,
                                float **table, struct sluice_err *err)
{
    const sluice_status status = cuda_alloc(cuda, bytes, table, err);
    return status ? status
                  : cuda_check(cudaMemcpy(*table, from, bytes, cudaMemcpyHostToDevice),
                               "cudaMemcpy", err);
}

sluice_status cuda_make_slots(struct cuda_trainer *cuda, struct sluice_err *err)
{
    cuda->block_bytes = block_bytes(cuda);
    uint8_t *memory = NULL;
    sluice_status status = cuda_alloc(cuda, cuda->block_bytes, &memory, err);
    if (!status)
        cuda->block = parts_of(cuda, memory);
    for (int i = 0; !status && i < NUM_SLOTS; i++)
        status = make_slot(cuda, &cuda->slots[i], err);
    if (!status)
        status =
            make_table(cuda, cuda->base.options.table, sizeof(float[3][256]), &cuda->table, err);
    if (!status && cuda->base.mix.quantiles)
        status = make_table(cuda, cuda->base.mix.quantiles, SLUICE_NUM_QUANTILES * sizeof(float),
                            &cuda->quantiles, err);
    return status;
}

void cuda_clear_slots(struct cuda_trainer *cuda)
{
    for (int i = 0; i < NUM_SLOTS; i++) {
        struct slot *slot = &cuda->slots[i];
        if (slot->uploaded)
            cudaEventDestroy(slot->uploaded);
        if (slot->consumed)
            cudaEventDestroy(slot->consumed);
        if (slot->pinned.memory)
            cudaFreeHost(slot->pinned.memory);
    }
}

/* Labels may be in pageable memory, from which a copy would block the host: they are copied to the
 * slot's pinned block first, which is free again at `uploaded`, that is before the step returns. */
static size_t fill_block(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                         const struct step_block *block)
{
    *block->step = (struct sluice_cuda_step){
        .step = cuda->base.steps,
        .lr = (float)cuda->base.lr,
    };
    memcpy(block->labels, batch->labels, batch->n * sizeof(*batch->labels));
    if (!batch->key)
        return (size_t)((uint8_t *)(block->labels + batch->n) - block->memory);
    block->step->mix = cuda->base.mix.batch;
    memcpy(block->rows, cuda->base.mix.rows, batch->n * sizeof(*block->rows));
    return (size_t)((uint8_t *)(block->rows + batch->n) - block->memory);
}

sluice_status cuda_upload(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                          struct slot *slot, struct sluice_err *err)
{
    const size_t bytes = batch->n * sluice_shape_elements(cuda->base.net.layers[0].in);
    const size_t used = fill_block(cuda, batch, &slot->pinned);
    sluice_status status = cuda_check(cudaStreamWaitEvent(cuda->copies, slot->consumed, 0),
                                      "cudaStreamWaitEvent", err);
    if (!status && !batch->is_on_device)
        status = cuda_check(cudaMemcpyAsync(slot->pixels, batch->pixels, bytes,
                                            cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
    if (!status)
        status = cuda_check(cudaMemcpyAsync(slot->block.memory, slot->pinned.memory, used,
                                            cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
    if (!status)
        status = cuda_check(cudaEventRecord(slot->uploaded, cuda->copies), "cudaEventRecord", err);
    if (!status)
        status = cuda_check(cudaStreamWaitEvent(cuda->compute, slot->uploaded, 0),
                            "cudaStreamWaitEvent", err);
    return status;
}

sluice_status cuda_host_alloc(struct sluice_trainer *trainer, size_t bytes, void **memory,
                              struct sluice_err *err)
{
    (void)trainer;
    void *block = NULL;
    const cudaError_t error = cudaHostAlloc(&block, bytes ? bytes : 1, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no pinned memory for a batch of %zu bytes",
                           bytes);
    }
    const sluice_status status = cuda_check(error, "cudaHostAlloc", err);
    if (!status)
        *memory = block;
    return status;
}

void cuda_host_free(struct sluice_trainer *trainer, void *memory)
{
    (void)trainer;
    cudaFreeHost(memory);
}

/* Between two events on the stream of copies, which has nothing else to do. */
static sluice_status time_uploads(struct cuda_trainer *cuda, const void *from, size_t bytes,
                                  cudaEvent_t begin, cudaEvent_t end, double *seconds,
                                  struct sluice_err *err)
{
    void *to = cuda->slots[0].pixels;
    sluice_status status = SLUICE_OK;
    for (int i = 0; !status && i <= NUM_UPLOADS; i++) {
        status = cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
        if (!status && i == 0)
            status = cuda_check(cudaEventRecord(begin, cuda->copies), "cudaEventRecord", err);
    }
    if (!status)
        status = cuda_check(cudaEventRecord(end, cuda->copies), "cudaEventRecord", err);
    const cudaError_t waited = cudaStreamSynchronize(cuda->copies); /* the memory goes */
    if (!status)
        status = cuda_check(waited, "upload", err);
    float ms = 0;
    if (!status)
        status = cuda_check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime", err);
    if (!status)
        *seconds = (double)ms * 1e-3;
    return status;
}

sluice_status cuda_measure_upload(struct sluice_trainer *trainer, double *bytes_per_s,
                                  struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    const size_t batch =
        trainer->options.batch_size * sluice_shape_elements(trainer->net.layers[0].in);
    const size_t bytes = batch < MAX_UPLOAD_BYTES ? batch : MAX_UPLOAD_BYTES;
    cudaEvent_t begin = NULL, end = NULL;
    void *pinned = NULL;
    double seconds = 0;
    sluice_status status = sluice_trainer_host_alloc(trainer, bytes, &pinned, err);
    if (status)
        return status;
    status = cuda_check(cudaEventCreate(&begin), "cudaEventCreate", err);
    if (!status)
        status = cuda_check(cudaEventCreate(&end), "cudaEventCreate", err);
    if (!status)
        status = time_uploads(cuda, pinned, bytes, begin, end, &seconds, err);
    if (!status) /* 0: too fast for the clock */
        *bytes_per_s = seconds > 0 ? NUM_UPLOADS * (double)bytes / seconds : INFINITY;
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    sluice_trainer_host_free(trainer, pinned);
    return status;
}
