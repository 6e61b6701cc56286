#ifndef SLUICE_TRAIN_CUDA_CONV_CUDNN_H
#define SLUICE_TRAIN_CUDA_CONV_CUDNN_H

#include "train/engine_cache.h"

#include "base/error.h"
#include "train/cuda/kernels_cuda.h"
#include "train/net.h"

#include <cudnn.h>

/* Convolutions by cuDNN's graph API (cudnn_backend.h); nobody else includes it.
 *
 * A problem is one pass of one layer for one batch size.  cuDNN lists the engines that solve it; a
 * plan is a problem with an engine, ready to run.
 *
 *     FORWARD           y = x * w, then + bias, then relu    (the last two where the problem says so)
 *     BACKWARD_DATA     x's gradient from y's gradient and w
 *     BACKWARD_FILTER   w's gradient from x and y's gradient
 *
 * x and y are N x H x W x C of the problem's type, w is O x H x W x I, and so is its gradient, of
 * the problem's filter_type; bias is float32 or bf16 as x is.  Pointers are aligned to 16 bytes.
 *
 * Threads: any, one per handle. */

enum sluice_conv_pass {
    SLUICE_CONV_FORWARD,
    SLUICE_CONV_BACKWARD_DATA,
    SLUICE_CONV_BACKWARD_FILTER,
    SLUICE_NUM_CONV_PASSES
};

struct sluice_conv_problem {
    enum sluice_conv_pass pass;
    enum sluice_cuda_type type;
    /* The type of the filter's gradient: BACKWARD_FILTER alone. */
    enum sluice_cuda_type filter_type;
    /* Float32 factors may be rounded to tf32. */
    bool is_tf32;
    /* FORWARD alone. */
    bool has_bias, has_relu;
    uint32_t n;
    struct sluice_shape in, out;
    uint32_t kernel, stride, pad;
};

/* A line of text that names the problem in an engine cache; `size` bytes at most. */
void sluice_conv_key(const struct sluice_conv_problem *problem, char *key, size_t size);

#define SLUICE_CONV_MAX_ENGINES 24

/* The deterministic engines for the problem, in cuDNN's order of expected time.  Engines that round
 * more than the problem's precision asks are left out. */
SLUICE_MUST_USE sluice_status sluice_conv_list(cudnnHandle_t handle,
                                               const struct sluice_conv_problem *problem,
                                               struct sluice_engine *engines, size_t *count,
                                               struct sluice_err *err);

struct sluice_conv_plan;

/* SLUICE_E_UNSUPPORTED: the engine does not solve the problem. */
SLUICE_MUST_USE sluice_status sluice_conv_plan_create(cudnnHandle_t handle,
                                                      const struct sluice_conv_problem *problem,
                                                      const struct sluice_engine *engine,
                                                      struct sluice_conv_plan **plan,
                                                      struct sluice_err *err);
void sluice_conv_plan_destroy(struct sluice_conv_plan *plan); /* NULL is allowed */
/* Bytes. */
size_t sluice_conv_plan_workspace(const struct sluice_conv_plan *plan);

struct sluice_conv_arrays {
    void *x, *w, *y;
    const void *bias; /* NULL: the problem has none */
    void *workspace;
};

/* Queues the plan on the handle's stream. */
SLUICE_MUST_USE sluice_status sluice_conv_run(cudnnHandle_t handle,
                                              const struct sluice_conv_plan *plan,
                                              const struct sluice_conv_arrays *arrays,
                                              struct sluice_err *err);

#endif
