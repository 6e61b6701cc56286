#include "train/net_internal.h"

#include "base/array.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger than anybody trains with, and small enough that no size here overflows. */
#define MAX_IMAGE_SIDE 8192
#define MAX_CLASSES 1000000

/* A call that meets an input too small for its layer, or no memory, makes a note and goes on, so that
 * models need no checks; try_build() looks at the end.  `spare_layer` and `spare_param` take what
 * memory is lacking for. */
struct sluice_net_builder {
    struct sluice_net *net;
    size_t max_layers, max_params;
    bool is_too_small, lacks_memory;
    struct sluice_layer spare_layer;
    struct sluice_param spare_param;
};

unsigned sluice_net_last(const struct sluice_net_builder *b)
{
    return b->net->num_layers;
}

struct sluice_shape sluice_net_shape(const struct sluice_net_builder *b, unsigned tensor)
{
    return tensor ? b->net->layers[tensor - 1].out
                  : (struct sluice_shape){3, b->net->height, b->net->width};
}

static int add_param(struct sluice_net_builder *b, const char *prefix, const char *suffix,
                     enum sluice_init init, uint32_t fan, bool is_trained, unsigned num_dims,
                     const uint32_t *dims)
{
    struct sluice_net *net = b->net;
    int index = -1;
    struct sluice_param *param = &b->spare_param;
    if (sluice_array_reserve(&net->params, &b->max_params, (size_t)net->num_params + 1,
                             sizeof(*net->params))) {
        index = (int)net->num_params++;
        param = &net->params[index];
    } else {
        b->lacks_memory = true;
    }
    *param = (struct sluice_param){
        .num_dims = num_dims, .count = 1, .init = init, .fan = fan, .is_trained = is_trained};
    const int len = snprintf(param->name, sizeof(param->name), "%s.%s", prefix, suffix);
    assert(len > 0 && (size_t)len < sizeof(param->name));
    (void)len;
    for (unsigned i = 0; i < num_dims; i++) {
        param->dims[i] = dims[i];
        param->count *= dims[i];
    }
    return index;
}

static struct sluice_layer *add_layer(struct sluice_net_builder *b, enum sluice_layer_kind kind,
                                      unsigned input, struct sluice_shape out)
{
    struct sluice_net *net = b->net;
    const struct sluice_shape in = sluice_net_shape(b, input);
    struct sluice_layer *layer = &b->spare_layer;
    if (sluice_array_reserve(&net->layers, &b->max_layers, (size_t)net->num_layers + 1,
                             sizeof(*net->layers)))
        layer = &net->layers[net->num_layers++];
    else
        b->lacks_memory = true;
    *layer = (struct sluice_layer){.kind = kind,
                                   .input = input,
                                   .in = in,
                                   .out = out,
                                   .weight = -1,
                                   .bias = -1,
                                   .running_mean = -1,
                                   .running_var = -1};
    return layer;
}

/* One side of a convolution's or a pooling's output, rounded down as torch does. */
static uint32_t window_out(struct sluice_net_builder *b, uint32_t in, uint32_t kernel,
                           uint32_t stride, uint32_t pad)
{
    if (in + 2 * pad < kernel) {
        b->is_too_small = true;
        return 1;
    }
    return (in + 2 * pad - kernel) / stride + 1;
}

/* Where torchvision draws the weights itself, it sets the biases to 0; elsewhere both are torch's. */
static enum sluice_init bias_init(enum sluice_init weight)
{
    return weight == SLUICE_INIT_KAIMING_UNIFORM ? weight : SLUICE_INIT_ZERO;
}

void sluice_net_conv(struct sluice_net_builder *b, unsigned input, const char *name, uint32_t out_c,
                     uint32_t kernel, uint32_t stride, uint32_t pad, enum sluice_init init,
                     bool has_bias)
{
    const struct sluice_shape in = sluice_net_shape(b, input);
    const struct sluice_shape out = {out_c, window_out(b, in.h, kernel, stride, pad),
                                     window_out(b, in.w, kernel, stride, pad)};
    struct sluice_layer *layer = add_layer(b, SLUICE_LAYER_CONV, input, out);
    layer->kernel = kernel;
    layer->stride = stride;
    layer->pad = pad;
    const uint32_t fan_in = in.c * kernel * kernel;
    const uint32_t fan_out = out_c * kernel * kernel;
    layer->weight = add_param(b, name, "weight", init,
                              init == SLUICE_INIT_KAIMING_NORMAL_FAN_OUT ? fan_out : fan_in, true,
                              4, (const uint32_t[]){out_c, in.c, kernel, kernel});
    if (has_bias)
        layer->bias = add_param(b, name, "bias", bias_init(init), fan_in, true, 1, &out_c);
}

void sluice_net_batchnorm(struct sluice_net_builder *b, const char *name)
{
    const unsigned input = sluice_net_last(b);
    const struct sluice_shape shape = sluice_net_shape(b, input);
    struct sluice_layer *layer = add_layer(b, SLUICE_LAYER_BATCHNORM, input, shape);
    layer->weight = add_param(b, name, "weight", SLUICE_INIT_ONE, 0, true, 1, &shape.c);
    layer->bias = add_param(b, name, "bias", SLUICE_INIT_ZERO, 0, true, 1, &shape.c);
    layer->running_mean =
        add_param(b, name, "running_mean", SLUICE_INIT_ZERO, 0, false, 1, &shape.c);
    layer->running_var = add_param(b, name, "running_var", SLUICE_INIT_ONE, 0, false, 1, &shape.c);
}

void sluice_net_relu(struct sluice_net_builder *b)
{
    const unsigned input = sluice_net_last(b);
    add_layer(b, SLUICE_LAYER_RELU, input, sluice_net_shape(b, input));
}

void sluice_net_maxpool(struct sluice_net_builder *b, uint32_t kernel, uint32_t stride,
                        uint32_t pad)
{
    const unsigned input = sluice_net_last(b);
    const struct sluice_shape in = sluice_net_shape(b, input);
    const struct sluice_shape out = {in.c, window_out(b, in.h, kernel, stride, pad),
                                     window_out(b, in.w, kernel, stride, pad)};
    struct sluice_layer *layer = add_layer(b, SLUICE_LAYER_MAXPOOL, input, out);
    layer->kernel = kernel;
    layer->stride = stride;
    layer->pad = pad;
}

void sluice_net_avgpool(struct sluice_net_builder *b, uint32_t out_h, uint32_t out_w)
{
    const unsigned input = sluice_net_last(b);
    const struct sluice_shape out = {sluice_net_shape(b, input).c, out_h, out_w};
    add_layer(b, SLUICE_LAYER_AVGPOOL, input, out);
}

void sluice_net_dropout(struct sluice_net_builder *b, double p)
{
    const unsigned input = sluice_net_last(b);
    add_layer(b, SLUICE_LAYER_DROPOUT, input, sluice_net_shape(b, input))->p = p;
}

void sluice_net_linear(struct sluice_net_builder *b, const char *name, uint32_t out_c,
                       enum sluice_init init)
{
    const unsigned input = sluice_net_last(b);
    const uint32_t fan_in = (uint32_t)sluice_shape_elements(sluice_net_shape(b, input));
    struct sluice_layer *layer =
        add_layer(b, SLUICE_LAYER_LINEAR, input, (struct sluice_shape){out_c, 1, 1});
    layer->weight =
        add_param(b, name, "weight", init, fan_in, true, 2, (const uint32_t[]){out_c, fan_in});
    layer->bias = add_param(b, name, "bias", bias_init(init), fan_in, true, 1, &out_c);
}

void sluice_net_add(struct sluice_net_builder *b, unsigned input, unsigned input2)
{
    add_layer(b, SLUICE_LAYER_ADD, input, sluice_net_shape(b, input))->input2 = input2;
}

void sluice_net_clear(struct sluice_net *net)
{
    free(net->layers);
    free(net->params);
    memset(net, 0, sizeof(*net));
}

enum outcome { BUILT, TOO_SMALL, LACKS_MEMORY };

/* The net is a new one also where it is of no use. */
static enum outcome try_build(const struct sluice_net_model *model, uint32_t height, uint32_t width,
                              uint32_t num_classes, double p, struct sluice_net *net)
{
    *net = (struct sluice_net){
        .model = model->name, .height = height, .width = width, .num_classes = num_classes};
    struct sluice_net_builder b = {.net = net};
    model->build(&b, num_classes, p);
    return b.lacks_memory ? LACKS_MEMORY : b.is_too_small ? TOO_SMALL : BUILT;
}

/* The smallest side of a square image that the model takes; its layers treat both sides alike. */
static enum outcome find_smallest(const struct sluice_net_model *model, uint32_t *side)
{
    enum outcome outcome = TOO_SMALL;
    for (*side = 0; outcome == TOO_SMALL;) {
        struct sluice_net net;
        ++*side;
        outcome = try_build(model, *side, *side, 1, 0, &net);
        sluice_net_clear(&net);
    }
    return outcome;
}

sluice_status sluice_net_build_model(const struct sluice_net_model *model, uint32_t height,
                                     uint32_t width, uint32_t num_classes, double dropout_p,
                                     struct sluice_net *net, struct sluice_err *err)
{
    if (num_classes < 1 || num_classes > MAX_CLASSES)
        return sluice_fail(err, SLUICE_E_INVALID, "num_classes: 1 to %d, not %u", MAX_CLASSES,
                           num_classes);
    if (height > MAX_IMAGE_SIDE || width > MAX_IMAGE_SIDE)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "images of %u x %u (height x width): sides of at most %d", height, width,
                           MAX_IMAGE_SIDE);
    if (!(dropout_p < 1))
        return sluice_fail(err, SLUICE_E_INVALID, "dropout: below 1, not %g", dropout_p);

    struct sluice_net built;
    enum outcome outcome = try_build(model, height, width, num_classes,
                                     dropout_p < 0 ? model->dropout : dropout_p, &built);
    if (outcome == BUILT && height > 0 && width > 0) {
        *net = built;
        return SLUICE_OK;
    }
    sluice_net_clear(&built);
    uint32_t smallest = 1;
    if (outcome != LACKS_MEMORY)
        outcome = find_smallest(model, &smallest);
    if (outcome == LACKS_MEMORY)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the model's layers");
    return sluice_fail(err, SLUICE_E_INVALID,
                       "images of %u x %u (height x width): %s needs sides of at least %u", height,
                       width, model->name, smallest);
}

/* Last counter words of the two uses of Philox.  The loader's draws (base/rng.h) have a small op
 * index there, so no draw is used twice. */
#define COUNTER_INIT 0x49000000u
#define COUNTER_DROPOUT 0x44000000u

static void init_draws(uint64_t seed, unsigned param, uint64_t block, uint32_t words[4])
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), param, COUNTER_INIT};
    sluice_philox4x32_10(key, counter, words);
}

/* Uniform in (0, 1), never 0: its logarithm is taken. */
static double unit(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

static void fill(float *out, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}

void sluice_net_init_param(const struct sluice_net *net, unsigned param, uint64_t seed, float *out)
{
    const struct sluice_param *info = &net->params[param];
    if (info->init == SLUICE_INIT_ZERO || info->init == SLUICE_INIT_ONE) {
        fill(out, info->count, info->init == SLUICE_INIT_ONE ? 1.0f : 0.0f);
        return;
    }

    const double bound = 1.0 / sqrt((double)info->fan);
    const double deviation =
        info->init == SLUICE_INIT_NORMAL_0_01 ? 0.01 : sqrt(2.0 / (double)info->fan);
    for (size_t i = 0; i < info->count; i += 4) {
        uint32_t words[4];
        float values[4];
        init_draws(seed, param, i / 4, words);
        if (info->init == SLUICE_INIT_KAIMING_UNIFORM) {
            for (int k = 0; k < 4; k++)
                values[k] = (float)((2 * unit(words[k]) - 1) * bound);
        } else {
            for (int k = 0; k < 4; k += 2) { /* Box and Muller, 1958 */
                const double radius = deviation * sqrt(-2 * log(unit(words[k])));
                const double angle = 2 * 3.14159265358979323846 * unit(words[k + 1]);
                values[k] = (float)(radius * cos(angle));
                values[k + 1] = (float)(radius * sin(angle));
            }
        }
        const size_t left = info->count - i;
        memcpy(out + i, values, (left < 4 ? left : 4) * sizeof(float));
    }
}

void sluice_net_dropout_mask(uint64_t seed, uint64_t step, unsigned layer, double p, float *out,
                             size_t count)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t drop_below = (uint32_t)(p * 0x1p32);
    const float kept = (float)(1 / (1 - p));
    for (size_t i = 0; i < count; i += 4) {
        const uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)step, (uint32_t)(step >> 32),
                                     COUNTER_DROPOUT | layer};
        uint32_t words[4];
        sluice_philox4x32_10(key, counter, words);
        for (size_t k = 0; k < 4 && i + k < count; k++)
            out[i + k] = words[k] < drop_below ? 0.0f : kept;
    }
}
