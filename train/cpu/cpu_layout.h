#ifndef SLUICE_TRAIN_CPU_LAYOUT_H
#define SLUICE_TRAIN_CPU_LAYOUT_H

#include "train/net.h"

/* Where tensors and gradients lie in the arena of device cpu, which walks the net forwards and then
 * backwards, layer by layer.
 *
 * Tensors share memory where the earlier one is not needed again (relu, dropout), and gradients
 * where a layer's backward pass may work in place:
 *
 *     tensors    conv -> a    batchnorm: a -> b    relu: b -> b
 *     gradients  conv <- d    batchnorm: d <- d    relu: d <- d
 *
 * Beyond that, bytes are used again once the last step that reads them is done: backwards a layer
 * needs its input (conv, linear, batchnorm), its output (relu), its mask (dropout) or neither.
 *
 * Threads: a layout is immutable once made. */

/* Bytes from the arena's start, multiples of SLUICE_CPU_ALIGNMENT.  What is not there has 0. */
struct sluice_cpu_place {
    /* The tensor's, for batch_size samples; the input has no gradient. */
    size_t values, diff;
    /* They belong to the layer that writes the tensor.  mask: DROPOUT's.  branch: its part of its
     * input's gradient, where a later reader of the input has given one, to which it is added. */
    size_t mask, branch;
};

#define SLUICE_CPU_ALIGNMENT 64

struct sluice_cpu_layout {
    struct sluice_cpu_place *places; /* by tensor: net->num_layers + 1; owned */
    size_t bytes;                    /* of the arena */
};

SLUICE_MUST_USE sluice_status sluice_cpu_layout_make(const struct sluice_net *net,
                                                     unsigned batch_size,
                                                     struct sluice_cpu_layout *layout,
                                                     struct sluice_err *err);
void sluice_cpu_layout_clear(struct sluice_cpu_layout *layout);

#endif
