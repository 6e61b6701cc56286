#ifndef SLUICE_TRAIN_NET_INTERNAL_H
#define SLUICE_TRAIN_NET_INTERNAL_H

#include "train/net.h"

/* The builder of models: a model is a function that appends layers to the end of the net, one call
 * each.  net.c has the models; tests define others.
 *
 * Threads: as net.h. */

struct sluice_net_builder;

struct sluice_net_model {
    const char *name;
    /* `p`: of its dropout layers. */
    void (*build)(struct sluice_net_builder *b, double p);
    /* The model's own p. */
    double dropout;
};

void sluice_net_relu(struct sluice_net_builder *b);
void sluice_net_linear(struct sluice_net_builder *b, const char *name, uint32_t out_c);

/* sluice_net_build() for a model that need not be in its table.  SLUICE_E_INVALID also if the model
 * has more layers or parameters than a net can hold; the error has the numbers. */
SLUICE_MUST_USE sluice_status sluice_net_build_model(const struct sluice_net_model *model,
                                                     uint32_t height, uint32_t width,
                                                     uint32_t num_classes, double dropout,
                                                     struct sluice_net *net,
                                                     struct sluice_err *err);

#endif
