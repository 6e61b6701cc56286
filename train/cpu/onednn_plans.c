#include "train/cpu/onednn_plans.h"

#include "train/cpu/plain.h"

#include <stdlib.h>

static void plan_destroy(struct sluice_onednn_plan *plan)
{
    if (!plan)
        return;
    for (unsigned i = 0; i < plan->num_layers; i++)
        sluice_onednn_layer_destroy(plan->layers[i]);
    free(plan);
}

void sluice_onednn_plans_clear(struct sluice_onednn_plans *plans)
{
    for (int i = 0; i < SLUICE_ONEDNN_MAX_PLANS; i++) {
        plan_destroy(plans->plans[i]);
        plans->plans[i] = NULL;
    }
}

static sluice_status plan_layer(struct sluice_onednn *onednn, const struct sluice_layer *layer,
                                unsigned n, struct sluice_onednn_layer **out,
                                struct sluice_err *err)
{
    struct sluice_onednn_geometry geometry = {
        .n = n,
        .c = layer->in.c,
        .h = layer->in.h,
        .w = layer->in.w,
        .out_c = layer->out.c,
        .out_h = layer->out.h,
        .out_w = layer->out.w,
        .kernel = layer->kernel,
        .stride = layer->stride,
        .pad = layer->pad,
        .has_bias = layer->bias >= 0,
        .needs_diff_src = layer->input > 0,
        .epsilon = SLUICE_PLAIN_EPSILON,
    };
    switch (layer->kind) {
    case SLUICE_LAYER_CONV:
        geometry.kind = SLUICE_ONEDNN_CONV;
        break;
    case SLUICE_LAYER_LINEAR:
        geometry.kind = SLUICE_ONEDNN_LINEAR;
        geometry.c = (unsigned)sluice_shape_elements(layer->in);
        geometry.h = geometry.w = 1;
        break;
    case SLUICE_LAYER_MAXPOOL:
        geometry.kind = SLUICE_ONEDNN_MAXPOOL;
        break;
    case SLUICE_LAYER_BATCHNORM:
        geometry.kind = SLUICE_ONEDNN_BATCHNORM;
        break;
    case SLUICE_LAYER_RELU:
        geometry.kind = SLUICE_ONEDNN_RELU;
        break;
    case SLUICE_LAYER_AVGPOOL:
    case SLUICE_LAYER_DROPOUT:
    case SLUICE_LAYER_ADD:
        return SLUICE_OK;
    }
    return sluice_onednn_layer_create(onednn, &geometry, out, err);
}

static sluice_status plan_create(struct sluice_onednn *onednn, const struct sluice_net *net,
                                 unsigned n, struct sluice_onednn_plan **out,
                                 struct sluice_err *err)
{
    struct sluice_onednn_plan *plan =
        calloc(1, sizeof(*plan) + net->num_layers * sizeof(struct sluice_onednn_layer *));
    if (!plan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch of %u", n);
    plan->n = n;
    plan->num_layers = net->num_layers;
    for (unsigned i = 0; i < net->num_layers; i++) {
        const sluice_status status = plan_layer(onednn, &net->layers[i], n, &plan->layers[i], err);
        if (status) {
            plan_destroy(plan);
            return status;
        }
    }
    *out = plan;
    return SLUICE_OK;
}

sluice_status sluice_onednn_plans_get(struct sluice_onednn_plans *plans,
                                      struct sluice_onednn *onednn, const struct sluice_net *net,
                                      unsigned n, struct sluice_onednn_plan **plan,
                                      struct sluice_err *err)
{
    struct sluice_onednn_plan **slot = NULL; /* that of n; else an empty one, or the oldest */
    for (int i = 0; i < SLUICE_ONEDNN_MAX_PLANS && !(slot && *slot && (*slot)->n == n); i++) {
        struct sluice_onednn_plan **at = &plans->plans[i];
        const bool is_older = slot && *slot && (!*at || (*at)->last_use < (*slot)->last_use);
        if (!slot || is_older || (*at && (*at)->n == n))
            slot = at;
    }
    if (!*slot || (*slot)->n != n) {
        struct sluice_onednn_plan *made = NULL;
        const sluice_status status = plan_create(onednn, net, n, &made, err);
        if (status)
            return status;
        plan_destroy(*slot);
        *slot = made;
    }
    (*slot)->last_use = ++plans->uses;
    *plan = *slot;
    return SLUICE_OK;
}
