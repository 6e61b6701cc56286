#ifndef SLUICE_TRAIN_CPU_ONEDNN_DESCRIBE_H
#define SLUICE_TRAIN_CPU_ONEDNN_DESCRIBE_H

#include "train/cpu/onednn_geometry.h"

#include "base/error.h"

#include <oneapi/dnnl/dnnl.h>

/* Private to onednn_shim.c: layers as oneDNN describes them, by one set of functions for its
 * versions 2 and 3.
 *
 * Memory descriptors: version 2 has structs that are passed by pointer, version 3 has handles.
 * Operation descriptors exist in version 2 only. */

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t sluice_onednn_desc_ref;
#define SLUICE_ONEDNN_DESC(desc) (desc)
#define SLUICE_ONEDNN_NORM_BACKWARD_ARGS 8
#else
typedef const dnnl_memory_desc_t *sluice_onednn_desc_ref;
#define SLUICE_ONEDNN_DESC(desc) (&(desc))
#define SLUICE_ONEDNN_NORM_BACKWARD_ARGS                                                           \
    9 /* the shift too: version 2 demands it, version 3 refuses it */
#endif

/* The descriptors of one layer's arrays, from which its primitives are described. */
struct sluice_onednn_descs {
    dnnl_memory_desc_t src, dst, weight, bias;
    dnnl_memory_desc_t
        plain_weight; /* CONV, LINEAR: the form in which the caller has the weights */
    sluice_onednn_desc_ref bias_or_null;
    dnnl_dims_t strides, kernel, pad, dilation;
};

enum sluice_onednn_direction {
    SLUICE_ONEDNN_FORWARD,
    SLUICE_ONEDNN_BACKWARD_DATA, /* MAXPOOL, BATCHNORM, RELU: all of backward */
    SLUICE_ONEDNN_BACKWARD_WEIGHTS,
};

/* The error of a call, with `what` it was for. */
SLUICE_MUST_USE sluice_status sluice_onednn_check(dnnl_status_t status, const char *what,
                                                  struct sluice_err *err);

static inline bool sluice_onednn_has_weights(const struct sluice_onednn_geometry *g)
{
    return g->kind == SLUICE_ONEDNN_CONV || g->kind == SLUICE_ONEDNN_LINEAR;
}

/* Fills in *descs, which is zeroed; clear it also after a failure. */
SLUICE_MUST_USE sluice_status sluice_onednn_descs_init(const struct sluice_onednn_geometry *g,
                                                       struct sluice_onednn_descs *descs,
                                                       struct sluice_err *err);
void sluice_onednn_descs_clear(struct sluice_onednn_descs *descs);

/* Describes the primitive of one direction; forward: its forward primitive, NULL for itself. */
SLUICE_MUST_USE dnnl_status_t sluice_onednn_describe(
    const struct sluice_onednn_geometry *g, const struct sluice_onednn_descs *descs,
    enum sluice_onednn_direction direction, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
    const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *desc);

#endif
