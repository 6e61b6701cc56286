#include "train/cpu/onednn_describe.h"

sluice_status sluice_onednn_check(dnnl_status_t status, const char *what, struct sluice_err *err)
{
    if (status == dnnl_success)
        return SLUICE_OK;
    if (status == dnnl_out_of_memory)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "oneDNN has no memory for %s", what);
    return sluice_fail(err, SLUICE_E_INTERNAL, "oneDNN: %s: status %d", what, (int)status);
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t desc_init(dnnl_memory_desc_t *desc, int num_dims, const dnnl_dims_t dims,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(desc, num_dims, dims, dnnl_f32, tag);
}

static void desc_clear(dnnl_memory_desc_t *desc)
{
    dnnl_memory_desc_destroy(*desc);
}

#else

static dnnl_status_t desc_init(dnnl_memory_desc_t *desc, int num_dims, const dnnl_dims_t dims,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(desc, num_dims, dims, dnnl_f32, tag);
}

static void desc_clear(dnnl_memory_desc_t *desc)
{
    (void)desc;
}

#endif

sluice_status sluice_onednn_descs_init(const struct sluice_onednn_geometry *g,
                                       struct sluice_onednn_descs *d, struct sluice_err *err)
{
    const bool is_linear = g->kind == SLUICE_ONEDNN_LINEAR;
    const dnnl_dims_t src = {g->n, g->c, g->h, g->w};
    const dnnl_dims_t dst = {g->n, g->out_c, g->out_h, g->out_w};
    const dnnl_dims_t flat = {(dnnl_dim_t)g->n * g->c * g->h * g->w};
    const dnnl_dims_t weight = {g->out_c, g->c, g->kernel, g->kernel};
    const dnnl_dims_t bias = {g->out_c};
    for (int i = 0; i < 2; i++) {
        d->strides[i] = g->stride;
        d->kernel[i] = g->kernel;
        d->pad[i] = g->pad;
    }

    dnnl_status_t status;
    if (g->kind == SLUICE_ONEDNN_RELU) {
        status = desc_init(&d->src, 1, flat, dnnl_a);
        if (status == dnnl_success)
            status = desc_init(&d->dst, 1, flat, dnnl_a);
    } else {
        status = desc_init(&d->src, is_linear ? 2 : 4, src, is_linear ? dnnl_ab : dnnl_acdb);
        if (status == dnnl_success)
            status = desc_init(&d->dst, is_linear ? 2 : 4, dst, is_linear ? dnnl_ab : dnnl_acdb);
    }
    if (status == dnnl_success && sluice_onednn_has_weights(g)) {
        /* A matrix stays as it is: it can be so large that a second form costs more. */
        status = desc_init(&d->weight, is_linear ? 2 : 4, weight,
                           is_linear ? dnnl_ab : dnnl_format_tag_any);
        if (status == dnnl_success)
            status = desc_init(&d->plain_weight, is_linear ? 2 : 4, weight,
                               is_linear ? dnnl_ab : dnnl_abcd);
    }
    if (status == dnnl_success && g->has_bias) {
        status = desc_init(&d->bias, 1, bias, dnnl_a);
        d->bias_or_null = SLUICE_ONEDNN_DESC(d->bias);
    }
    return sluice_onednn_check(status, "shapes", err);
}

void sluice_onednn_descs_clear(struct sluice_onednn_descs *d)
{
    desc_clear(&d->src);
    desc_clear(&d->dst);
    desc_clear(&d->weight);
    desc_clear(&d->bias);
    desc_clear(&d->plain_weight);
}

/* A convolution's algorithm is named because another choice (Winograd) rounds more coarsely. */
enum {
    DIRECT = dnnl_convolution_direct,
    RELU = dnnl_eltwise_relu_use_dst_for_bwd,
    NORM_FLAGS = dnnl_use_scale | dnnl_use_shift
};

#if DNNL_VERSION_MAJOR >= 3
dnnl_status_t sluice_onednn_describe(const struct sluice_onednn_geometry *g,
                                     const struct sluice_onednn_descs *d,
                                     enum sluice_onednn_direction direction, dnnl_engine_t engine,
                                     const_dnnl_primitive_attr_t attr,
                                     const_dnnl_primitive_desc_t forward,
                                     dnnl_primitive_desc_t *desc)
{
    switch (g->kind) {
    case SLUICE_ONEDNN_CONV:
        if (direction == SLUICE_ONEDNN_FORWARD)
            return dnnl_convolution_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, DIRECT, d->src, d->weight, d->bias_or_null,
                d->dst, d->strides, d->dilation, d->pad, d->pad, attr);
        if (direction == SLUICE_ONEDNN_BACKWARD_DATA)
            return dnnl_convolution_backward_data_primitive_desc_create(
                desc, engine, DIRECT, d->src, d->weight, d->dst, d->strides, d->dilation, d->pad,
                d->pad, forward, attr);
        return dnnl_convolution_backward_weights_primitive_desc_create(
            desc, engine, DIRECT, d->src, d->weight, d->bias_or_null, d->dst, d->strides,
            d->dilation, d->pad, d->pad, forward, attr);
    case SLUICE_ONEDNN_LINEAR:
        if (direction == SLUICE_ONEDNN_FORWARD)
            return dnnl_inner_product_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, d->src, d->weight, d->bias_or_null, d->dst,
                attr);
        if (direction == SLUICE_ONEDNN_BACKWARD_DATA)
            return dnnl_inner_product_backward_data_primitive_desc_create(
                desc, engine, d->src, d->weight, d->dst, forward, attr);
        return dnnl_inner_product_backward_weights_primitive_desc_create(
            desc, engine, d->src, d->weight, d->bias_or_null, d->dst, forward, attr);
    case SLUICE_ONEDNN_MAXPOOL:
        if (direction == SLUICE_ONEDNN_FORWARD)
            return dnnl_pooling_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, dnnl_pooling_max, d->src, d->dst, d->strides,
                d->kernel, d->dilation, d->pad, d->pad, attr);
        return dnnl_pooling_backward_primitive_desc_create(
            desc, engine, dnnl_pooling_max, d->src, d->dst, d->strides, d->kernel, d->dilation,
            d->pad, d->pad, forward, attr);
    case SLUICE_ONEDNN_BATCHNORM:
        if (direction == SLUICE_ONEDNN_FORWARD)
            return dnnl_batch_normalization_forward_primitive_desc_create(
                desc, engine, dnnl_forward_training, d->src, d->dst, g->epsilon, NORM_FLAGS, attr);
        return dnnl_batch_normalization_backward_primitive_desc_create(
            desc, engine, dnnl_backward, d->src, d->dst, d->src, g->epsilon, NORM_FLAGS, forward,
            attr);
    case SLUICE_ONEDNN_RELU:
        if (direction == SLUICE_ONEDNN_FORWARD)
            return dnnl_eltwise_forward_primitive_desc_create(desc, engine, dnnl_forward_training,
                                                              RELU, d->src, d->dst, 0, 0, attr);
        return dnnl_eltwise_backward_primitive_desc_create(desc, engine, RELU, d->src, d->dst,
                                                           d->dst, 0, 0, forward, attr);
    }
    return dnnl_invalid_arguments;
}
#else
dnnl_status_t sluice_onednn_describe(const struct sluice_onednn_geometry *g,
                                     const struct sluice_onednn_descs *d,
                                     enum sluice_onednn_direction direction, dnnl_engine_t engine,
                                     const_dnnl_primitive_attr_t attr,
                                     const_dnnl_primitive_desc_t forward,
                                     dnnl_primitive_desc_t *desc)
{
    union {
        dnnl_convolution_desc_t conv;
        dnnl_inner_product_desc_t linear;
        dnnl_pooling_desc_t pool;
        dnnl_batch_normalization_desc_t norm;
        dnnl_eltwise_desc_t relu;
    } op;
    dnnl_status_t status = dnnl_invalid_arguments;
    switch (g->kind) {
    case SLUICE_ONEDNN_CONV:
        if (direction == SLUICE_ONEDNN_FORWARD)
            status = dnnl_convolution_forward_desc_init(&op.conv, dnnl_forward_training, DIRECT,
                                                        &d->src, &d->weight, d->bias_or_null,
                                                        &d->dst, d->strides, d->pad, d->pad);
        else if (direction == SLUICE_ONEDNN_BACKWARD_DATA)
            status = dnnl_convolution_backward_data_desc_init(&op.conv, DIRECT, &d->src, &d->weight,
                                                              &d->dst, d->strides, d->pad, d->pad);
        else
            status = dnnl_convolution_backward_weights_desc_init(
                &op.conv, DIRECT, &d->src, &d->weight, d->bias_or_null, &d->dst, d->strides, d->pad,
                d->pad);
        break;
    case SLUICE_ONEDNN_LINEAR:
        if (direction == SLUICE_ONEDNN_FORWARD)
            status = dnnl_inner_product_forward_desc_init(
                &op.linear, dnnl_forward_training, &d->src, &d->weight, d->bias_or_null, &d->dst);
        else if (direction == SLUICE_ONEDNN_BACKWARD_DATA)
            status = dnnl_inner_product_backward_data_desc_init(&op.linear, &d->src, &d->weight,
                                                                &d->dst);
        else
            status = dnnl_inner_product_backward_weights_desc_init(&op.linear, &d->src, &d->weight,
                                                                   d->bias_or_null, &d->dst);
        break;
    case SLUICE_ONEDNN_MAXPOOL:
        if (direction == SLUICE_ONEDNN_FORWARD)
            status = dnnl_pooling_forward_desc_init(&op.pool, dnnl_forward_training,
                                                    dnnl_pooling_max, &d->src, &d->dst, d->strides,
                                                    d->kernel, d->pad, d->pad);
        else
            status = dnnl_pooling_backward_desc_init(&op.pool, dnnl_pooling_max, &d->src, &d->dst,
                                                     d->strides, d->kernel, d->pad, d->pad);
        break;
    case SLUICE_ONEDNN_BATCHNORM:
        if (direction == SLUICE_ONEDNN_FORWARD)
            status = dnnl_batch_normalization_forward_desc_init(&op.norm, dnnl_forward_training,
                                                                &d->src, g->epsilon, NORM_FLAGS);
        else
            status = dnnl_batch_normalization_backward_desc_init(&op.norm, dnnl_backward, &d->src,
                                                                 &d->src, g->epsilon, NORM_FLAGS);
        break;
    case SLUICE_ONEDNN_RELU:
        if (direction == SLUICE_ONEDNN_FORWARD)
            status = dnnl_eltwise_forward_desc_init(&op.relu, dnnl_forward_training, RELU, &d->src,
                                                    0, 0);
        else
            status = dnnl_eltwise_backward_desc_init(&op.relu, RELU, &d->src, &d->src, 0, 0);
        break;
    }
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(desc, &op, attr, engine, forward);
}
#endif
