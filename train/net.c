#include "train/net_internal.h"

#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Larger than anybody trains with, and small enough that no size here overflows. */
#define MAX_IMAGE_SIDE 8192
#define MAX_CLASSES 1000000

/* Builds with a tensor index as the current end of the net.  Building goes on after a layer that
 * does not fit its input and after the limits, so that no call needs a check; whoever started it
 * looks at the end. */
struct sluice_net_builder {
    struct sluice_net *net;
    struct sluice_shape shapes[SLUICE_NET_MAX_LAYERS + 1];
    bool is_too_small;
    /* Counts of the model, also beyond the limits; `spare` takes entries that do not fit. */
    unsigned num_layers, num_params;
    struct sluice_layer spare;
};

static int add_param(struct sluice_net_builder *b, const char *prefix, const char *suffix,
                     enum sluice_init init, uint32_t fan, bool is_trained, unsigned num_dims,
                     const uint32_t *dims)
{
    if (b->num_params++ >= SLUICE_NET_MAX_PARAMS)
        return -1;
    const int index = (int)b->net->num_params++;
    struct sluice_param *param = &b->net->params[index];
    const int len = snprintf(param->name, sizeof(param->name), "%s.%s", prefix, suffix);
    assert(len > 0 && (size_t)len < sizeof(param->name));
    (void)len;
    param->num_dims = num_dims;
    param->count = 1;
    for (unsigned i = 0; i < num_dims; i++) {
        param->dims[i] = dims[i];
        param->count *= dims[i];
    }
    param->init = init;
    param->fan = fan;
    param->is_trained = is_trained;
    return index;
}

static struct sluice_layer *add_layer(struct sluice_net_builder *b, enum sluice_layer_kind kind,
                                      unsigned input, struct sluice_shape out)
{
    struct sluice_layer *layer =
        b->num_layers++ < SLUICE_NET_MAX_LAYERS ? &b->net->layers[b->net->num_layers++] : &b->spare;
    layer->kind = kind;
    layer->input = input;
    layer->in = b->shapes[input];
    layer->out = out;
    layer->weight = layer->bias = layer->running_mean = layer->running_var = -1;
    b->shapes[b->net->num_layers] = out;
    return layer;
}

/* The tensor that was written last. */
static unsigned last(const struct sluice_net_builder *b)
{
    return b->net->num_layers;
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

static void conv(struct sluice_net_builder *b, unsigned input, const char *name, uint32_t out_c,
                 uint32_t kernel, uint32_t stride, uint32_t pad, enum sluice_init init,
                 bool has_bias)
{
    const struct sluice_shape in = b->shapes[input];
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
        layer->bias =
            add_param(b, name, "bias", SLUICE_INIT_KAIMING_UNIFORM, fan_in, true, 1, &out_c);
}

static void batchnorm(struct sluice_net_builder *b, const char *name)
{
    const unsigned input = last(b);
    const uint32_t c = b->shapes[input].c;
    struct sluice_layer *layer = add_layer(b, SLUICE_LAYER_BATCHNORM, input, b->shapes[input]);
    layer->weight = add_param(b, name, "weight", SLUICE_INIT_ONE, 0, true, 1, &c);
    layer->bias = add_param(b, name, "bias", SLUICE_INIT_ZERO, 0, true, 1, &c);
    layer->running_mean = add_param(b, name, "running_mean", SLUICE_INIT_ZERO, 0, false, 1, &c);
    layer->running_var = add_param(b, name, "running_var", SLUICE_INIT_ONE, 0, false, 1, &c);
}

void sluice_net_relu(struct sluice_net_builder *b)
{
    add_layer(b, SLUICE_LAYER_RELU, last(b), b->shapes[last(b)]);
}

static void maxpool(struct sluice_net_builder *b, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    const struct sluice_shape in = b->shapes[last(b)];
    const struct sluice_shape out = {in.c, window_out(b, in.h, kernel, stride, pad),
                                     window_out(b, in.w, kernel, stride, pad)};
    struct sluice_layer *layer = add_layer(b, SLUICE_LAYER_MAXPOOL, last(b), out);
    layer->kernel = kernel;
    layer->stride = stride;
    layer->pad = pad;
}

static void avgpool(struct sluice_net_builder *b, uint32_t out_h, uint32_t out_w)
{
    const struct sluice_shape out = {b->shapes[last(b)].c, out_h, out_w};
    add_layer(b, SLUICE_LAYER_AVGPOOL, last(b), out);
}

static void dropout(struct sluice_net_builder *b, double p)
{
    add_layer(b, SLUICE_LAYER_DROPOUT, last(b), b->shapes[last(b)])->p = p;
}

void sluice_net_linear(struct sluice_net_builder *b, const char *name, uint32_t out_c)
{
    const struct sluice_shape in = b->shapes[last(b)];
    struct sluice_layer *layer =
        add_layer(b, SLUICE_LAYER_LINEAR, last(b), (struct sluice_shape){out_c, 1, 1});
    const uint32_t fan_in = in.c * in.h * in.w;
    layer->weight = add_param(b, name, "weight", SLUICE_INIT_KAIMING_UNIFORM, fan_in, true, 2,
                              (const uint32_t[]){out_c, fan_in});
    layer->bias = add_param(b, name, "bias", SLUICE_INIT_KAIMING_UNIFORM, fan_in, true, 1, &out_c);
}

/* torchvision.models.alexnet */
static void build_alexnet(struct sluice_net_builder *b, double p)
{
    const enum sluice_init init = SLUICE_INIT_KAIMING_UNIFORM;
    conv(b, last(b), "features.0", 64, 11, 4, 2, init, true);
    sluice_net_relu(b);
    maxpool(b, 3, 2, 0);
    conv(b, last(b), "features.3", 192, 5, 1, 2, init, true);
    sluice_net_relu(b);
    maxpool(b, 3, 2, 0);
    conv(b, last(b), "features.6", 384, 3, 1, 1, init, true);
    sluice_net_relu(b);
    conv(b, last(b), "features.8", 256, 3, 1, 1, init, true);
    sluice_net_relu(b);
    conv(b, last(b), "features.10", 256, 3, 1, 1, init, true);
    sluice_net_relu(b);
    maxpool(b, 3, 2, 0);
    avgpool(b, 6, 6);
    dropout(b, p);
    sluice_net_linear(b, "classifier.1", 4096);
    sluice_net_relu(b);
    dropout(b, p);
    sluice_net_linear(b, "classifier.4", 4096);
    sluice_net_relu(b);
    sluice_net_linear(b, "classifier.6", b->net->num_classes);
}

/*     x --- conv1 bn1 relu conv2 bn2 --- + --- relu
 *      \--- (1x1 conv, bn) --------------/              torchvision's BasicBlock */
static void basic_block(struct sluice_net_builder *b, const char *prefix, uint32_t channels,
                        uint32_t stride)
{
    const enum sluice_init init = SLUICE_INIT_KAIMING_NORMAL_FAN_OUT;
    const unsigned input = last(b);
    const bool is_same_shape = stride == 1 && b->shapes[input].c == channels;
    char name[48];
    snprintf(name, sizeof(name), "%s.conv1", prefix);
    conv(b, input, name, channels, 3, stride, 1, init, false);
    snprintf(name, sizeof(name), "%s.bn1", prefix);
    batchnorm(b, name);
    sluice_net_relu(b);
    snprintf(name, sizeof(name), "%s.conv2", prefix);
    conv(b, last(b), name, channels, 3, 1, 1, init, false);
    snprintf(name, sizeof(name), "%s.bn2", prefix);
    batchnorm(b, name);
    const unsigned main_branch = last(b);
    unsigned shortcut = input;
    if (!is_same_shape) {
        snprintf(name, sizeof(name), "%s.downsample.0", prefix);
        conv(b, input, name, channels, 1, stride, 0, init, false);
        snprintf(name, sizeof(name), "%s.downsample.1", prefix);
        batchnorm(b, name);
        shortcut = last(b);
    }
    add_layer(b, SLUICE_LAYER_ADD, main_branch, b->shapes[main_branch])->input2 = shortcut;
    sluice_net_relu(b);
}

/* torchvision.models.resnet18 */
static void build_resnet18(struct sluice_net_builder *b, double p)
{
    (void)p; /* it has no dropout */
    conv(b, last(b), "conv1", 64, 7, 2, 3, SLUICE_INIT_KAIMING_NORMAL_FAN_OUT, false);
    batchnorm(b, "bn1");
    sluice_net_relu(b);
    maxpool(b, 3, 2, 1);
    for (unsigned stage = 0; stage < 4; stage++) {
        for (unsigned block = 0; block < 2; block++) {
            char prefix[32];
            snprintf(prefix, sizeof(prefix), "layer%u.%u", stage + 1, block);
            basic_block(b, prefix, 64u << stage, stage > 0 && block == 0 ? 2 : 1);
        }
    }
    avgpool(b, 1, 1);
    sluice_net_linear(b, "fc", b->net->num_classes);
}

/* Ours, for demonstrations and tests: 0.39 million parameters in its convolutions;
 * dropout, before the classifier, only if asked for. */
static void build_small_cnn(struct sluice_net_builder *b, double p)
{
    for (unsigned stage = 0; stage < 4; stage++) {
        char name[32];
        snprintf(name, sizeof(name), "features.%u", 3 * stage);
        conv(b, last(b), name, 32u << stage, 3, 2, 1, SLUICE_INIT_KAIMING_NORMAL_FAN_OUT, false);
        snprintf(name, sizeof(name), "features.%u", 3 * stage + 1);
        batchnorm(b, name);
        sluice_net_relu(b);
    }
    avgpool(b, 1, 1);
    dropout(b, p);
    sluice_net_linear(b, "classifier", b->net->num_classes);
}

static const struct sluice_net_model models[] = {
    {"alexnet", build_alexnet, 0.5},
    {"resnet18", build_resnet18, 0},
    {"small_cnn", build_small_cnn, 0},
};

static struct sluice_net_builder try_build(const struct sluice_net_model *model, uint32_t height,
                                           uint32_t width, uint32_t num_classes, double dropout_p,
                                           struct sluice_net *net)
{
    memset(net, 0, sizeof(*net));
    net->model = model->name;
    net->height = height;
    net->width = width;
    net->num_classes = num_classes;
    struct sluice_net_builder b = {.net = net};
    b.shapes[0] = (struct sluice_shape){3, height, width};
    model->build(&b, dropout_p);
    return b;
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
    const double p = dropout_p < 0 ? model->dropout : dropout_p;
    const struct sluice_net_builder b =
        try_build(model, height > 0 ? height : 1, width > 0 ? width : 1, num_classes, p, &built);
    if (b.num_layers > SLUICE_NET_MAX_LAYERS || b.num_params > SLUICE_NET_MAX_PARAMS)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "model: %s has %u layers and %u parameters; at most %d and %d fit",
                           model->name, b.num_layers, b.num_params, SLUICE_NET_MAX_LAYERS,
                           SLUICE_NET_MAX_PARAMS);
    if (height < 1 || width < 1 || b.is_too_small) {
        uint32_t smallest = 1; /* the layers treat both sides alike */
        while (try_build(model, smallest, smallest, num_classes, p, &built).is_too_small)
            smallest++;
        return sluice_fail(err, SLUICE_E_INVALID,
                           "images of %u x %u (height x width): %s needs sides of at least %u",
                           height, width, model->name, smallest);
    }
    *net = built;
    return SLUICE_OK;
}

sluice_status sluice_net_build(const char *model, uint32_t height, uint32_t width,
                               uint32_t num_classes, double dropout_p, struct sluice_net *net,
                               struct sluice_err *err)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(models); i++) {
        if (model && strcmp(model, models[i].name) == 0)
            return sluice_net_build_model(&models[i], height, width, num_classes, dropout_p, net,
                                          err);
    }
    return sluice_fail(err, SLUICE_E_INVALID, "model: alexnet, resnet18 or small_cnn, not \"%s\"",
                       model ? model : "");
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
    const double deviation = sqrt(2.0 / (double)info->fan);
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
