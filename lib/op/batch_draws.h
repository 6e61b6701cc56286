#ifndef SLUICE_OP_BATCH_DRAWS_H
#define SLUICE_OP_BATCH_DRAWS_H

#include "op/batch_ops.h"
#include "op/op.h"

/* Draws for batch ops (mixup, CutMix and random erasing), and draws of weights.  The caller does
 * the arithmetic on the batch.
 *
 * Threads: pure functions. */

/* A draw of Beta(alpha, alpha), alpha > 0: G / (G + H) of two draws of Gamma(alpha) (Marsaglia and
 * Tsang, "A Simple Method for Generating Gamma Variables", 2000), the same on every machine. */
double sluice_draw_beta(struct sluice_rng *rng, double alpha);

/* A draw of Dirichlet(alpha, ..., alpha), alpha > 0: `num` weights, at least 1, whose sum is 1. */
void sluice_draw_dirichlet(struct sluice_rng *rng, double alpha, unsigned num, double *weights);

struct sluice_mix {
    bool is_mixed, is_cutmix;
    double lambda;         /* the weight of a row's own label; in mixup also of its pixels */
    struct sluice_box box; /* of the other row in CutMix; may be empty */
};

/* The draw of batch number `batch` of this rank. */
struct sluice_mix sluice_draw_mix(const struct sluice_mix_params *params, uint64_t seed,
                                  uint32_t epoch, uint64_t batch, uint32_t rank,
                                  struct sluice_size size);

/* Draws the box to erase in one sample: the first of ten draws that is smaller than the image on
 * both sides.  False: nothing is erased. */
bool sluice_draw_erasing(const struct sluice_erasing_params *params,
                         const struct sluice_draw_key *key, struct sluice_size size,
                         struct sluice_box *box);

/* The fill of an erased box: `count` (at most SLUICE_MAX_FILL) entries of a table of
 * SLUICE_NUM_QUANTILES float32, drawn from the sample's own stream.  `table` and `out` may be
 * unaligned. */
#define SLUICE_MAX_FILL (65536u * 8)
void sluice_fill_drawn(const struct sluice_draw_key *key, const void *table, void *out,
                       size_t count);

#endif
