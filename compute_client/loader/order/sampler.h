#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_SAMPLER_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_SAMPLER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The order in which an epoch delivers its samples: a Fisher-Yates shuffle with random numbers from
 * Philox for training, sequential for validation.
 *
 * The order is a pure function of the sampler and the epoch: the same on every machine, for every
 * number of workers and in every mode.
 *
 * With repeat N every sample comes N times in an epoch, shuffled as if the dataset were N times as
 * large.  Repetition r of epoch e draws its crops and flips as epoch e * N + r, so that repetitions
 * differ.
 *
 * With ranges a sample comes as often as its range's weight says, in the mean over epochs.  A range
 * of n samples has one endless walk over them, pass after pass in one order, a shuffle by (seed,
 * stream).  Epoch e takes the k = round(weight * N * n) steps from e * k on:
 *
 *     n = 4, weight 0.75, k = 3      | a b c d | a b c d | a b c d |
 *                                     epoch 0 `  1 `   2 `   3 `
 *
 * So every sample comes once in a pass, and for k <= n no sample comes twice in an epoch.  A step
 * of pass p draws as epoch p, so that a sample draws differently each time.  With weight 1 order
 * and draws are those without ranges.
 *
 * With shards the order keeps samples of one shard together: consecutive items of a shard are a
 * run; each epoch shuffles the runs, and then the items within windows of num_mixed runs.  So at
 * most num_mixed shards are read at a time.
 *
 *     runs       a a a | b b b | c c c | d d d
 *     in order   c c c   a a a | d d d   b b b        num_mixed = 2
 *     shuffled   c a a c a c   | b d d b b d
 *
 * With K copies (repeated augmentation) a sample comes K times in a row, each time with other
 * draws, in one of every K epochs.  K epochs share one order, that of epoch e / K without copies.
 * Each of its items becomes K consecutive ones, and the epochs take K equal parts of the result:
 *
 *     order of 0   c a d b               K = 2
 *     with copies  c c a a | d d b b
 *                  epoch 0 ` 1
 *
 * So an epoch has the same number of items as without copies.  Copy k of an item of draw epoch d
 * draws as d * K + k.
 *
 * Threads: pure functions. */

struct sluice_sampler_item {
    uint32_t position;   /* of the sample in its subset */
    uint32_t draw_epoch; /* for sluice_draw_key */
};

/* Neighbouring positions. */
struct sluice_sampler_range {
    uint32_t num_samples;
    double weight;   /* >= 0 */
    uint32_t stream; /* of random numbers */
};

struct sluice_sampler {
    uint64_t seed;
    uint32_t num_samples; /* in the subset */
    uint32_t repeat;      /* >= 1 */
    uint32_t copies;      /* 0 or 1: a sample comes once in a row */
    bool is_shuffled;
    const struct sluice_sampler_range *ranges; /* of all positions, in their order */
    size_t num_ranges;                         /* 0: each sample comes `repeat` times */
    /* Where the shards end, in positions, rising: the last is num_samples. */
    const uint32_t *shard_ends;
    size_t num_shards;
    uint32_t num_mixed; /* runs in a window; 0: the order ignores shards */
};

/* The number of items, the same for every epoch.  SLUICE_E_INVALID if it is 0, or if it or a draw
 * epoch up to last_epoch does not fit 32 bits. */
SLUICE_MUST_USE sluice_status sluice_sampler_count(const struct sluice_sampler *sampler,
                                                   uint64_t last_epoch, size_t *count,
                                                   struct sluice_err *err);

/* Fills items[0 .. count).  SLUICE_E_NO_MEMORY, only with ranges, shards or copies. */
SLUICE_MUST_USE sluice_status sluice_sampler_fill(const struct sluice_sampler *sampler,
                                                  uint32_t epoch, struct sluice_sampler_item *items,
                                                  struct sluice_err *err);

#endif
