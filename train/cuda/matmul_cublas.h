#ifndef SLUICE_TRAIN_CUDA_MATMUL_CUBLAS_H
#define SLUICE_TRAIN_CUDA_MATMUL_CUBLAS_H

#include "base/error.h"
#include "train/cuda/kernels_cuda.h"

#include <cublasLt.h>

#include <stdbool.h>

/* Linear layers by cuBLASLt; nobody else includes it.  Matrices are row by row: x is n x in, w is
 * out x in, y is n x out.  Sums are float32.  Results repeat: split sums are added in a fixed order.
 *
 * Threads: any, one per struct. */

#define SLUICE_MATMUL_WORKSPACE ((size_t)32 << 20)

struct sluice_matmul {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    void *workspace; /* SLUICE_MATMUL_WORKSPACE bytes on the device */
    bool is_tf32;    /* float32 factors may be rounded to tf32 */
};

struct sluice_linear {
    enum sluice_cuda_type type; /* of x and w, and of gradients of x and y */
    enum sluice_cuda_type y_type;
    uint32_t n, in, out;
    bool has_relu;
};

/* y = x w^T + bias, then relu where the layer has one.  bias is of y_type. */
SLUICE_MUST_USE sluice_status sluice_linear_forward(const struct sluice_matmul *m,
                                                    const struct sluice_linear *l, const void *x,
                                                    const void *w, const void *bias, void *y,
                                                    struct sluice_err *err);
/* diff_x = diff_y w */
SLUICE_MUST_USE sluice_status sluice_linear_backward_data(const struct sluice_matmul *m,
                                                          const struct sluice_linear *l,
                                                          const void *diff_y, const void *w,
                                                          void *diff_x, struct sluice_err *err);
/* diff_w = diff_y^T x, in float32. */
SLUICE_MUST_USE sluice_status sluice_linear_backward_weight(const struct sluice_matmul *m,
                                                            const struct sluice_linear *l,
                                                            const void *x, const void *diff_y,
                                                            float *diff_w, struct sluice_err *err);

#endif
