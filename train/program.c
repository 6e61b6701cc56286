#include "train/program.h"

#include "base/array.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256

/* The gradients of a tensor that its readers have written: a residual block's input has two. */
struct gradients {
    uint32_t buffers[2];
    unsigned count;
};

struct builder {
    const struct sluice_net *net;
    const struct sluice_program_options *options;
    struct sluice_program *program;
    /* By tensor. */
    uint32_t *outs;
    unsigned *num_readers;
    struct gradients *gradients;
    bool is_out_of_memory;
};

/* Makes the buffer live at `time`. */
static void use(struct builder *b, uint32_t buffer, unsigned time)
{
    if (buffer == SLUICE_NO_BUFFER || b->is_out_of_memory)
        return;
    struct sluice_arena_item *item = &b->program->buffers[buffer];
    if (time < item->first)
        item->first = time;
    if (time > item->last)
        item->last = time;
}

static uint32_t add_buffer(struct sluice_program *program, size_t bytes, unsigned time)
{
    if (!sluice_array_reserve(&program->buffers, &program->max_buffers, program->num_buffers + 1,
                              sizeof(*program->buffers)))
        return SLUICE_NO_BUFFER;
    program->buffers[program->num_buffers] =
        (struct sluice_arena_item){.bytes = bytes, .first = time, .last = time};
    return (uint32_t)program->num_buffers++;
}

static uint32_t new_buffer(struct builder *b, size_t bytes, unsigned time)
{
    const uint32_t buffer = add_buffer(b->program, bytes, time);
    b->is_out_of_memory |= buffer == SLUICE_NO_BUFFER;
    return buffer;
}

/* Bytes of a tensor for a whole batch. */
static size_t tensor_bytes(const struct builder *b, unsigned tensor)
{
    struct sluice_shape shape = tensor > 0 ? b->net->layers[tensor - 1].out : b->net->layers[0].in;
    if (tensor == 0)
        shape.c = b->options->input_channels;
    return b->options->batch_size * sluice_shape_elements(shape) * b->options->element_bytes;
}

static void count_readers(struct builder *b)
{
    for (unsigned i = 0; i < b->net->num_layers; i++) {
        const struct sluice_layer *layer = &b->net->layers[i];
        b->num_readers[layer->input]++;
        if (layer->kind == SLUICE_LAYER_ADD)
            b->num_readers[layer->input2]++;
    }
}

/* Whether layer i + 1 is of this kind and alone reads what layer i writes. */
static bool is_followed_by(const struct builder *b, unsigned i, enum sluice_layer_kind kind)
{
    if (i + 1 >= b->net->num_layers || b->num_readers[i + 1] != 1)
        return false;
    const struct sluice_layer *next = &b->net->layers[i + 1];
    return next->kind == kind &&
           (next->input == i + 1 || (kind == SLUICE_LAYER_ADD && next->input2 == i + 1));
}

static bool can_end_in_relu(const struct builder *b, const struct sluice_stage *stage)
{
    const struct sluice_layer *layer = &b->net->layers[stage->layer];
    return stage->kind == SLUICE_LAYER_BATCHNORM || stage->kind == SLUICE_LAYER_LINEAR ||
           (stage->kind == SLUICE_LAYER_CONV && layer->bias >= 0);
}

/* Whether forward writes its output over its input. */
static bool is_in_place(enum sluice_layer_kind kind)
{
    return kind == SLUICE_LAYER_RELU || kind == SLUICE_LAYER_DROPOUT;
}

/* Lists the stage that begins with layer i, with its buffers of forward. */
static void add_stage(struct builder *b, unsigned i)
{
    const struct sluice_layer *layer = &b->net->layers[i];
    const unsigned time = b->program->num_stages;
    struct sluice_stage *stage = &b->program->stages[b->program->num_stages++];
    *stage = (struct sluice_stage){
        .kind = layer->kind,
        .layer = i,
        .last = i,
        .in = b->outs[layer->input],
        .add = SLUICE_NO_BUFFER,
        .which = SLUICE_NO_BUFFER,
        .diff_out = SLUICE_NO_BUFFER,
        .diff_more = SLUICE_NO_BUFFER,
        .diff_add = SLUICE_NO_BUFFER,
        .diff_in = SLUICE_NO_BUFFER,
        .workspace = {SLUICE_NO_BUFFER, SLUICE_NO_BUFFER},
    };
    if (layer->kind == SLUICE_LAYER_ADD)
        stage->add = b->outs[layer->input2];
    if (layer->kind == SLUICE_LAYER_BATCHNORM && is_followed_by(b, i, SLUICE_LAYER_ADD)) {
        const struct sluice_layer *sum = &b->net->layers[++stage->last];
        stage->add = b->outs[sum->input == i + 1 ? sum->input2 : sum->input];
    }
    if (can_end_in_relu(b, stage) && is_followed_by(b, stage->last, SLUICE_LAYER_RELU)) {
        stage->has_relu = true;
        stage->last++;
    }
    const unsigned tensor = stage->last + 1;
    const bool is_last = tensor == b->net->num_layers;
    size_t bytes = tensor_bytes(b, tensor);
    if (is_last)
        bytes = bytes / b->options->element_bytes * sizeof(float);
    if (is_in_place(layer->kind)) {
        assert(b->num_readers[layer->input] == 1 && layer->input > 0);
        stage->out = stage->in;
    } else {
        stage->out = new_buffer(b, bytes, time);
    }
    if (layer->kind == SLUICE_LAYER_MAXPOOL)
        stage->which =
            new_buffer(b, b->options->batch_size * sluice_shape_elements(layer->out), time);
    b->outs[tensor] = stage->out;
    use(b, stage->in, time);
    use(b, stage->add, time);
    use(b, stage->out, time);
}

/* A reader of the tensor has written this gradient. */
static void give(struct builder *b, unsigned tensor, uint32_t buffer)
{
    struct gradients *g = &b->gradients[tensor];
    assert(g->count < SLUICE_ARRAY_LEN(g->buffers));
    g->buffers[g->count++] = buffer;
}

/* Whether backward reads the stage's input, and its output. */
static bool reads_input(const struct sluice_stage *stage)
{
    return stage->kind == SLUICE_LAYER_CONV || stage->kind == SLUICE_LAYER_LINEAR ||
           stage->kind == SLUICE_LAYER_BATCHNORM;
}

static bool reads_output(const struct sluice_stage *stage)
{
    if (stage->kind == SLUICE_LAYER_BATCHNORM) /* without a sum, the input tells the sign */
        return stage->has_relu && stage->add != SLUICE_NO_BUFFER;
    return stage->has_relu || stage->kind == SLUICE_LAYER_RELU;
}

/* The tensor that is added in the stage. */
static unsigned added_tensor(const struct sluice_net *net, const struct sluice_stage *stage)
{
    const struct sluice_layer *layer = &net->layers[stage->layer];
    if (layer->kind == SLUICE_LAYER_ADD)
        return layer->input2;
    const struct sluice_layer *sum = &net->layers[stage->layer + 1];
    return sum->input == stage->layer + 1 ? sum->input2 : sum->input;
}

/* The buffers of a stage's backward pass, at `time`. */
static void add_backward(struct builder *b, struct sluice_stage *stage, unsigned time)
{
    const struct sluice_layer *layer = &b->net->layers[stage->layer];
    const struct gradients *of_out = &b->gradients[stage->last + 1];
    stage->diff_out = of_out->buffers[0];
    if (of_out->count > 1)
        stage->diff_more = of_out->buffers[1];
    if (stage->add != SLUICE_NO_BUFFER) {
        stage->diff_add = stage->diff_out;
        give(b, added_tensor(b->net, stage), stage->diff_add);
    }
    if (layer->input > 0) {
        const bool is_batchnorm = stage->kind == SLUICE_LAYER_BATCHNORM;
        const bool is_shared = is_in_place(stage->kind) || stage->kind == SLUICE_LAYER_ADD ||
                               (is_batchnorm && stage->add == SLUICE_NO_BUFFER);
        stage->diff_in =
            is_shared ? stage->diff_out : new_buffer(b, tensor_bytes(b, layer->input), time);
        give(b, layer->input, stage->diff_in);
    }
    use(b, stage->diff_out, time);
    use(b, stage->diff_more, time);
    use(b, stage->diff_in, time);
    use(b, stage->which, time);
    if (reads_input(stage))
        use(b, stage->in, time);
    if (reads_output(stage))
        use(b, stage->out, time);
}

static void list_stages(struct builder *b)
{
    struct sluice_program *program = b->program;
    b->outs[0] = new_buffer(b, tensor_bytes(b, 0), 0);
    for (unsigned i = 0; i < b->net->num_layers;) {
        add_stage(b, i);
        i = program->stages[program->num_stages - 1].last + 1;
    }
    const unsigned num = program->num_stages;
    program->logits = program->stages[num - 1].out;
    use(b, program->logits, num);
    if (b->options->is_inference)
        return;
    give(b, b->net->num_layers, new_buffer(b, tensor_bytes(b, b->net->num_layers), num));
    for (unsigned s = num; s > 0; s--)
        add_backward(b, &program->stages[s - 1], 2 * num - (s - 1));
    /* A batch whose loss is not finite is run again from the input. */
    use(b, 0, 2 * num);
}

sluice_status sluice_program_build(const struct sluice_net *net,
                                   const struct sluice_program_options *options,
                                   struct sluice_program *program, struct sluice_err *err)
{
    memset(program, 0, sizeof(*program));
    const size_t num_tensors = (size_t)net->num_layers + 1;
    struct builder b = {.net = net, .options = options, .program = program};
    program->stages = calloc(net->num_layers, sizeof(*program->stages));
    b.outs = calloc(num_tensors, sizeof(*b.outs));
    b.num_readers = calloc(num_tensors, sizeof(*b.num_readers));
    b.gradients = calloc(num_tensors, sizeof(*b.gradients));
    b.is_out_of_memory = !program->stages || !b.outs || !b.num_readers || !b.gradients;
    if (!b.is_out_of_memory) {
        count_readers(&b);
        list_stages(&b);
    }
    free(b.outs);
    free(b.num_readers);
    free(b.gradients);
    if (!b.is_out_of_memory)
        return SLUICE_OK;
    sluice_program_clear(program);
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
}

sluice_status sluice_program_place(struct sluice_program *program, struct sluice_err *err)
{
    for (unsigned s = 0; s < program->num_stages; s++) {
        struct sluice_stage *stage = &program->stages[s];
        const size_t *bytes = stage->workspace_bytes;
        const size_t backward = bytes[1] > bytes[2] ? bytes[1] : bytes[2];
        if (bytes[0] > 0)
            stage->workspace[0] = add_buffer(program, bytes[0], s);
        if (backward > 0)
            stage->workspace[1] = add_buffer(program, backward, 2 * program->num_stages - s);
        if ((bytes[0] > 0 && stage->workspace[0] == SLUICE_NO_BUFFER) ||
            (backward > 0 && stage->workspace[1] == SLUICE_NO_BUFFER))
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    }
    program->arena_bytes = sluice_arena_plan(program->buffers, program->num_buffers, ALIGNMENT);
    return SLUICE_OK;
}

void sluice_program_clear(struct sluice_program *program)
{
    free(program->stages);
    free(program->buffers);
    memset(program, 0, sizeof(*program));
}

void sluice_stage_name(const struct sluice_net *net, const struct sluice_stage *stage, char *name,
                       size_t size)
{
    static const char *const words[] = {
        [SLUICE_LAYER_CONV] = "convolution",
        [SLUICE_LAYER_BATCHNORM] = "batch norm",
        [SLUICE_LAYER_RELU] = "relu",
        [SLUICE_LAYER_MAXPOOL] = "maximum pooling",
        [SLUICE_LAYER_AVGPOOL] = "average pooling",
        [SLUICE_LAYER_LINEAR] = "linear",
        [SLUICE_LAYER_DROPOUT] = "dropout",
        [SLUICE_LAYER_ADD] = "sum",
    };
    const int weight = net->layers[stage->layer].weight;
    if (weight < 0) {
        snprintf(name, size, "%s (layer %u)", words[stage->kind], stage->layer);
        return;
    }
    const char *full = net->params[weight].name;
    snprintf(name, size, "%.*s", (int)(strrchr(full, '.') - full), full);
}
