#include "train/cuda/train_cuda_state.h"

#include <assert.h>

#define BATCHNORM_MOMENTUM 0.1

/* Arguments that a stage's functions share. */
struct run {
    struct cuda_trainer *cuda;
    const struct sluice_stage *stage;
    const struct sluice_layer *layer;
    const struct stage_convs *convs;
    unsigned n;
    bool is_training;
};

static sluice_status check(cudaError_t error, const struct run *r, struct sluice_err *err)
{
    if (error == cudaSuccess)
        return SLUICE_OK;
    char name[64];
    sluice_stage_name(&r->cuda->base.net, r->stage, name, sizeof(name));
    return cuda_check(error, name, err);
}

static size_t out_count(const struct run *r)
{
    return r->n * sluice_shape_elements(r->layer->out);
}

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

/* Convolutions */

static sluice_status run_conv(const struct run *r, enum sluice_conv_pass pass, void *x, void *w,
                              void *y, struct sluice_err *err)
{
    const bool has_bias = pass == SLUICE_CONV_FORWARD && r->convs->is_fused;
    const struct sluice_conv_arrays arrays = {
        .x = x,
        .w = w,
        .y = y,
        .bias = has_bias ? cuda_weight(r->cuda, r->layer->bias) : NULL,
        .workspace = cuda_buffer(r->cuda, r->stage->workspace[pass != SLUICE_CONV_FORWARD]),
    };
    return sluice_conv_run(r->cuda->cudnn, r->convs->plans[pass], &arrays, err);
}

static sluice_status conv_forward(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    void *out = cuda_buffer(cuda, r->stage->out);
    const sluice_status status = run_conv(r, SLUICE_CONV_FORWARD, cuda_buffer(cuda, r->stage->in),
                                          cuda_weight(cuda, r->layer->weight), out, err);
    if (status || r->layer->bias < 0 || r->convs->is_fused)
        return status;
    return check(sluice_cuda_bias(cuda->compute, cuda->type, out,
                                  cuda_array(cuda, SLUICE_ARRAY_VALUE, r->layer->bias),
                                  out_count(r), r->layer->out.c, r->stage->has_relu),
                 r, err);
}

/* The bias's gradient; behind it diff_out is the gradient of the sum before relu. */
static sluice_status bias_backward(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    return check(sluice_cuda_bias_backward(
                     cuda->compute, cuda->type, cuda_buffer(cuda, r->stage->diff_out),
                     r->stage->has_relu ? cuda_buffer(cuda, r->stage->out) : NULL,
                     out_count(r) / r->layer->out.c, r->layer->out.c,
                     cuda_array(cuda, SLUICE_ARRAY_GRAD, r->layer->bias), cuda->scratch),
                 r, err);
}

static void *filter_grad(const struct cuda_trainer *cuda, int param)
{
    if (cuda->filter_grads)
        return cuda->filter_grads + cuda->offsets[param];
    return cuda->grads + cuda->offsets[param];
}

static sluice_status conv_backward(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    void *diff = cuda_buffer(cuda, r->stage->diff_out);
    sluice_status status = r->layer->bias >= 0 ? bias_backward(r, err) : SLUICE_OK;
    if (!status)
        status = run_conv(r, SLUICE_CONV_BACKWARD_FILTER, cuda_buffer(cuda, r->stage->in),
                          filter_grad(cuda, r->layer->weight), diff, err);
    if (!status && r->stage->diff_in != SLUICE_NO_BUFFER)
        status = run_conv(r, SLUICE_CONV_BACKWARD_DATA, cuda_buffer(cuda, r->stage->diff_in),
                          cuda_weight(cuda, r->layer->weight), diff, err);
    return status;
}

/* Linear layers */

static bool is_logits(const struct run *r)
{
    return r->stage->out == r->cuda->program.logits;
}

static struct sluice_linear linear_of(const struct run *r)
{
    return (struct sluice_linear){
        .type = r->cuda->type,
        .y_type = is_logits(r) ? SLUICE_CUDA_F32 : r->cuda->type,
        .n = r->n,
        .in = (uint32_t)sluice_shape_elements(r->layer->in),
        .out = r->layer->out.c,
        .has_relu = r->stage->has_relu,
    };
}

static sluice_status linear_forward(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    const struct sluice_linear linear = linear_of(r);
    const void *bias = is_logits(r) ? cuda_array(cuda, SLUICE_ARRAY_VALUE, r->layer->bias)
                                    : cuda_weight(cuda, r->layer->bias);
    return sluice_linear_forward(&cuda->matmul, &linear, cuda_buffer(cuda, r->stage->in),
                                 cuda_weight(cuda, r->layer->weight), bias,
                                 cuda_buffer(cuda, r->stage->out), err);
}

static sluice_status linear_backward(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    const struct sluice_linear linear = linear_of(r);
    const void *diff = cuda_buffer(cuda, r->stage->diff_out);
    sluice_status status = bias_backward(r, err);
    if (!status)
        status = sluice_linear_backward_weight(
            &cuda->matmul, &linear, cuda_buffer(cuda, r->stage->in), diff,
            cuda_array(cuda, SLUICE_ARRAY_GRAD, r->layer->weight), err);
    if (!status && r->stage->diff_in != SLUICE_NO_BUFFER)
        status = sluice_linear_backward_data(&cuda->matmul, &linear, diff,
                                             cuda_weight(cuda, r->layer->weight),
                                             cuda_buffer(cuda, r->stage->diff_in), err);
    return status;
}

/* Batch norm */

/* Inference has inverse deviations in the place of running variances (infer.h). */
static struct sluice_cuda_norm norm_of(const struct run *r)
{
    const struct cuda_trainer *cuda = r->cuda;
    float *running_mean = cuda_array(cuda, SLUICE_ARRAY_VALUE, r->layer->running_mean);
    float *running_var = cuda_array(cuda, SLUICE_ARRAY_VALUE, r->layer->running_var);
    const bool is_inference = cuda->is_inference;
    return (struct sluice_cuda_norm){
        .num_c = r->layer->in.c,
        .weight = cuda_array(cuda, SLUICE_ARRAY_VALUE, r->layer->weight),
        .bias = cuda_array(cuda, SLUICE_ARRAY_VALUE, r->layer->bias),
        .running_mean = running_mean,
        .running_var = is_inference ? NULL : running_var,
        .mean = is_inference ? running_mean : cuda->means[r->stage->layer],
        .inverse_deviation = is_inference ? running_var : cuda->inverse_deviations[r->stage->layer],
        .epsilon = SLUICE_BATCHNORM_EPSILON,
        .momentum = BATCHNORM_MOMENTUM,
        .relu = r->stage->has_relu,
        .scratch = cuda->scratch,
    };
}

static sluice_status norm_forward(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    const struct sluice_cuda_norm norm = norm_of(r);
    const size_t rows = out_count(r) / r->layer->in.c;
    const void *in = cuda_buffer(cuda, r->stage->in), *add = cuda_buffer(cuda, r->stage->add);
    void *out = cuda_buffer(cuda, r->stage->out);
    return check(
        r->is_training
            ? sluice_cuda_norm_train(cuda->compute, cuda->type, &norm, rows, in, add, out)
            : sluice_cuda_norm_evaluate(cuda->compute, cuda->type, &norm, rows, in, add, out),
        r, err);
}

static sluice_status norm_backward(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    const struct sluice_stage *stage = r->stage;
    const struct sluice_cuda_norm norm = norm_of(r);
    const bool reads_out = stage->has_relu && stage->add != SLUICE_NO_BUFFER;
    return check(sluice_cuda_norm_backward(
                     cuda->compute, cuda->type, &norm, out_count(r) / r->layer->in.c,
                     cuda_buffer(cuda, stage->in), reads_out ? cuda_buffer(cuda, stage->out) : NULL,
                     cuda_buffer(cuda, stage->diff_out), cuda_buffer(cuda, stage->diff_more),
                     cuda_buffer(cuda, stage->diff_add), cuda_buffer(cuda, stage->diff_in),
                     cuda_array(cuda, SLUICE_ARRAY_GRAD, r->layer->weight),
                     cuda_array(cuda, SLUICE_ARRAY_GRAD, r->layer->bias)),
                 r, err);
}

/* Stages */

static sluice_status dropout(const struct run *r, uint32_t buffer, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    if (!r->is_training || r->layer->p <= 0)
        return SLUICE_OK;
    return check(sluice_cuda_dropout(cuda->compute, cuda->type, cuda_buffer(cuda, buffer),
                                     out_count(r), cuda->base.options.seed, cuda->block.step,
                                     r->stage->layer, r->layer->p),
                 r, err);
}

static sluice_status forward_stage(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    const struct sluice_stage *stage = r->stage;
    const struct sluice_cuda_window window = window_of(r->layer);
    const void *in = cuda_buffer(cuda, stage->in);
    void *out = cuda_buffer(cuda, stage->out);
    switch (stage->kind) {
    case SLUICE_LAYER_CONV:
        return conv_forward(r, err);
    case SLUICE_LAYER_LINEAR:
        return linear_forward(r, err);
    case SLUICE_LAYER_BATCHNORM:
        return norm_forward(r, err);
    case SLUICE_LAYER_RELU:
        return check(sluice_cuda_relu(cuda->compute, cuda->type, out, out_count(r)), r, err);
    case SLUICE_LAYER_MAXPOOL:
        return check(sluice_cuda_maxpool(cuda->compute, cuda->type, &window, r->n, in, out,
                                         cuda_buffer(cuda, stage->which)),
                     r, err);
    case SLUICE_LAYER_AVGPOOL:
        return check(sluice_cuda_avgpool(cuda->compute, cuda->type, &window, r->n, in, out), r,
                     err);
    case SLUICE_LAYER_DROPOUT:
        return dropout(r, stage->out, err);
    case SLUICE_LAYER_ADD:
        break; /* part of a batch norm's stage in the models here */
    }
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device cuda: layer %u is a sum by itself",
                       stage->layer);
}

static sluice_status backward_stage(const struct run *r, struct sluice_err *err)
{
    struct cuda_trainer *cuda = r->cuda;
    const struct sluice_stage *stage = r->stage;
    const struct sluice_cuda_window window = window_of(r->layer);
    void *diff_out = cuda_buffer(cuda, stage->diff_out);
    void *diff_in = cuda_buffer(cuda, stage->diff_in);
    if (stage->diff_more != SLUICE_NO_BUFFER && stage->kind != SLUICE_LAYER_BATCHNORM) {
        const sluice_status status =
            check(sluice_cuda_add(
                      cuda->compute, cuda->type, diff_out, cuda_buffer(cuda, stage->diff_more),
                      r->n * sluice_shape_elements(cuda->base.net.layers[stage->last].out)),
                  r, err);
        if (status)
            return status;
    }
    switch (stage->kind) {
    case SLUICE_LAYER_CONV:
        return conv_backward(r, err);
    case SLUICE_LAYER_LINEAR:
        return linear_backward(r, err);
    case SLUICE_LAYER_BATCHNORM:
        return norm_backward(r, err);
    case SLUICE_LAYER_RELU:
        return check(sluice_cuda_relu_backward(cuda->compute, cuda->type, diff_out,
                                               cuda_buffer(cuda, stage->out), out_count(r)),
                     r, err);
    case SLUICE_LAYER_MAXPOOL:
        return check(sluice_cuda_maxpool_backward(cuda->compute, cuda->type, &window, r->n,
                                                  diff_out, cuda_buffer(cuda, stage->which),
                                                  diff_in),
                     r, err);
    case SLUICE_LAYER_AVGPOOL:
        return check(sluice_cuda_avgpool_backward(cuda->compute, cuda->type, &window, r->n,
                                                  diff_out, diff_in),
                     r, err);
    case SLUICE_LAYER_DROPOUT:
        return dropout(r, stage->diff_out, err);
    case SLUICE_LAYER_ADD:
        break;
    }
    return SLUICE_OK;
}

static struct run run_of(struct cuda_trainer *cuda, const struct conv_set *convs, unsigned s,
                         bool is_training)
{
    const struct sluice_stage *stage = &cuda->program.stages[s];
    return (struct run){
        .cuda = cuda,
        .stage = stage,
        .layer = &cuda->base.net.layers[stage->layer],
        .convs = &convs->stages[s],
        .n = convs->n,
        .is_training = is_training,
    };
}

sluice_status cuda_forward(struct cuda_trainer *cuda, const struct conv_set *convs, unsigned from,
                           unsigned to, bool is_training, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned s = from; !status && s < to; s++) {
        const struct run r = run_of(cuda, convs, s, is_training);
        status = cuda_stop_before(cuda, cuda_item_forward(s), err);
        if (!status)
            status = forward_stage(&r, err);
    }
    return status;
}

sluice_status cuda_backward(struct cuda_trainer *cuda, const struct conv_set *convs, unsigned from,
                            unsigned to, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned s = to; !status && s > from; s--) {
        const struct run r = run_of(cuda, convs, s - 1, true);
        status = cuda_stop_before(cuda, cuda_item_backward(cuda, s - 1), err);
        if (!status)
            status = backward_stage(&r, err);
    }
    return status;
}
