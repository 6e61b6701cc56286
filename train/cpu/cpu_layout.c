#include "train/cpu/cpu_layout.h"

#include "train/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static bool reads_input_backward(enum sluice_layer_kind kind)
{
    return kind == SLUICE_LAYER_CONV || kind == SLUICE_LAYER_LINEAR ||
           kind == SLUICE_LAYER_BATCHNORM;
}

/* The arena's items while they are put together. */
struct draft {
    const struct sluice_net *net;
    size_t batch_size;
    /* By tensor; masks and branches of the layer that writes it. */
    struct sluice_arena_item *values, *diffs, *masks, *branches;
    /* By tensor: the one in whose item its values and its gradient are. */
    unsigned *values_of, *diff_of;
    unsigned *num_readers; /* by tensor */
};

/* Steps: 0 makes the input, i + 1 is layer i forwards; then the loss; then layers from the last to
 * the first. */
static unsigned forward_step(unsigned layer)
{
    return layer + 1;
}

static unsigned loss_step(const struct draft *draft)
{
    return draft->net->num_layers + 1;
}

static unsigned backward_step(const struct draft *draft, unsigned layer)
{
    return 2 * draft->net->num_layers + 1 - layer;
}

/* The item is in use at the step, and has room for the shape. */
static void use(const struct draft *draft, struct sluice_arena_item *item,
                struct sluice_shape shape, unsigned step)
{
    if (!item->bytes)
        item->first = item->last = step;
    item->bytes = draft->batch_size * sluice_shape_elements(shape) * sizeof(float);
    item->first = step < item->first ? step : item->first;
    item->last = step > item->last ? step : item->last;
}

static void use_values(const struct draft *draft, unsigned tensor, struct sluice_shape shape,
                       unsigned step)
{
    use(draft, &draft->values[draft->values_of[tensor]], shape, step);
}

static void use_diff(const struct draft *draft, unsigned tensor, struct sluice_shape shape,
                     unsigned step)
{
    if (tensor > 0)
        use(draft, &draft->diffs[draft->diff_of[tensor]], shape, step);
}

static void share(const struct draft *draft)
{
    const struct sluice_net *net = draft->net;
    for (unsigned i = 0; i < net->num_layers; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        draft->num_readers[layer->input]++;
        if (layer->kind == SLUICE_LAYER_ADD)
            draft->num_readers[layer->input2]++;
    }
    for (unsigned t = 0; t <= net->num_layers; t++)
        draft->values_of[t] = draft->diff_of[t] = t;
    for (unsigned i = 0; i < net->num_layers; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        assert(!is_in_place_backward(layer->kind) ||
               (draft->num_readers[layer->input] == 1 && layer->input > 0));
        if (is_in_place(layer->kind))
            draft->values_of[i + 1] = draft->values_of[layer->input];
    }
    for (unsigned i = net->num_layers; i > 0; i--) {
        const struct sluice_layer *layer = &net->layers[i - 1];
        if (is_in_place_backward(layer->kind))
            draft->diff_of[layer->input] = draft->diff_of[i];
    }
}

static void use_forwards(const struct draft *draft)
{
    const struct sluice_net *net = draft->net;
    use_values(draft, 0, net->layers[0].in, 0);
    for (unsigned i = 0; i < net->num_layers; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        use_values(draft, layer->input, layer->in, forward_step(i));
        if (layer->kind == SLUICE_LAYER_ADD)
            use_values(draft, layer->input2, layer->in, forward_step(i));
        use_values(draft, i + 1, layer->out, forward_step(i));
        if (layer->kind == SLUICE_LAYER_DROPOUT && layer->p > 0)
            use(draft, &draft->masks[i + 1], layer->out, forward_step(i));
    }
    const struct sluice_shape logits = net->layers[net->num_layers - 1].out;
    use_values(draft, net->num_layers, logits, loss_step(draft));
    use_diff(draft, net->num_layers, logits, loss_step(draft));
}

static void use_backwards(const struct draft *draft)
{
    const struct sluice_net *net = draft->net;
    for (unsigned i = net->num_layers; i-- > 0;) {
        const struct sluice_layer *layer = &net->layers[i];
        const unsigned step = backward_step(draft, i);
        use_diff(draft, i + 1, layer->out, step);
        use_diff(draft, layer->input, layer->in, step);
        if (layer->kind == SLUICE_LAYER_ADD)
            use_diff(draft, layer->input2, layer->in, step);
        if (reads_input_backward(layer->kind))
            use_values(draft, layer->input, layer->in, step);
        if (layer->kind == SLUICE_LAYER_RELU)
            use_values(draft, i + 1, layer->out, step);
        if (layer->kind == SLUICE_LAYER_DROPOUT && layer->p > 0)
            use(draft, &draft->masks[i + 1], layer->out, step);
    }
}

/* The last reader of a tensor sets its gradient, and the others add to it. */
static void use_branches(const struct draft *draft)
{
    const struct sluice_net *net = draft->net;
    unsigned *readers_left = draft->num_readers; /* with layer i */
    for (unsigned i = 0; i < net->num_layers; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        if (layer->input > 0 && readers_left[layer->input] > 1)
            use(draft, &draft->branches[i + 1], layer->in, backward_step(draft, i));
        readers_left[layer->input]--;
        if (layer->kind == SLUICE_LAYER_ADD)
            readers_left[layer->input2]--;
    }
}

sluice_status sluice_cpu_layout_make(const struct sluice_net *net, unsigned batch_size,
                                     struct sluice_cpu_layout *layout, struct sluice_err *err)
{
    const size_t num_tensors = (size_t)net->num_layers + 1;
    struct sluice_arena_item *items = calloc(4 * num_tensors, sizeof(*items));
    unsigned *numbers = calloc(3 * num_tensors, sizeof(*numbers));
    struct sluice_cpu_place *places = calloc(num_tensors, sizeof(*places));
    if (!items || !numbers || !places) {
        free(items);
        free(numbers);
        free(places);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the trainer");
    }
    const struct draft draft = {
        .net = net,
        .batch_size = batch_size,
        .values = items,
        .diffs = items + num_tensors,
        .masks = items + 2 * num_tensors,
        .branches = items + 3 * num_tensors,
        .values_of = numbers,
        .diff_of = numbers + num_tensors,
        .num_readers = numbers + 2 * num_tensors,
    };
    share(&draft);
    use_forwards(&draft);
    use_backwards(&draft);
    use_branches(&draft);
    layout->bytes = sluice_arena_plan(items, 4 * num_tensors, SLUICE_CPU_ALIGNMENT);
    for (unsigned t = 0; t < num_tensors; t++) {
        places[t] = (struct sluice_cpu_place){
            .values = draft.values[draft.values_of[t]].offset,
            .diff = draft.diffs[draft.diff_of[t]].offset,
            .mask = draft.masks[t].offset,
            .branch = draft.branches[t].offset,
        };
    }
    layout->places = places;
    free(items);
    free(numbers);
    return SLUICE_OK;
}

void sluice_cpu_layout_clear(struct sluice_cpu_layout *layout)
{
    free(layout->places);
    memset(layout, 0, sizeof(*layout));
}
