#ifndef SLUICE_TRAIN_CPU_ONEDNN_GEOMETRY_H
#define SLUICE_TRAIN_CPU_ONEDNN_GEOMETRY_H

#include <stdbool.h>

/* Kind and sizes of an operation of onednn_shim.h. */

enum sluice_onednn_kind {
    SLUICE_ONEDNN_CONV,
    SLUICE_ONEDNN_LINEAR,    /* in: c x 1 x 1 */
    SLUICE_ONEDNN_MAXPOOL,   /* ties: the first in row order */
    SLUICE_ONEDNN_BATCHNORM, /* statistics of the batch; biased variance */
    SLUICE_ONEDNN_RELU,
};

struct sluice_onednn_geometry {
    enum sluice_onednn_kind kind;
    unsigned n, c, h, w;          /* input */
    unsigned out_c, out_h, out_w; /* output */
    unsigned kernel, stride, pad; /* CONV, MAXPOOL */
    bool has_bias;                /* CONV, LINEAR */
    bool needs_diff_src;          /* CONV, LINEAR: backward writes diff_src */
    float epsilon;                /* BATCHNORM */
};

#endif
