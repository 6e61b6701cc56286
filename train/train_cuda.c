#include "train/train_cuda_state.h"

#include <string.h>

/* Walks the net forwards and backwards with cuDNN (convolutions), cuBLAS (linear layers) and our
 * kernels (the rest).  The host only queues work:
 *
 *     copy stream       |upload 0 | upload 1 |            | upload 2 |
 *     compute stream              |--- step 0 ---|--- step 1 ---|--- step 2 ---|
 *     staging slot         0          1           0 once step 0 has read it
 *
 * A step returns when its upload is done, so the host runs ahead by two batches at most.  Rows that
 * are on the device stay where they are: a slot holds their labels alone.
 *
 * As on the CPU, tensors share memory where the earlier one is not needed again (relu, dropout),
 * and gradients where a layer's backward pass works in place.  A relu is done by the layer before
 * it where that is one of ours.  Images are N x H x W x C, and filters O x H x W x I; the average
 * pool writes N x C x H x W. */

/* By its number in this process. */

/* Queues the upload into the slot, of rows on the device the labels alone, and makes the compute
 * stream wait for it. */
static sluice_status upload(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                            struct slot *slot, struct sluice_err *err)
{
    const size_t bytes = batch->n * sluice_shape_elements(cuda->base.net.layers[0].in);
    const size_t label_bytes = batch->n * sizeof(*batch->labels);
    const size_t row_bytes = batch->n * sizeof(*slot->rows);
    memcpy(slot->pinned_labels, batch->labels, label_bytes);
    if (batch->key)
        memcpy(slot->pinned_rows, cuda->base.mix.rows, row_bytes);
    sluice_status status = cuda_check(cudaStreamWaitEvent(cuda->copies, slot->consumed, 0),
                                      "cudaStreamWaitEvent", err);
    if (!status && !batch->is_on_device)
        status = cuda_check(cudaMemcpyAsync(slot->pixels, batch->pixels, bytes,
                                            cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
    if (!status)
        status = cuda_check(cudaMemcpyAsync(slot->labels, slot->pinned_labels, label_bytes,
                                            cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
    if (!status && batch->key)
        status = cuda_check(cudaMemcpyAsync(slot->rows, slot->pinned_rows, row_bytes,
                                            cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
    if (!status)
        status = cuda_check(cudaEventRecord(slot->uploaded, cuda->copies), "cudaEventRecord", err);
    if (!status)
        status = cuda_check(cudaStreamWaitEvent(cuda->compute, slot->uploaded, 0),
                            "cudaStreamWaitEvent", err);
    return status;
}

/* From the pixels, which are on the device, and the slot's labels and, if the batch is mixed, rows.
 */
static sluice_status forward(struct cuda_trainer *cuda, struct plan *plan, const uint8_t *pixels,
                             const struct slot *slot, bool is_training, bool is_mixed,
                             struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    const struct sluice_mix_batch *mix = &cuda->base.mix.batch;
    const float *logits = cuda->tensors[net->num_layers];
    float *diff = is_training ? cuda->diffs[net->num_layers] : NULL;
    const cudaError_t input =
        is_mixed ? sluice_cuda_mix_input(cuda->compute, mix, slot->rows, pixels, cuda->table,
                                         cuda->quantiles, cuda->tensors[0])
                 : sluice_cuda_input(cuda->compute, pixels, cuda->table, cuda->tensors[0],
                                     plan->n * sluice_shape_elements(net->layers[0].in));
    sluice_status status = cuda_check(input, "the input", err);
    for (unsigned i = 0; !status && i < net->num_layers; i++)
        status = cuda_forward_layer(cuda, plan, i, is_training, err);
    if (!status)
        status = cuda_check(
            is_mixed ? sluice_cuda_mix_loss(cuda->compute, mix, logits, slot->labels,
                                            net->num_classes, diff, cuda->sample_sums, cuda->sums)
                     : sluice_cuda_loss(cuda->compute, logits, slot->labels, plan->n,
                                        net->num_classes, diff, cuda->sample_sums, cuda->sums),
            "the loss", err);
    if (!status)
        status = cuda_queue_snapshot(cuda, plan->n, err);
    if (!status)
        status = cuda_check(cudaEventRecord(slot->consumed, cuda->compute), "cudaEventRecord", err);
    return status;
}

static sluice_status descend(struct cuda_trainer *cuda, struct sluice_err *err)
{
    return cuda_check(sluice_cuda_sgd(cuda->compute, cuda->values, cuda->momenta, cuda->grads,
                                      cuda->trained_count, (float)cuda->base.lr,
                                      (float)cuda->base.options.momentum,
                                      (float)cuda->base.options.weight_decay),
                      "descending", err);
}

static sluice_status run(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                         bool is_training, struct sluice_err *err)
{
    struct plan *plan = NULL;
    struct slot *slot = &cuda->slots[cuda->next_slot];
    cuda->next_slot = (cuda->next_slot + 1) % NUM_SLOTS;
    sluice_status status = cuda_get_plan(cuda, batch->n, &plan, err);
    if (status)
        return status;
    status = upload(cuda, batch, slot, err);
    if (!status)
        status = forward(cuda, plan, batch->is_on_device ? batch->pixels : slot->pixels, slot,
                         is_training, batch->key != NULL, err);
    memset(cuda->has_diff, 0, (cuda->base.net.num_layers + 1) * sizeof(*cuda->has_diff));
    for (unsigned i = cuda->base.net.num_layers; !status && is_training && i > 0; i--)
        status = cuda_backward_layer(cuda, plan, i - 1, cuda->has_diff, err);
    if (!status && is_training)
        status = descend(cuda, err);
    if (!status)
        return cuda_check(cudaEventSynchronize(slot->uploaded), "upload", err);
    cudaStreamSynchronize(cuda->copies); /* one may have begun, and the memory is not ours */
    return status;
}

static sluice_status cuda_step(struct sluice_trainer *trainer,
                               const struct sluice_train_batch *batch, struct sluice_err *err)
{
    return run((struct cuda_trainer *)trainer, batch, true, err);
}

static sluice_status cuda_evaluate(struct sluice_trainer *trainer,
                                   const struct sluice_train_batch *batch, struct sluice_err *err)
{
    return run((struct cuda_trainer *)trainer, batch, false, err);
}

static sluice_status cuda_host_alloc(struct sluice_trainer *trainer, size_t bytes, void **memory,
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

static void cuda_host_free(struct sluice_trainer *trainer, void *memory)
{
    (void)trainer;
    cudaFreeHost(memory);
}

/* A missing driver is reported as one that is too old. */
static sluice_status no_device(cudaError_t error, struct sluice_err *err)
{
    int driver = 0;
    const char *reason = error ? cudaGetErrorString(error) : "no device";
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        reason = "no driver is installed";
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device cuda: this machine offers none: %s",
                       reason);
}

/* Tensor cores take bf16 and TF32 from compute capability 8.0 on. */
static sluice_status find_precision(struct cuda_trainer *cuda, struct sluice_err *err)
{
    enum sluice_precision *precision = &cuda->base.options.precision;
    int major = 0;
    const sluice_status status = cuda_check(
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda->base.options.gpu),
        "cudaDeviceGetAttribute", err);
    if (status)
        return status;
    if (*precision == SLUICE_PRECISION_DEFAULT)
        *precision = major >= 8 ? SLUICE_PRECISION_BF16 : SLUICE_PRECISION_FP32;
    if (*precision != SLUICE_PRECISION_FP32 && major < 8)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "precision: %s needs a GPU of compute capability 8.0; this one has %d.x",
                           sluice_precision_name(*precision), major);
    return SLUICE_OK;
}

static sluice_status open_device(struct cuda_trainer *cuda, struct sluice_err *err)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error || count < 1)
        return no_device(error, err);
    const int gpu = cuda->base.options.gpu;
    if (gpu >= count)
        return sluice_fail(err, SLUICE_E_INVALID, "gpu %d: this machine has %d, counted from 0",
                           gpu, count);
    sluice_status status = cuda_check(cudaSetDevice(gpu), "cudaSetDevice", err);
    if (!status)
        status = find_precision(cuda, err);
    const bool tf32 = cuda->base.options.precision != SLUICE_PRECISION_FP32;
    if (!status)
        status = cuda_check(cudaStreamCreateWithFlags(&cuda->copies, cudaStreamNonBlocking),
                            "cudaStreamCreate", err);
    if (!status)
        status = cuda_check(cudaStreamCreateWithFlags(&cuda->compute, cudaStreamNonBlocking),
                            "cudaStreamCreate", err);
    if (!status)
        status = cuda_check(
            cudaEventCreateWithFlags(&cuda->done, cudaEventDisableTiming | cudaEventBlockingSync),
            "cudaEventCreate", err);
    if (!status)
        status = cuda_check_cudnn(cudnnCreate(&cuda->cudnn), "cudnnCreate", err);
    if (!status)
        status =
            cuda_check_cudnn(cudnnSetStream(cuda->cudnn, cuda->compute), "cudnnSetStream", err);
    if (!status)
        status = cuda_check_cublas(cublasCreate(&cuda->cublas), "cublasCreate", err);
    if (!status)
        status =
            cuda_check_cublas(cublasSetStream(cuda->cublas, cuda->compute), "cublasSetStream", err);
    if (!status)
        status = cuda_check_cublas(cublasSetMathMode(cuda->cublas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH
                                                                        : CUBLAS_DEFAULT_MATH),
                                   "cublasSetMathMode", err);
    return status;
}

static void cuda_clear(struct sluice_trainer *trainer)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    if (cuda->copies)
        cudaStreamSynchronize(cuda->copies);
    if (cuda->compute)
        cudaStreamSynchronize(cuda->compute);
    for (int i = 0; i < MAX_PLANS; i++)
        cuda_plan_destroy(cuda->plans[i]);
    for (int i = 0; i < NUM_SLOTS; i++) {
        if (cuda->slots[i].uploaded)
            cudaEventDestroy(cuda->slots[i].uploaded);
        if (cuda->slots[i].consumed)
            cudaEventDestroy(cuda->slots[i].consumed);
        if (cuda->slots[i].pinned_labels)
            cudaFreeHost(cuda->slots[i].pinned_labels);
        if (cuda->slots[i].pinned_rows)
            cudaFreeHost(cuda->slots[i].pinned_rows);
    }
    cuda_clear_sums(cuda);
    if (cuda->cublas)
        cublasDestroy(cuda->cublas);
    if (cuda->cudnn)
        cudnnDestroy(cuda->cudnn);
    for (size_t i = 0; i < cuda->num_owned; i++)
        cudaFree(cuda->owned[i]);
    cuda_clear_tables(cuda);
    if (cuda->workspace)
        cudaFree(cuda->workspace);
    if (cuda->done)
        cudaEventDestroy(cuda->done);
    if (cuda->compute)
        cudaStreamDestroy(cuda->compute);
    if (cuda->copies)
        cudaStreamDestroy(cuda->copies);
}

static sluice_status cuda_init(struct sluice_trainer *trainer, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    sluice_status status = open_device(cuda, err);
    trainer->rows_device = trainer->options.gpu;
    trainer->rows_stream = cuda->compute;
    if (!status)
        status = cuda_make_tables(cuda, err);
    if (!status)
        status = cuda_make_params(cuda, err);
    if (!status)
        status = cuda_make_tensors(cuda, err);
    if (!status)
        status = cuda_make_slots(cuda, err);
    if (!status)
        status = cuda_make_sums(cuda, err);
    struct plan *plan = NULL; /* here, so that the first step takes no longer than the others */
    if (!status)
        status = cuda_get_plan(cuda, trainer->options.batch_size, &plan, err);
    if (!status)
        status = cuda_wait(cuda, err);
    return status;
}

const struct sluice_trainer_ops sluice_trainer_cuda_ops = {
    .size = sizeof(struct cuda_trainer),
    .init = cuda_init,
    .clear = cuda_clear,
    .step = cuda_step,
    .evaluate = cuda_evaluate,
    .progress = cuda_progress,
    .collect = cuda_collect,
    .read = cuda_read,
    .write = cuda_write,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .measure_upload = cuda_measure_upload,
};
