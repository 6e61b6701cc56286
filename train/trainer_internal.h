#ifndef SLUICE_TRAIN_TRAINER_INTERNAL_H
#define SLUICE_TRAIN_TRAINER_INTERNAL_H

#include "train/mix.h"
#include "train/net.h"
#include "train/nonfinite.h"
#include "train/train.h"

/* Shared by trainer.c and the devices.  trainer.c checks every argument, counts, and reads and
 * writes checkpoints; a device computes.  A device has one table of functions, and a struct that
 * begins with `struct sluice_trainer`.
 *
 * Threads: see train.h. */

/* The arrays that a device keeps for each parameter. */
enum sluice_array {
    SLUICE_ARRAY_VALUE,
    SLUICE_ARRAY_MOMENTUM, /* trained parameters only; zeros before the first step */
    SLUICE_ARRAY_GRAD,     /* trained parameters only; of the last step */
};

struct sluice_trainer_ops {
    size_t size; /* of the device's struct, which trainer.c allocates zeroed */

    /* Sets the initial values of parameters, and zeros for momentum.  The base is filled in;
     * replaces options.precision DEFAULT, and refuses one that the device lacks. */
    sluice_status (*init)(struct sluice_trainer *trainer, struct sluice_err *err);
    void (*clear)(struct sluice_trainer *trainer); /* also after a failed init */

    /* The batch is checked: n (0 with options.world_size > 1 alone), labels, where its pixels are; if it has a key, `trainer->mix` has
     * its draws.  `trainer->steps` numbers this step (from 0) and `trainer->lr` is its rate.  Sums
     * may stay on the device until collect.  A step whose loss or gradient is not finite
     * changes no trained parameter, and makes the sum of losses not finite. */
    sluice_status (*step)(struct sluice_trainer *trainer, const struct sluice_train_batch *batch,
                          struct sluice_err *err);
    sluice_status (*evaluate)(struct sluice_trainer *trainer,
                              const struct sluice_train_batch *batch, struct sluice_err *err);
    /* sluice_trainer_progress().  The end of a portion of the epoch: sums are added up portion by
     * portion, on every device alike. */
    sluice_status (*progress)(struct sluice_trainer *trainer, struct sluice_train_totals *totals,
                              struct sluice_err *err);
    /* Waits for all work; adds the loss_sum, top1 and top5 that `trainer->totals` lacks to it. */
    sluice_status (*collect)(struct sluice_trainer *trainer, struct sluice_err *err);

    /* After a sum of losses that is not finite: the first such step, and where it begins.  NULL: the device
     * does not know. */
    sluice_status (*find_nonfinite)(struct sluice_trainer *trainer, struct sluice_nonfinite *found,
                                    struct sluice_err *err);
    /* The text of the engines that steps run on, for a checkpoint, in memory of malloc(); and steps
     * run on those of such a text from then on, as far as it is of this machine.  NULL: none. */
    sluice_status (*engines)(const struct sluice_trainer *trainer, char **text,
                             struct sluice_err *err);
    sluice_status (*use_engines)(struct sluice_trainer *trainer, const char *text,
                                 struct sluice_err *err);
    /* The needs of a full batch.  NULL: 0. */
    void (*memory)(const struct sluice_trainer *trainer, struct sluice_train_memory *memory);

    /* The parameter's `count` elements in torch's layout; both wait for all work.  NULL where the
     * device has no parameters. */
    sluice_status (*read)(struct sluice_trainer *trainer, enum sluice_array array, unsigned param,
                          float *out, struct sluice_err *err);
    sluice_status (*write)(struct sluice_trainer *trainer, enum sluice_array array, unsigned param,
                           const float *in, struct sluice_err *err);

    /* NULL: plain pages. */
    sluice_status (*host_alloc)(struct sluice_trainer *trainer, size_t bytes, void **memory,
                                struct sluice_err *err);
    void (*host_free)(struct sluice_trainer *trainer, void *memory);

    /* NULL: no upload. */
    sluice_status (*measure_upload)(struct sluice_trainer *trainer, double *bytes_per_s,
                                    struct sluice_err *err);
};

struct sluice_trainer {
    const struct sluice_trainer_ops *ops;
    /* Device and model point at constants. */
    struct sluice_train_options options;
    /* Device none: no layers, no parameters. */
    struct sluice_net net;
    double lr;
    /* sluice_trainer_device() and sluice_trainer_stream(); init says so if they are not -1 and
     * NULL.
     */
    int rows_device;
    void *rows_stream;
    /* Taken since the initial weights, also before a load. */
    uint64_t steps;
    /* torch's num_batches_tracked, of all batch norms alike: batches that their running statistics
     * have seen, also before the initial weights. */
    uint64_t batches_tracked;
    /* Since the last collect: all samples and steps; loss and hits of the portions that progress
     * ended, as far as they are known. */
    struct sluice_train_totals totals;
    /* The draws of the step under way; `rows` and `quantiles` are NULL without batch ops. */
    struct {
        struct sluice_mix_batch batch;
        struct sluice_mix_row *rows;
        float *quantiles; /* SLUICE_NUM_QUANTILES */
    } mix;
    /* A step was taken by this object. */
    bool has_grad;
};

extern const struct sluice_trainer_ops sluice_trainer_none_ops;
extern const struct sluice_trainer_ops sluice_trainer_cpu_ops;  /* SLUICE_HAVE_ONEDNN */
extern const struct sluice_trainer_ops sluice_trainer_cuda_ops; /* SLUICE_HAVE_CUDA */

#endif
