#include "train/infer_internal.h"

#include "base/array.h"
#include "host/pages.h"
#include "train/trainer_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Offsets of arrays in an image, as of buffers in an arena. */
#define ALIGNMENT 256
#define NO_ARRAY SIZE_MAX

/* --- device none --- */

static sluice_status none_init(struct sluice_infer *infer, struct sluice_err *err)
{
    if (infer->options.precision == SLUICE_PRECISION_DEFAULT)
        infer->options.precision = SLUICE_PRECISION_BF16;
    const size_t rows = infer->options.batch_size;
    void *memory = NULL;
    sluice_status status = sluice_pages_alloc(
        rows * sluice_shape_elements(infer->net.layers[0].in) * sizeof(float), &memory, err);
    infer->input = memory;
    if (!status)
        status = sluice_pages_alloc(rows * infer->net.num_classes * sizeof(float), &memory, err);
    if (!status)
        infer->logits = memory;
    return status;
}

static void none_clear(struct sluice_infer *infer)
{
    free(infer->input);
    free(infer->logits);
}

static sluice_status none_alloc_block(struct sluice_infer *infer, size_t bytes, void **memory,
                                      struct sluice_err *err)
{
    (void)infer;
    return sluice_pages_alloc(bytes, memory, err);
}

static sluice_status none_copy(struct sluice_infer *infer, const void *image,
                               struct sluice_err *err)
{
    (void)err;
    memcpy(infer->block->memory, image, sluice_infer_weight_bytes(infer));
    return SLUICE_OK;
}

static sluice_status none_measure(struct sluice_infer *infer, const void *image,
                                  struct sluice_infer_costs *costs, struct sluice_err *err)
{
    (void)image, (void)err;
    for (unsigned s = 0; s < infer->program.num_stages; s++)
        costs->stage_seconds[s] = 10e-6;
    costs->bytes_per_s = 10e9;
    costs->copy_seconds = 5e-6;
    return SLUICE_OK;
}

static sluice_status none_run(struct sluice_infer_plan *plan, struct sluice_err *err)
{
    (void)err;
    struct sluice_infer *infer = plan->infer;
    uint8_t *block = infer->block->memory;
    size_t begin = 0;
    for (unsigned g = 0; g < plan->options.num_groups; g++) {
        const size_t end = infer->stage_offsets[plan->options.last_stages[g] + 1];
        if (end > begin)
            memcpy(block + begin, (const uint8_t *)plan->options.image + begin, end - begin);
        begin = end;
    }
    const size_t elements = sluice_shape_elements(infer->net.layers[0].in);
    const uint32_t num_classes = infer->net.num_classes;
    for (size_t row = 0; row < infer->options.batch_size; row++) {
        float *logits = infer->logits + row * num_classes;
        memset(logits, 0, num_classes * sizeof(*logits));
        for (size_t i = 0; i < elements; i++)
            logits[i % num_classes] += infer->input[row * elements + i];
        for (uint32_t c = 0; c < num_classes; c++) {
            for (unsigned s = 0; s < infer->program.num_stages; s++) {
                if (sluice_infer_stage_bytes(infer, s) > 0)
                    logits[c] += (float)block[infer->stage_offsets[s]];
            }
        }
    }
    return SLUICE_OK;
}

static const struct sluice_infer_ops none_ops = {
    .size = sizeof(struct sluice_infer),
    .init = none_init,
    .clear = none_clear,
    .alloc_block = none_alloc_block,
    .free_block = free,
    .copy = none_copy,
    .measure = none_measure,
    .run = none_run,
};

/* --- images --- */

/* Input channels of a filter in memory: the first one's are those of the input tensor. */
static uint32_t stored_channels(const struct sluice_infer *infer, const struct sluice_param *info)
{
    if (info->num_dims != 4)
        return 1;
    if (info->dims[1] != 3)
        return info->dims[1];
    return infer->options.precision == SLUICE_PRECISION_BF16 ? 8 : 4;
}

/* Returns the place of an array, and moves *end behind it. */
static size_t take(size_t *end, size_t bytes)
{
    const size_t begin = *end;
    *end += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return begin;
}

static sluice_status lay_out(struct sluice_infer *infer, struct sluice_err *err)
{
    const struct sluice_net *net = &infer->net;
    const bool is_bf16 = infer->options.precision == SLUICE_PRECISION_BF16;
    const unsigned num_stages = infer->program.num_stages;
    infer->stage_offsets = calloc(num_stages + 1, sizeof(*infer->stage_offsets));
    infer->values = calloc(net->num_params, sizeof(*infer->values));
    infer->rounded = calloc(net->num_params, sizeof(*infer->rounded));
    if (!infer->stage_offsets || !infer->values || !infer->rounded)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a model");
    size_t end = 0;
    for (unsigned s = 0; s < num_stages; s++) {
        const struct sluice_layer *layer = &net->layers[infer->program.stages[s].layer];
        const int params[] = {layer->weight, layer->bias, layer->running_mean, layer->running_var};
        infer->stage_offsets[s] = end;
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(params); k++) {
            if (params[k] < 0)
                continue;
            const struct sluice_param *info = &net->params[params[k]];
            size_t count = info->count, *value = &infer->values[params[k]];
            size_t *rounded = &infer->rounded[params[k]];
            if (info->num_dims == 4)
                count = count / info->dims[1] * stored_channels(infer, info);
            *value = *rounded = NO_ARRAY;
            if (!is_bf16 || info->num_dims == 1)
                *value = take(&end, count * sizeof(float));
            if (is_bf16 && layer->kind != SLUICE_LAYER_BATCHNORM)
                *rounded = take(&end, count * sizeof(uint16_t));
        }
    }
    infer->stage_offsets[num_stages] = end;
    return SLUICE_OK;
}

/* To nearest even; a NaN stays one. */
static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* The trainer's reader of files writes to an image. */
struct loading {
    struct sluice_trainer base;
    const struct sluice_infer *infer;
    uint8_t *image;
    unsigned num_written;
};

/* Filters O x I x H x W become O x H x W x C, whose channels from I on are 0. */
static sluice_status write_param(struct sluice_trainer *trainer, enum sluice_array array,
                                 unsigned param, const float *in, struct sluice_err *err)
{
    (void)array, (void)err;
    struct loading *loading = (struct loading *)trainer;
    const struct sluice_infer *infer = loading->infer;
    const struct sluice_param *info = &infer->net.params[param];
    const size_t value = infer->values[param], rounded = infer->rounded[param];
    float *values = value == NO_ARRAY ? NULL : (float *)(loading->image + value);
    uint16_t *bf16 = rounded == NO_ARRAY ? NULL : (uint16_t *)(loading->image + rounded);
    const bool is_filter = info->num_dims == 4;
    const size_t num_in = is_filter ? info->dims[1] : 1;
    const size_t pixels = is_filter ? (size_t)info->dims[2] * info->dims[3] : 1;
    const bool is_variance = strstr(info->name, "running_var") != NULL;
    const size_t channels = stored_channels(infer, info);
    const size_t count = info->count / num_in * channels;
    for (size_t i = 0; i < count; i++) {
        const size_t c = i % channels, p = i / channels % pixels, o = i / channels / pixels;
        float x = c < num_in ? in[(o * num_in + c) * pixels + p] : 0;
        if (is_variance)
            x = (float)(1 / sqrt((double)x + SLUICE_BATCHNORM_EPSILON));
        if (values)
            values[i] = x;
        if (bf16)
            bf16[i] = to_bf16(x);
    }
    loading->num_written++;
    return SLUICE_OK;
}

static sluice_status write_initial(struct loading *loading, struct sluice_err *err)
{
    const struct sluice_net *net = &loading->infer->net;
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; !status && i < net->num_params; i++) {
        float *values = malloc(net->params[i].count * sizeof(*values));
        if (!values)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the initial weights");
        sluice_net_init_param(net, i, 0, values);
        status = write_param(&loading->base, SLUICE_ARRAY_VALUE, i, values, err);
        free(values);
    }
    return status;
}

sluice_status sluice_infer_load(struct sluice_infer *infer, const char *path, void *image,
                                struct sluice_err *err)
{
    static const struct sluice_trainer_ops ops = {.write = write_param};
    struct loading loading = {
        .base = {.ops = &ops, .options.device = infer->options.device, .net = infer->net},
        .infer = infer,
        .image = image};
    assert((uintptr_t)image % 64 == 0);
    if (!path)
        return write_initial(&loading, err);
    const sluice_status status = sluice_trainer_init_from(&loading.base, path, err);
    if (!status && loading.num_written < infer->net.num_params)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: the classifier of %s is missing", path,
                           infer->net.model);
    return status;
}

/* --- models --- */

static sluice_status find_device(const char *name, const struct sluice_infer_ops **ops,
                                 struct sluice_err *err)
{
    if (name && strcmp(name, "none") == 0) {
        *ops = &none_ops;
        return SLUICE_OK;
    }
    if (!name || strcmp(name, "cuda") != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "device: none or cuda, not \"%s\"",
                           name ? name : "");
#ifdef SLUICE_HAVE_CUDA
    *ops = &sluice_infer_cuda_ops;
    return SLUICE_OK;
#else
    return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                       "device cuda is not in this build: configure with -DSLUICE_CUDA=ON");
#endif
}

static sluice_status init(struct sluice_infer *infer, struct sluice_err *err)
{
    const struct sluice_infer_options *o = &infer->options;
    if (o->batch_size < 1)
        return sluice_fail(err, SLUICE_E_INVALID, "batch_size: at least 1");
    if (o->gpu < 0)
        return sluice_fail(err, SLUICE_E_INVALID, "gpu: 0 or more, not %d", o->gpu);
    sluice_status status =
        sluice_net_build(o->model, o->height, o->width, o->num_classes, 0, &infer->net, err);
    if (!status)
        status = infer->ops->init(infer, err);
    const struct sluice_program_options of_stages = {
        .batch_size = o->batch_size,
        .element_bytes = sizeof(float),
        .input_channels = 4,
        .is_inference = true,
    };
    if (!status)
        status = sluice_program_build(&infer->net, &of_stages, &infer->program, err);
    return status ? status : lay_out(infer, err);
}

sluice_status sluice_infer_create(const struct sluice_infer_options *options,
                                  struct sluice_infer **infer, struct sluice_err *err)
{
    const struct sluice_infer_ops *ops = NULL;
    sluice_status status = find_device(options->device, &ops, err);
    if (status)
        return status;
    struct sluice_infer *created = calloc(1, ops->size);
    if (!created)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a model");
    created->ops = ops;
    created->options = *options;
    status = init(created, err);
    if (status)
        sluice_infer_destroy(created);
    else
        *infer = created;
    return status;
}

static void leave_block(struct sluice_infer_block *block)
{
    if (!block || --block->num_users > 0)
        return;
    block->free_block(block->memory);
    free(block);
}

void sluice_infer_destroy(struct sluice_infer *infer)
{
    if (!infer)
        return;
    infer->ops->clear(infer);
    leave_block(infer->block);
    sluice_program_clear(&infer->program);
    sluice_net_clear(&infer->net);
    free(infer->stage_offsets);
    free(infer->values);
    free(infer->rounded);
    free(infer);
}

enum sluice_precision sluice_infer_precision(const struct sluice_infer *infer)
{
    return infer->options.precision;
}

unsigned sluice_infer_num_stages(const struct sluice_infer *infer)
{
    return infer->program.num_stages;
}

void sluice_infer_stage_name(const struct sluice_infer *infer, unsigned stage, char *name,
                             size_t size)
{
    sluice_stage_name(&infer->net, &infer->program.stages[stage], name, size);
}

size_t sluice_infer_stage_bytes(const struct sluice_infer *infer, unsigned stage)
{
    return infer->stage_offsets[stage + 1] - infer->stage_offsets[stage];
}

size_t sluice_infer_weight_bytes(const struct sluice_infer *infer)
{
    return infer->stage_offsets[infer->program.num_stages];
}

size_t sluice_infer_device_bytes(const struct sluice_infer *infer)
{
    return sluice_infer_weight_bytes(infer) + infer->work_bytes;
}

sluice_status sluice_infer_place(struct sluice_infer *const *infers, size_t num,
                                 struct sluice_err *err)
{
    size_t bytes = 0;
    assert(num > 0);
    for (size_t i = 0; i < num; i++) {
        const struct sluice_infer *infer = infers[i];
        if (infer->block)
            return sluice_fail(err, SLUICE_E_INVALID, "%s has its memory already",
                               infer->net.model);
        if (infer->ops != infers[0]->ops || infer->options.gpu != infers[0]->options.gpu)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "models that share memory are of one device and GPU");
        if (sluice_infer_device_bytes(infer) > bytes)
            bytes = sluice_infer_device_bytes(infer);
    }
    struct sluice_infer_block *block = calloc(1, sizeof(*block));
    if (!block)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a model");
    void *memory = NULL;
    sluice_status status = infers[0]->ops->alloc_block(infers[0], bytes, &memory, err);
    if (status) {
        free(block);
        return status;
    }
    *block = (struct sluice_infer_block){
        .free_block = infers[0]->ops->free_block, .memory = memory, .num_users = num};
    for (size_t i = 0; i < num; i++)
        infers[i]->block = block;
    for (size_t i = 0; infers[0]->ops->place && !status && i < num; i++)
        status = infers[i]->ops->place(infers[i], block->memory, err);
    return status;
}

sluice_status sluice_infer_pin(struct sluice_infer *infer, void *memory, size_t bytes,
                               struct sluice_err *err)
{
    return infer->ops->pin ? infer->ops->pin(infer, memory, bytes, err) : SLUICE_OK;
}

void sluice_infer_unpin(struct sluice_infer *infer, void *memory)
{
    if (infer->ops->unpin)
        infer->ops->unpin(infer, memory);
}

sluice_status sluice_infer_copy(struct sluice_infer *infer, const void *image,
                                struct sluice_err *err)
{
    assert(infer->block);
    return infer->ops->copy(infer, image, err);
}

sluice_status sluice_infer_measure(struct sluice_infer *infer, const void *image,
                                   struct sluice_infer_costs *costs, struct sluice_err *err)
{
    assert(infer->block);
    return infer->ops->measure(infer, image, costs, err);
}

/* --- plans --- */

static sluice_status check_groups(const struct sluice_infer *infer,
                                  const struct sluice_infer_plan_options *options,
                                  struct sluice_err *err)
{
    const unsigned *last = options->last_stages;
    if (options->num_groups == 0)
        return SLUICE_OK;
    for (unsigned g = 1; g < options->num_groups; g++) {
        if (last[g] <= last[g - 1])
            return sluice_fail(err, SLUICE_E_INVALID,
                               "groups: the last stage of group %u is %u, and that of the group "
                               "before is %u",
                               g, last[g], last[g - 1]);
    }
    if (last[options->num_groups - 1] + 1 != infer->program.num_stages)
        return sluice_fail(
            err, SLUICE_E_INVALID, "groups: they end at stage %u, and the last stage of %s is %u",
            last[options->num_groups - 1], infer->net.model, infer->program.num_stages - 1);
    if (!options->image)
        return sluice_fail(err, SLUICE_E_INVALID, "image: missing");
    return SLUICE_OK;
}

sluice_status sluice_infer_plan_create(struct sluice_infer *infer,
                                       const struct sluice_infer_plan_options *options,
                                       struct sluice_infer_plan **plan, struct sluice_err *err)
{
    assert(infer->block);
    sluice_status status = check_groups(infer, options, err);
    if (status)
        return status;
    const size_t bytes = options->num_groups * sizeof(*options->last_stages);
    struct sluice_infer_plan *created = calloc(1, sizeof(*created) + bytes);
    if (!created)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan");
    created->infer = infer;
    created->options = *options;
    if (bytes > 0)
        created->options.last_stages = memcpy(created + 1, options->last_stages, bytes);
    if (infer->ops->make_plan)
        status = infer->ops->make_plan(created, err);
    if (status)
        sluice_infer_plan_destroy(created);
    else
        *plan = created;
    return status;
}

void sluice_infer_plan_destroy(struct sluice_infer_plan *plan)
{
    if (!plan)
        return;
    if (plan->infer->ops->clear_plan)
        plan->infer->ops->clear_plan(plan);
    free(plan);
}

float *sluice_infer_input(struct sluice_infer *infer)
{
    return infer->input;
}

const float *sluice_infer_logits(const struct sluice_infer *infer)
{
    return infer->logits;
}

sluice_status sluice_infer_run(struct sluice_infer_plan *plan, struct sluice_err *err)
{
    return plan->infer->ops->run(plan, err);
}
