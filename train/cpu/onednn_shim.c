#include "train/cpu/onednn_shim.h"

#include "base/log.h"
#include "train/cpu/onednn_describe.h"

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

    sluice_status status =
        sluice_onednn_check(dnnl_engine_create(&o->engine, dnnl_cpu, 0), "engine", err);
    if (!status)
        status = sluice_onednn_check(
            dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags), "stream", err);
    if (!status)
        status = sluice_onednn_check(dnnl_primitive_attr_create(&o->attr), "attributes", err);
    if (!status)
        status = sluice_onednn_check(
            dnnl_primitive_attr_set_scratchpad_mode(o->attr, dnnl_scratchpad_mode_user),
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
    const sluice_onednn_desc_ref memory =
        dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg);
    return memory ? dnnl_memory_desc_get_size(memory) : 0;
}

static sluice_status op_init(struct sluice_onednn *onednn, struct op *op,
                             const_dnnl_primitive_desc_t desc, const int *args, int num_args,
                             struct sluice_err *err)
{
    sluice_status status =
        sluice_onednn_check(dnnl_primitive_create(&op->primitive, desc), "primitive", err);
    assert(num_args < MAX_ARGS);
    for (int i = 0; !status && i <= num_args; i++) {
        const int arg = i < num_args ? args[i] : DNNL_ARG_SCRATCHPAD;
        op->args[i].arg = arg;
        status = sluice_onednn_check(
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
            return sluice_onednn_check(status, "argument", err);
    }
    dnnl_status_t status =
        dnnl_primitive_execute(op->primitive, onednn->stream, op->num_args, op->args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(onednn->stream);
    return sluice_onednn_check(status, "execution", err);
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
                                      sluice_onednn_desc_ref plain, sluice_onednn_desc_ref fast,
                                      bool from_plain, struct sluice_err *err)
{
    if (dnnl_memory_desc_equal(plain, fast))
        return SLUICE_OK;
    dnnl_primitive_desc_t desc = NULL;
    sluice_status status = sluice_onednn_check(
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

static sluice_status make_backward(struct sluice_onednn_layer *layer,
                                   enum sluice_onednn_direction direction,
                                   const_dnnl_primitive_desc_t desc, struct sluice_err *err)
{
    struct sluice_onednn *onednn = layer->onednn;
    struct op *op = &layer->backward_data;
    switch (layer->geometry.kind) {
    case SLUICE_ONEDNN_CONV:
    case SLUICE_ONEDNN_LINEAR:
        if (direction == SLUICE_ONEDNN_BACKWARD_DATA)
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
                       SLUICE_ONEDNN_NORM_BACKWARD_ARGS, err);
    case SLUICE_ONEDNN_RELU:
        return op_init(onednn, op, desc,
                       (const int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_DST}, 3, err);
    }
    return SLUICE_E_INTERNAL;
}

/* One direction's primitive, and the form it wants the weights in. */
static sluice_status make_direction(struct sluice_onednn_layer *layer,
                                    const struct sluice_onednn_descs *descs,
                                    enum sluice_onednn_direction direction,
                                    const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *out,
                                    struct sluice_err *err)
{
    static const char *const names[] = {"forward", "backward", "weights' gradient"};
    dnnl_primitive_desc_t desc = NULL;
    sluice_status status = sluice_onednn_check(
        sluice_onednn_describe(&layer->geometry, descs, direction, layer->onednn->engine,
                               layer->onednn->attr, forward, &desc),
        names[direction], err);
    if (status)
        return status;
    status = direction == SLUICE_ONEDNN_FORWARD ? make_forward(layer, desc, err)
                                                : make_backward(layer, direction, desc, err);
    if (!status && sluice_onednn_has_weights(&layer->geometry)) {
        struct weight_form *form = direction == SLUICE_ONEDNN_FORWARD ? &layer->forward_weight
                                   : direction == SLUICE_ONEDNN_BACKWARD_DATA ? &layer->data_weight
                                                                              : &layer->diff_weight;
        const int arg =
            direction == SLUICE_ONEDNN_BACKWARD_WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
        status = weight_form_init(layer->onednn, form, SLUICE_ONEDNN_DESC(descs->plain_weight),
                                  dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg),
                                  direction != SLUICE_ONEDNN_BACKWARD_WEIGHTS, err);
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
    struct sluice_onednn_descs descs;
    memset(&descs, 0, sizeof(descs));
    dnnl_primitive_desc_t forward = NULL;
    sluice_status status = sluice_onednn_descs_init(geometry, &descs, err);
    if (!status)
        status = make_direction(l, &descs, SLUICE_ONEDNN_FORWARD, NULL, &forward, err);
    if (!status && (!sluice_onednn_has_weights(geometry) || geometry->needs_diff_src))
        status = make_direction(l, &descs, SLUICE_ONEDNN_BACKWARD_DATA, forward, NULL, err);
    if (!status && sluice_onednn_has_weights(geometry))
        status = make_direction(l, &descs, SLUICE_ONEDNN_BACKWARD_WEIGHTS, forward, NULL, err);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    sluice_onednn_descs_clear(&descs);
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
