#ifndef SLUICE_TRAIN_SCHEDULE_H
#define SLUICE_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* The learning rate as a pure function of the place in a run, so that a resumed run has the same.
 *
 * It changes with every batch: timm's schedulers with t_in_epochs=False and warmup_prefix=False
 * (timm/scheduler/{cosine,step}_lr.py), torchvision's constant, cosine and step ones.  With t the
 * batches before this one, in epochs:
 *
 *     t < warmup_epochs   warmup_lr + (lr - warmup_lr) t / warmup_epochs
 *     CONSTANT            lr
 *     COSINE              min_lr + (lr - min_lr) (1 + cos(pi t / epochs)) / 2; from epochs on min_lr
 *     STEP                lr gamma^floor(t / step_epochs)
 *
 * Threads: pure functions. */

enum sluice_schedule_kind {
    SLUICE_SCHEDULE_CONSTANT,
    SLUICE_SCHEDULE_COSINE,
    SLUICE_SCHEDULE_STEP,
};

struct sluice_schedule {
    enum sluice_schedule_kind kind;
    double lr;
    uint64_t warmup_epochs; /* 0: no warm-up */
    double warmup_lr;
    uint64_t epochs;      /* COSINE; at least 1 */
    double min_lr;        /* COSINE */
    uint64_t step_epochs; /* STEP; 0: no decay */
    double gamma;         /* STEP */
};

/* "constant", "cosine", "step".  False: no schedule has this name. */
bool sluice_schedule_parse(const char *name, enum sluice_schedule_kind *kind);

/* The rate of a batch in an epoch of num_batches; epoch and batch count from 0. */
double sluice_schedule_lr(const struct sluice_schedule *schedule, uint64_t epoch, uint64_t batch,
                          uint64_t num_batches);

#endif
