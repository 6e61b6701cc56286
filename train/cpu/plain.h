#ifndef SLUICE_TRAIN_CPU_PLAIN_H
#define SLUICE_TRAIN_CPU_PLAIN_H

#include "train/net.h"
#include "train/train.h"

/* Layers, loss and optimiser in plain C: what oneDNN lacks or does no faster.
 *
 * Images are N x H x W x C; the average pool writes C x H x W, from which on a sample is the vector
 * that torch's flatten gives.
 *
 * Threads: pure functions. */

/* The epsilon of BATCHNORM, torch's default. */
#define SLUICE_PLAIN_EPSILON 1e-5f

/* out[i] = table[i % 3][pixels[i]]; count: a multiple of 3. */
void sluice_plain_input(const float (*table)[256], const uint8_t *pixels, size_t count, float *out);

/* One sample of an AVGPOOL layer.  out: C x H x W; in: H x W x C. */
void sluice_plain_avgpool(const struct sluice_layer *layer, const float *in, float *out);
void sluice_plain_avgpool_backward(const struct sluice_layer *layer, const float *diff_out,
                                   float *diff_in);

void sluice_plain_multiply(float *values, const float *by, size_t count);
void sluice_plain_add(float *values, const float *by, size_t count);

/* out[i][c] = in[i][c] * scale[c] + shift[c]. */
void sluice_plain_affine(const float *in, const float *scale, const float *shift, size_t num_pixels,
                         uint32_t num_c, float *out);

/* Batchnorm by running statistics, as scale and shift of sluice_plain_affine(). */
void sluice_plain_fold_batchnorm(const float *weight, const float *bias, const float *running_mean,
                                 const float *running_var, uint32_t num_c, float *scale,
                                 float *shift);

/* Moves the running statistics by a tenth to those of a batch, whose variance is biased.  torch
 * keeps the unbiased one; a single value has none and counts with 0. */
void sluice_plain_update_running(const float *mean, const float *variance, size_t num_pixels,
                                 uint32_t num_c, float *running_mean, float *running_var);

/* Softmax and cross-entropy of one sample, in double; diff (may be NULL) is its gradient times
 * `weight`.  Ties in rank go to the lower class. */
void sluice_plain_loss(const float *logits, uint32_t num_classes, uint32_t label, double weight,
                       float *diff, struct sluice_train_totals *totals);

/* torch.optim.SGD: g += weight_decay * w; m = momentum * m + g; w -= lr * m.  Its first step
 * sets m = g, which m = 0 gives as well. */
void sluice_plain_descend(float *values, float *momenta, const float *grads, size_t count, float lr,
                          float momentum, float weight_decay);

#endif
