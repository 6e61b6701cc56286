#include "train/train_cuda_state.h"

#include <assert.h>

#define BATCHNORM_EPSILON 1e-5
#define BATCHNORM_MOMENTUM 0.1

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
    return cuda_check(sluice_cuda_bias(cuda->compute, cuda->tensors[i + 1],
                                       cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->bias),
                                       n * sluice_shape_elements(layer->out), layer->out.c,
                                       does_relu(&cuda->base.net, i)),
                      "adding a bias", err);
}

static sluice_status bias_backward(struct cuda_trainer *cuda, unsigned n, unsigned i,
                                   struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    return cuda_check(
        sluice_cuda_bias_backward(cuda->compute, cuda->diffs[i + 1],
                                  does_relu(&cuda->base.net, i) ? cuda->tensors[i + 1] : NULL,
                                  (size_t)n * layer->out.h * layer->out.w, layer->out.c,
                                  cuda_array(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->bias),
                                  cuda->scratch),
        "a bias's gradient", err);
}

static sluice_status set_math(struct conv_plan *plan, enum pass pass, struct sluice_err *err)
{
    return cuda_check_cudnn(cudnnSetConvolutionMathType(plan->conv, plan->passes[pass].math),
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
        status =
            cuda_check_cudnn(cudnnConvolutionForward(
                                 cuda->cudnn, &one, p->in, cuda->tensors[layer->input], p->filter,
                                 cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight),
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
        status = cuda_check_cudnn(cudnnConvolutionBackwardFilter(
                                      cuda->cudnn, &one, p->in, cuda->tensors[layer->input], p->out,
                                      diff, p->conv, (cudnnConvolutionBwdFilterAlgo_t)pass->algo,
                                      cuda->workspace, pass->workspace, &zero, p->filter,
                                      cuda_array(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->weight)),
                                  "cudnnConvolutionBackwardFilter", err);
    if (status || layer->input == 0)
        return status;
    status = set_math(p, PASS_BACKWARD_DATA, err);
    pass = &p->passes[PASS_BACKWARD_DATA];
    if (!status)
        status = cuda_check_cudnn(
            cudnnConvolutionBackwardData(
                cuda->cudnn, &one, p->filter,
                cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight), p->out, diff,
                p->conv, (cudnnConvolutionBwdDataAlgo_t)pass->algo, cuda->workspace,
                pass->workspace, adds ? &one : &zero, p->in, cuda->diffs[layer->input]),
            "cudnnConvolutionBackwardData", err);
    return status;
}

/* cuBLAS's matrices are column by column: a row-major one of ours is its transpose there. */
static sluice_status linear_forward(struct cuda_trainer *cuda, unsigned n, unsigned i,
                                    struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const int in = (int)sluice_shape_elements(layer->in), out = (int)layer->out.c;
    const sluice_status status = cuda_check_cublas(
        cublasSgemm(cuda->cublas, CUBLAS_OP_T, CUBLAS_OP_N, out, (int)n, in, &one,
                    cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight), in,
                    cuda->tensors[layer->input], in, &zero, cuda->tensors[i + 1], out),
        "cublasSgemm", err);
    return status ? status : add_bias(cuda, n, i, err);
}

static sluice_status linear_backward(struct cuda_trainer *cuda, unsigned n, unsigned i, bool adds,
                                     struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const int in = (int)sluice_shape_elements(layer->in), out = (int)layer->out.c;
    const float *diff = cuda->diffs[i + 1];
    sluice_status status = bias_backward(cuda, n, i, err);
    if (!status)
        status = cuda_check_cublas(
            cublasSgemm(cuda->cublas, CUBLAS_OP_N, CUBLAS_OP_T, in, out, (int)n, &one,
                        cuda->tensors[layer->input], in, diff, out, &zero,
                        cuda_array(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->weight), in),
            "cublasSgemm", err);
    if (!status && layer->input > 0)
        status = cuda_check_cublas(
            cublasSgemm(cuda->cublas, CUBLAS_OP_N, CUBLAS_OP_N, in, (int)n, out, &one,
                        cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight), in, diff,
                        out, adds ? &one : &zero, cuda->diffs[layer->input], in),
            "cublasSgemm", err);
    return status;
}

static struct sluice_cuda_batchnorm batchnorm_of(const struct cuda_trainer *cuda, unsigned i)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    return (struct sluice_cuda_batchnorm){
        .num_c = layer->in.c,
        .weight = cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->weight),
        .bias = cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->bias),
        .running_mean = cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->running_mean),
        .running_var = cuda_array(cuda, SLUICE_ARRAY_VALUE, (unsigned)layer->running_var),
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
    return cuda_check(is_training
                          ? sluice_cuda_batchnorm_train(cuda->compute, &bn, rows, in, out)
                          : sluice_cuda_batchnorm_evaluate(cuda->compute, &bn, rows, in, out),
                      "batch normalisation", err);
}

static sluice_status batchnorm_backward(struct cuda_trainer *cuda, unsigned n, unsigned i,
                                        struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    const struct sluice_cuda_batchnorm bn = batchnorm_of(cuda, i);
    return cuda_check(
        sluice_cuda_batchnorm_backward(cuda->compute, &bn, (size_t)n * layer->in.h * layer->in.w,
                                       cuda->tensors[layer->input], cuda->diffs[i + 1],
                                       cuda->diffs[layer->input],
                                       cuda_array(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->weight),
                                       cuda_array(cuda, SLUICE_ARRAY_GRAD, (unsigned)layer->bias)),
        "batch normalisation", err);
}

static sluice_status dropout(struct cuda_trainer *cuda, unsigned n, unsigned i, float *values,
                             struct sluice_err *err)
{
    const struct sluice_layer *layer = &cuda->base.net.layers[i];
    if (layer->p <= 0)
        return SLUICE_OK;
    return cuda_check(sluice_cuda_dropout(cuda->compute, values,
                                          n * sluice_shape_elements(layer->out),
                                          cuda->base.options.seed, cuda->base.steps, i, layer->p),
                      "dropout", err);
}

sluice_status cuda_forward_layer(struct cuda_trainer *cuda, struct plan *plan, unsigned i,
                                 bool is_training, struct sluice_err *err)
{
    const struct sluice_net *net = &cuda->base.net;
    const struct sluice_layer *layer = &net->layers[i];
    const struct sluice_cuda_window window = window_of(layer);
    const size_t count = plan->n * sluice_shape_elements(layer->out);
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
        return cuda_check(sluice_cuda_relu(cuda->compute, out, count), "relu", err);
    case SLUICE_LAYER_MAXPOOL:
        return cuda_check(
            sluice_cuda_maxpool(cuda->compute, &window, plan->n, in, out, cuda->which[i]),
            "maximum pooling", err);
    case SLUICE_LAYER_AVGPOOL:
        return cuda_check(sluice_cuda_avgpool(cuda->compute, &window, plan->n, in, out),
                          "average pooling", err);
    case SLUICE_LAYER_DROPOUT:
        return is_training ? dropout(cuda, plan->n, i, out, err) : SLUICE_OK;
    case SLUICE_LAYER_ADD:
        return cuda_check(sluice_cuda_add(cuda->compute, out, in, cuda->tensors[layer->input2],
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
    return cuda_check(sluice_cuda_add_backward(
                          cuda->compute, cuda->diffs[i + 1],
                          does_relu(&cuda->base.net, i) ? cuda->tensors[i + 1] : NULL,
                          cuda->diffs[layer->input2], n * sluice_shape_elements(layer->out), adds),
                      "adding", err);
}

sluice_status cuda_backward_layer(struct cuda_trainer *cuda, struct plan *plan, unsigned i,
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
        return cuda_check(sluice_cuda_relu_backward(cuda->compute, diff_out, cuda->tensors[i + 1],
                                                    plan->n * sluice_shape_elements(layer->out)),
                          "relu", err);
    case SLUICE_LAYER_MAXPOOL:
        assert(!adds);
        return cuda_check(sluice_cuda_maxpool_backward(cuda->compute, &window, plan->n, diff_out,
                                                       cuda->which[i], diff_in),
                          "maximum pooling", err);
    case SLUICE_LAYER_AVGPOOL:
        assert(!adds);
        return cuda_check(
            sluice_cuda_avgpool_backward(cuda->compute, &window, plan->n, diff_out, diff_in),
            "average pooling", err);
    case SLUICE_LAYER_DROPOUT:
        assert(!adds);
        return dropout(cuda, plan->n, i, diff_out, err);
    }
    return SLUICE_OK;
}
