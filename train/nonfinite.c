#include "train/nonfinite.h"

#include <stdio.h>
#include <string.h>

/* Integers, and no early end, so that the compiler uses SIMD: each step passes all gradients. */
bool sluice_all_finite(const float *values, size_t count)
{
    static const uint32_t exponent = 0x7f800000;
    uint32_t is_bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        is_bad |= (bits & exponent) == exponent;
    }
    return !is_bad;
}

/* NULL: the layer has parameters, and their names are its own. */
static const char *kind_name(enum sluice_layer_kind kind)
{
    switch (kind) {
    case SLUICE_LAYER_CONV:
    case SLUICE_LAYER_BATCHNORM:
    case SLUICE_LAYER_LINEAR:
        return NULL;
    case SLUICE_LAYER_RELU:
        return "relu";
    case SLUICE_LAYER_MAXPOOL:
        return "maxpool";
    case SLUICE_LAYER_AVGPOOL:
        return "avgpool";
    case SLUICE_LAYER_DROPOUT:
        return "dropout";
    case SLUICE_LAYER_ADD:
        return "add";
    }
    return NULL;
}

void sluice_nonfinite_in_output(const struct sluice_net *net, unsigned layer,
                                struct sluice_nonfinite *found)
{
    unsigned named = layer;
    while (named > 0 && net->layers[named].weight < 0)
        named--;
    const int weight = net->layers[named].weight;
    const char *name = weight >= 0 ? net->params[weight].name : "the input";
    const int len = (int)(strlen(name) - (weight >= 0 ? strlen(".weight") : 0));
    const char *kind = kind_name(net->layers[layer].kind);
    snprintf(found->where, sizeof(found->where), "the output of %s%s%s%.*s", kind ? "the " : "",
             kind ? kind : "", kind ? " after " : "", len, name);
}

void sluice_nonfinite_in_param(const struct sluice_net *net, unsigned param,
                               struct sluice_nonfinite *found)
{
    snprintf(found->where, sizeof(found->where), "parameter %s", net->params[param].name);
}

void sluice_nonfinite_in_grad(const struct sluice_net *net, unsigned param,
                              struct sluice_nonfinite *found)
{
    snprintf(found->where, sizeof(found->where), "the gradient of %s", net->params[param].name);
}
