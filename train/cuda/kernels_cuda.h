#ifndef SLUICE_TRAIN_CUDA_KERNELS_CUDA_H
#define SLUICE_TRAIN_CUDA_KERNELS_CUDA_H

#include "train/mix_kernel.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kernels of the CUDA trainer that cuDNN and cuBLASLt lack.
 *
 * Every function launches one to three kernels on `stream` and returns the status of the launches.
 * Pointers are device memory, but for those to structs that hold arguments (norm, window).  What
 * changes from step to step is read on the device, so that a CUDA graph can be replayed.  Results
 * are pure functions of the arguments: no atomics, sums in a fixed order; the order depends on the
 * number of multiprocessors.
 *
 * Activations and their gradients are `void *` of the type that the call names, image tensors
 * N x H x W x C, num_c a multiple of 8 unless said otherwise.  Parameters, their gradients and
 * statistics are float32; arithmetic is float32, results are rounded once, to nearest even.
 * Pointers are multiples of 16 bytes: tensors, and the arrays of struct sluice_cuda_norm, too.
 * Arrays do not overlap unless said otherwise.
 *
 * Threads: any, one per stream. */

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_cuda_type { SLUICE_CUDA_F32, SLUICE_CUDA_BF16 };

/* A step's number, rate and draws: a replayed graph finds new ones in the same place. */
struct sluice_cuda_step {
    uint64_t step;
    float lr;
    uint32_t padding;
    struct sluice_mix_batch mix;
};

/* Maximum pooling takes the kernels and pads of our models, 2 and 0, 3 and 0, 3 and 1, with a stride
 * of 2, and returns cudaErrorInvalidValue for others.  Average pooling reads none of the three. */
struct sluice_cuda_window {
    uint32_t c, in_h, in_w, out_h, out_w;
    uint32_t kernel, stride, pad;
};

/* Batch norm over the columns of rows x num_c matrices. */
struct sluice_cuda_norm {
    uint32_t num_c;
    const float *weight, *bias;
    float *running_mean, *running_var;
    /* Statistics of the batch: forward writes, backward reads. */
    float *mean, *inverse_deviation;
    double epsilon, momentum;
    /* A relu follows the output, or the sum with `add`, and is done here, in both directions. */
    bool relu;
    /* sluice_cuda_scratch(num_c) bytes; free again when the call's kernels are done. */
    double *scratch;
};

struct sluice_cuda_sums {
    double loss;
    uint64_t top1, top5;
};

/* Bytes of scratch memory for sums over the columns of a matrix with any number of rows. */
size_t sluice_cuda_scratch(size_t num_c);

/* to = from, unless *unless is not 0; bytes: a multiple of 4. */
cudaError_t sluice_cuda_copy_unless(cudaStream_t stream, void *to, const void *from, size_t bytes,
                                    const uint32_t *unless);

/* u8 N x H x W x 3 to N x H x W x num_c, by table[3][256]; num_c is 4 or 8, channels from 3 on are
 * 0.  Nothing is written if *unless is not 0. */
cudaError_t sluice_cuda_input(cudaStream_t stream, enum sluice_cuda_type type,
                              const uint8_t *pixels, const float *table, void *out,
                              size_t num_pixels, uint32_t num_c, const uint32_t *unless);

/* float32 N x 3 x height x width to N x H x W x num_c; num_pixels: of an image. */
cudaError_t sluice_cuda_input_rows(cudaStream_t stream, enum sluice_cuda_type type,
                                   const float *rows, void *out, size_t num_samples,
                                   size_t num_pixels, uint32_t num_c);

/* sluice_cuda_input() by sluice_mix_value() of step->mix, whose n is num_samples; quantiles: NULL where the
 * fill is numbers. */
cudaError_t sluice_cuda_mix_input(cudaStream_t stream, enum sluice_cuda_type type,
                                  const struct sluice_cuda_step *step,
                                  const struct sluice_mix_row *rows, const uint8_t *pixels,
                                  const float *table, const float *quantiles, void *out,
                                  size_t num_samples, uint32_t num_c, const uint32_t *unless);

/* Batch norm of the batch, then + add unless that is NULL, then the relu (NaN stays).  out may be
 * add, and in where the backward pass is not run.  The running variance uses the unbiased variance;
 * for a single row 0. */
cudaError_t sluice_cuda_norm_train(cudaStream_t stream, enum sluice_cuda_type type,
                                   const struct sluice_cuda_norm *norm, size_t rows, const void *in,
                                   const void *add, void *out);
/* With the running statistics, which it writes to mean and inverse_deviation; if running_var is NULL,
 * with the mean and inverse_deviation that are there.  out may be add or in. */
cudaError_t sluice_cuda_norm_evaluate(cudaStream_t stream, enum sluice_cuda_type type,
                                      const struct sluice_cuda_norm *norm, size_t rows,
                                      const void *in, const void *add, void *out);
/* After _train with the same `in`.  Reads 2 tensors and writes 1 in two passes; diff_more and `out`
 * are further reads of both, unless diff_add holds d for the second.
 *
 *   d         = diff_out + diff_more (NULL: 0), rounded to the type; with relu 0 where the output
 *               is 0 or less: `out`, which _train wrote, or, if that is NULL, computed again from
 *               `in`, which is the output only if _train had no `add`
 *   diff_add  = d unless NULL; may be diff_out or diff_more
 *   diff_in   = batch norm's gradient for d; may be diff_out or diff_more unless diff_add is */
cudaError_t sluice_cuda_norm_backward(cudaStream_t stream, enum sluice_cuda_type type,
                                      const struct sluice_cuda_norm *norm, size_t rows,
                                      const void *in, const void *out, const void *diff_out,
                                      const void *diff_more, void *diff_add, void *diff_in,
                                      float *diff_weight, float *diff_bias);

/* values[i] += bias[i % num_c], then, with relu, at least 0 (NaN stays).  Any num_c that divides
 * count. */
cudaError_t sluice_cuda_bias(cudaStream_t stream, enum sluice_cuda_type type, void *values,
                             const float *bias, size_t count, size_t num_c, bool relu);

/* diff_bias: the sums of diffs' columns, of any number.  Unless values (relu's output) is NULL,
 * diffs become 0 first where values <= 0.  scratch: sluice_cuda_scratch(num_c) bytes. */
cudaError_t sluice_cuda_bias_backward(cudaStream_t stream, enum sluice_cuda_type type, void *diffs,
                                      const void *values, size_t rows, size_t num_c,
                                      float *diff_bias, double *scratch);

/* Over count values, any number of them. */

cudaError_t sluice_cuda_relu(cudaStream_t stream, enum sluice_cuda_type type, void *values,
                             size_t count);
/* diffs[i] = 0 where values[i] <= 0; values: relu's output. */
cudaError_t sluice_cuda_relu_backward(cudaStream_t stream, enum sluice_cuda_type type, void *diffs,
                                      const void *values, size_t count);
/* to += from; both may be the same. */
cudaError_t sluice_cuda_add(cudaStream_t stream, enum sluice_cuda_type type, void *to,
                            const void *from, size_t count);
/* values[i] *= sluice_net_dropout_mask(seed, step->step, layer, p)[i]; forwards and backwards. */
cudaError_t sluice_cuda_dropout(cudaStream_t stream, enum sluice_cuda_type type, void *values,
                                size_t count, uint64_t seed, const struct sluice_cuda_step *step,
                                uint32_t layer, double p);
/* bf16 to float32, and back. */
cudaError_t sluice_cuda_to_float(cudaStream_t stream, const void *from, float *to, size_t count);
cudaError_t sluice_cuda_from_float(cudaStream_t stream, const float *from, void *to, size_t count);
/* *flag |= 1 if a value is infinite or NaN; the one atomic operation here. */
cudaError_t sluice_cuda_flag_nonfinite(cudaStream_t stream, enum sluice_cuda_type type,
                                       const void *values, size_t count, uint32_t *flag);

/* The first of equal maxima counts, and a NaN is larger than any number, as in torch.  which: for
 * each output the place of its maximum in the window, row by row. */
cudaError_t sluice_cuda_maxpool(cudaStream_t stream, enum sluice_cuda_type type,
                                const struct sluice_cuda_window *window, size_t num_samples,
                                const void *in, void *out, uint8_t *which);
cudaError_t sluice_cuda_maxpool_backward(cudaStream_t stream, enum sluice_cuda_type type,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const void *diff_out,
                                         const uint8_t *which, void *diff_in);

/* Adaptive average pooling with torch's bins: output y covers the input rows
 * [floor(y * in_h / out_h), ceil((y + 1) * in_h / out_h)).  The output is N x C x H x W, so that a
 * sample is the vector that torch's flatten gives. */
cudaError_t sluice_cuda_avgpool(cudaStream_t stream, enum sluice_cuda_type type,
                                const struct sluice_cuda_window *window, size_t num_samples,
                                const void *in, void *out);
cudaError_t sluice_cuda_avgpool_backward(cudaStream_t stream, enum sluice_cuda_type type,
                                         const struct sluice_cuda_window *window,
                                         size_t num_samples, const void *diff_out, void *diff_in);

/* Softmax and cross-entropy in double, added to `sums`; ties in rank go to the lower class.
 * diff (of the type; NULL: none): the gradient of the mean loss.  scratch: num_samples entries.
 * *is_bad = 1 if the batch's loss is not finite, else it stays. */
cudaError_t sluice_cuda_loss(cudaStream_t stream, enum sluice_cuda_type type, const float *logits,
                             const uint32_t *labels, size_t num_samples, uint32_t num_classes,
                             void *diff, struct sluice_cuda_sums *scratch,
                             struct sluice_cuda_sums *sums, uint32_t *is_bad);

/* The same with the targets of sluice_mix_target() for step->mix, whose n is num_samples, as
 * sluice_mix_loss(). */
cudaError_t sluice_cuda_mix_loss(cudaStream_t stream, enum sluice_cuda_type type,
                                 const struct sluice_cuda_step *step, const float *logits,
                                 const uint32_t *labels, size_t num_samples, uint32_t num_classes,
                                 void *diff, struct sluice_cuda_sums *scratch,
                                 struct sluice_cuda_sums *sums, uint32_t *is_bad);

/* m = momentum * m + (g + weight_decay * w); w -= step->lr * m, each operation rounded, as the CPU
 * does it; copies (NULL: none): w as bf16.  Nothing is written where *is_bad is not 0. */
cudaError_t sluice_cuda_sgd(cudaStream_t stream, float *values, float *momenta, const float *grads,
                            void *copies, size_t count, const struct sluice_cuda_step *step,
                            float momentum, float weight_decay, const uint32_t *is_bad);

#ifdef __cplusplus
}
#endif

#endif
