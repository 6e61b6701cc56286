#include "train/train_cuda_state.h"

#include "base/log.h"

#include <stdlib.h>

/* Bytes.  An algorithm that needs more is not taken.  The fastest ones for the largest layers of
 * the models here, at a batch of 256, need less. */
#define MAX_WORKSPACE ((size_t)1 << 30)

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

void cuda_plan_destroy(struct plan *plan)
{
    if (!plan)
        return;
    for (unsigned i = 0; i < plan->num_layers; i++)
        conv_plan_clear(&plan->layers[i]);
    free(plan);
}

static sluice_status describe(unsigned n, struct sluice_shape shape,
                              cudnnTensorDescriptor_t *descriptor, struct sluice_err *err)
{
    sluice_status status = cuda_check_cudnn(cudnnCreateTensorDescriptor(descriptor),
                                            "cudnnCreateTensorDescriptor", err);
    if (!status)
        status = cuda_check_cudnn(cudnnSetTensor4dDescriptor(*descriptor, CUDNN_TENSOR_NHWC,
                                                             CUDNN_DATA_FLOAT, (int)n, (int)shape.c,
                                                             (int)shape.h, (int)shape.w),
                                  "cudnnSetTensor4dDescriptor", err);
    return status;
}

#define CANDIDATE(result)                                                                          \
    {                                                                                              \
        (int)(result).algo, (result).status, (result).memory, (result).determinism,                \
            (result).mathType                                                                      \
    }

#define MAX_CANDIDATES 10

sluice_status cuda_pick(const struct cuda_candidate *candidates, int count, bool allow_tf32,
                        struct conv_pass *out, struct sluice_err *err)
{
    const struct cuda_candidate *best = NULL;
    for (int i = 0; i < count; i++) {
        const struct cuda_candidate *c = &candidates[i];
        if (c->status != CUDNN_STATUS_SUCCESS || c->memory > MAX_WORKSPACE ||
            (!allow_tf32 && c->math != CUDNN_FMA_MATH))
            continue;
        const bool is_deterministic = c->determinism == CUDNN_DETERMINISTIC;
        if (!best || is_deterministic)
            best = c;
        if (is_deterministic)
            break;
    }
    if (!best)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "device cuda: cuDNN has no algorithm for a convolution");
    *out = (struct conv_pass){
        .algo = best->algo,
        .math = best->math,
        .workspace = best->memory,
        .is_deterministic = best->determinism == CUDNN_DETERMINISTIC,
    };
    return SLUICE_OK;
}

/* Says once for each plan and layer that the run may not repeat. */
static sluice_status pick(struct cuda_trainer *cuda, const struct sluice_layer *layer,
                          const struct cuda_candidate *candidates, int count, const char *pass,
                          struct conv_pass *out, struct sluice_err *err)
{
    const sluice_status status = cuda_pick(
        candidates, count, cuda->base.options.precision != SLUICE_PRECISION_FP32, out, err);
    if (status || out->is_deterministic)
        return status;
    cuda->base.is_nondeterministic = true;
    sluice_log(SLUICE_LOG_WARN,
               "device cuda: cuDNN has no deterministic algorithm for %s (%s): the same run may "
               "give other weights",
               cuda->base.net.params[layer->weight].name, pass);
    return SLUICE_OK;
}

static sluice_status pick_algorithms(struct cuda_trainer *cuda, const struct sluice_layer *layer,
                                     struct conv_plan *plan, struct sluice_err *err)
{
    int count = 0;
    struct cuda_candidate candidates[MAX_CANDIDATES];
    cudnnConvolutionFwdAlgoPerf_t forward[MAX_CANDIDATES];
    sluice_status status = cuda_check_cudnn(
        cudnnGetConvolutionForwardAlgorithm_v7(cuda->cudnn, plan->in, plan->filter, plan->conv,
                                               plan->out, MAX_CANDIDATES, &count, forward),
        "cudnnGetConvolutionForwardAlgorithm", err);
    for (int i = 0; !status && i < count; i++)
        candidates[i] = (struct cuda_candidate)CANDIDATE(forward[i]);
    if (!status)
        status = pick(cuda, layer, candidates, count, "forward", &plan->passes[PASS_FORWARD], err);
    if (status)
        return status;

    cudnnConvolutionBwdFilterAlgoPerf_t filter[MAX_CANDIDATES];
    status = cuda_check_cudnn(
        cudnnGetConvolutionBackwardFilterAlgorithm_v7(cuda->cudnn, plan->in, plan->out, plan->conv,
                                                      plan->filter, MAX_CANDIDATES, &count, filter),
        "cudnnGetConvolutionBackwardFilterAlgorithm", err);
    for (int i = 0; !status && i < count; i++)
        candidates[i] = (struct cuda_candidate)CANDIDATE(filter[i]);
    if (!status)
        status = pick(cuda, layer, candidates, count, "backward filter",
                      &plan->passes[PASS_BACKWARD_FILTER], err);
    if (status || layer->input == 0)
        return status;

    cudnnConvolutionBwdDataAlgoPerf_t data[MAX_CANDIDATES];
    status = cuda_check_cudnn(cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                  cuda->cudnn, plan->filter, plan->out, plan->conv, plan->in,
                                  MAX_CANDIDATES, &count, data),
                              "cudnnGetConvolutionBackwardDataAlgorithm", err);
    for (int i = 0; !status && i < count; i++)
        candidates[i] = (struct cuda_candidate)CANDIDATE(data[i]);
    if (!status)
        status = pick(cuda, layer, candidates, count, "backward data",
                      &plan->passes[PASS_BACKWARD_DATA], err);
    return status;
}

/* One workspace serves all layers, as they run one after the other. */
static sluice_status reserve_workspace(struct cuda_trainer *cuda, size_t bytes,
                                       struct sluice_err *err)
{
    if (bytes <= cuda->workspace_bytes)
        return SLUICE_OK;
    sluice_status status = cuda_wait(cuda, err);
    if (status)
        return status;
    cudaFree(cuda->workspace);
    cuda->workspace = NULL;
    cuda->workspace_bytes = 0;
    const cudaError_t error = cudaMalloc(&cuda->workspace, bytes);
    if (error == cudaErrorMemoryAllocation)
        cudaGetLastError();
    status = cuda_check(error, "memory for convolutions", err);
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
        status = cuda_check_cudnn(cudnnCreateFilterDescriptor(&plan->filter),
                                  "cudnnCreateFilterDescriptor", err);
    if (!status)
        status = cuda_check_cudnn(cudnnSetFilter4dDescriptor(plan->filter, CUDNN_DATA_FLOAT,
                                                             CUDNN_TENSOR_NHWC, (int)layer->out.c,
                                                             (int)layer->in.c, kernel, kernel),
                                  "cudnnSetFilter4dDescriptor", err);
    if (!status)
        status = cuda_check_cudnn(cudnnCreateConvolutionDescriptor(&plan->conv),
                                  "cudnnCreateConvolutionDescriptor", err);
    if (!status)
        status = cuda_check_cudnn(
            cudnnSetConvolution2dDescriptor(plan->conv, pad, pad, stride, stride, 1, 1,
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            "cudnnSetConvolution2dDescriptor", err);
    if (!status)
        status =
            cuda_check_cudnn(cudnnSetConvolutionMathType(plan->conv, cuda->base.options.precision !=
                                                                             SLUICE_PRECISION_FP32
                                                                         ? CUDNN_DEFAULT_MATH
                                                                         : CUDNN_FMA_MATH),
                             "cudnnSetConvolutionMathType", err);
    if (!status)
        status = pick_algorithms(cuda, layer, plan, err);
    for (int i = 0; !status && i < NUM_PASSES; i++)
        status = reserve_workspace(cuda, plan->passes[i].workspace, err);
    return status;
}

sluice_status cuda_get_plan(struct cuda_trainer *cuda, unsigned n, struct plan **out,
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

    const unsigned num_layers = cuda->base.net.num_layers;
    struct plan *plan = calloc(1, sizeof(*plan) + num_layers * sizeof(plan->layers[0]));
    if (!plan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch of %u", n);
    plan->n = n;
    plan->last_use = ++cuda->uses;
    plan->num_layers = num_layers;
    for (unsigned i = 0; i < num_layers; i++) {
        const struct sluice_layer *layer = &cuda->base.net.layers[i];
        const sluice_status status = layer->kind == SLUICE_LAYER_CONV
                                         ? plan_conv(cuda, layer, n, &plan->layers[i], err)
                                         : SLUICE_OK;
        if (status) {
            cuda_plan_destroy(plan);
            return status;
        }
    }
    cuda_plan_destroy(*slot);
    *slot = plan;
    *out = plan;
    return SLUICE_OK;
}
