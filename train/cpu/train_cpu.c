#include "train/cpu/cpu_layout.h"
#include "train/cpu/onednn_plans.h"
#include "train/cpu/plain.h"
#include "train/trainer_internal.h"

#include "base/array.h"
#include "base/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Walks the net forwards and backwards on oneDNN; what it lacks or does no faster is in
 * plain.h.
 *
 * Images lie N x H x W x C up to the average pool, which writes N x C x H x W: from there on a
 * sample is the vector that torch's flatten gives, and linear layers read it as it is.
 *
 * Tensors and gradients lie in one arena, at the places that cpu_layout.h gives them.
 *
 * The results of a step are a pure function of its inputs, the number of threads and the library,
 * so a run continued from a checkpoint is bit-for-bit the run that was not interrupted. */

struct cpu_param {
    float *value;
    float *momentum, *grad; /* NULL where it is not trained */
};

/* In the arena: struct sluice_cpu_place as pointers. */
struct cpu_tensor {
    float *values;
    float *diff; /* NULL: tensor 0 */
    float *mask, *branch;
};

struct cpu_layer {
    float *mean, *variance; /* BATCHNORM, of the batch */
};

struct cpu_trainer {
    struct sluice_trainer base;
    struct sluice_onednn *onednn;
    struct sluice_onednn_plans plans;

    /* By the net's indices. */
    struct cpu_param *params;
    struct cpu_tensor *tensors;
    struct cpu_layer *layers;
    /* By tensor, during a backward pass: its gradient holds what a later reader of it gave. */
    bool *has_diff;

    /* Every array, to free. */
    float **owned;
    size_t num_owned, max_owned, num_bytes;
    /* Loss and hits since the last progress or collect. */
    struct sluice_train_totals totals;
    /* Where the last sum of losses that was not finite began. */
    struct sluice_nonfinite nonfinite;
};

static sluice_status alloc_array(struct cpu_trainer *cpu, size_t count, float **array,
                                 struct sluice_err *err)
{
    if (!sluice_array_reserve(&cpu->owned, &cpu->max_owned, cpu->num_owned + 1,
                              sizeof(*cpu->owned)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the trainer");
    void *block;
    if (posix_memalign(&block, SLUICE_CPU_ALIGNMENT, count * sizeof(float)) != 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "no memory for %zu MB of the trainer: is the batch too large?",
                           count * sizeof(float) >> 20);
    memset(block, 0, count * sizeof(float));
    cpu->owned[cpu->num_owned++] = block;
    cpu->num_bytes += count * sizeof(float);
    *array = block;
    return SLUICE_OK;
}

static sluice_status make_params(struct cpu_trainer *cpu, struct sluice_err *err)
{
    const struct sluice_net *net = &cpu->base.net;
    for (unsigned i = 0; i < net->num_params; i++) {
        sluice_status status = alloc_array(cpu, net->params[i].count, &cpu->params[i].value, err);
        if (!status && net->params[i].is_trained)
            status = alloc_array(cpu, net->params[i].count, &cpu->params[i].momentum, err);
        if (!status && net->params[i].is_trained)
            status = alloc_array(cpu, net->params[i].count, &cpu->params[i].grad, err);
        if (status)
            return status;
        sluice_net_init_param(net, i, cpu->base.options.seed, cpu->params[i].value);
    }
    return SLUICE_OK;
}

static sluice_status make_tensors(struct cpu_trainer *cpu, struct sluice_err *err)
{
    const struct sluice_net *net = &cpu->base.net;
    struct sluice_cpu_layout layout;
    sluice_status status = sluice_cpu_layout_make(net, cpu->base.options.batch_size, &layout, err);
    if (status)
        return status;
    float *arena;
    status = alloc_array(cpu, layout.bytes / sizeof(float), &arena, err);
    for (unsigned t = 0; !status && t <= net->num_layers; t++) {
        const struct sluice_cpu_place *place = &layout.places[t];
        cpu->tensors[t] = (struct cpu_tensor){
            .values = arena + place->values / sizeof(float),
            .diff = t > 0 ? arena + place->diff / sizeof(float) : NULL,
            .mask = arena + place->mask / sizeof(float),
            .branch = arena + place->branch / sizeof(float),
        };
    }
    sluice_cpu_layout_clear(&layout);
    for (unsigned i = 0; !status && i < net->num_layers; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        if (layer->kind == SLUICE_LAYER_BATCHNORM)
            status = alloc_array(cpu, layer->in.c, &cpu->layers[i].mean, err);
        if (!status && layer->kind == SLUICE_LAYER_BATCHNORM)
            status = alloc_array(cpu, layer->in.c, &cpu->layers[i].variance, err);
    }
    return status;
}

static void cpu_clear(struct sluice_trainer *trainer)
{
    struct cpu_trainer *cpu = (struct cpu_trainer *)trainer;
    sluice_onednn_plans_clear(&cpu->plans);
    sluice_onednn_destroy(cpu->onednn);
    for (size_t i = 0; i < cpu->num_owned; i++)
        free(cpu->owned[i]);
    free(cpu->owned);
    free(cpu->params);
    free(cpu->tensors);
    free(cpu->layers);
    free(cpu->has_diff);
}

static sluice_status make_tables(struct cpu_trainer *cpu, struct sluice_err *err)
{
    const struct sluice_net *net = &cpu->base.net;
    const size_t num_tensors = (size_t)net->num_layers + 1;
    cpu->params = calloc(net->num_params, sizeof(*cpu->params));
    cpu->tensors = calloc(num_tensors, sizeof(*cpu->tensors));
    cpu->layers = calloc(net->num_layers, sizeof(*cpu->layers));
    cpu->has_diff = calloc(num_tensors, sizeof(*cpu->has_diff));
    if (!cpu->params || !cpu->tensors || !cpu->layers || !cpu->has_diff)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the trainer");
    return SLUICE_OK;
}

static sluice_status cpu_init(struct sluice_trainer *trainer, struct sluice_err *err)
{
    struct cpu_trainer *cpu = (struct cpu_trainer *)trainer;
    enum sluice_precision *precision = &trainer->options.precision;
    if (*precision != SLUICE_PRECISION_DEFAULT && *precision != SLUICE_PRECISION_FP32)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "precision: device cpu computes in fp32, not in %s",
                           sluice_precision_name(*precision));
    *precision = SLUICE_PRECISION_FP32;
    const unsigned num_threads =
        trainer->options.num_threads ? trainer->options.num_threads : sluice_cpu_count();
    sluice_status status = sluice_onednn_create(num_threads, &cpu->onednn, err);
    if (!status)
        status = make_tables(cpu, err);
    if (!status)
        status = make_params(cpu, err);
    if (!status)
        status = make_tensors(cpu, err);
    return status;
}

static struct sluice_onednn_arrays arrays_of(struct cpu_trainer *cpu, unsigned i)
{
    const struct sluice_layer *layer = &cpu->base.net.layers[i];
    return (struct sluice_onednn_arrays){
        .src = cpu->tensors[layer->input].values,
        .dst = cpu->tensors[i + 1].values,
        .weight = layer->weight >= 0 ? cpu->params[layer->weight].value : NULL,
        .bias = layer->bias >= 0 ? cpu->params[layer->bias].value : NULL,
        .mean = cpu->layers[i].mean,
        .variance = cpu->layers[i].variance,
        .diff_src = cpu->tensors[layer->input].diff,
        .diff_dst = cpu->tensors[i + 1].diff,
        .diff_weight = layer->weight >= 0 ? cpu->params[layer->weight].grad : NULL,
        .diff_bias = layer->bias >= 0 ? cpu->params[layer->bias].grad : NULL,
    };
}

/* By the running statistics: the batch's are not used, so scale and shift take their place. */
static void evaluate_batchnorm(struct cpu_trainer *cpu, unsigned i, size_t num_pixels)
{
    const struct sluice_layer *layer = &cpu->base.net.layers[i];
    float *scale = cpu->layers[i].variance, *shift = cpu->layers[i].mean;
    const struct cpu_param *params = cpu->params;
    sluice_plain_fold_batchnorm(params[layer->weight].value, params[layer->bias].value,
                                params[layer->running_mean].value, params[layer->running_var].value,
                                layer->in.c, scale, shift);
    sluice_plain_affine(cpu->tensors[layer->input].values, scale, shift, num_pixels, layer->in.c,
                        cpu->tensors[i + 1].values);
}

static sluice_status forward_layer(struct cpu_trainer *cpu, struct sluice_onednn_plan *plan,
                                   unsigned i, bool is_training, struct sluice_err *err)
{
    const struct sluice_layer *layer = &cpu->base.net.layers[i];
    const size_t in_count = sluice_shape_elements(layer->in),
                 out_count = sluice_shape_elements(layer->out);
    const size_t num_pixels = (size_t)plan->n * layer->in.h * layer->in.w;
    float *out = cpu->tensors[i + 1].values;
    switch (layer->kind) {
    case SLUICE_LAYER_BATCHNORM:
        if (!is_training) {
            evaluate_batchnorm(cpu, i, num_pixels);
            return SLUICE_OK;
        }
        break;
    case SLUICE_LAYER_AVGPOOL:
        for (unsigned s = 0; s < plan->n; s++)
            sluice_plain_avgpool(layer, cpu->tensors[layer->input].values + s * in_count,
                                 out + s * out_count);
        return SLUICE_OK;
    case SLUICE_LAYER_DROPOUT:
        if (is_training && layer->p > 0) {
            sluice_net_dropout_mask(cpu->base.options.seed, cpu->base.steps, i, layer->p,
                                    cpu->tensors[i + 1].mask, plan->n * out_count);
            sluice_plain_multiply(out, cpu->tensors[i + 1].mask, plan->n * out_count);
        }
        return SLUICE_OK;
    case SLUICE_LAYER_ADD:
        memcpy(out, cpu->tensors[layer->input].values, plan->n * out_count * sizeof(float));
        sluice_plain_add(out, cpu->tensors[layer->input2].values, plan->n * out_count);
        return SLUICE_OK;
    case SLUICE_LAYER_CONV:
    case SLUICE_LAYER_RELU:
    case SLUICE_LAYER_MAXPOOL:
    case SLUICE_LAYER_LINEAR:
        break;
    }
    const struct sluice_onednn_arrays arrays = arrays_of(cpu, i);
    const sluice_status status = sluice_onednn_forward(plan->layers[i], &arrays, err);
    if (!status && layer->kind == SLUICE_LAYER_BATCHNORM)
        sluice_plain_update_running(cpu->layers[i].mean, cpu->layers[i].variance, num_pixels,
                                    layer->in.c, cpu->params[layer->running_mean].value,
                                    cpu->params[layer->running_var].value);
    return status;
}

static sluice_status backward_layer(struct cpu_trainer *cpu, struct sluice_onednn_plan *plan,
                                    unsigned i, struct sluice_err *err)
{
    bool *has_diff = cpu->has_diff;
    const struct sluice_layer *layer = &cpu->base.net.layers[i];
    const size_t in_count = sluice_shape_elements(layer->in),
                 out_count = sluice_shape_elements(layer->out);
    struct sluice_onednn_arrays arrays = arrays_of(cpu, i);
    const bool adds = layer->input > 0 && has_diff[layer->input];
    if (adds)
        arrays.diff_src = cpu->tensors[i + 1].branch;

    sluice_status status = SLUICE_OK;
    switch (layer->kind) {
    case SLUICE_LAYER_AVGPOOL:
        for (unsigned s = 0; s < plan->n; s++)
            sluice_plain_avgpool_backward(layer, arrays.diff_dst + s * out_count,
                                          arrays.diff_src + s * in_count);
        break;
    case SLUICE_LAYER_DROPOUT:
        if (layer->p > 0)
            sluice_plain_multiply(arrays.diff_dst, cpu->tensors[i + 1].mask, plan->n * out_count);
        break;
    case SLUICE_LAYER_ADD: /* the first branch's gradient is this array already */
        if (has_diff[layer->input2])
            sluice_plain_add(cpu->tensors[layer->input2].diff, arrays.diff_dst,
                             plan->n * out_count);
        else
            memcpy(cpu->tensors[layer->input2].diff, arrays.diff_dst,
                   plan->n * out_count * sizeof(float));
        has_diff[layer->input2] = true;
        break;
    case SLUICE_LAYER_CONV:
    case SLUICE_LAYER_BATCHNORM:
    case SLUICE_LAYER_RELU:
    case SLUICE_LAYER_MAXPOOL:
    case SLUICE_LAYER_LINEAR:
        status = sluice_onednn_backward(plan->layers[i], &arrays, err);
        break;
    }
    if (!status && adds)
        sluice_plain_add(cpu->tensors[layer->input].diff, cpu->tensors[i + 1].branch,
                         plan->n * in_count);
    has_diff[layer->input] = true;
    return status;
}

static void descend(struct cpu_trainer *cpu)
{
    const struct sluice_net *net = &cpu->base.net;
    const struct sluice_train_options *options = &cpu->base.options;
    for (unsigned p = 0; p < net->num_params; p++) {
        if (net->params[p].is_trained)
            sluice_plain_descend(cpu->params[p].value, cpu->params[p].momentum, cpu->params[p].grad,
                                 net->params[p].count, (float)cpu->base.lr,
                                 (float)options->momentum, (float)options->weight_decay);
    }
}

static void make_input(struct cpu_trainer *cpu, const struct sluice_train_batch *batch)
{
    const struct sluice_trainer *base = &cpu->base;
    if (batch->key)
        sluice_mix_input(&base->mix.batch, base->mix.rows, batch->pixels, base->options.table,
                         base->mix.quantiles, cpu->tensors[0].values);
    else
        sluice_plain_input(base->options.table, batch->pixels,
                           batch->n * sluice_shape_elements(base->net.layers[0].in),
                           cpu->tensors[0].values);
}

/* Replays the forward pass, with checks. */
static sluice_status find_nonfinite(struct cpu_trainer *cpu, const struct sluice_train_batch *batch,
                                    struct sluice_onednn_plan *plan, bool is_training,
                                    struct sluice_err *err)
{
    const struct sluice_net *net = &cpu->base.net;
    struct sluice_nonfinite *found = &cpu->nonfinite;
    *found = (struct sluice_nonfinite){.steps = cpu->base.steps};
    make_input(cpu, batch);
    if (!sluice_all_finite(cpu->tensors[0].values,
                           batch->n * sluice_shape_elements(net->layers[0].in)))
        snprintf(found->where, sizeof(found->where), "the input");
    for (unsigned i = 0; !found->where[0] && i < net->num_layers; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        const int params[] = {layer->weight, layer->bias, layer->running_mean, layer->running_var};
        for (size_t k = 0; k < (is_training ? 2 : SLUICE_ARRAY_LEN(params)); k++) {
            if (params[k] < 0 || found->where[0] ||
                sluice_all_finite(cpu->params[params[k]].value, net->params[params[k]].count))
                continue;
            sluice_nonfinite_in_param(net, (unsigned)params[k], found);
        }
        const sluice_status status = forward_layer(cpu, plan, i, is_training, err);
        if (status)
            return status;
        if (!found->where[0] && !sluice_all_finite(cpu->tensors[i + 1].values,
                                                   batch->n * sluice_shape_elements(layer->out)))
            sluice_nonfinite_in_output(net, i, found);
    }
    return SLUICE_OK;
}

static sluice_status run(struct cpu_trainer *cpu, const struct sluice_train_batch *batch,
                         bool is_training, struct sluice_onednn_plan **plan, struct sluice_err *err)
{
    const struct sluice_trainer *base = &cpu->base;
    const struct sluice_net *net = &base->net;
    sluice_onednn_enter(cpu->onednn);
    sluice_status status =
        sluice_onednn_plans_get(&cpu->plans, cpu->onednn, net, batch->n, plan, err);
    if (status)
        return status;
    make_input(cpu, batch);
    for (unsigned i = 0; !status && i < net->num_layers; i++)
        status = forward_layer(cpu, *plan, i, is_training, err);
    if (status)
        return status;

    const bool was_finite = isfinite(cpu->totals.loss_sum);
    const float *logits = cpu->tensors[net->num_layers].values;
    float *diff = is_training ? cpu->tensors[net->num_layers].diff : NULL;
    for (unsigned s = 0; s < batch->n; s++) {
        const size_t at = (size_t)s * net->num_classes;
        if (batch->key)
            sluice_mix_loss(&base->mix.batch, s, batch->labels, logits + at, net->num_classes,
                            1.0 / batch->n, diff + at, &cpu->totals);
        else
            sluice_plain_loss(logits + at, net->num_classes, batch->labels[s], 1.0 / batch->n,
                              diff ? diff + at : NULL, &cpu->totals);
    }
    if (was_finite && !isfinite(cpu->totals.loss_sum))
        return find_nonfinite(cpu, batch, *plan, is_training, err);
    return SLUICE_OK;
}

/* The last parameter whose gradient is not finite, where the backward pass met it first; -1: none.
 * oneDNN's ReLU turns NaN into 0: values that are not finite may leave the loss finite, and show
 * only here. */
static int find_bad_grad(const struct cpu_trainer *cpu)
{
    const struct sluice_net *net = &cpu->base.net;
    int p = (int)net->num_params - 1;
    while (p >= 0 && (!net->params[p].is_trained ||
                      sluice_all_finite(cpu->params[p].grad, net->params[p].count)))
        p--;
    return p;
}

static sluice_status cpu_step(struct sluice_trainer *trainer,
                              const struct sluice_train_batch *batch, struct sluice_err *err)
{
    struct cpu_trainer *cpu = (struct cpu_trainer *)trainer;
    struct sluice_onednn_plan *plan;
    sluice_status status = run(cpu, batch, true, &plan, err);
    if (status || !isfinite(cpu->totals.loss_sum))
        return status;
    memset(cpu->has_diff, 0, (trainer->net.num_layers + 1) * sizeof(*cpu->has_diff));
    for (unsigned i = trainer->net.num_layers; !status && i > 0; i--)
        status = backward_layer(cpu, plan, i - 1, err);
    if (status)
        return status;
    const int bad = find_bad_grad(cpu);
    if (bad < 0) {
        descend(cpu);
        return SLUICE_OK;
    }
    cpu->totals.loss_sum = NAN;
    status = find_nonfinite(cpu, batch, plan, true, err);
    if (!status && !cpu->nonfinite.where[0])
        sluice_nonfinite_in_grad(&trainer->net, (unsigned)bad, &cpu->nonfinite);
    return status;
}

static sluice_status cpu_evaluate(struct sluice_trainer *trainer,
                                  const struct sluice_train_batch *batch, struct sluice_err *err)
{
    struct sluice_onednn_plan *plan;
    return run((struct cpu_trainer *)trainer, batch, false, &plan, err);
}

static sluice_status cpu_collect(struct sluice_trainer *trainer, struct sluice_err *err)
{
    (void)err;
    struct cpu_trainer *cpu = (struct cpu_trainer *)trainer;
    trainer->totals.loss_sum += cpu->totals.loss_sum;
    trainer->totals.top1 += cpu->totals.top1;
    trainer->totals.top5 += cpu->totals.top5;
    memset(&cpu->totals, 0, sizeof(cpu->totals));
    return SLUICE_OK;
}

static sluice_status cpu_progress(struct sluice_trainer *trainer,
                                  struct sluice_train_totals *totals, struct sluice_err *err)
{
    const sluice_status status = cpu_collect(trainer, err);
    *totals = trainer->totals;
    return status;
}

static sluice_status cpu_find_nonfinite(struct sluice_trainer *trainer,
                                        struct sluice_nonfinite *found, struct sluice_err *err)
{
    (void)err;
    *found = ((struct cpu_trainer *)trainer)->nonfinite;
    return SLUICE_OK;
}

static void cpu_memory(const struct sluice_trainer *trainer, struct sluice_train_memory *memory)
{
    const struct sluice_net *net = &trainer->net;
    for (unsigned i = 0; i < net->num_params; i++)
        memory->parameters +=
            net->params[i].count * sizeof(float) * (net->params[i].is_trained ? 3 : 1);
    memory->total = ((const struct cpu_trainer *)trainer)->num_bytes;
    memory->activations = memory->total - memory->parameters;
}

static float *array_of(const struct cpu_trainer *cpu, enum sluice_array array, unsigned param)
{
    switch (array) {
    case SLUICE_ARRAY_VALUE:
        return cpu->params[param].value;
    case SLUICE_ARRAY_MOMENTUM:
        return cpu->params[param].momentum;
    case SLUICE_ARRAY_GRAD:
        return cpu->params[param].grad;
    }
    return NULL;
}

static sluice_status cpu_read(struct sluice_trainer *trainer, enum sluice_array array,
                              unsigned param, float *out, struct sluice_err *err)
{
    (void)err;
    memcpy(out, array_of((struct cpu_trainer *)trainer, array, param),
           trainer->net.params[param].count * sizeof(float));
    return SLUICE_OK;
}

static sluice_status cpu_write(struct sluice_trainer *trainer, enum sluice_array array,
                               unsigned param, const float *in, struct sluice_err *err)
{
    (void)err;
    memcpy(array_of((struct cpu_trainer *)trainer, array, param), in,
           trainer->net.params[param].count * sizeof(float));
    return SLUICE_OK;
}

const struct sluice_trainer_ops sluice_trainer_cpu_ops = {
    .size = sizeof(struct cpu_trainer),
    .init = cpu_init,
    .clear = cpu_clear,
    .step = cpu_step,
    .evaluate = cpu_evaluate,
    .progress = cpu_progress,
    .collect = cpu_collect,
    .find_nonfinite = cpu_find_nonfinite,
    .memory = cpu_memory,
    .read = cpu_read,
    .write = cpu_write,
};
