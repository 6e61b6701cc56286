#include "train/train_cuda_state.h"

#include "base/array.h"
#include "gpu/cuda_error.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Floats.  Each parameter starts at a multiple of this in the array of all, for wide loads. */
#define PARAM_ALIGNMENT 64

/* Bytes of pinned memory to measure with: pinning takes longer than the uploads. */
#define MAX_UPLOAD_BYTES ((size_t)16 << 20)
/* After one that is not measured. */
#define NUM_UPLOADS 4

sluice_status cuda_check(cudaError_t error, const char *what, struct sluice_err *err)
{
    return sluice_cuda_check(error, "device cuda", what, err);
}

sluice_status cuda_check_cudnn(cudnnStatus_t error, const char *what, struct sluice_err *err)
{
    if (error == CUDNN_STATUS_SUCCESS)
        return SLUICE_OK;
    const sluice_status status =
        error == CUDNN_STATUS_ALLOC_FAILED                              ? SLUICE_E_NO_MEMORY
        : error == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ? SLUICE_E_NO_MEMORY
        : error >= CUDNN_STATUS_NOT_SUPPORTED && error < CUDNN_STATUS_INTERNAL_ERROR
            ? SLUICE_E_UNSUPPORTED
            : SLUICE_E_INTERNAL;
    return sluice_fail(err, status, "device cuda: %s: %s", what, cudnnGetErrorString(error));
}

sluice_status cuda_check_cublas(cublasStatus_t error, const char *what, struct sluice_err *err)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return SLUICE_OK;
    const sluice_status status = error == CUBLAS_STATUS_ALLOC_FAILED    ? SLUICE_E_NO_MEMORY
                                 : error == CUBLAS_STATUS_ARCH_MISMATCH ? SLUICE_E_UNSUPPORTED
                                                                        : SLUICE_E_INTERNAL;
    return sluice_fail(err, status, "device cuda: %s: %s", what, cublasGetStatusString(error));
}

/* Zeroed. */
static sluice_status alloc_device(struct cuda_trainer *cuda, size_t bytes, void **block,
                                  struct sluice_err *err)
{
    if (!sluice_array_reserve(&cuda->owned, &cuda->max_owned, cuda->num_owned + 1,
                              sizeof(*cuda->owned)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    void *memory = NULL;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* clears it, or the next launch reports it again */
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "device cuda: no memory for %zu MB more: is the batch too large?",
                           bytes >> 20);
    }
    sluice_status status = cuda_check(error, "cudaMalloc", err);
    if (status)
        return status;
    cuda->owned[cuda->num_owned++] = memory;
    status = cuda_check(cudaMemsetAsync(memory, 0, bytes, cuda->compute), "cudaMemset", err);
    if (!status)
        *block = memory;
    return status;
}

static sluice_status alloc_floats(struct cuda_trainer *cuda, size_t count, float **array,
                                  struct sluice_err *err)
{
    return alloc_device(cuda, count * sizeof(float), (void **)array, err);
}

sluice_status cuda_wait(struct cuda_trainer *cuda, struct sluice_err *err)
{
    sluice_status status =
        cuda_check(cudaEventRecord(cuda->done, cuda->compute), "cudaEventRecord", err);
    if (!status)
        status = cuda_check(cudaEventSynchronize(cuda->done), "computing", err);
    return status;
}

sluice_status cuda_make_tables(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const size_t num_layers = cuda->base.net.num_layers, num_params = cuda->base.net.num_params;
    cuda->offsets = calloc(num_params, sizeof(*cuda->offsets));
    cuda->tensors = calloc(num_layers + 1, sizeof(*cuda->tensors));
    cuda->diffs = calloc(num_layers + 1, sizeof(*cuda->diffs));
    cuda->num_readers = calloc(num_layers + 1, sizeof(*cuda->num_readers));
    cuda->has_diff = calloc(num_layers + 1, sizeof(*cuda->has_diff));
    cuda->which = calloc(num_layers, sizeof(*cuda->which));
    cuda->means = calloc(num_layers, sizeof(*cuda->means));
    cuda->inverse_deviations = calloc(num_layers, sizeof(*cuda->inverse_deviations));
    if (!cuda->offsets || !cuda->tensors || !cuda->diffs || !cuda->num_readers || !cuda->has_diff ||
        !cuda->which || !cuda->means || !cuda->inverse_deviations)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    return SLUICE_OK;
}

void cuda_clear_tables(struct cuda_trainer *cuda)
{
    free(cuda->owned);
    free(cuda->offsets);
    free(cuda->tensors);
    free(cuda->diffs);
    free(cuda->num_readers);
    free(cuda->has_diff);
    free(cuda->which);
    free(cuda->means);
    free(cuda->inverse_deviations);
}

/* Parameters */

/* OIHW to OHWI or back. */
static void permute(const struct sluice_param *param, const float *from, float *to, bool to_ohwi)
{
    const size_t num_i = param->dims[1], num_k = (size_t)param->dims[2] * param->dims[3];
    for (size_t o = 0; o < param->dims[0]; o++) {
        const size_t start = o * num_i * num_k;
        for (size_t i = 0; i < num_i; i++) {
            for (size_t k = 0; k < num_k; k++) {
                const size_t oihw = start + i * num_k + k, ohwi = start + k * num_i + i;
                if (to_ohwi)
                    to[ohwi] = from[oihw];
                else
                    to[oihw] = from[ohwi];
            }
        }
    }
}

float *cuda_array(const struct cuda_trainer *cuda, enum sluice_array array, unsigned param)
{
    switch (array) {
    case SLUICE_ARRAY_VALUE:
        return cuda->values + cuda->offsets[param];
    case SLUICE_ARRAY_MOMENTUM:
        return cuda->momenta + cuda->offsets[param];
    case SLUICE_ARRAY_GRAD:
        return cuda->grads + cuda->offsets[param];
    }
    return NULL;
}

sluice_status cuda_read(struct sluice_trainer *trainer, enum sluice_array array, unsigned param,
                        float *out, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    const struct sluice_param *info = &trainer->net.params[param];
    const size_t bytes = info->count * sizeof(float);
    float *buffer = out;
    if (info->num_dims == 4 && !(buffer = malloc(bytes)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %s", info->name);
    sluice_status status = cuda_check(cudaMemcpyAsync(buffer, cuda_array(cuda, array, param), bytes,
                                                      cudaMemcpyDeviceToHost, cuda->compute),
                                      "cudaMemcpy", err);
    if (!status)
        status = cuda_wait(cuda, err);
    if (buffer != out) {
        if (!status)
            permute(info, buffer, out, false);
        free(buffer);
    }
    return status;
}

sluice_status cuda_write(struct sluice_trainer *trainer, enum sluice_array array, unsigned param,
                         const float *in, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    const struct sluice_param *info = &trainer->net.params[param];
    const size_t bytes = info->count * sizeof(float);
    float *buffer = NULL;
    if (info->num_dims == 4) {
        buffer = malloc(bytes);
        if (!buffer)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %s", info->name);
        permute(info, in, buffer, true);
    }
    sluice_status status =
        cuda_check(cudaMemcpyAsync(cuda_array(cuda, array, param), buffer ? buffer : in, bytes,
                                   cudaMemcpyHostToDevice, cuda->compute),
                   "cudaMemcpy", err);
    if (!status)
        status = cuda_wait(cuda, err);
    free(buffer);
    return status;
}

sluice_status cuda_make_params(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    size_t count = 0, largest = 1;
    for (int is_trained = 1; is_trained >= 0; is_trained--) {
        for (unsigned i = 0; i < net->num_params; i++) {
            if (net->params[i].is_trained != is_trained)
                continue;
            cuda->offsets[i] = count;
            count +=
                (net->params[i].count + PARAM_ALIGNMENT - 1) / PARAM_ALIGNMENT * PARAM_ALIGNMENT;
            if (net->params[i].count > largest)
                largest = net->params[i].count;
        }
        if (is_trained)
            cuda->trained_count = count;
    }
    sluice_status status = alloc_floats(cuda, count, &cuda->values, err);
    if (!status)
        status = alloc_floats(cuda, cuda->trained_count, &cuda->momenta, err);
    if (!status)
        status = alloc_floats(cuda, cuda->trained_count, &cuda->grads, err);
    if (status)
        return status;

    float *initial = malloc(largest * sizeof(*initial));
    if (!initial)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the initial weights");
    for (unsigned i = 0; !status && i < net->num_params; i++) {
        sluice_net_init_param(net, i, cuda->base.options.seed, initial);
        status = cuda_write(&cuda->base, SLUICE_ARRAY_VALUE, i, initial, err);
    }
    free(initial);
    return status;
}

/* Tensors */

/* Whose output may overwrite its input: the backward pass reads the output or neither. */
static bool is_in_place(enum sluice_layer_kind kind)
{
    return kind == SLUICE_LAYER_RELU || kind == SLUICE_LAYER_DROPOUT;
}

/* Whose backward pass may overwrite its output's gradient with its input's. */
static bool is_in_place_backward(enum sluice_layer_kind kind)
{
    return is_in_place(kind) || kind == SLUICE_LAYER_BATCHNORM || kind == SLUICE_LAYER_ADD;
}

/* The limits of kernels_cuda.h for a layer. */
static sluice_status check_layer(const struct sluice_layer *layer, unsigned i,
                                 struct sluice_err *err)
{
    const bool is_maxpool = layer->kind == SLUICE_LAYER_MAXPOOL;
    if ((is_maxpool || layer->kind == SLUICE_LAYER_BATCHNORM) && layer->in.c % 4 != 0)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "device cuda: layer %u of the model has %u channels, not a multiple of 4", i,
            layer->in.c);
    if (is_maxpool && layer->kernel > SLUICE_CUDA_MAX_POOLED)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "device cuda: layer %u of the model pools %u pixels a side; at most %d",
                           i, layer->kernel, SLUICE_CUDA_MAX_POOLED);
    return SLUICE_OK;
}

static sluice_status make_layer(struct cuda_trainer *cuda, unsigned i, struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const size_t count = cuda->base.options.batch_size * sluice_shape_elements(layer->out);
    sluice_status status = check_layer(layer, i, err);
    if (status)
        return status;
    if (is_in_place(layer->kind)) {
        assert(cuda->num_readers[layer->input] == 1 && layer->input > 0);
        cuda->tensors[i + 1] = cuda->tensors[layer->input];
    } else {
        status = alloc_floats(cuda, count, &cuda->tensors[i + 1], err);
    }
    if (!status && layer->kind == SLUICE_LAYER_MAXPOOL)
        status = alloc_device(cuda, count, (void **)&cuda->which[i], err);
    if (!status && layer->kind == SLUICE_LAYER_BATCHNORM)
        status = alloc_floats(cuda, layer->in.c, &cuda->means[i], err);
    if (!status && layer->kind == SLUICE_LAYER_BATCHNORM)
        status = alloc_floats(cuda, layer->in.c, &cuda->inverse_deviations[i], err);
    return status;
}

sluice_status cuda_make_tensors(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    const size_t n = cuda->base.options.batch_size;
    size_t largest_c = 0;
    for (unsigned i = 0; i < net->num_layers; i++) {
        if (net->layers[i].out.c > largest_c)
            largest_c = net->layers[i].out.c;
        cuda->num_readers[net->layers[i].input]++;
        if (net->layers[i].kind == SLUICE_LAYER_ADD)
            cuda->num_readers[net->layers[i].input2]++;
    }
    sluice_status status =
        alloc_floats(cuda, n * sluice_shape_elements(net->layers[0].in), &cuda->tensors[0], err);
    for (unsigned i = 0; !status && i < net->num_layers; i++)
        status = make_layer(cuda, i, err);

    /* From the end, as a layer hands its gradient on to its input. */
    for (unsigned i = net->num_layers; !status && i > 0; i--) {
        const struct sluice_layer *layer = &net->layers[i - 1];
        if (!cuda->diffs[i])
            status =
                alloc_floats(cuda, n * sluice_shape_elements(layer->out), &cuda->diffs[i], err);
        if (is_in_place_backward(layer->kind)) {
            assert(cuda->num_readers[layer->input] == 1 && layer->input > 0);
            cuda->diffs[layer->input] = cuda->diffs[i];
        }
    }
    if (!status)
        status = alloc_device(cuda, sluice_cuda_scratch(largest_c), (void **)&cuda->scratch, err);
    if (!status)
        status =
            alloc_device(cuda, n * sizeof(*cuda->sample_sums), (void **)&cuda->sample_sums, err);
    if (!status)
        status = alloc_device(cuda, sizeof(*cuda->sums), (void **)&cuda->sums, err);
    return status;
}

sluice_status cuda_make_slots(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const size_t n = cuda->base.options.batch_size;
    sluice_status status = SLUICE_OK;
    for (int i = 0; !status && i < NUM_SLOTS; i++) {
        struct slot *slot = &cuda->slots[i];
        const unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
        status = alloc_device(cuda, n * sluice_shape_elements(cuda->base.net.layers[0].in),
                              (void **)&slot->pixels, err);
        if (!status)
            status = alloc_device(cuda, n * sizeof(*slot->labels), (void **)&slot->labels, err);
        if (!status)
            status = sluice_trainer_host_alloc(&cuda->base, n * sizeof(*slot->pinned_labels),
                                               (void **)&slot->pinned_labels, err);
        if (!status && cuda->base.mix.rows)
            status = alloc_device(cuda, n * sizeof(*slot->rows), (void **)&slot->rows, err);
        if (!status && cuda->base.mix.rows)
            status = sluice_trainer_host_alloc(&cuda->base, n * sizeof(*slot->pinned_rows),
                                               (void **)&slot->pinned_rows, err);
        if (!status)
            status = cuda_check(cudaEventCreateWithFlags(&slot->uploaded, flags), "cudaEventCreate",
                                err);
        if (!status)
            status = cuda_check(cudaEventCreateWithFlags(&slot->consumed, flags), "cudaEventCreate",
                                err);
    }
    if (!status)
        status = alloc_floats(cuda, (size_t)3 * 256, &cuda->table, err);
    if (!status)
        status =
            cuda_check(cudaMemcpyAsync(cuda->table, cuda->base.options.table, sizeof(float[3][256]),
                                       cudaMemcpyHostToDevice, cuda->compute),
                       "cudaMemcpy", err);
    if (!status && cuda->base.mix.quantiles)
        status = alloc_floats(cuda, SLUICE_NUM_QUANTILES, &cuda->quantiles, err);
    if (!status && cuda->base.mix.quantiles)
        status = cuda_check(cudaMemcpyAsync(cuda->quantiles, cuda->base.mix.quantiles,
                                            SLUICE_NUM_QUANTILES * sizeof(float),
                                            cudaMemcpyHostToDevice, cuda->compute),
                            "cudaMemcpy", err);
    return status;
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
