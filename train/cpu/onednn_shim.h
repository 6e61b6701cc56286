#ifndef SLUICE_TRAIN_CPU_ONEDNN_SHIM_H
#define SLUICE_TRAIN_CPU_ONEDNN_SHIM_H

#include "train/cpu/onednn_geometry.h"

#include "base/error.h"

/* The few operations of oneDNN that the CPU trainer needs, over plain float32 arrays, the same for
 * oneDNN 2 and 3.  Images are N x H x W x C, convolution weights O x I x H x W, matrices row by
 * row.  An operation is made for one geometry and run any number of times.
 *
 * Only onednn_describe.h includes oneDNN's header.
 *
 * Threads: a context and what is made from it belong to one thread at a time. */

struct sluice_onednn; /* engine, stream, scratch memory */

/* num_threads: the number of threads of oneDNN's pool; results depend on it in the last bits.  A
 * oneDNN that was not built with OpenMP uses its default number, and a warning says so. */
SLUICE_MUST_USE sluice_status sluice_onednn_create(unsigned num_threads,
                                                   struct sluice_onednn **onednn,
                                                   struct sluice_err *err);
void sluice_onednn_destroy(struct sluice_onednn *onednn); /* after its operations; NULL is fine */

/* Call it before any of the calls below if the calling thread may have changed. */
void sluice_onednn_enter(struct sluice_onednn *onednn);

/* One layer's arrays; a kind reads and writes those that it has. */
struct sluice_onednn_arrays {
    /* RELU: may be one array. */
    float *src, *dst;
    /* BATCHNORM: scale and shift. */
    const float *weight, *bias;
    /* BATCHNORM: forward writes, backward reads. */
    float *mean, *variance;
    /* RELU, BATCHNORM: may be one array. */
    float *diff_src, *diff_dst;
    float *diff_weight, *diff_bias;
};

struct sluice_onednn_layer;

SLUICE_MUST_USE sluice_status sluice_onednn_layer_create(
    struct sluice_onednn *onednn, const struct sluice_onednn_geometry *geometry,
    struct sluice_onednn_layer **layer, struct sluice_err *err);
void sluice_onednn_layer_destroy(struct sluice_onednn_layer *layer); /* NULL is fine */

SLUICE_MUST_USE sluice_status sluice_onednn_forward(struct sluice_onednn_layer *layer,
                                                    const struct sluice_onednn_arrays *arrays,
                                                    struct sluice_err *err);

/* Overwrites diff_src (where needed), diff_weight and diff_bias.  MAXPOOL and BATCHNORM: after the
 * forward run of the same layer object. */
SLUICE_MUST_USE sluice_status sluice_onednn_backward(struct sluice_onednn_layer *layer,
                                                     const struct sluice_onednn_arrays *arrays,
                                                     struct sluice_err *err);

#endif
