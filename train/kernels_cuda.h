#ifndef SLUICE_TRAIN_KERNELS_CUDA_H
#define SLUICE_TRAIN_KERNELS_CUDA_H

#include "train/mix_kernel.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kernels of the CUDA trainer that cuDNN and cuBLAS lack.
 *
 * Every function launches one to three kernels on `stream` and returns the status of the launches;
 * all pointers are device memory.  Results are pure functions of the arguments: no atomics, sums in
 * a fixed order.
 *
 * Threads: any, one per stream. */

#ifdef __cplusplus
extern "C" {
#endif

/* Image tensors are N x H x W x C, which is what tensor cores read without a transposition. */

/* A place in a pooling window fits a byte. */
#define SLUICE_CUDA_MAX_POOLED 15

/* Maximum pooling: kernel at most SLUICE_CUDA_MAX_POOLED, c a multiple of 4. */
struct sluice_cuda_window {
    uint32_t c, in_h, in_w, out_h, out_w;
    uint32_t kernel, stride, pad;
};

/* Over rows x num_c matrices; num_c is a multiple of 4. */
struct sluice_cuda_batchnorm {
    uint32_t num_c;
    const float *weight, *bias;
    float *running_mean, *running_var;
    /* Statistics of the batch: forward writes, backward reads. */
    float *mean, *inverse_deviation;
    double epsilon, momentum;
    /* A relu follows the output and is done here, in both directions. */
    bool relu;
    /* sluice_cuda_scratch(num_c) bytes. */
    double *scratch;
};

struct sluice_cuda_sums {
    double loss;
    uint64_t top1, top5;
};

/* Bytes of scratch memory for sums over the columns of a matrix with any number of rows. */
size_t sluice_cuda_scratch(size_t num_c);

/* out[i] = table[i % 3][pixels[i]]; table is 3 x 256. */
cudaError_t sluice_cuda_input(cudaStream_t stream, const uint8_t *pixels, const float *table,
                              float *out, size_t count);

/* The same by sluice_mix_value(), for the rows of a batch; quantiles: NULL where the fill is
 * numbers.
 */
cudaError_t sluice_cuda_mix_input(cudaStream_t stream, const struct sluice_mix_batch *batch,
                                  const struct sluice_mix_row *rows, const uint8_t *pixels,
                                  const float *table, const float *quantiles, float *out);

/* values[i] += bias[i % num_c], then, with relu, at least 0 (NaN stays). */
cudaError_t sluice_cuda_bias(cudaStream_t stream, float *values, const float *bias, size_t count,
                             size_t num_c, bool relu);

/* diff_bias: the sums of diffs' columns.  Unless values (relu's output) is NULL, diffs become 0
 * first where values <= 0. */
cudaError_t sluice_cuda_bias_backward(cudaStream_t stream, float *diffs, const float *values,
                                      size_t rows, size_t num_c, float *diff_bias, double *scratch);

cudaError_t sluice_cuda_relu(cudaStream_t stream, float *values, size_t count);

/* diffs[i] = 0 where values[i] <= 0; values: relu's output. */
cudaError_t sluice_cuda_relu_backward(cudaStream_t stream, float *diffs, const float *values,
                                      size_t count);

/* out = a + b, then, with relu, at least 0; out may be a. */
cudaError_t sluice_cuda_add(cudaStream_t stream, float *out, const float *a, const float *b,
                            size_t count, bool relu);

/* to = diffs, or to += diffs where adds.  Unless values (relu's output) is NULL, diffs become 0
 * first where values <= 0. */
cudaError_t sluice_cuda_add_backward(cudaStream_t stream, float *diffs, const float *values,
                                     float *to, size_t count, bool adds);

/* values[i] *= sluice_net_dropout_mask(seed, step, layer, p)[i]; forwards and backwards. */
cudaError_t sluice_cuda_dropout(cudaStream_t stream, float *values, size_t count, uint64_t seed,
                                uint64_t step, uint32_t layer, double p);

/* The first of equal maxima counts, and a NaN is larger than any number, as in torch.  which: for
 * each output the place of its maximum in the window, row by row. */
cudaError_t sluice_cuda_maxpool(cudaStream_t stream, const struct sluice_cuda_window *window,
                                size_t num_samples, const float *in, float *out, uint8_t *which);
cudaError_t sluice_cuda_maxpool_backward(cudaStream_t stream,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const float *diff_out,
                                         const uint8_t *which, float *diff_in);

/* Adaptive average pooling with torch's bins: output y covers the input rows
 * [floor(y * in_h / out_h), ceil((y + 1) * in_h / out_h)).  The output is N x C x H x W, so that a
 * sample is the vector that torch's flatten gives. */
cudaError_t sluice_cuda_avgpool(cudaStream_t stream, const struct sluice_cuda_window *window,
                                size_t num_samples, const float *in, float *out);
cudaError_t sluice_cuda_avgpool_backward(cudaStream_t stream,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const float *diff_out, float *diff_in);

/* Sums in double.  The running variance uses the unbiased variance; for a single row 0. */
cudaError_t sluice_cuda_batchnorm_train(cudaStream_t stream, const struct sluice_cuda_batchnorm *bn,
                                        size_t rows, const float *in, float *out);
/* With the running statistics, which it writes to mean and inverse_deviation. */
cudaError_t sluice_cuda_batchnorm_evaluate(cudaStream_t stream,
                                           const struct sluice_cuda_batchnorm *bn, size_t rows,
                                           const float *in, float *out);
/* After _train with the same `in`.  diff_in may be diff_out. */
cudaError_t sluice_cuda_batchnorm_backward(cudaStream_t stream,
                                           const struct sluice_cuda_batchnorm *bn, size_t rows,
                                           const float *in, const float *diff_out, float *diff_in,
                                           float *diff_weight, float *diff_bias);

/* Softmax and cross-entropy in double, added to `sums`; ties in rank go to the lower class.
 * diff (may be NULL): the gradient of the mean loss.  scratch: num_samples entries. */
cudaError_t sluice_cuda_loss(cudaStream_t stream, const float *logits, const uint32_t *labels,
                             size_t num_samples, uint32_t num_classes, float *diff,
                             struct sluice_cuda_sums *scratch, struct sluice_cuda_sums *sums);

/* The same for batch->n samples with the targets of sluice_mix_target(), as sluice_mix_loss(). */
cudaError_t sluice_cuda_mix_loss(cudaStream_t stream, const struct sluice_mix_batch *batch,
                                 const float *logits, const uint32_t *labels, uint32_t num_classes,
                                 float *diff, struct sluice_cuda_sums *scratch,
                                 struct sluice_cuda_sums *sums);

/* m = momentum * m + (g + weight_decay * w); w -= lr * m, each operation rounded, as the CPU
 * does it. */
cudaError_t sluice_cuda_sgd(cudaStream_t stream, float *values, float *momenta, const float *grads,
                            size_t count, float lr, float momentum, float weight_decay);

#ifdef __cplusplus
}
#endif

#endif
