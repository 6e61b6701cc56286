#ifndef SLUICE_TRAIN_INFER_H
#define SLUICE_TRAIN_INFER_H

#include "train/train.h"

/* Inference whose weights come from the host with each request, as in PipeSwitch (OSDI '20): models
 * that take turns on a GPU share one block of its memory, and none of them stays there.
 *
 * The weights lie in the host's memory as the device wants them, stage by stage (an image).  Stages
 * are those of program.h.  A group of stages is one copy, and computing waits for the group that it
 * needs, all in one CUDA graph:
 *
 *     copies     |input|group 0|group 1  |group 2            |
 *     compute          ........|stages   |stages  |..........|stages|logits
 *
 * Two devices:
 *
 *   none   for tests: memory and copies are the host's, stages and bytes the real model's.  Logit c
 *          of a row is the sum of its input elements whose index is c modulo num_classes, and of
 *          the first byte of each stage's weights in the block, in float32 and in this order.
 *   cuda   torchvision's model in evaluation mode, within the precision
 *
 * Threads: one at a time for each struct; of those that share a block, one at a time copies, measures,
 * makes a plan or runs. */

struct sluice_infer;

struct sluice_infer_options {
    const char *device;     /* "none", "cuda" */
    const char *model;      /* one of SLUICE_MODEL_NAMES (model_names.h) */
    unsigned num_classes;   /* of the weights */
    unsigned height, width; /* of the input, in pixels */
    unsigned batch_size;    /* every run takes a whole batch */
    /* How products multiply, and what activations are.  DEFAULT: BF16, with device cuda where the GPU has
     * it, else FP32. */
    enum sluice_precision precision;
    int gpu;                  /* device cuda: by CUDA's number in this process */
    const char *engine_cache; /* as in struct sluice_train_options */
};

/* Device cuda lists engines, and times those that the cache lacks.  SLUICE_E_INVALID names the option;
 * SLUICE_E_UNSUPPORTED: this build or machine has no such device. */
SLUICE_MUST_USE sluice_status sluice_infer_create(const struct sluice_infer_options *options,
                                                  struct sluice_infer **infer,
                                                  struct sluice_err *err);
/* Behind its plans. */
void sluice_infer_destroy(struct sluice_infer *infer); /* NULL is allowed */

/* Never DEFAULT. */
enum sluice_precision sluice_infer_precision(const struct sluice_infer *infer);

unsigned sluice_infer_num_stages(const struct sluice_infer *infer);
/* Such as "layer1.0.bn2", in memory of the caller. */
void sluice_infer_stage_name(const struct sluice_infer *infer, unsigned stage, char *name,
                             size_t size);
/* Bytes of the stage's weights in an image; 0: it has none. */
size_t sluice_infer_stage_bytes(const struct sluice_infer *infer, unsigned stage);
/* Bytes of an image: the sum over all stages. */
size_t sluice_infer_weight_bytes(const struct sluice_infer *infer);
/* Bytes of the block that place() makes for this model alone. */
size_t sluice_infer_device_bytes(const struct sluice_infer *infer);

/* Writes the image of a file in the safetensors format with torchvision's names, of a checkpoint, or,
 * if `path` is NULL, of the model's initial values of seed 0, to weight_bytes that are aligned to 64.
 * Gaps between arrays stay as they are.  A running variance becomes
 * 1 / sqrt(variance + SLUICE_BATCHNORM_EPSILON).  Images depend on the model, num_classes and the
 * precision alone, so that device none makes those of device cuda.  Errors name the file;
 * SLUICE_E_INVALID: weights of another model. */
SLUICE_MUST_USE sluice_status sluice_infer_load(struct sluice_infer *infer, const char *path,
                                                void *image, struct sluice_err *err);

/* Allocates one block of device memory that all of these share, and that goes with the last of them.
 * Once for each, before any call below.  They are of one device and GPU. */
SLUICE_MUST_USE sluice_status sluice_infer_place(struct sluice_infer *const *infers, size_t num,
                                                 struct sluice_err *err);

/* Page-locks memory for images, which the caller mapped readable and writable: each process that
 * shares a mapping locks its own.  Unpin it before it is unmapped and before `infer` goes. */
SLUICE_MUST_USE sluice_status sluice_infer_pin(struct sluice_infer *infer, void *memory,
                                               size_t bytes, struct sluice_err *err);
void sluice_infer_unpin(struct sluice_infer *infer, void *memory);

/* Copies the whole image to the block, and waits. */
SLUICE_MUST_USE sluice_status sluice_infer_copy(struct sluice_infer *infer, const void *image,
                                                struct sluice_err *err);

/* For a choice of groups.  Device none says 10 us for each stage, 10 GB/s and 5 us. */
struct sluice_infer_costs {
    double *stage_seconds; /* num_stages, of the caller; their sum is the time of a resident run */
    double bytes_per_s;    /* of copies */
    double copy_seconds;   /* of one copy, however small */
};
/* The image is pinned.  Takes about 30 runs. */
SLUICE_MUST_USE sluice_status sluice_infer_measure(struct sluice_infer *infer, const void *image,
                                                   struct sluice_infer_costs *costs,
                                                   struct sluice_err *err);

struct sluice_infer_plan_options {
    const void *image; /* pinned, unless is_eager; borrowed for the plan's life */
    /* Each group's last stage, rising to num_stages - 1.  0 groups: nothing is copied, as the weights
     * are in the block (by copy(), or by a run of another plan of this model). */
    const unsigned *last_stages;
    unsigned num_groups;
    bool is_pipelined; /* else computing starts when all groups are there */
    bool is_eager;     /* the host queues copies and kernels one by one, without a CUDA graph */
};

/* A way to run, of any number; destroy it before `infer`. */
struct sluice_infer_plan;
SLUICE_MUST_USE sluice_status sluice_infer_plan_create(
    struct sluice_infer *infer, const struct sluice_infer_plan_options *options,
    struct sluice_infer_plan **plan, struct sluice_err *err);
void sluice_infer_plan_destroy(struct sluice_infer_plan *plan); /* NULL is allowed */

/* Pinned memory for batch_size rows: float32 N x 3 x height x width, normalized, for the caller to
 * write; and the last run's logits, N x num_classes.  Rows are independent of each other: those
 * that the caller did not write give logits of no meaning. */
float *sluice_infer_input(struct sluice_infer *infer);
const float *sluice_infer_logits(const struct sluice_infer *infer);

/* Copies what the plan says, computes the batch, and waits for its logits. */
SLUICE_MUST_USE sluice_status sluice_infer_run(struct sluice_infer_plan *plan,
                                               struct sluice_err *err);

#endif
