#include "compute_client/train/trainer_internal.h"

#include "compute_client/train/kernels_cuda.h"

#include <cublas_v2.h>
#include <cudnn.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Walks the net forwards and backwards with cuDNN (convolutions), cuBLAS (linear layers) and our
 * kernels (the rest).  The host only queues work:
 *
 *     copy stream       |upload 0 | upload 1 |            | upload 2 |
 *     compute stream              |--- step 0 ---|--- step 1 ---|--- step 2 ---|
 *     staging slot         0          1           0 once step 0 has read it
 *
 * A step returns when its upload is done, so the host runs ahead by two batches at most.
 *
 * As on the CPU, tensors share memory where the earlier one is not needed again (relu, dropout),
 * and gradients where a layer's backward pass works in place.  A relu is done by the layer before
 * it where that is one of ours.  Images are N x H x W x C, and filters O x H x W x I; the average
 * pool writes N x C x H x W. */

/* The last batch of an epoch is short, and a few sizes may turn up where samples are skipped. */
#define MAX_PLANS 4

#define NUM_SLOTS 2

/* No algorithm that wants more is taken.  The fastest ones for the largest layers of the models
 * here, at a batch of 256, stay below. */
#define MAX_WORKSPACE ((size_t)1 << 30)

#define MAX_BLOCKS 1024 /* of device memory: a few for each layer */

#define BATCHNORM_EPSILON 1e-5
#define BATCHNORM_MOMENTUM 0.1

/* Where each parameter starts in the arrays of all parameters, so that loads can be wide. */
#define PARAM_ALIGNMENT 64 /* floats */

enum pass { PASS_FORWARD, PASS_BACKWARD_DATA, PASS_BACKWARD_FILTER, NUM_PASSES };

struct conv_pass {
    int algo; /* of the pass's own enum */
    cudnnMathType_t math;
    size_t workspace;
};

struct conv_plan { /* all NULL for other layers */
    cudnnTensorDescriptor_t in, out;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    struct conv_pass passes[NUM_PASSES];
};

struct plan { /* for batches of n */
    unsigned n;
    uint64_t last_use;
    struct conv_plan layers[SLUICE_NET_MAX_LAYERS];
};

struct slot {
    uint8_t *pixels;
    uint32_t *labels;
    cudaEvent_t uploaded, consumed;
};

struct cuda_trainer {
    struct sluice_trainer base;
    cudaStream_t copies, compute;
    cudaEvent_t done;
    cudnnHandle_t cudnn;
    cublasHandle_t cublas;

    struct plan *plans[MAX_PLANS];
    uint64_t uses;
    struct slot slots[NUM_SLOTS];
    unsigned next_slot;

    /* Every parameter at its offset; the trained ones come first, in trained_count floats. */
    float *values, *momenta, *grads;
    size_t offsets[SLUICE_NET_MAX_PARAMS];
    size_t trained_count;

    float *table;
    double *scratch; /* for sums over columns */
    void *workspace;
    size_t workspace_bytes;

    /* By tensor index, for batch_size samples; several may be one array. */
    float *tensors[SLUICE_NET_MAX_LAYERS + 1];
    float *diffs[SLUICE_NET_MAX_LAYERS + 1]; /* tensor 0 has none */
    unsigned num_readers[SLUICE_NET_MAX_LAYERS + 1];
    uint8_t *which[SLUICE_NET_MAX_LAYERS]; /* MAXPOOL: where the maximum was */
    float *means[SLUICE_NET_MAX_LAYERS];   /* BATCHNORM: of the batch */
    float *inverse_deviations[SLUICE_NET_MAX_LAYERS];

    struct sluice_cuda_sums *sample_sums; /* batch_size */
    struct sluice_cuda_sums *sums;        /* since the last collect */

    void *owned[MAX_BLOCKS];
    size_t num_owned;
};

static sluice_status check_cuda(cudaError_t error, const char *what, struct sluice_err *err)
{
    sluice_status status;
    switch (error) {
    case cudaSuccess:
        return SLUICE_OK;
    case cudaErrorMemoryAllocation:
        status = SLUICE_E_NO_MEMORY;
        break;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
        status = SLUICE_E_UNSUPPORTED;
        break;
    default:
        status = SLUICE_E_INTERNAL;
        break;
    }
    return sluice_fail(err, status, "device cuda: %s: %s", what, cudaGetErrorString(error));
}

static sluice_status check_cudnn(cudnnStatus_t error, const char *what, struct sluice_err *err)
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

static sluice_status check_cublas(cublasStatus_t error, const char *what, struct sluice_err *err)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return SLUICE_OK;
    const sluice_status status = error == CUBLAS_STATUS_ALLOC_FAILED    ? SLUICE_E_NO_MEMORY
                                 : error == CUBLAS_STATUS_ARCH_MISMATCH ? SLUICE_E_UNSUPPORTED
                                                                        : SLUICE_E_INTERNAL;
    return sluice_fail(err, status, "device cuda: %s: %s", what, cublasGetStatusString(error));
}

static size_t elements(struct sluice_shape shape)
{
    return (size_t)shape.c * shape.h * shape.w;
}

/* Zeroed. */
static sluice_status alloc_device(struct cuda_trainer *cuda, size_t bytes, void **block,
                                  struct sluice_err *err)
{
    assert(cuda->num_owned < MAX_BLOCKS);
    void *memory = NULL;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* it is told; the next launch must not report it again */
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "device cuda: no memory for %zu MB more: is the batch too large?",
                           bytes >> 20);
    }
    sluice_status status = check_cuda(error, "cudaMalloc", err);
    if (status)
        return status;
    cuda->owned[cuda->num_owned++] = memory;
    status = check_cuda(cudaMemsetAsync(memory, 0, bytes, cuda->compute), "cudaMemset", err);
    if (!status)
        *block = memory;
    return status;
}

static sluice_status alloc_floats(struct cuda_trainer *cuda, size_t count, float **array,
                                  struct sluice_err *err)
{
    return alloc_device(cuda, count * sizeof(float), (void **)array, err);
}

/* Sleeps, as the CPUs have samples to prepare. */
static sluice_status wait_compute(struct cuda_trainer *cuda, struct sluice_err *err)
{
    sluice_status status =
        check_cuda(cudaEventRecord(cuda->done, cuda->compute), "cudaEventRecord", err);
    if (!status)
        status = check_cuda(cudaEventSynchronize(cuda->done), "computing", err);
    return status;
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

static float *array_of(const struct cuda_trainer *cuda, enum sluice_array array, unsigned param)
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

static sluice_status cuda_read(struct sluice_trainer *trainer, enum sluice_array array,
                               unsigned param, float *out, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    const struct sluice_param *info = &trainer->net.params[param];
    const size_t bytes = info->count * sizeof(float);
    float *buffer = out;
    if (info->num_dims == 4 && !(buffer = malloc(bytes)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %s", info->name);
    sluice_status status = check_cuda(cudaMemcpyAsync(buffer, array_of(cuda, array, param), bytes,
                                                      cudaMemcpyDeviceToHost, cuda->compute),
                                      "cudaMemcpy", err);
    if (!status)
        status = wait_compute(cuda, err);
    if (buffer != out) {
        if (!status)
            permute(info, buffer, out, false);
        free(buffer);
    }
    return status;
}

static sluice_status cuda_write(struct sluice_trainer *trainer, enum sluice_array array,
                                unsigned param, const float *in, struct sluice_err *err)
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
        check_cuda(cudaMemcpyAsync(array_of(cuda, array, param), buffer ? buffer : in, bytes,
                                   cudaMemcpyHostToDevice, cuda->compute),
                   "cudaMemcpy", err);
    if (!status)
        status = wait_compute(cuda, err);
    free(buffer);
    return status;
}

static sluice_status make_params(struct cuda_trainer *cuda, struct sluice_err *err)
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

static sluice_status make_layer(struct cuda_trainer *cuda, unsigned i, struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const size_t count = cuda->base.options.batch_size * elements(layer->out);
    sluice_status status = SLUICE_OK;
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

static sluice_status make_tensors(struct cuda_trainer *cuda, struct sluice_err *err)
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
        alloc_floats(cuda, n * elements(net->layers[0].in), &cuda->tensors[0], err);
    for (unsigned i = 0; !status && i < net->num_layers; i++)
        status = make_layer(cuda, i, err);

    /* From the end, as a layer hands its gradient on to its input. */
    for (unsigned i = net->num_layers; !status && i > 0; i--) {
        const struct sluice_layer *layer = &net->layers[i - 1];
        if (!cuda->diffs[i])
            status = alloc_floats(cuda, n * elements(layer->out), &cuda->diffs[i], err);
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

static sluice_status make_slots(struct cuda_trainer *cuda, struct sluice_err *err)
{
    const size_t n = cuda->base.options.batch_size;
    sluice_status status = SLUICE_OK;
    for (int i = 0; !status && i < NUM_SLOTS; i++) {
        struct slot *slot = &cuda->slots[i];
        const unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
        status = alloc_device(cuda, n * elements(cuda->base.net.layers[0].in),
                              (void **)&slot->pixels, err);
        if (!status)
            status = alloc_device(cuda, n * sizeof(*slot->labels), (void **)&slot->labels, err);
        if (!status)
            status = check_cuda(cudaEventCreateWithFlags(&slot->uploaded, flags), "cudaEventCreate",
                                err);
        if (!status)
            status = check_cuda(cudaEventCreateWithFlags(&slot->consumed, flags), "cudaEventCreate",
                                err);
    }
    if (!status)
        status = alloc_floats(cuda, (size_t)3 * 256, &cuda->table, err);
    if (!status)
        status =
            check_cuda(cudaMemcpyAsync(cuda->table, cuda->base.options.table, sizeof(float[3][256]),
                                       cudaMemcpyHostToDevice, cuda->compute),
                       "cudaMemcpy", err);
    return status;
}

/* Plans: cuDNN's descriptors and algorithms for one batch size */

static void conv_plan_clear(struct conv_plan *plan)
{
    if (plan->in)
        cudnnDestroyTensorDescriptor(plan->in);
    if (plan->out)
        cudnnDestroyTensorDescriptor(plan->out);
    if (plan->filter)
        cudnnDestroyFilterDescriptor(plan->filter);
    if (plan->conv)
        cudnnDestroyConvolutionDescriptor(plan->conv);
}

static void plan_destroy(struct plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < SLUICE_NET_MAX_LAYERS; i++)
        conv_plan_clear(&plan->layers[i]);
    free(plan);
}

static sluice_status describe(unsigned n, struct sluice_shape shape,
                              cudnnTensorDescriptor_t *descriptor, struct sluice_err *err)
{
    sluice_status status =
        check_cudnn(cudnnCreateTensorDescriptor(descriptor), "cudnnCreateTensorDescriptor", err);
    if (!status)
        status = check_cudnn(cudnnSetTensor4dDescriptor(*descriptor, CUDNN_TENSOR_NHWC,
                                                        CUDNN_DATA_FLOAT, (int)n, (int)shape.c,
                                                        (int)shape.h, (int)shape.w),
                             "cudnnSetTensor4dDescriptor", err);
    return status;
}

/* What the three kinds of results have in common. */
struct candidate {
    int algo;
    cudnnStatus_t status;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math;
};

#define CANDIDATE(result)                                                                          \
    {                                                                                              \
        (int)(result).algo, (result).status, (result).memory, (result).determinism,                \
            (result).mathType                                                                      \
    }

#define MAX_CANDIDATES 10

/* cuDNN's order is by expected time.  A deterministic one wins: the same run gives the same
 * weights again. */
static sluice_status pick(const struct cuda_trainer *cuda, const struct candidate *candidates,
                          int count, struct conv_pass *out, struct sluice_err *err)
{
    for (int deterministic = 1; deterministic >= 0; deterministic--) {
        for (int i = 0; i < count; i++) {
            const struct candidate *c = &candidates[i];
            if (c->status != CUDNN_STATUS_SUCCESS || c->memory > MAX_WORKSPACE ||
                (deterministic && c->determinism != CUDNN_DETERMINISTIC) ||
                (!cuda->base.options.allow_tf32 && c->math != CUDNN_FMA_MATH))
                continue;
            *out = (struct conv_pass){.algo = c->algo, .math = c->math, .workspace = c->memory};
            return SLUICE_OK;
        }
    }
    return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                       "device cuda: cuDNN has no algorithm for a convolution");
}

static sluice_status pick_algorithms(struct cuda_trainer *cuda, struct conv_plan *plan,
                                     bool needs_diff, struct sluice_err *err)
{
    int count = 0;
    struct candidate candidates[MAX_CANDIDATES];
    cudnnConvolutionFwdAlgoPerf_t forward[MAX_CANDIDATES];
    sluice_status status = check_cudnn(
        cudnnGetConvolutionForwardAlgorithm_v7(cuda->cudnn, plan->in, plan->filter, plan->conv,
                                               plan->out, MAX_CANDIDATES, &count, forward),
        "cudnnGetConvolutionForwardAlgorithm", err);
    for (int i = 0; !status && i < count; i++)
        candidates[i] = (struct candidate)CANDIDATE(forward[i]);
    if (!status)
        status = pick(cuda, candidates, count, &plan->passes[PASS_FORWARD], err);
    if (status)
        return status;

    cudnnConvolutionBwdFilterAlgoPerf_t filter[MAX_CANDIDATES];
    status = check_cudnn(
        cudnnGetConvolutionBackwardFilterAlgorithm_v7(cuda->cudnn, plan->in, plan->out, plan->conv,
                                                      plan->filter, MAX_CANDIDATES, &count, filter),
        "cudnnGetConvolutionBackwardFilterAlgorithm", err);
    for (int i = 0; !status && i < count; i++)
        candidates[i] = (struct candidate)CANDIDATE(filter[i]);
    if (!status)
        status = pick(cuda, candidates, count, &plan->passes[PASS_BACKWARD_FILTER], err);
    if (status || !needs_diff)
        return status;

    cudnnConvolutionBwdDataAlgoPerf_t data[MAX_CANDIDATES];
    status = check_cudnn(cudnnGetConvolutionBackwardDataAlgorithm_v7(
                             cuda->cudnn, plan->filter, plan->out, plan->conv, plan->in,
                             MAX_CANDIDATES, &count, data),
                         "cudnnGetConvolutionBackwardDataAlgorithm", err);
    for (int i = 0; !status && i < count; i++)
        candidates[i] = (struct candidate)CANDIDATE(data[i]);
    if (!status)
        status = pick(cuda, candidates, count, &plan->passes[PASS_BACKWARD_DATA], err);
    return status;
}

/* The workspace is one for all: layers run one after the other. */
static sluice_status reserve_workspace(struct cuda_trainer *cuda, size_t bytes,
                                       struct sluice_err *err)
{
    if (bytes <= cuda->workspace_bytes)
        return SLUICE_OK;
    sluice_status status = wait_compute(cuda, err);
    if (status)
        return status;
    cudaFree(cuda->workspace);
    cuda->workspace = NULL;
    cuda->workspace_bytes = 0;
    const cudaError_t error = cudaMalloc(&cuda->workspace, bytes);
    if (error == cudaErrorMemoryAllocation)
        cudaGetLastError();
    status = check_cuda(error, "memory for convolutions", err);
    if (!status)
        cuda->workspace_bytes = bytes;
    return status;
}

static sluice_status plan_conv(struct cuda_trainer *cuda, const struct sluice_layer *layer,
                               unsigned n, struct conv_plan *plan, struct sluice_err *err)
{
    const int pad = (int)layer->pad, stride = (int)layer->stride, kernel = (int)layer->kernel;
    sluice_status status = describe(n, layer->in, &plan->in, err);
    if (!status)
        status = describe(n, layer->out, &plan->out, err);
    if (!status)
        status = check_cudnn(cudnnCreateFilterDescriptor(&plan->filter),
                             "cudnnCreateFilterDescriptor", err);
    if (!status)
        status = check_cudnn(cudnnSetFilter4dDescriptor(plan->filter, CUDNN_DATA_FLOAT,
                                                        CUDNN_TENSOR_NHWC, (int)layer->out.c,
                                                        (int)layer->in.c, kernel, kernel),
                             "cudnnSetFilter4dDescriptor", err);
    if (!status)
        status = check_cudnn(cudnnCreateConvolutionDescriptor(&plan->conv),
                             "cudnnCreateConvolutionDescriptor", err);
    if (!status)
        status =
            check_cudnn(cudnnSetConvolution2dDescriptor(plan->conv, pad, pad, stride, stride, 1, 1,
                                                        CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                        "cudnnSetConvolution2dDescriptor", err);
    if (!status)
        status = check_cudnn(cudnnSetConvolutionMathType(plan->conv, cuda->base.options.allow_tf32
                                                                         ? CUDNN_DEFAULT_MATH
                                                                         : CUDNN_FMA_MATH),
                             "cudnnSetConvolutionMathType", err);
    if (!status)
        status = pick_algorithms(cuda, plan, layer->input > 0, err);
    for (int i = 0; !status && i < NUM_PASSES; i++)
        status = reserve_workspace(cuda, plan->passes[i].workspace, err);
    return status;
}

static sluice_status get_plan(struct cuda_trainer *cuda, unsigned n, struct plan **out,
                              struct sluice_err *err)
{
    struct plan **slot = &cuda->plans[0];
    for (int i = 0; i < MAX_PLANS; i++) {
        struct plan *plan = cuda->plans[i];
        if (plan && plan->n == n) {
            plan->last_use = ++cuda->uses;
            *out = plan;
            return SLUICE_OK;
        }
        if (*slot && (!plan || plan->last_use < (*slot)->last_use))
            slot = &cuda->plans[i];
    }

    struct plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch of %u", n);
    plan->n = n;
    plan->last_use = ++cuda->uses;
    for (unsigned i = 0; i < cuda->base.net.num_layers; i++) {
        const struct sluice_layer *layer = &cuda->base.net.layers[i];
        const sluice_status status = layer->kind == SLUICE_LAYER_CONV
                                         ? plan_conv(cuda, layer, n, &plan->layers[i], err)
                                         : SLUICE_OK;
        if (status) {
            plan_destroy(plan);
            return status;
        }
    }
    plan_destroy(*slot);
    *slot = plan;
    *out = plan;
    return SLUICE_OK;
}

/* Layers */

static const float zero = 0, one = 1;

static struct sluice_cuda_window window_of(const struct sluice_layer *layer)
{
    return (struct sluice_cuda_window){
        .c = layer->in.c,
        .in_h = layer->in.h,
        .in_w = layer->in.w,
        .out_h = layer->out.h,
        .out_w = layer->out.w,
        .kernel = layer->kernel,
        .stride = layer->stride,
        .pad = layer->pad,
    };
}

/* Layer i also does the relu of layer i + 1, in both directions. */
static bool does_relu(const struct sluice_net *net, unsigned i)
{
    const struct sluice_layer *layer = &net->layers[i];
    const bool can = layer->kind == SLUICE_LAYER_BATCHNORM || layer->kind == SLUICE_LAYER_LINEAR ||
                     layer->kind == SLUICE_LAYER_ADD ||
                     (layer->kind == SLUICE_LAYER_CONV && layer->bias >= 0);
    return can && i + 1 < net->num_layers && net->layers[i + 1].kind == SLUICE_LAYER_RELU &&
           net->layers[i + 1].input == i + 1;
}

static sluice_status add_bias(struct cuda_trainer *cuda, unsigned n, unsigned i,
                              struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    return check_cuda(sluice_cuda_bias(cuda->compute, cuda->tensors[i + 1],
                                       array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->bias),
                                       n * elements(layer->out), layer->out.c,
                                       does_relu(&cuda->base.net, i)),
                      "adding a bias", err);
}

static sluice_status bias_backward(struct cuda_trainer *cuda, unsigned n, unsigned i,
                                   struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    return check_cuda(sluice_cuda_bias_backward(
                          cuda->compute, cuda->diffs[i + 1],
                          does_relu(&cuda->base.net, i) ? cuda->tensors[i + 1] : NULL,
                          (size_t)n * layer->out.h * layer->out.w, layer->out.c,
                          array_of(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->bias), cuda->scratch),
                      "a bias's gradient", err);
}

static sluice_status set_math(struct conv_plan *plan, enum pass pass, struct sluice_err *err)
{
    return check_cudnn(cudnnSetConvolutionMathType(plan->conv, plan->passes[pass].math),
                       "cudnnSetConvolutionMathType", err);
}

static sluice_status conv_forward(struct cuda_trainer *cuda, struct plan *plan, unsigned i,
                                  struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    struct conv_plan *p = &plan->layers[i];
    const struct conv_pass *pass = &p->passes[PASS_FORWARD];
    sluice_status status = set_math(p, PASS_FORWARD, err);
    if (!status)
        status = check_cudnn(cudnnConvolutionForward(
                                 cuda->cudnn, &one, p->in, cuda->tensors[layer->input], p->filter,
                                 array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight),
                                 p->conv, (cudnnConvolutionFwdAlgo_t)pass->algo, cuda->workspace,
                                 pass->workspace, &zero, p->out, cuda->tensors[i + 1]),
                             "cudnnConvolutionForward", err);
    if (!status && layer->bias >= 0)
        status = add_bias(cuda, plan->n, i, err);
    return status;
}

/* With `adds`, to the gradient of the input that is there already. */
static sluice_status conv_backward(struct cuda_trainer *cuda, struct plan *plan, unsigned i,
                                   bool adds, struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    struct conv_plan *p = &plan->layers[i];
    const float *diff = cuda->diffs[i + 1];
    sluice_status status = SLUICE_OK;
    if (layer->bias >= 0)
        status = bias_backward(cuda, plan->n, i, err);
    if (!status)
        status = set_math(p, PASS_BACKWARD_FILTER, err);
    const struct conv_pass *pass = &p->passes[PASS_BACKWARD_FILTER];
    if (!status)
        status = check_cudnn(cudnnConvolutionBackwardFilter(
                                 cuda->cudnn, &one, p->in, cuda->tensors[layer->input], p->out,
                                 diff, p->conv, (cudnnConvolutionBwdFilterAlgo_t)pass->algo,
                                 cuda->workspace, pass->workspace, &zero, p->filter,
                                 array_of(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->weight)),
                             "cudnnConvolutionBackwardFilter", err);
    if (status || layer->input == 0)
        return status;
    status = set_math(p, PASS_BACKWARD_DATA, err);
    pass = &p->passes[PASS_BACKWARD_DATA];
    if (!status)
        status = check_cudnn(cudnnConvolutionBackwardData(
                                 cuda->cudnn, &one, p->filter,
                                 array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight),
                                 p->out, diff, p->conv, (cudnnConvolutionBwdDataAlgo_t)pass->algo,
                                 cuda->workspace, pass->workspace, adds ? &one : &zero, p->in,
                                 cuda->diffs[layer->input]),
                             "cudnnConvolutionBackwardData", err);
    return status;
}

/* cuBLAS's matrices are column by column: a row-major one of ours is its transpose there. */
static sluice_status linear_forward(struct cuda_trainer *cuda, unsigned n, unsigned i,
                                    struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const int in = (int)elements(layer->in), out = (int)layer->out.c;
    const sluice_status status =
        check_cublas(cublasSgemm(cuda->cublas, CUBLAS_OP_T, CUBLAS_OP_N, out, (int)n, in, &one,
                                 array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight), in,
                                 cuda->tensors[layer->input], in, &zero, cuda->tensors[i + 1], out),
                     "cublasSgemm", err);
    return status ? status : add_bias(cuda, n, i, err);
}

static sluice_status linear_backward(struct cuda_trainer *cuda, unsigned n, unsigned i, bool adds,
                                     struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const int in = (int)elements(layer->in), out = (int)layer->out.c;
    const float *diff = cuda->diffs[i + 1];
    sluice_status status = bias_backward(cuda, n, i, err);
    if (!status)
        status = check_cublas(
            cublasSgemm(cuda->cublas, CUBLAS_OP_N, CUBLAS_OP_T, in, out, (int)n, &one,
                        cuda->tensors[layer->input], in, diff, out, &zero,
                        array_of(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->weight), in),
            "cublasSgemm", err);
    if (!status && layer->input > 0)
        status = check_cublas(
            cublasSgemm(cuda->cublas, CUBLAS_OP_N, CUBLAS_OP_N, in, (int)n, out, &one,
                        array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight), in, diff, out,
                        adds ? &one : &zero, cuda->diffs[layer->input], in),
            "cublasSgemm", err);
    return status;
}

static struct sluice_cuda_batchnorm batchnorm_of(const struct cuda_trainer *cuda, unsigned i)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    assert(layer->in.c % 4 == 0);
    return (struct sluice_cuda_batchnorm){
        .num_c = layer->in.c,
        .weight = array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight),
        .bias = array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->bias),
        .running_mean = array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->running_mean),
        .running_var = array_of(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->running_var),
        .mean = cuda->means[i],
        .inverse_deviation = cuda->inverse_deviations[i],
        .epsilon = BATCHNORM_EPSILON,
        .momentum = BATCHNORM_MOMENTUM,
        .relu = does_relu(&cuda->base.net, i),
        .scratch = cuda->scratch,
    };
}

static sluice_status batchnorm_forward(struct cuda_trainer *cuda, unsigned n, unsigned i,
                                       bool is_training, struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const struct sluice_cuda_batchnorm bn = batchnorm_of(cuda, i);
    const size_t rows = (size_t)n * layer->in.h * layer->in.w;
    const float *in = cuda->tensors[layer->input];
    float *out = cuda->tensors[i + 1];
    return check_cuda(is_training
                          ? sluice_cuda_batchnorm_train(cuda->compute, &bn, rows, in, out)
                          : sluice_cuda_batchnorm_evaluate(cuda->compute, &bn, rows, in, out),
                      "batch normalisation", err);
}

static sluice_status batchnorm_backward(struct cuda_trainer *cuda, unsigned n, unsigned i,
                                        struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const struct sluice_cuda_batchnorm bn = batchnorm_of(cuda, i);
    return check_cuda(
        sluice_cuda_batchnorm_backward(cuda->compute, &bn, (size_t)n * layer->in.h * layer->in.w,
                                       cuda->tensors[layer->input], cuda->diffs[i + 1],
                                       cuda->diffs[layer->input],
                                       array_of(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->weight),
                                       array_of(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->bias)),
        "batch normalisation", err);
}

static sluice_status dropout(struct cuda_trainer *cuda, unsigned n, unsigned i, float *values,
                             struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    if (layer->p <= 0)
        return SLUICE_OK;
    return check_cuda(sluice_cuda_dropout(cuda->compute, values, n * elements(layer->out),
                                          cuda->base.options.seed, cuda->base.steps, i, layer->p),
                      "dropout", err);
}

static sluice_status forward_layer(struct cuda_trainer *cuda, struct plan *plan, unsigned i,
                                   bool is_training, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    const struct sluice_layer *layer = &net->layers[i];
    const struct sluice_cuda_window window = window_of(layer);
    const size_t count = plan->n * elements(layer->out);
    const float *in = cuda->tensors[layer->input];
    float *out = cuda->tensors[i + 1];
    switch (layer->kind) {
    case SLUICE_LAYER_CONV:
        return conv_forward(cuda, plan, i, err);
    case SLUICE_LAYER_LINEAR:
        return linear_forward(cuda, plan->n, i, err);
    case SLUICE_LAYER_BATCHNORM:
        return batchnorm_forward(cuda, plan->n, i, is_training, err);
    case SLUICE_LAYER_RELU:
        if (i > 0 && does_relu(net, i - 1))
            return SLUICE_OK;
        return check_cuda(sluice_cuda_relu(cuda->compute, out, count), "relu", err);
    case SLUICE_LAYER_MAXPOOL:
        assert(layer->in.c % 4 == 0);
        return check_cuda(
            sluice_cuda_maxpool(cuda->compute, &window, plan->n, in, out, cuda->which[i]),
            "maximum pooling", err);
    case SLUICE_LAYER_AVGPOOL:
        return check_cuda(sluice_cuda_avgpool(cuda->compute, &window, plan->n, in, out),
                          "average pooling", err);
    case SLUICE_LAYER_DROPOUT:
        return is_training ? dropout(cuda, plan->n, i, out, err) : SLUICE_OK;
    case SLUICE_LAYER_ADD:
        return check_cuda(sluice_cuda_add(cuda->compute, out, in, cuda->tensors[layer->input2],
                                          count, does_relu(net, i)),
                          "adding", err);
    }
    return SLUICE_OK;
}

/* The first branch has its gradient already: it is the same array. */
static sluice_status add_backward(struct cuda_trainer *cuda, unsigned n, unsigned i, bool adds,
                                  struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    return check_cuda(
        sluice_cuda_add_backward(cuda->compute, cuda->diffs[i + 1],
                                 does_relu(&cuda->base.net, i) ? cuda->tensors[i + 1] : NULL,
                                 cuda->diffs[layer->input2], n * elements(layer->out), adds),
        "adding", err);
}

/* has_diff[t]: tensor t's gradient holds what a later reader of t gave; others add to it. */
static sluice_status backward_layer(struct cuda_trainer *cuda, struct plan *plan, unsigned i,
                                    bool *has_diff, struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const struct sluice_cuda_window window = window_of(layer);
    const bool adds = has_diff[layer->input];
    float *diff_in = cuda->diffs[layer->input];
    float *diff_out = cuda->diffs[i + 1];
    has_diff[layer->input] = true;
    switch (layer->kind) {
    case SLUICE_LAYER_CONV:
        return conv_backward(cuda, plan, i, adds, err);
    case SLUICE_LAYER_LINEAR:
        return linear_backward(cuda, plan->n, i, adds, err);
    case SLUICE_LAYER_ADD:
        assert(!adds);
        const bool adds2 = has_diff[layer->input2];
        has_diff[layer->input2] = true;
        return add_backward(cuda, plan->n, i, adds2, err);
    case SLUICE_LAYER_BATCHNORM:
        assert(!adds); /* in the models here only convolutions and sums share their input */
        return batchnorm_backward(cuda, plan->n, i, err);
    case SLUICE_LAYER_RELU:
        assert(!adds);
        if (i > 0 && does_relu(&cuda->base.net, i - 1))
            return SLUICE_OK;
        return check_cuda(sluice_cuda_relu_backward(cuda->compute, diff_out, cuda->tensors[i + 1],
                                                    plan->n * elements(layer->out)),
                          "relu", err);
    case SLUICE_LAYER_MAXPOOL:
        assert(!adds);
        return check_cuda(sluice_cuda_maxpool_backward(cuda->compute, &window, plan->n, diff_out,
                                                       cuda->which[i], diff_in),
                          "maximum pooling", err);
    case SLUICE_LAYER_AVGPOOL:
        assert(!adds);
        return check_cuda(
            sluice_cuda_avgpool_backward(cuda->compute, &window, plan->n, diff_out, diff_in),
            "average pooling", err);
    case SLUICE_LAYER_DROPOUT:
        assert(!adds);
        return dropout(cuda, plan->n, i, diff_out, err);
    }
    return SLUICE_OK;
}

/* Steps */

/* Queues the upload into the next slot and makes the compute stream wait for it. */
static sluice_status upload(struct cuda_trainer *cuda, const struct sluice_train_batch *batch,
                            struct slot *slot, struct sluice_err *err)
{
    const size_t bytes = batch->n * elements(cuda->base.net.layers[0].in);
    sluice_status status = check_cuda(cudaStreamWaitEvent(cuda->copies, slot->consumed, 0),
                                      "cudaStreamWaitEvent", err);
    if (!status)
        status = check_cuda(cudaMemcpyAsync(slot->pixels, batch->pixels, bytes,
                                            cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
    if (!status)
        status = check_cuda(cudaMemcpyAsync(slot->labels, batch->labels,
                                            batch->n * sizeof(*batch->labels),
                                            cudaMemcpyHostToDevice, cuda->copies),
                            "cudaMemcpy", err);
    if (!status)
        status = check_cuda(cudaEventRecord(slot->uploaded, cuda->copies), "cudaEventRecord", err);
    if (!status)
        status = check_cuda(cudaStreamWaitEvent(cuda->compute, slot->uploaded, 0),
                            "cudaStreamWaitEvent", err);
    return status;
}

static sluice_status forward(struct cuda_trainer *cuda, struct plan *plan, const struct slot *slot,
                             bool is_training, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    sluice_status status =
        check_cuda(sluice_cuda_input(cuda->compute, slot->pixels, cuda->table, cuda->tensors[0],
                                     plan->n * elements(net->layers[0].in)),
                   "the input", err);
    for (unsigned i = 0; !status && i < net->num_layers; i++)
        status = forward_layer(cuda, plan, i, is_training, err);
    if (!status)
        status = check_cuda(sluice_cuda_loss(cuda->compute, cuda->tensors[net->num_layers],
                                             slot->labels, plan->n, net->num_classes,
                                             is_training ? cuda->diffs[net->num_layers] : NULL,
                                             cuda->sample_sums, cuda->sums),
                            "the loss", err);
    if (!status)
        status = check_cuda(cudaEventRecord(slot->consumed, cuda->compute), "cudaEventRecord", err);
    return status;
}

static sluice_status descend(struct cuda_trainer *cuda, struct sluice_err *err)
{
    return check_cuda(sluice_cuda_sgd(cuda->compute, cuda->values, cuda->momenta, cuda->grads,
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
    sluice_status status = get_plan(cuda, batch->n, &plan, err);
    if (status)
        return status;
    status = upload(cuda, batch, slot, err);
    if (!status)
        status = forward(cuda, plan, slot, is_training, err);
    bool has_diff[SLUICE_NET_MAX_LAYERS + 1] = {false};
    for (unsigned i = cuda->base.net.num_layers; !status && is_training && i > 0; i--)
        status = backward_layer(cuda, plan, i - 1, has_diff, err);
    if (!status && is_training)
        status = descend(cuda, err);
    if (!status)
        return check_cuda(cudaEventSynchronize(slot->uploaded), "upload", err);
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

static sluice_status cuda_collect(struct sluice_trainer *trainer,
                                  struct sluice_train_totals *totals, struct sluice_err *err)
{
    struct cuda_trainer *cuda = (struct cuda_trainer *)trainer;
    struct sluice_cuda_sums sums;
    sluice_status status = check_cuda(
        cudaMemcpyAsync(&sums, cuda->sums, sizeof(sums), cudaMemcpyDeviceToHost, cuda->compute),
        "cudaMemcpy", err);
    if (!status)
        status = check_cuda(cudaMemsetAsync(cuda->sums, 0, sizeof(sums), cuda->compute),
                            "cudaMemset", err);
    if (!status)
        status = wait_compute(cuda, err);
    if (status)
        return status;
    totals->loss_sum += sums.loss;
    totals->top1 += sums.top1;
    totals->top5 += sums.top5;
    return SLUICE_OK;
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
    const sluice_status status = check_cuda(error, "cudaHostAlloc", err);
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

static sluice_status open_device(struct cuda_trainer *cuda, struct sluice_err *err)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error || count < 1)
        return no_device(error, err);
    const bool tf32 = cuda->base.options.allow_tf32;
    sluice_status status = check_cuda(cudaSetDevice(0), "cudaSetDevice", err);
    if (!status)
        status = check_cuda(cudaStreamCreateWithFlags(&cuda->copies, cudaStreamNonBlocking),
                            "cudaStreamCreate", err);
    if (!status)
        status = check_cuda(cudaStreamCreateWithFlags(&cuda->compute, cudaStreamNonBlocking),
                            "cudaStreamCreate", err);
    if (!status)
        status = check_cuda(
            cudaEventCreateWithFlags(&cuda->done, cudaEventDisableTiming | cudaEventBlockingSync),
            "cudaEventCreate", err);
    if (!status)
        status = check_cudnn(cudnnCreate(&cuda->cudnn), "cudnnCreate", err);
    if (!status)
        status = check_cudnn(cudnnSetStream(cuda->cudnn, cuda->compute), "cudnnSetStream", err);
    if (!status)
        status = check_cublas(cublasCreate(&cuda->cublas), "cublasCreate", err);
    if (!status)
        status = check_cublas(cublasSetStream(cuda->cublas, cuda->compute), "cublasSetStream", err);
    if (!status)
        status = check_cublas(cublasSetMathMode(cuda->cublas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH
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
        plan_destroy(cuda->plans[i]);
    for (int i = 0; i < NUM_SLOTS; i++) {
        if (cuda->slots[i].uploaded)
            cudaEventDestroy(cuda->slots[i].uploaded);
        if (cuda->slots[i].consumed)
            cudaEventDestroy(cuda->slots[i].consumed);
    }
    if (cuda->cublas)
        cublasDestroy(cuda->cublas);
    if (cuda->cudnn)
        cudnnDestroy(cuda->cudnn);
    for (size_t i = 0; i < cuda->num_owned; i++)
        cudaFree(cuda->owned[i]);
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
    if (!status)
        status = make_params(cuda, err);
    if (!status)
        status = make_tensors(cuda, err);
    if (!status)
        status = make_slots(cuda, err);
    struct plan *plan = NULL; /* here, so that the first step takes no longer than the others */
    if (!status)
        status = get_plan(cuda, trainer->options.batch_size, &plan, err);
    if (!status)
        status = wait_compute(cuda, err);
    return status;
}

const struct sluice_trainer_ops sluice_trainer_cuda_ops = {
    .size = sizeof(struct cuda_trainer),
    .init = cuda_init,
    .clear = cuda_clear,
    .step = cuda_step,
    .evaluate = cuda_evaluate,
    .collect = cuda_collect,
    .read = cuda_read,
    .write = cuda_write,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
};
