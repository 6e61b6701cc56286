#include "train/onednn_shim.h"

#include "base/log.h"

#include <oneapi/dnnl/dnnl.h>

#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct sluice_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* scratchpads are ours: one for all operations */
    void *scratch;
    size_t scratch_bytes;
    unsigned num_threads;
    void (*set_num_threads)(int); /* NULL: the library has another runtime than OpenMP */
};

static sluice_status check(dnnl_status_t status, const char *what, struct sluice_err *err)
{
    if (status == dnnl_success)
        return SLUICE_OK;
    if (status == dnnl_out_of_memory)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "oneDNN has no memory for %s", what);
    return sluice_fail(err, SLUICE_E_INTERNAL, "oneDNN: %s: status %d", what, (int)status);
}

/* Memory descriptors: version 2 has structs that are passed by pointer, version 3 has handles.
 * Operation descriptors exist in version 2 only. */

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t desc_ref;
#define DESC(desc) (desc)
#define NORM_BACKWARD_ARGS 8

static dnnl_status_t desc_init(dnnl_memory_desc_t *desc, int num_dims, const dnnl_dims_t dims,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(desc, num_dims, dims, dnnl_f32, tag);
}

static void desc_clear(dnnl_memory_desc_t *desc)
{
    dnnl_memory_desc_destroy(*desc);
}

#else

typedef const dnnl_memory_desc_t *desc_ref;
#define DESC(desc) (&(desc))
#define NORM_BACKWARD_ARGS 9 /* the shift too: version 2 demands it, version 3 refuses it */

static dnnl_status_t desc_init(dnnl_memory_desc_t *desc, int num_dims, const dnnl_dims_t dims,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(desc, num_dims, dims, dnnl_f32, tag);
}

static void desc_clear(dnnl_memory_desc_t *desc)
{
    (void)desc;
}

#endif

/* The descriptors of one layer's arrays, from which its primitives are described. */
struct descs {
    dnnl_memory_desc_t src, dst, weight, bias;
    desc_ref bias_or_null;
    dnnl_dims_t strides, kernel, pad, dilation;
};

enum direction {
    FORWARD,
    BACKWARD_DATA, /* MAXPOOL, BATCHNORM, RELU: all of backward */
    BACKWARD_WEIGHTS,
};

/* A convolution's algorithm is named because another choice (Winograd) rounds more coarsely. */
static dnnl_status_t describe(const struct sluice_onednn *onednn,
                              const struct sluice_onednn_geometry *g, const struct descs *d,
                              enum direction direction, const_dnnl_primitive_desc_t forward,
                              dnnl_primitive_desc_t *desc)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const dnnl_alg_kind_t relu = dnnl_eltwise_relu_use_dst_for_bwd;
    const unsigned flags = dnnl_use_scale | dnnl_use_shift;

#if DNNL_VERSION_MAJOR >= 3
    const dnnl_engine_t engine = onednn->engine;
    const const_dnnl_primitive_attr_t attr = onednn->attr;
    switch (g->kind) {
    case SLUICE_ONEDNN_CONV:
        if (direction == FORWARD)
            return dnnl_convolution_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, direct, d->src, d->weight, d->bias_or_null,
                d->dst, d->strides, d->dilation, d->pad, d->pad, attr);
        if (direction == BACKWARD_DATA)
            return dnnl_convolution_backward_data_primitive_desc_create(
                desc, engine, direct, d->src, d->weight, d->dst, d->strides, d->dilation, d->pad,
                d->pad, forward, attr);
        return dnnl_convolution_backward_weights_primitive_desc_create(
            desc, engine, direct, d->src, d->weight, d->bias_or_null, d->dst, d->strides,
            d->dilation, d->pad, d->pad, forward, attr);
    case SLUICE_ONEDNN_LINEAR:
        if (direction == FORWARD)
            return dnnl_inner_product_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, d->src, d->weight, d->bias_or_null, d->dst,
                attr);
        if (direction == BACKWARD_DATA)
            return dnnl_inner_product_backward_data_primitive_desc_create(
                desc, engine, d->src, d->weight, d->dst, forward, attr);
        return dnnl_inner_product_backward_weights_primitive_desc_create(
            desc, engine, d->src, d->weight, d->bias_or_null, d->dst, forward, attr);
    case SLUICE_ONEDNN_MAXPOOL:
        if (direction == FORWARD)
            return dnnl_pooling_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, dnnl_pooling_max, d->src, d->dst, d->strides,
                d->kernel, d->dilation, d->pad, d->pad, attr);
        return dnnl_pooling_backward_primitive_desc_create(
            desc, engine, dnnl_pooling_max, d->src, d->dst, d->strides, d->kernel, d->dilation,
            d->pad, d->pad, forward, attr);
    case SLUICE_ONEDNN_BATCHNORM:
        if (direction == FORWARD)
            return dnnl_batch_normalization_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, d->src, d->dst, g->epsilon, flags, attr);
        return dnnl_batch_normalization_backward_primitive_desc_create(
            desc, engine, dnnl_backward, d->src, d->dst, d->src, g->epsilon, flags, forward, attr);
    case SLUICE_ONEDNN_RELU:
        if (direction == FORWARD)
            return dnnl_eltwise_forward_primitive_desc_create(desc, engine, dnnl_forward_training,
                                                              relu, d->src, d->dst, 0, 0, attr);
        return dnnl_eltwise_backward_primitive_desc_create(desc, engine, relu, d->src, d->dst,
                                                           d->dst, 0, 0, forward, attr);
    }
    return dnnl_invalid_arguments;
#else
    union {
        dnnl_convolution_desc_t conv;
        dnnl_inner_product_desc_t linear;
        dnnl_pooling_desc_t pool;
        dnnl_batch_normalization_desc_t norm;
        dnnl_eltwise_desc_t relu;
    } op;
    dnnl_status_t status = dnnl_invalid_arguments;
    switch (g->kind) {
    case SLUICE_ONEDNN_CONV:
        if (direction == FORWARD)
            status = dnnl_convolution_forward_desc_init(&op.conv, dnnl_forward_training, direct,
                                                        &d->src, &d->weight, d->bias_or_null,
                                                        &d->dst, d->strides, d->pad, d->pad);
        else if (direction == BACKWARD_DATA)
            status = dnnl_convolution_backward_data_desc_init(&op.conv, direct, &d->src, &d->weight,
                                                              &d->dst, d->strides, d->pad, d->pad);
        else
            status = dnnl_convolution_backward_weights_desc_init(
                &op.conv, direct, &d->src, &d->weight, d->bias_or_null, &d->dst, d->strides, d->pad,
                d->pad);
        break;
    case SLUICE_ONEDNN_LINEAR:
        if (direction == FORWARD)
            status = dnnl_inner_product_forward_desc_init(
                &op.linear, dnnl_forward_training, &d->src, &d->weight, d->bias_or_null, &d->dst);
        else if (direction == BACKWARD_DATA)
            status = dnnl_inner_product_backward_data_desc_init(&op.linear, &d->src, &d->weight,
                                                                &d->dst);
        else
            status = dnnl_inner_product_backward_weights_desc_init(&op.linear, &d->src, &d->weight,
                                                                   d->bias_or_null, &d->dst);
        break;
    case SLUICE_ONEDNN_MAXPOOL:
        if (direction == FORWARD)
            status = dnnl_pooling_forward_desc_init(&op.pool, dnnl_forward_training,
                                                    dnnl_pooling_max, &d->src, &d->dst, d->strides,
                                                    d->kernel, d->pad, d->pad);
        else
            status = dnnl_pooling_backward_desc_init(&op.pool, dnnl_pooling_max, &d->src, &d->dst,
                                                     d->strides, d->kernel, d->pad, d->pad);
        break;
    case SLUICE_ONEDNN_BATCHNORM:
        if (direction == FORWARD)
            status = dnnl_batch_normalization_forward_desc_init(&op.norm, dnnl_forward_training,
                                                                &d->src, g->epsilon, flags);
        else
            status = dnnl_batch_normalization_backward_desc_init(&op.norm, dnnl_backward, &d->src,
                                                                 &d->src, g->epsilon, flags);
        break;
    case SLUICE_ONEDNN_RELU:
        if (direction == FORWARD)
            status = dnnl_eltwise_forward_desc_init(&op.relu, dnnl_forward_training, relu, &d->src,
                                                    0, 0);
        else
            status = dnnl_eltwise_backward_desc_init(&op.relu, relu, &d->src, &d->src, 0, 0);
        break;
    }
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(desc, &op, onednn->attr, onednn->engine, forward);
#endif
}

sluice_status sluice_onednn_create(unsigned num_threads, struct sluice_onednn **onednn,
                                   struct sluice_err *err)
{
    struct sluice_onednn *o = calloc(1, sizeof(*o));
    if (!o)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the CPU trainer");
    o->num_threads = num_threads;
    /* Looked up, not linked: which OpenMP runtime there is was oneDNN's choice, and the
     * compiler's own may be another. */
    *(void **)&o->set_num_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!o->set_num_threads)
        sluice_log(SLUICE_LOG_WARN, "this oneDNN chooses its number of threads by itself");
    sluice_onednn_enter(o);

    sluice_status status = check(dnnl_engine_create(&o->engine, dnnl_cpu, 0), "engine", err);
    if (!status)
        status = check(dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags),
                       "stream", err);
    if (!status)
        status = check(dnnl_primitive_attr_create(&o->attr), "attributes", err);
    if (!status)
        status = check(dnnl_primitive_attr_set_scratchpad_mode(o->attr, dnnl_scratchpad_mode_user),
                       "attributes", err);
    if (status) {
        sluice_onednn_destroy(o);
        return status;
    }
    *onednn = o;
    return SLUICE_OK;
}

void sluice_onednn_destroy(struct sluice_onednn *onednn)
{
    if (!onednn)
        return;
    dnnl_primitive_attr_destroy(onednn->attr);
    dnnl_stream_destroy(onednn->stream);
    dnnl_engine_destroy(onednn->engine);
    free(onednn->scratch);
    free(onednn);
}

void sluice_onednn_enter(struct sluice_onednn *onednn)
{
    if (onednn->set_num_threads)
        onednn->set_num_threads((int)onednn->num_threads);
}

/* A primitive with a memory object for each of its arguments; the arrays come at each run. */
#define MAX_ARGS 10
struct op {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[MAX_ARGS]; /* the last is the scratchpad */
    int num_args;
};

static void op_clear(struct op *op)
{
    for (int i = 0; i < op->num_args; i++)
        dnnl_memory_destroy(op->args[i].memory);
    dnnl_primitive_destroy(op->primitive);
    memset(op, 0, sizeof(*op));
}

static size_t bytes_of(const_dnnl_primitive_desc_t desc, int arg)
{
    const desc_ref memory = dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg);
    return memory ? dnnl_memory_desc_get_size(memory) : 0;
}

static sluice_status op_init(struct sluice_onednn *onednn, struct op *op,
                             const_dnnl_primitive_desc_t desc, const int *args, int num_args,
                             struct sluice_err *err)
{
    sluice_status status = check(dnnl_primitive_create(&op->primitive, desc), "primitive", err);
    assert(num_args < MAX_ARGS);
    for (int i = 0; !status && i <= num_args; i++) {
        const int arg = i < num_args ? args[i] : DNNL_ARG_SCRATCHPAD;
        op->args[i].arg = arg;
        status = check(
            dnnl_memory_create(&op->args[i].memory,
                               dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg),
                               onednn->engine, DNNL_MEMORY_NONE),
            "argument", err);
        op->num_args += !status;
    }
    const size_t scratch_bytes = bytes_of(desc, DNNL_ARG_SCRATCHPAD);
    if (!status && scratch_bytes > onednn->scratch_bytes) {
        void *scratch;
        if (posix_memalign(&scratch, 64, scratch_bytes) != 0)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes of scratch",
                               scratch_bytes);
        free(onednn->scratch);
        onednn->scratch = scratch;
        onednn->scratch_bytes = scratch_bytes;
    }
    return status;
}

/* `arrays` in the order of op_init's args; there may be more of them. */
static sluice_status op_run(struct sluice_onednn *onednn, struct op *op, const void *const *arrays,
                            int num_arrays, struct sluice_err *err)
{
    assert(op->num_args <= num_arrays + 1);
    for (int i = 0; i < op->num_args; i++) {
        const void *array = i + 1 < op->num_args && i < num_arrays ? arrays[i] : onednn->scratch;
        const dnnl_status_t status =
            dnnl_memory_set_data_handle(op->args[i].memory, (void *)(uintptr_t)array);
        if (status != dnnl_success)
            return check(status, "argument", err);
    }
    dnnl_status_t status =
        dnnl_primitive_execute(op->primitive, onednn->stream, op->num_args, op->args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(onednn->stream);
    return check(status, "execution", err);
}

#define OP_RUN(onednn, op, err, ...)                                                               \
    op_run(onednn, op, (const void *const[]){__VA_ARGS__},                                         \
           (int)SLUICE_ARRAY_LEN(((const void *const[]){__VA_ARGS__})), err)

/* Weights in the form that a primitive computes with fastest, and the way there or back. */
struct weight_form {
    struct op reorder;
    float *array; /* NULL: the plain form is that form */
};

static void weight_form_clear(struct weight_form *form)
{
    op_clear(&form->reorder);
    free(form->array);
    form->array = NULL;
}

static sluice_status weight_form_init(struct sluice_onednn *onednn, struct weight_form *form,
                                      desc_ref plain, desc_ref fast, bool from_plain,
                                      struct sluice_err *err)
{
    if (dnnl_memory_desc_equal(plain, fast))
        return SLUICE_OK;
    dnnl_primitive_desc_t desc = NULL;
    sluice_status status = check(
        dnnl_reorder_primitive_desc_create(&desc, from_plain ? plain : fast, onednn->engine,
                                           from_plain ? fast : plain, onednn->engine, onednn->attr),
        "reorder", err);
    if (status)
        return status;
    status =
        op_init(onednn, &form->reorder, desc, (const int[]){DNNL_ARG_FROM, DNNL_ARG_TO}, 2, err);
    dnnl_primitive_desc_destroy(desc);
    if (status)
        return status;
    const size_t bytes = dnnl_memory_desc_get_size(fast);
    void *array;
    if (posix_memalign(&array, 64, bytes) != 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for weights of %zu bytes", bytes);
    memset(array, 0, bytes); /* padding inside the form is zero */
    form->array = array;
    return SLUICE_OK;
}

/* *used: the weights to compute with. */
static sluice_status weight_form_load(struct sluice_onednn *onednn, struct weight_form *form,
                                      const float *plain, const float **used,
                                      struct sluice_err *err)
{
    *used = form->array ? form->array : plain;
    return form->array ? OP_RUN(onednn, &form->reorder, err, plain, form->array) : SLUICE_OK;
}

struct sluice_onednn_layer {
    struct sluice_onednn *onednn;
    struct sluice_onednn_geometry geometry;
    struct op forward, backward_data, backward_weights;
    struct weight_form forward_weight, data_weight, diff_weight;
    void *workspace; /* MAXPOOL: where each maximum was */
};

void sluice_onednn_layer_destroy(struct sluice_onednn_layer *layer)
{
    if (!layer)
        return;
    op_clear(&layer->forward);
    op_clear(&layer->backward_data);
    op_clear(&layer->backward_weights);
    weight_form_clear(&layer->forward_weight);
    weight_form_clear(&layer->data_weight);
    weight_form_clear(&layer->diff_weight);
    free(layer->workspace);
    free(layer);
}

static bool has_weights(const struct sluice_onednn_geometry *g)
{
    return g->kind == SLUICE_ONEDNN_CONV || g->kind == SLUICE_ONEDNN_LINEAR;
}

/* The descriptors that primitives are described with, and the plain form of the weights. */
static sluice_status make_descs(const struct sluice_onednn_geometry *g, struct descs *d,
                                dnnl_memory_desc_t *plain_weight, struct sluice_err *err)
{
    const bool is_linear = g->kind == SLUICE_ONEDNN_LINEAR;
    const dnnl_dims_t src = {g->n, g->c, g->h, g->w};
    const dnnl_dims_t dst = {g->n, g->out_c, g->out_h, g->out_w};
    const dnnl_dims_t flat = {(dnnl_dim_t)g->n * g->c * g->h * g->w};
    const dnnl_dims_t weight = {g->out_c, g->c, g->kernel, g->kernel};
    const dnnl_dims_t bias = {g->out_c};
    for (int i = 0; i < 2; i++) {
        d->strides[i] = g->stride;
        d->kernel[i] = g->kernel;
        d->pad[i] = g->pad;
    }

    dnnl_status_t status;
    if (g->kind == SLUICE_ONEDNN_RELU) {
        status = desc_init(&d->src, 1, flat, dnnl_a);
        if (status == dnnl_success)
            status = desc_init(&d->dst, 1, flat, dnnl_a);
    } else {
        status = desc_init(&d->src, is_linear ? 2 : 4, src, is_linear ? dnnl_ab : dnnl_acdb);
        if (status == dnnl_success)
            status = desc_init(&d->dst, is_linear ? 2 : 4, dst, is_linear ? dnnl_ab : dnnl_acdb);
    }
    if (status == dnnl_success && has_weights(g)) {
        /* A matrix stays as it is: it can be so large that a second form costs more. */
        status = desc_init(&d->weight, is_linear ? 2 : 4, weight,
                           is_linear ? dnnl_ab : dnnl_format_tag_any);
        if (status == dnnl_success)
            status =
                desc_init(plain_weight, is_linear ? 2 : 4, weight, is_linear ? dnnl_ab : dnnl_abcd);
    }
    if (status == dnnl_success && g->has_bias) {
        status = desc_init(&d->bias, 1, bias, dnnl_a);
        d->bias_or_null = DESC(d->bias);
    }
    return check(status, "shapes", err);
}

/* Each kind's arguments, in the order in which run_forward and run_backward pass the arrays. */

static sluice_status make_forward(struct sluice_onednn_layer *layer,
                                  const_dnnl_primitive_desc_t desc, struct sluice_err *err)
{
    struct sluice_onednn *onednn = layer->onednn;
    struct op *op = &layer->forward;
    switch (layer->geometry.kind) {
    case SLUICE_ONEDNN_CONV:
    case SLUICE_ONEDNN_LINEAR:
        return op_init(onednn, op, desc,
                       (const int[]){DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS},
                       layer->geometry.has_bias ? 4 : 3, err);
    case SLUICE_ONEDNN_MAXPOOL: {
        const size_t bytes = bytes_of(desc, DNNL_ARG_WORKSPACE);
        if (posix_memalign(&layer->workspace, 64, bytes ? bytes : 1) != 0) {
            layer->workspace = NULL;
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for pooling");
        }
        return op_init(onednn, op, desc,
                       (const int[]){DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE}, 3, err);
    }
    case SLUICE_ONEDNN_BATCHNORM:
        return op_init(onednn, op, desc,
                       (const int[]){DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE,
                                     DNNL_ARG_SCALE, DNNL_ARG_SHIFT},
                       6, err);
    case SLUICE_ONEDNN_RELU:
        return op_init(onednn, op, desc, (const int[]){DNNL_ARG_SRC, DNNL_ARG_DST}, 2, err);
    }
    return SLUICE_E_INTERNAL;
}

static sluice_status make_backward(struct sluice_onednn_layer *layer, enum direction direction,
                                   const_dnnl_primitive_desc_t desc, struct sluice_err *err)
{
    struct sluice_onednn *onednn = layer->onednn;
    struct op *op = &layer->backward_data;
    switch (layer->geometry.kind) {
    case SLUICE_ONEDNN_CONV:
    case SLUICE_ONEDNN_LINEAR:
        if (direction == BACKWARD_DATA)
            return op_init(onednn, op, desc,
                           (const int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS}, 3,
                           err);
        return op_init(onednn, &layer->backward_weights, desc,
                       (const int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS,
                                     DNNL_ARG_DIFF_BIAS},
                       layer->geometry.has_bias ? 4 : 3, err);
    case SLUICE_ONEDNN_MAXPOOL:
        return op_init(onednn, op, desc,
                       (const int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_WORKSPACE}, 3,
                       err);
    case SLUICE_ONEDNN_BATCHNORM:
        return op_init(onednn, op, desc,
                       (const int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_SRC,
                                     DNNL_ARG_MEAN, DNNL_ARG_VARIANCE, DNNL_ARG_SCALE,
                                     DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT, DNNL_ARG_SHIFT},
                       NORM_BACKWARD_ARGS, err);
    case SLUICE_ONEDNN_RELU:
        return op_init(onednn, op, desc,
                       (const int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_DST}, 3, err);
    }
    return SLUICE_E_INTERNAL;
}

/* One direction's primitive, and the form it wants the weights in. */
static sluice_status make_direction(struct sluice_onednn_layer *layer, const struct descs *descs,
                                    desc_ref plain_weight, enum direction direction,
                                    const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *out,
                                    struct sluice_err *err)
{
    static const char *const names[] = {"forward", "backward", "weights' gradient"};
    dnnl_primitive_desc_t desc = NULL;
    sluice_status status =
        check(describe(layer->onednn, &layer->geometry, descs, direction, forward, &desc),
              names[direction], err);
    if (status)
        return status;
    status = direction == FORWARD ? make_forward(layer, desc, err)
                                  : make_backward(layer, direction, desc, err);
    if (!status && has_weights(&layer->geometry)) {
        struct weight_form *form = direction == FORWARD         ? &layer->forward_weight
                                   : direction == BACKWARD_DATA ? &layer->data_weight
                                                                : &layer->diff_weight;
        const int arg = direction == BACKWARD_WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
        status = weight_form_init(layer->onednn, form, plain_weight,
                                  dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg),
                                  direction != BACKWARD_WEIGHTS, err);
    }
    if (status || !out)
        dnnl_primitive_desc_destroy(desc);
    else
        *out = desc;
    return status;
}

sluice_status sluice_onednn_layer_create(struct sluice_onednn *onednn,
                                         const struct sluice_onednn_geometry *geometry,
                                         struct sluice_onednn_layer **layer, struct sluice_err *err)
{
    struct sluice_onednn_layer *l = calloc(1, sizeof(*l));
    if (!l)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a layer");
    l->onednn = onednn;
    l->geometry = *geometry;
    struct descs descs;
    dnnl_memory_desc_t plain_weight;
    memset(&descs, 0, sizeof(descs));
    memset(&plain_weight, 0, sizeof(plain_weight));
    dnnl_primitive_desc_t forward = NULL;
    sluice_status status = make_descs(geometry, &descs, &plain_weight, err);
    if (!status)
        status = make_direction(l, &descs, DESC(plain_weight), FORWARD, NULL, &forward, err);
    if (!status && (!has_weights(geometry) || geometry->needs_diff_src))
        status = make_direction(l, &descs, DESC(plain_weight), BACKWARD_DATA, forward, NULL, err);
    if (!status && has_weights(geometry))
        status =
            make_direction(l, &descs, DESC(plain_weight), BACKWARD_WEIGHTS, forward, NULL, err);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    desc_clear(&descs.src);
    desc_clear(&descs.dst);
    desc_clear(&descs.weight);
    desc_clear(&descs.bias);
    desc_clear(&plain_weight);
    if (status) {
        sluice_onednn_layer_destroy(l);
        return status;
    }
    *layer = l;
    return SLUICE_OK;
}

sluice_status sluice_onednn_forward(struct sluice_onednn_layer *layer,
                                    const struct sluice_onednn_arrays *a, struct sluice_err *err)
{
    struct sluice_onednn *onednn = layer->onednn;
    struct op *op = &layer->forward;
    switch (layer->geometry.kind) {
    case SLUICE_ONEDNN_CONV:
    case SLUICE_ONEDNN_LINEAR: {
        const float *weight;
        const sluice_status status =
            weight_form_load(onednn, &layer->forward_weight, a->weight, &weight, err);
        if (status)
            return status;
        return OP_RUN(onednn, op, err, a->src, a->dst, weight, a->bias);
    }
    case SLUICE_ONEDNN_MAXPOOL:
        return OP_RUN(onednn, op, err, a->src, a->dst, layer->workspace);
    case SLUICE_ONEDNN_BATCHNORM:
        return OP_RUN(onednn, op, err, a->src, a->dst, a->mean, a->variance, a->weight, a->bias);
    case SLUICE_ONEDNN_RELU:
        return OP_RUN(onednn, op, err, a->src, a->dst);
    }
    return SLUICE_E_INTERNAL;
}

/* Convolution and linear. */
static sluice_status weighted_backward(struct sluice_onednn_layer *layer,
                                       const struct sluice_onednn_arrays *a, struct sluice_err *err)
{
    struct sluice_onednn *onednn = layer->onednn;
    struct weight_form *diff = &layer->diff_weight;
    sluice_status status = OP_RUN(onednn, &layer->backward_weights, err, a->diff_dst, a->src,
                                  diff->array ? diff->array : a->diff_weight, a->diff_bias);
    if (!status && diff->array)
        status = OP_RUN(onednn, &diff->reorder, err, diff->array, a->diff_weight);
    if (status || !layer->geometry.needs_diff_src)
        return status;
    const float *weight;
    status = weight_form_load(onednn, &layer->data_weight, a->weight, &weight, err);
    if (status)
        return status;
    return OP_RUN(onednn, &layer->backward_data, err, a->diff_dst, a->diff_src, weight);
}

sluice_status sluice_onednn_backward(struct sluice_onednn_layer *layer,
                                     const struct sluice_onednn_arrays *a, struct sluice_err *err)
{
    struct sluice_onednn *onednn = layer->onednn;
    struct op *op = &layer->backward_data;
    switch (layer->geometry.kind) {
    case SLUICE_ONEDNN_CONV:
    case SLUICE_ONEDNN_LINEAR:
        return weighted_backward(layer, a, err);
    case SLUICE_ONEDNN_MAXPOOL:
        return OP_RUN(onednn, op, err, a->diff_dst, a->diff_src, layer->workspace);
    case SLUICE_ONEDNN_BATCHNORM:
        return OP_RUN(onednn, op, err, a->diff_dst, a->diff_src, a->src, a->mean, a->variance,
                      a->weight, a->diff_weight, a->diff_bias, a->bias);
    case SLUICE_ONEDNN_RELU:
        return OP_RUN(onednn, op, err, a->diff_dst, a->diff_src, a->dst);
    }
    return SLUICE_E_INTERNAL;
}
