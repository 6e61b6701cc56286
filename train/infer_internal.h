#ifndef SLUICE_TRAIN_INFER_INTERNAL_H
#define SLUICE_TRAIN_INFER_INTERNAL_H

#include "train/infer.h"
#include "train/net.h"
#include "train/program.h"

/* Shared by infer.c and device cuda's infer_cuda.c: infer.c checks every argument and lays images
 * out; a device computes.  A device's struct begins with `struct sluice_infer`.
 *
 * Threads: see infer.h. */

struct sluice_infer_ops {
    size_t size; /* of the device's struct, which infer.c allocates zeroed */

    /* The net is built.  Replaces options.precision DEFAULT; sets `input`, `logits`, `work_bytes`. */
    sluice_status (*init)(struct sluice_infer *infer, struct sluice_err *err);
    void (*clear)(struct sluice_infer *infer); /* also after a failed init; without the block */

    sluice_status (*alloc_block)(struct sluice_infer *infer, size_t bytes, void **memory,
                                 struct sluice_err *err);
    void (*free_block)(void *memory);
    /* The image is laid out.  Its weights come first in the block.  NULL, also of pin, unpin, make_plan and
     * clear_plan: nothing to do. */
    sluice_status (*place)(struct sluice_infer *infer, uint8_t *block, struct sluice_err *err);

    sluice_status (*pin)(struct sluice_infer *infer, void *memory, size_t bytes,
                         struct sluice_err *err);
    void (*unpin)(struct sluice_infer *infer, void *memory);
    sluice_status (*copy)(struct sluice_infer *infer, const void *image, struct sluice_err *err);
    sluice_status (*measure)(struct sluice_infer *infer, const void *image,
                             struct sluice_infer_costs *costs, struct sluice_err *err);
    /* Sets plan->graph. */
    sluice_status (*make_plan)(struct sluice_infer_plan *plan, struct sluice_err *err);
    void (*clear_plan)(struct sluice_infer_plan *plan); /* also after a failed one */
    sluice_status (*run)(struct sluice_infer_plan *plan, struct sluice_err *err);
};

/* Device memory with a count of users. */
struct sluice_infer_block {
    void (*free_block)(void *memory);
    uint8_t *memory;
    size_t num_users;
};

struct sluice_infer {
    const struct sluice_infer_ops *ops;
    struct sluice_infer_options options;
    struct sluice_net net;
    struct sluice_program program; /* its stages; not placed */
    /* Bytes of the block behind the weights. */
    size_t work_bytes;
    struct sluice_infer_block *block; /* NULL: not placed */
    float *input, *logits;

    /* Where a stage's weights begin in an image; the last entry is the image's end. */
    size_t *stage_offsets;
    /* By parameter, where its float32 and its bf16 values are in an image, or SIZE_MAX.  With
     * precision BF16 filters and matrices have no float32 values, norms no bf16 ones; biases both. */
    size_t *values, *rounded;
};

struct sluice_infer_plan {
    struct sluice_infer *infer;
    struct sluice_infer_plan_options options; /* last_stages points behind the struct */
    void *graph;
};

extern const struct sluice_infer_ops sluice_infer_cuda_ops; /* SLUICE_HAVE_CUDA */

#endif
