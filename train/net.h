#ifndef SLUICE_TRAIN_NET_H
#define SLUICE_TRAIN_NET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Models as data: a list of layers in execution order, each reading one or two earlier tensors
 * and writing one.  Devices walk the list forwards and backwards, and have no code for any model.
 *
 * Tensor 0 is the input (N x 3 x height x width); layer i writes tensor i + 1.  Definitions follow
 * torchvision's, and parameters carry torchvision's state_dict names.
 *
 * Threads: a net is immutable once built. */

#define SLUICE_BATCHNORM_EPSILON 1e-5

enum sluice_layer_kind {
    SLUICE_LAYER_CONV,      /* weight OIHW, optional bias */
    SLUICE_LAYER_BATCHNORM, /* weight, bias; running_mean, running_var; momentum 0.1 */
    SLUICE_LAYER_RELU,
    SLUICE_LAYER_MAXPOOL,
    SLUICE_LAYER_AVGPOOL, /* adaptive average pool to out_h x out_w (torch's bin edges) */
    SLUICE_LAYER_LINEAR,  /* weight out x in, bias; reads its input flattened C x H x W */
    SLUICE_LAYER_DROPOUT, /* p; keeps scaled by 1 / (1 - p); mask from Philox (seed, step, layer) */
    SLUICE_LAYER_ADD,     /* input + input2 */
};

struct sluice_shape {
    uint32_t c, h, w;
};

static inline size_t sluice_shape_elements(struct sluice_shape shape)
{
    return (size_t)shape.c * shape.h * shape.w;
}

struct sluice_layer {
    enum sluice_layer_kind kind;
    /* Tensor indices; input2: ADD only. */
    unsigned input, input2;
    struct sluice_shape in, out;
    /* CONV, MAXPOOL; square. */
    uint32_t kernel, stride, pad;
    /* DROPOUT. */
    double p;
    /* Parameter indices, -1: none; the running ones: BATCHNORM only. */
    int weight, bias, running_mean, running_var;
};

/* A parameter's initial values; draws are Philox4x32-10 keyed by (seed, parameter index). */
enum sluice_init {
    SLUICE_INIT_ZERO,
    SLUICE_INIT_ONE,
    /* torch's default for conv and linear: U(-b, b), b = 1/sqrt(fan_in). */
    SLUICE_INIT_KAIMING_UNIFORM,
    /* The initial weights of resnet's and vgg's convolutions: N(0, 2 / fan_out). */
    SLUICE_INIT_KAIMING_NORMAL_FAN_OUT,
    /* The initial weights of vgg's linear layers: N(0, 0.01^2). */
    SLUICE_INIT_NORMAL_0_01,
};

struct sluice_param {
    /* Such as "layer1.0.conv1.weight". */
    char name[64];
    uint32_t dims[4];
    unsigned num_dims;
    size_t count;
    enum sluice_init init;
    /* fan_in, or fan_out for KAIMING_NORMAL_FAN_OUT. */
    uint32_t fan;
    /* False: running statistics. */
    bool is_trained;
};

struct sluice_net {
    const char *model;      /* a constant */
    uint32_t height, width; /* of the images */
    uint32_t num_classes;
    struct sluice_layer *layers; /* owned */
    unsigned num_layers;
    struct sluice_param *params; /* owned; in the order of torchvision's state_dict */
    unsigned num_params;
};

/* model: one of model_names.h.  All are torchvision's, with its initial values, but for "small_cnn":
 * four conv-batchnorm-relu stages, global average pool, dropout of 0, linear.  dropout < 0: the
 * model's own.  The net is a new one, which sluice_net_clear() frees.  SLUICE_E_INVALID: no such
 * model, images too small for it (says the smallest side), or an option out of range. */
SLUICE_MUST_USE sluice_status sluice_net_build(const char *model, uint32_t height, uint32_t width,
                                               uint32_t num_classes, double dropout,
                                               struct sluice_net *net, struct sluice_err *err);
void sluice_net_clear(struct sluice_net *net);

/* Writes the parameter's initial values, the same on every machine (the normal ones as far as its
 * log, sin and cos agree to a float's precision).  Element i comes from word i % 4 of Philox with
 * the seed as key (low word first) and the counter (i / 4 low, i / 4 high, param, 0x49000000);
 * word pairs make a pair of normal values (Box and Muller). */
void sluice_net_init_param(const struct sluice_net *net, unsigned param, uint64_t seed, float *out);

/* Dropout's mask for one layer and step: out[i] is 0 or 1 / (1 - p).  Element i is a pure function
 * of (seed, step, layer, i), so CPU and GPU drop the same units: with the seed as Philox's key (low
 * word first) and the counter (i / 4, step low, step high, 0x44000000 | layer), word i % 4 drops it
 * if it is below p * 2^32.  `layer` is the index in net->layers; count <= 2^34. */
void sluice_net_dropout_mask(uint64_t seed, uint64_t step, unsigned layer, double p, float *out,
                             size_t count);

#endif
