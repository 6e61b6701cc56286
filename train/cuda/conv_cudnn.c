#include "train/cuda/conv_cudnn.h"

#include <cudnn_backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of a graph's tensors, by which a run names their memory. */
enum tensor { TENSOR_X = 1, TENSOR_W, TENSOR_Y, TENSOR_BIAS, TENSOR_SUM, TENSOR_BIASED };

/* Descriptors of a problem, and the first failure of a call: calls after it do nothing, so that only
 * the end is checked. */
struct graph {
    cudnnBackendDescriptor_t made[24];
    unsigned count;
    cudnnStatus_t failed;
};

struct sluice_conv_plan {
    struct graph graph;
    cudnnBackendDescriptor_t plan;
    int64_t workspace;
};

static cudnnBackendDescriptor_t make(struct graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (g->failed)
        return NULL;
    if (g->count == SLUICE_ARRAY_LEN(g->made))
        g->failed = CUDNN_STATUS_INTERNAL_ERROR;
    else
        g->failed = cudnnBackendCreateDescriptor(type, &made);
    if (!g->failed)
        g->made[g->count++] = made;
    return made;
}

static void set(struct graph *g, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (!g->failed)
        g->failed = cudnnBackendSetAttribute(of, name, type, count, values);
}

static void set_descriptor(struct graph *g, cudnnBackendDescriptor_t of,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    set(g, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_data_type(struct graph *g, cudnnBackendDescriptor_t of,
                          cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
    set(g, of, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void finish(struct graph *g, cudnnBackendDescriptor_t made)
{
    if (!g->failed)
        g->failed = cudnnBackendFinalize(made);
}

static void clear(struct graph *g)
{
    while (g->count > 0)
        cudnnBackendDestroyDescriptor(g->made[--g->count]);
}

static sluice_status failure(const struct graph *g, const char *what, struct sluice_err *err)
{
    if (!g->failed)
        return SLUICE_OK;
    return sluice_fail(
        err, g->failed == CUDNN_STATUS_ALLOC_FAILED ? SLUICE_E_NO_MEMORY : SLUICE_E_UNSUPPORTED,
        "device cuda: %s: %s", what, cudnnGetErrorString(g->failed));
}

static cudnnDataType_t data_type(enum sluice_cuda_type type)
{
    return type == SLUICE_CUDA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* N x C x H x W, in memory N x H x W x C. */
static cudnnBackendDescriptor_t tensor(struct graph *g, enum tensor number, cudnnDataType_t type,
                                       uint32_t n, uint32_t c, uint32_t h, uint32_t w)
{
    const int64_t dims[4] = {n, c, h, w};
    const int64_t strides[4] = {(int64_t)c * h * w, 1, (int64_t)c * w, c};
    const int64_t id = number, alignment = 16;
    const bool is_virtual = number == TENSOR_SUM || number == TENSOR_BIASED;
    cudnnBackendDescriptor_t t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_data_type(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (is_virtual)
        set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finish(g, t);
    return t;
}

static cudnnBackendDescriptor_t convolution(struct graph *g, const struct sluice_conv_problem *p)
{
    const int64_t two = 2, pads[2] = {p->pad, p->pad}, ones[2] = {1, 1};
    const int64_t strides[2] = {p->stride, p->stride};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t c = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_data_type(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two);
    set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    finish(g, c);
    return c;
}

/* The attributes of the three passes differ by name alone. */
static cudnnBackendDescriptor_t pass(struct graph *g, const struct sluice_conv_problem *p,
                                     cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                     cudnnBackendDescriptor_t y)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
    } names[SLUICE_NUM_CONV_PASSES] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t o = make(g, names[p->pass].type);
    set_descriptor(g, o, names[p->pass].conv, convolution(g, p));
    set_descriptor(g, o, names[p->pass].x, x);
    set_descriptor(g, o, names[p->pass].w, w);
    set_descriptor(g, o, names[p->pass].y, y);
    set(g, o, names[p->pass].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, o, names[p->pass].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finish(g, o);
    return o;
}

/* to = from + bias, or relu(from) if bias is NULL. */
static cudnnBackendDescriptor_t pointwise(struct graph *g, cudnnBackendDescriptor_t from,
                                          cudnnBackendDescriptor_t bias,
                                          cudnnBackendDescriptor_t to)
{
    const cudnnPointwiseMode_t mode = bias ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    cudnnBackendDescriptor_t p = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_data_type(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    finish(g, p);
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    if (bias)
        set_descriptor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    finish(g, o);
    return o;
}

/* The graph of the problem's operations. */
static cudnnBackendDescriptor_t describe(struct graph *g, cudnnHandle_t handle,
                                         const struct sluice_conv_problem *p)
{
    const cudnnDataType_t type = data_type(p->type);
    const cudnnDataType_t w_type =
        p->pass == SLUICE_CONV_BACKWARD_FILTER ? data_type(p->filter_type) : type;
    const struct sluice_shape in = p->in, out = p->out;
    cudnnBackendDescriptor_t x = tensor(g, TENSOR_X, type, p->n, in.c, in.h, in.w);
    cudnnBackendDescriptor_t w = tensor(g, TENSOR_W, w_type, out.c, in.c, p->kernel, p->kernel);
    cudnnBackendDescriptor_t y = tensor(g, TENSOR_Y, type, p->n, out.c, out.h, out.w);
    cudnnBackendDescriptor_t operations[3];
    int64_t count = 0;
    cudnnBackendDescriptor_t to = y;
    if (p->has_bias || p->has_relu)
        to = tensor(g, TENSOR_SUM, CUDNN_DATA_FLOAT, p->n, out.c, out.h, out.w);
    operations[count++] = pass(g, p, x, w, to);
    if (p->has_bias) {
        cudnnBackendDescriptor_t from = to, bias = tensor(g, TENSOR_BIAS, type, 1, out.c, 1, 1);
        to =
            p->has_relu ? tensor(g, TENSOR_BIASED, CUDNN_DATA_FLOAT, p->n, out.c, out.h, out.w) : y;
        operations[count++] = pointwise(g, from, bias, to);
    }
    if (p->has_relu)
        operations[count++] = pointwise(g, to, NULL, y);
    cudnnBackendDescriptor_t described = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, described, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(g, described, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
        operations);
    finish(g, described);
    return described;
}

void sluice_conv_key(const struct sluice_conv_problem *p, char *key, size_t size)
{
    static const char *const passes[] = {"forward", "backward_data", "backward_filter"};
    snprintf(key, size, "%s%s %s%s n%u %ux%ux%u %ux%ux%u k%u s%u p%u%s%s",
             p->type == SLUICE_CUDA_BF16 ? "bf16"
             : p->is_tf32                ? "tf32"
                                         : "fp32",
             p->pass == SLUICE_CONV_BACKWARD_FILTER && p->filter_type != p->type ? "+fp32" : "",
             passes[p->pass], "", p->n, p->in.c, p->in.h, p->in.w, p->out.c, p->out.h, p->out.w,
             p->kernel, p->stride, p->pad, p->has_bias ? " bias" : "", p->has_relu ? " relu" : "");
}

/* Whether results repeat, and are rounded no more than the problem allows. */
static bool is_usable(const struct sluice_conv_problem *p, cudnnBackendDescriptor_t engine)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                 notes))
        return false;
    const bool is_fp32 = p->type == SLUICE_CUDA_F32 && !p->is_tf32;
    for (int64_t i = 0; i < count; i++) {
        switch (notes[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        case CUDNN_NUMERICAL_NOTE_FFT:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD:
            return false;
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
            if (is_fp32)
                return false;
            break;
        default:
            break;
        }
    }
    return true;
}

static bool read_knobs(cudnnBackendDescriptor_t config, struct sluice_engine *out)
{
    struct graph g = {.count = 0};
    cudnnBackendDescriptor_t choices[SLUICE_ENGINE_MAX_KNOBS];
    for (int i = 0; i < SLUICE_ENGINE_MAX_KNOBS; i++)
        choices[i] = make(&g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    int64_t count = 0;
    if (!g.failed)
        g.failed = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, SLUICE_ENGINE_MAX_KNOBS,
                                            &count, choices);
    if (count > SLUICE_ENGINE_MAX_KNOBS)
        g.failed = CUDNN_STATUS_INTERNAL_ERROR;
    for (int64_t i = 0; !g.failed && i < count; i++) {
        cudnnBackendKnobType_t type;
        int64_t value, num;
        g.failed = cudnnBackendGetAttribute(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                            CUDNN_TYPE_KNOB_TYPE, 1, &num, &type);
        if (!g.failed)
            g.failed = cudnnBackendGetAttribute(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                                CUDNN_TYPE_INT64, 1, &num, &value);
        if (!g.failed) {
            out->knobs[i].type = (int32_t)type;
            out->knobs[i].value = value;
        }
    }
    out->num_knobs = (unsigned)count;
    clear(&g);
    return !g.failed;
}

/* False: not usable. */
static bool read_engine(const struct sluice_conv_problem *p, cudnnBackendDescriptor_t config,
                        struct sluice_engine *out)
{
    struct graph g = {.count = 0};
    cudnnBackendDescriptor_t engine = make(&g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t num = 0;
    *out = (struct sluice_engine){.index = 0};
    if (!g.failed)
        g.failed = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &num, &engine);
    if (!g.failed)
        g.failed = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                            CUDNN_TYPE_INT64, 1, &num, &out->index);
    const bool is_found = !g.failed && is_usable(p, engine) && read_knobs(config, out);
    clear(&g);
    return is_found;
}

/* Appends the usable engines of one of cuDNN's lists. */
static void list_mode(struct graph *g, cudnnBackendDescriptor_t described,
                      const struct sluice_conv_problem *p, cudnnBackendHeurMode_t mode,
                      struct sluice_engine *engines, size_t *count)
{
    struct graph results = {.count = 0};
    cudnnBackendDescriptor_t configs[SLUICE_CONV_MAX_ENGINES];
    cudnnBackendDescriptor_t heuristic = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, described);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(g, heuristic);
    for (int i = 0; i < SLUICE_CONV_MAX_ENGINES; i++)
        configs[i] = make(&results, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t num = 0;
    /* A mode may know none: the other may know some. */
    if (!g->failed && !results.failed &&
        cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, SLUICE_CONV_MAX_ENGINES, &num,
                                 configs))
        num = 0;
    for (int64_t i = 0; i < num && *count < SLUICE_CONV_MAX_ENGINES; i++)
        *count += read_engine(p, configs[i], &engines[*count]);
    clear(&results);
}

sluice_status sluice_conv_list(cudnnHandle_t handle, const struct sluice_conv_problem *problem,
                               struct sluice_engine *engines, size_t *count, struct sluice_err *err)
{
    struct graph g = {.count = 0};
    cudnnBackendDescriptor_t described = describe(&g, handle, problem);
    *count = 0;
    list_mode(&g, described, problem, CUDNN_HEUR_MODE_A, engines, count);
    list_mode(&g, described, problem, CUDNN_HEUR_MODE_FALLBACK, engines, count);
    const sluice_status status = failure(&g, "describing a convolution", err);
    clear(&g);
    return status;
}

sluice_status sluice_conv_plan_create(cudnnHandle_t handle,
                                      const struct sluice_conv_problem *problem,
                                      const struct sluice_engine *engine,
                                      struct sluice_conv_plan **out, struct sluice_err *err)
{
    struct sluice_conv_plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    struct graph *g = &plan->graph;
    cudnnBackendDescriptor_t described = describe(g, handle, problem);
    cudnnBackendDescriptor_t of = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_descriptor(g, of, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, described);
    set(g, of, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &engine->index);
    finish(g, of);

    struct graph knobs = {.failed = g->failed};
    cudnnBackendDescriptor_t choices[SLUICE_ENGINE_MAX_KNOBS];
    for (unsigned i = 0; i < engine->num_knobs; i++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)engine->knobs[i].type;
        choices[i] = make(&knobs, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set(&knobs, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        set(&knobs, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
            &engine->knobs[i].value);
        finish(&knobs, choices[i]);
    }
    g->failed = knobs.failed;
    cudnnBackendDescriptor_t config = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_descriptor(g, config, CUDNN_ATTR_ENGINECFG_ENGINE, of);
    if (engine->num_knobs > 0)
        set(g, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            engine->num_knobs, choices);
    finish(g, config);
    plan->plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(g, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_descriptor(g, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finish(g, plan->plan);
    clear(&knobs);
    int64_t num;
    if (!g->failed)
        g->failed = cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &num, &plan->workspace);
    const sluice_status status = failure(g, "planning a convolution", err);
    if (status)
        sluice_conv_plan_destroy(plan);
    else
        *out = plan;
    return status;
}

void sluice_conv_plan_destroy(struct sluice_conv_plan *plan)
{
    if (!plan)
        return;
    clear(&plan->graph);
    free(plan);
}

size_t sluice_conv_plan_workspace(const struct sluice_conv_plan *plan)
{
    return (size_t)plan->workspace;
}

sluice_status sluice_conv_run(cudnnHandle_t handle, const struct sluice_conv_plan *plan,
                              const struct sluice_conv_arrays *arrays, struct sluice_err *err)
{
    const int64_t ids[] = {TENSOR_X, TENSOR_W, TENSOR_Y, TENSOR_BIAS};
    void *pointers[] = {arrays->x, arrays->w, arrays->y, (void *)arrays->bias};
    struct graph g = {.count = 0};
    cudnnBackendDescriptor_t pack = make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const int64_t count = arrays->bias ? 4 : 3;
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &arrays->workspace);
    finish(&g, pack);
    if (!g.failed)
        g.failed = cudnnBackendExecute(handle, plan->plan, pack);
    const sluice_status status = failure(&g, "a convolution", err);
    clear(&g);
    return status;
}
