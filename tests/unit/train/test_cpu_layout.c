#include "train/cpu/cpu_layout.h"

#include "support/test.h"
#include "train/model_names.h"

#include <stdint.h>
#include <stdlib.h>

/* Takes a step of device cpu without its arithmetic, and remembers what the arena's bytes hold: a read
 * must find what was written there for it. */

enum content { VALUES, DIFF, MASK, BRANCH, NUM_CONTENTS };

struct block {
    size_t offset, bytes;
    bool is_there;        /* nobody has written over it */
    unsigned chain;       /* blocks that follow each other in place */
    unsigned first, last; /* steps, of a chain's first block */
};

static const char *const names[] = {SLUICE_MODEL_NAMES};

static struct sluice_net net;
static struct sluice_cpu_layout layout;
static unsigned batch_size, now;
static struct block *blocks; /* by tensor and content */
static struct block *read_now[4];
static unsigned num_read_now;
static unsigned num_breaches;

static struct sluice_shape shape_of(unsigned tensor)
{
    return tensor ? net.layers[tensor - 1].out : net.layers[0].in;
}

static struct block *block_of(unsigned tensor, enum content content)
{
    const struct sluice_cpu_place *place = &layout.places[tensor];
    struct block *block = &blocks[NUM_CONTENTS * tensor + content];
    block->offset = content == VALUES ? place->values
                    : content == DIFF ? place->diff
                    : content == MASK ? place->mask
                                      : place->branch;
    const unsigned shaped = content == BRANCH ? net.layers[tensor - 1].input : tensor;
    block->bytes = batch_size * sluice_shape_elements(shape_of(shaped)) * sizeof(float);
    return block;
}

static bool overlap(const struct block *a, const struct block *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void next_step(void)
{
    now++;
    num_read_now = 0;
}

static void read_block(unsigned tensor, enum content content)
{
    struct block *block = block_of(tensor, content);
    if (!block->is_there) {
        printf("%s: step %u reads content %d of tensor %u, which is gone\n", net.model, now,
               (int)content, tensor);
        num_breaches++;
    }
    blocks[block->chain].last = now;
    read_now[num_read_now++] = block;
}

/* `over` (NULL: none) may be the place of what is written. */
static void write_block(unsigned tensor, enum content content, struct block *over)
{
    struct block *block = block_of(tensor, content);
    num_breaches +=
        block->offset % SLUICE_CPU_ALIGNMENT != 0 || block->offset + block->bytes > layout.bytes;
    const bool is_in_place = over && over->offset == block->offset && over->bytes == block->bytes;
    for (unsigned i = 0; i < num_read_now; i++) {
        if (overlap(read_now[i], block) && !(is_in_place && read_now[i] == over) &&
            read_now[i] != block) {
            printf("%s: step %u writes over what it reads\n", net.model, now);
            num_breaches++;
        }
    }
    for (unsigned i = 0; i < NUM_CONTENTS * (net.num_layers + 1); i++) {
        if (&blocks[i] != block && blocks[i].is_there && overlap(&blocks[i], block))
            blocks[i].is_there = false;
    }
    if (is_in_place) {
        block->chain = over->chain;
    } else if (!block->is_there) {
        block->chain = (unsigned)(block - blocks);
        block->first = now;
    }
    block->is_there = true;
    blocks[block->chain].last = now;
    blocks[block->chain].bytes = block->bytes;
}

static void walk_forwards(void)
{
    write_block(0, VALUES, NULL);
    for (unsigned i = 0; i < net.num_layers; i++) {
        const struct sluice_layer *layer = &net.layers[i];
        const bool is_in_place =
            layer->kind == SLUICE_LAYER_RELU || layer->kind == SLUICE_LAYER_DROPOUT;
        next_step();
        read_block(layer->input, VALUES);
        if (layer->kind == SLUICE_LAYER_ADD)
            read_block(layer->input2, VALUES);
        if (layer->kind == SLUICE_LAYER_DROPOUT && layer->p > 0)
            write_block(i + 1, MASK, NULL);
        write_block(i + 1, VALUES, is_in_place ? block_of(layer->input, VALUES) : NULL);
        /* A relu before it may read the dropout's output: where that adds zeros, the gradient is 0
         * already. */
        if (layer->kind == SLUICE_LAYER_DROPOUT)
            block_of(layer->input, VALUES)->is_there = true;
    }
    next_step();
    read_block(net.num_layers, VALUES);
    write_block(net.num_layers, DIFF, NULL);
}

/* Sets a gradient, or adds to it. */
static void give_diff(unsigned tensor, bool *has_diff, struct block *over)
{
    if (has_diff[tensor])
        read_block(tensor, DIFF);
    write_block(tensor, DIFF, over);
    has_diff[tensor] = true;
}

static void walk_backwards(void)
{
    bool *has_diff = calloc(net.num_layers + 1, sizeof(*has_diff));
    for (unsigned i = net.num_layers; i-- > 0;) {
        const struct sluice_layer *layer = &net.layers[i];
        next_step();
        read_block(i + 1, DIFF);
        struct block *over = NULL;
        switch (layer->kind) {
        case SLUICE_LAYER_CONV:
        case SLUICE_LAYER_LINEAR:
            read_block(layer->input, VALUES);
            break;
        case SLUICE_LAYER_BATCHNORM:
            read_block(layer->input, VALUES);
            over = block_of(i + 1, DIFF);
            break;
        case SLUICE_LAYER_RELU:
            read_block(i + 1, VALUES);
            over = block_of(i + 1, DIFF);
            break;
        case SLUICE_LAYER_DROPOUT:
            if (layer->p > 0)
                read_block(i + 1, MASK);
            over = block_of(i + 1, DIFF);
            break;
        case SLUICE_LAYER_ADD:
            give_diff(layer->input2, has_diff, NULL);
            over = block_of(i + 1, DIFF);
            break;
        case SLUICE_LAYER_MAXPOOL:
        case SLUICE_LAYER_AVGPOOL:
            break;
        }
        if (layer->input > 0 && has_diff[layer->input]) {
            write_block(i + 1, BRANCH, NULL);
            read_block(i + 1, BRANCH);
        }
        if (layer->input > 0)
            give_diff(layer->input, has_diff, over);
    }
    free(has_diff);
}

/* The most bytes that hold something at one step: no layout is smaller. */
static size_t lower_bound(void)
{
    size_t most = 0;
    for (unsigned step = 0; step <= now; step++) {
        size_t sum = 0;
        for (unsigned i = 0; i < NUM_CONTENTS * (net.num_layers + 1); i++) {
            const struct block *block = &blocks[i];
            if (block->bytes && block->chain == i && block->first <= step && step <= block->last)
                sum += (block->bytes + SLUICE_CPU_ALIGNMENT - 1) / SLUICE_CPU_ALIGNMENT *
                       SLUICE_CPU_ALIGNMENT;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Returns the layout's bytes by the lower bound. */
static double walk(const char *model, unsigned height, unsigned width, unsigned n)
{
    REQUIRE_OK(sluice_net_build(model, height, width, 10, -1, &net, NULL));
    REQUIRE_OK(sluice_cpu_layout_make(&net, n, &layout, NULL));
    batch_size = n;
    now = num_read_now = num_breaches = 0;
    blocks = calloc((size_t)NUM_CONTENTS * (net.num_layers + 1), sizeof(*blocks));
    walk_forwards();
    walk_backwards();
    CU_ASSERT_EQUAL(num_breaches, 0);
    CU_ASSERT_EQUAL(now, 2 * net.num_layers + 1);
    const size_t least = lower_bound();
    CU_ASSERT(layout.bytes >= least);
    const double ratio = (double)layout.bytes / (double)least;
    free(blocks);
    sluice_cpu_layout_clear(&layout);
    sluice_net_clear(&net);
    return ratio;
}

/* At 224 x 224 the layout is 1.025 times the lower bound with alexnet, 1.005 with resnet18, less with
 * the other models. */
TEST(no_bytes_are_used_again_before_they_are_read)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        CU_ASSERT(walk(names[i], 224, 224, 32) < 1.026);
        walk(names[i], 65, 97, 3);
    }
}
