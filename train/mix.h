#ifndef SLUICE_TRAIN_MIX_H
#define SLUICE_TRAIN_MIX_H

#include "op/batch_ops.h"
#include "op/op.h"
#include "train/mix_kernel.h"
#include "train/train.h"

/* Random erasing, mixup and CutMix of a batch on the host: the draws, the input and the loss.
 *
 * Threads: pure functions. */

/* *drawn and rows[batch->n] of a batch that has a key, for images of this size.
 * SLUICE_E_INVALID: a box is too large for its noise (SLUICE_MAX_FILL). */
SLUICE_MUST_USE sluice_status sluice_mix_draw(const struct sluice_batch_ops *ops, uint64_t seed,
                                              const struct sluice_train_batch *batch,
                                              struct sluice_size size, uint32_t num_classes,
                                              struct sluice_mix_batch *drawn,
                                              struct sluice_mix_row *rows, struct sluice_err *err);

/* out[n][height][width][3] by sluice_mix_value(). */
void sluice_mix_input(const struct sluice_mix_batch *drawn, const struct sluice_mix_row *rows,
                      const uint8_t *pixels, const float (*table)[256], const float *quantiles,
                      float *out);

/* Softmax and cross-entropy of row n against its target, in double; `labels` has those of all rows.
 * diff: the gradient times `weight`.  A hit counts for the label with the larger part, or, if both
 * are equal, the row's own; ties in rank go to the lower class. */
void sluice_mix_loss(const struct sluice_mix_batch *drawn, uint32_t n, const uint32_t *labels,
                     const float *logits, uint32_t num_classes, double weight, float *diff,
                     struct sluice_train_totals *totals);

#endif
