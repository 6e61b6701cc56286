#ifndef SLUICE_COMPUTE_CLIENT_LOAD_SAMPLER_H
#define SLUICE_COMPUTE_CLIENT_LOAD_SAMPLER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The order in which an epoch delivers its samples: a Fisher-Yates shuffle with random numbers from
 * Philox for training, sequential for validation.
 *
 * The order is a pure function of (seed, epoch, number of samples, repeat): the same on every
 * machine, for every number of workers and in every mode.
 *
 * With repeat N every sample comes N times in an epoch, shuffled as if the dataset were N times as
 * large.  Repetition r of epoch e draws its crops and flips as epoch e * N + r, so that repetitions
 * differ.
 *
 * Threads: pure functions. */

struct sluice_sampler_item {
    uint32_t position;   /* of the sample in its subset */
    uint32_t draw_epoch; /* for sluice_draw_key */
};

struct sluice_sampler {
    uint64_t seed;
    uint32_t num_samples; /* in the subset */
    uint32_t repeat;      /* >= 1 */
    bool is_shuffled;
};

/* The number of items of an epoch.  SLUICE_E_INVALID if it is 0, or if it or a draw epoch up to
 * last_epoch does not fit 32 bits. */
SLUICE_MUST_USE sluice_status sluice_sampler_count(const struct sluice_sampler *sampler,
                                                   uint64_t last_epoch, size_t *count,
                                                   struct sluice_err *err);

/* Fills items[0 .. count). */
void sluice_sampler_fill(const struct sluice_sampler *sampler, uint32_t epoch,
                         struct sluice_sampler_item *items);

#endif
