#ifndef SLUICE_TRAIN_TRAIN_H
#define SLUICE_TRAIN_TRAIN_H

#include "base/error.h"
#include "op/batch_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A trainer: a model that learns from batches, on one of three devices.
 *
 *   none   consumes batches, at `consume_rate` samples a second if that is > 0
 *   cpu    oneDNN
 *   cuda   cuDNN, cuBLAS and the kernels of kernels_cuda.h
 *
 * All take u8 NHWC batches, and convert them on the device to the model's input,
 * with the pipeline's 3 x 256 table.
 *
 * Threads: a trainer belongs to one thread at a time. */

struct sluice_trainer;

/* The keys of the draws of batch ops: fields of struct sluice_batch, and this process's rank. */
struct sluice_train_key {
    uint32_t epoch, rank;
    uint64_t index;
    const uint64_t *ids;
    const uint32_t *draw_epochs;
};

struct sluice_train_batch {
    const uint8_t *pixels;  /* n x height x width x 3 */
    const uint32_t *labels; /* n, each < num_classes */
    /* 1 .. batch_size; the last of an epoch may be short.  With world_size > 1 also 0: this rank
     * takes part in the step without rows. */
    unsigned n;
    bool is_on_device;                  /* `pixels` is memory of sluice_trainer_device() */
    const struct sluice_train_key *key; /* NULL: no batch ops */
};

/* How device cuda multiplies.  Parameters, momentum, statistics, sums, logits and the loss are
 * float32 in each. */
enum sluice_precision {
    /* Device cuda: BF16 where the GPU has it (compute capability 8.0), else FP32; device cpu:
     * FP32. */
    SLUICE_PRECISION_DEFAULT,
    SLUICE_PRECISION_BF16, /* activations and factors are bfloat16 */
    SLUICE_PRECISION_TF32, /* factors are rounded to 10-bit mantissas */
    SLUICE_PRECISION_FP32,
};

/* A gate before which the device's work waits while somebody else uses the GPU. */
struct sluice_train_gate {
    /* Adds a point to the stream (a cudaStream_t, which may be capturing a graph): work put on it
     * later waits there.  With `stream` NULL (devices none and cpu) the call itself waits.  A failure
     * is the step's.  NULL: no gate. */
    sluice_status (*point)(void *data, void *stream, struct sluice_err *err);
    void *data; /* borrowed for the trainer's life */
};

struct sluice_train_options {
    /* "none", "cpu", "cuda". */
    const char *device;
    /* One of SLUICE_MODEL_NAMES (model_names.h). */
    const char *model;
    unsigned num_classes;
    unsigned height, width; /* of the input, in pixels */
    unsigned batch_size;
    /* SGD as torch.optim.SGD defines it (nesterov off). */
    double lr, momentum, weight_decay;
    /* Key of the draws of initial weights, dropout and batch ops. */
    uint64_t seed;
    /* Done to the batches of steps that have a key. */
    struct sluice_batch_ops batch_ops;
    /* [3][256]; borrowed for the trainer's life. */
    const float (*table)[256];
    /* Device none: samples a second; 0: no limit. */
    double consume_rate;
    /* Device cpu; 0: all CPUs. */
    unsigned num_threads;
    /* Device cpu: DEFAULT or FP32. */
    enum sluice_precision precision;
    /* Device cuda: take the first deterministic algorithm by cuDNN's heuristic, and measure none.
     */
    bool is_deterministic;
    /* Device cuda: the GPU, by CUDA's number in this process. */
    int gpu;
    /* Device cuda: the file of measured algorithms; borrowed for the trainer's life.  NULL:
     * $XDG_CACHE_HOME/sluice/engines. */
    const char *engine_cache;
    /* Device cuda: this process is `rank` (from 0) of `world_size` on this host, which average
     * their gradients in each step, so all must take the same number of steps.  0 and 1: alone.
     * Device none ignores it, device cpu refuses more than 1. */
    unsigned rank, world_size;
    /* With world_size > 1: a text that the ranks of a run share (rendezvous.h).  Read by create
     * alone. */
    const char *rendezvous;
    /* Devices none and cpu have one point before each step and evaluation; device cuda has them on
     * its stream.  SLUICE_E_INVALID with world_size > 1: ranks wait for each other in each step. */
    struct sluice_train_gate gate;
    /* < 0: the model's own (alexnet 0.5, others 0). */
    double dropout;
};

/* "bf16", "tf32", "fp32"; of DEFAULT "default". */
const char *sluice_precision_name(enum sluice_precision precision);
/* False: no precision has this name.  NULL is DEFAULT. */
bool sluice_precision_parse(const char *name, enum sluice_precision *precision);

/* SLUICE_E_INVALID names the option; SLUICE_E_UNSUPPORTED: this build has no such device, and
 * which build option brings it. */
SLUICE_MUST_USE sluice_status sluice_trainer_create(const struct sluice_train_options *options,
                                                    struct sluice_trainer **trainer,
                                                    struct sluice_err *err);
void sluice_trainer_destroy(struct sluice_trainer *trainer); /* NULL is allowed */

/* Sums since the last collect. */
struct sluice_train_totals {
    uint64_t samples, steps;
    double loss_sum; /* cross-entropy, natural log, summed over samples */
    /* If batch ops mix labels, the label with the larger part counts. */
    uint64_t top1, top5;
};

/* The CUDA device whose memory the trainer accepts rows in, by its number in this process; -1: only
 * the host's memory.  Device none accepts any memory, because it does not read the rows. */
int sluice_trainer_device(const struct sluice_trainer *trainer);
/* Never DEFAULT, except for device none. */
enum sluice_precision sluice_trainer_precision(const struct sluice_trainer *trainer);

/* Bytes of the device's memory that steps of a full batch need at most; 0: device none. */
struct sluice_train_memory {
    /* With momentum, gradients, copies in another precision, and batches on their way. */
    uint64_t parameters;
    uint64_t activations; /* tensors, their gradients, and on cuda convolutions' workspaces */
    uint64_t workspace;   /* of libraries, as far as they say it */
    uint64_t total;       /* the sum of these */
};
void sluice_trainer_memory(const struct sluice_trainer *trainer,
                           struct sluice_train_memory *memory);
/* The stream (a cudaStream_t) that reads rows on a device; NULL: rows are not read there. */
void *sluice_trainer_stream(const struct sluice_trainer *trainer);

/* One SGD step.  Returns when the caller may reuse the batch's memory of the host; a GPU may still
 * compute the step then, and read rows that are on it: they are free when what is on
 * sluice_trainer_stream() now is done, also after a failure.  SLUICE_E_INVALID: rows on a device
 * that this one cannot read.  Device none counts samples and leaves loss 0. */
SLUICE_MUST_USE sluice_status sluice_trainer_step(struct sluice_trainer *trainer,
                                                  const struct sluice_train_batch *batch,
                                                  struct sluice_err *err);

/* Forward only, in evaluation mode (running statistics, no dropout).  Ranks do not wait for each
 * other; n is 1 at least. */
SLUICE_MUST_USE sluice_status sluice_trainer_evaluate(struct sluice_trainer *trainer,
                                                      const struct sluice_train_batch *batch,
                                                      struct sluice_err *err);

/* The same sums without waiting for the device, for a line of progress: on a GPU they lack the
 * steps that are not computed yet.  The sums are not reset, and a later collect does not depend on
 * the device's progress at this call.
 *
 * A loss or gradient that is not finite is SLUICE_E_INTERNAL, and the text says after how many steps
 * it came and in which layer it begins.  Its step changed no trained parameter, only running
 * statistics. */
SLUICE_MUST_USE sluice_status sluice_trainer_progress(struct sluice_trainer *trainer,
                                                      struct sluice_train_totals *totals,
                                                      struct sluice_err *err);

/* Waits for all steps and returns the sums, which start again at 0.  A loss or gradient that
 * is not finite is the same error. */
SLUICE_MUST_USE sluice_status sluice_trainer_collect(struct sluice_trainer *trainer,
                                                     struct sluice_train_totals *totals,
                                                     struct sluice_err *err);

void sluice_trainer_set_lr(struct sluice_trainer *trainer, double lr);

/* Checkpoints (checkpoint.h): the model's name and shapes, parameters, running statistics, momentum,
 * step count.  `path` has the weights in the safetensors format, with torchvision's names; a second
 * file has the momentum.  `extra` is a line of text of the caller (JSON, UTF-8) that load
 * returns as a new string.  A run that continues from a load equals the uninterrupted run bit for
 * bit (cpu).  Load takes files of version 0.1, too, and loads wholly or not at all.
 * Values that are not finite are not written: SLUICE_E_INTERNAL.
 * SLUICE_E_CORRUPT, SLUICE_E_INVALID (another model) and SLUICE_E_NOT_FOUND name the file. */
SLUICE_MUST_USE sluice_status sluice_trainer_save(struct sluice_trainer *trainer, const char *path,
                                                  const char *extra, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_trainer_load(struct sluice_trainer *trainer, const char *path,
                                                  char **extra, struct sluice_err *err);

/* Initial weights from a file in the safetensors format with torchvision's names, float32, float16
 * or bfloat16; call it before the first step.  The names and shapes must be the model's.  If the
 * classifier (the last linear layer) is not in the file at all, it keeps its own initial values;
 * one of other classes is SLUICE_E_INVALID, as is every other difference, and changes nothing.
 * num_batches_tracked may be missing.  SLUICE_E_UNSUPPORTED: a pickle of PyTorch. */
SLUICE_MUST_USE sluice_status sluice_trainer_init_from(struct sluice_trainer *trainer,
                                                       const char *path, struct sluice_err *err);

/* Memory from which uploads are fastest: page-locked with cuda, plain pages with other devices.
 * 64-byte aligned.  The trainer must outlive it. */
SLUICE_MUST_USE sluice_status sluice_trainer_host_alloc(struct sluice_trainer *trainer,
                                                        size_t bytes, void **memory,
                                                        struct sluice_err *err);
void sluice_trainer_host_free(struct sluice_trainer *trainer, void *memory);

/* The upload's rate from such memory.  Device cuda measures a few uploads of a batch (of 16 MB at
 * most), which takes some 10 ms; call it before the first step.  INFINITY for the other devices,
 * which upload nothing. */
SLUICE_MUST_USE sluice_status sluice_trainer_measure_upload(struct sluice_trainer *trainer,
                                                            double *bytes_per_s,
                                                            struct sluice_err *err);

/* For tests and for exchange with other frameworks: parameters and gradients by their torchvision
 * names ("features.0.weight"), float32, torch's layouts (OIHW; out x in). */
size_t sluice_trainer_num_params(const struct sluice_trainer *trainer);
const char *sluice_trainer_param_name(const struct sluice_trainer *trainer, size_t param);
/* Elements of the parameter. */
size_t sluice_trainer_param_count(const struct sluice_trainer *trainer, size_t param);
SLUICE_MUST_USE sluice_status sluice_trainer_get_param(struct sluice_trainer *trainer, size_t param,
                                                       float *out, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_trainer_set_param(struct sluice_trainer *trainer, size_t param,
                                                       const float *in, struct sluice_err *err);
/* The gradient of the last step, before momentum and weight decay. */
SLUICE_MUST_USE sluice_status sluice_trainer_get_grad(struct sluice_trainer *trainer, size_t param,
                                                      float *out, struct sluice_err *err);

#endif
