#ifndef SLUICE_TRAIN_NET_INTERNAL_H
#define SLUICE_TRAIN_NET_INTERNAL_H

#include "train/net.h"

/* The builder of models: a model is a function that appends layers to the end of the net, one call
 * each.  models.c has the models; tests define others.
 *
 * Threads: as net.h. */

struct sluice_net_builder;

struct sluice_net_model {
    const char *name;
    /* `p`: of its dropout layers. */
    void (*build)(struct sluice_net_builder *b, uint32_t num_classes, double p);
    /* The model's own p. */
    double dropout;
};

/* The tensor that the last layer writes; 0 before the first. */
unsigned sluice_net_last(const struct sluice_net_builder *b);
struct sluice_shape sluice_net_shape(const struct sluice_net_builder *b, unsigned tensor);

/* Layers read the last tensor where no input is given.  `name` is that of torchvision's module;
 * `init` is of its weight; the bias is drawn by KAIMING_UNIFORM, too, and 0 with other `init`. */
void sluice_net_conv(struct sluice_net_builder *b, unsigned input, const char *name, uint32_t out_c,
                     uint32_t kernel, uint32_t stride, uint32_t pad, enum sluice_init init,
                     bool has_bias);
void sluice_net_batchnorm(struct sluice_net_builder *b, const char *name);
void sluice_net_relu(struct sluice_net_builder *b);
void sluice_net_maxpool(struct sluice_net_builder *b, uint32_t kernel, uint32_t stride,
                        uint32_t pad);
void sluice_net_avgpool(struct sluice_net_builder *b, uint32_t out_h, uint32_t out_w);
void sluice_net_dropout(struct sluice_net_builder *b, double p);
void sluice_net_linear(struct sluice_net_builder *b, const char *name, uint32_t out_c,
                       enum sluice_init init);
void sluice_net_add(struct sluice_net_builder *b, unsigned input, unsigned input2);

/* sluice_net_build() for a model that need not be in its table. */
SLUICE_MUST_USE sluice_status sluice_net_build_model(const struct sluice_net_model *model,
                                                     uint32_t height, uint32_t width,
                                                     uint32_t num_classes, double dropout,
                                                     struct sluice_net *net,
                                                     struct sluice_err *err);

#endif
