#ifndef SLUICE_TRAIN_PROGRAM_H
#define SLUICE_TRAIN_PROGRAM_H

#include "train/arena.h"
#include "train/net.h"

#include <stdbool.h>

/* A program: what a device runs for one step of a net, and which buffer lives from when to when.
 *
 * Layers that one kernel computes are one stage: a convolution with its bias and relu, a batch norm
 * with the sum and the relu behind it, a linear layer with its relu.  Forward, the stages run in
 * order; backward, in the reverse order:
 *
 *     time    0 ... S-1          S        S+1 ... 2S
 *     runs    stages 0 ... S-1   loss     stages S-1 ... 0, backward
 *
 * A buffer holds an activation, its gradient, or a convolution's workspace, for a whole batch.  The
 * arena gives two buffers the same bytes if their times do not overlap.  Buffers are shared where a
 * kernel may work in place: relu and dropout, and the gradients of all but convolutions, linear
 * layers and pools.
 *
 * Plain C without a device.  Threads: a program is immutable once it is placed. */

#define SLUICE_NO_BUFFER UINT32_MAX

struct sluice_stage {
    /* The kind of `layer`, which gives the stage its name and parameters. */
    enum sluice_layer_kind kind;
    /* It computes the layers `layer` to `last`. */
    unsigned layer, last;
    bool has_relu;
    /* Forward: buffers of the input, of the term that is added behind a batch norm, and of the
     * output. */
    uint32_t in, add, out;
    /* MAXPOOL: where each maximum was; a byte for each output. */
    uint32_t which;
    /* Backward: the gradient of the output is diff_out + diff_more.  diff_add and diff_in are the
     * gradients of `add` and `in`; either may be diff_out itself.  The first stage has no diff_in. */
    uint32_t diff_out, diff_more, diff_add, diff_in;
    /* CONV: workspace for forward, backward data, backward filter; place() makes the buffer. */
    size_t workspace_bytes[3];
    uint32_t workspace[2]; /* forward; backward */
};

struct sluice_program_options {
    unsigned batch_size;
    /* Bytes of an activation's element. */
    size_t element_bytes;
    /* Channels of the input in memory: the images' 3 and zeros. */
    uint32_t input_channels;
    /* Forward alone: no buffer is kept for a backward pass, and none is of one. */
    bool is_inference;
};

struct sluice_program {
    struct sluice_stage *stages;
    unsigned num_stages;
    /* The first one is the net's input. */
    struct sluice_arena_item *buffers;
    size_t num_buffers, max_buffers;
    uint32_t logits; /* float32, n x classes */
    /* After placing: of all buffers. */
    size_t arena_bytes;
};

/* Lists the stages and buffers; the caller then sets workspace_bytes, and places. */
SLUICE_MUST_USE sluice_status sluice_program_build(const struct sluice_net *net,
                                                   const struct sluice_program_options *options,
                                                   struct sluice_program *program,
                                                   struct sluice_err *err);
/* Adds the workspaces and gives every buffer its offset, a multiple of 256 bytes. */
SLUICE_MUST_USE sluice_status sluice_program_place(struct sluice_program *program,
                                                   struct sluice_err *err);
void sluice_program_clear(struct sluice_program *program);

/* The name of the stage's layer for messages, such as "layer1.0.bn2" or "maximum pooling (layer 3)";
 * in memory of the caller. */
void sluice_stage_name(const struct sluice_net *net, const struct sluice_stage *stage, char *name,
                       size_t size);

#endif
