#include "train/net_internal.h"

#include "base/array.h"

#include <stdio.h>
#include <string.h>

/* The models, as torchvision's models/alexnet.py, vgg.py and resnet.py define them. */

static void conv_relu(struct sluice_net_builder *b, const char *name, uint32_t out_c,
                      uint32_t kernel, uint32_t stride, uint32_t pad, enum sluice_init init)
{
    sluice_net_conv(b, sluice_net_last(b), name, out_c, kernel, stride, pad, init, true);
    sluice_net_relu(b);
}

static void build_alexnet(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    const enum sluice_init init = SLUICE_INIT_KAIMING_UNIFORM;
    conv_relu(b, "features.0", 64, 11, 4, 2, init);
    sluice_net_maxpool(b, 3, 2, 0);
    conv_relu(b, "features.3", 192, 5, 1, 2, init);
    sluice_net_maxpool(b, 3, 2, 0);
    conv_relu(b, "features.6", 384, 3, 1, 1, init);
    conv_relu(b, "features.8", 256, 3, 1, 1, init);
    conv_relu(b, "features.10", 256, 3, 1, 1, init);
    sluice_net_maxpool(b, 3, 2, 0);
    sluice_net_avgpool(b, 6, 6);
    sluice_net_dropout(b, p);
    sluice_net_linear(b, "classifier.1", 4096, init);
    sluice_net_relu(b);
    sluice_net_dropout(b, p);
    sluice_net_linear(b, "classifier.4", 4096, init);
    sluice_net_relu(b);
    sluice_net_linear(b, "classifier.6", num_classes, init);
}

/* vgg.py's configurations A and D: how many convolutions each of the five stages has. */
static const unsigned vgg11[5] = {1, 1, 2, 2, 2};
static const unsigned vgg16[5] = {2, 2, 3, 3, 3};

static void build_vgg(struct sluice_net_builder *b, const unsigned num_convs[5],
                      uint32_t num_classes, double p)
{
    static const uint32_t channels[5] = {64, 128, 256, 512, 512};
    unsigned module = 0; /* its number in torchvision's `features` */
    for (unsigned stage = 0; stage < 5; stage++) {
        for (unsigned i = 0; i < num_convs[stage]; i++) {
            char name[32];
            snprintf(name, sizeof(name), "features.%u", module);
            conv_relu(b, name, channels[stage], 3, 1, 1, SLUICE_INIT_KAIMING_NORMAL_FAN_OUT);
            module += 2;
        }
        sluice_net_maxpool(b, 2, 2, 0);
        module++;
    }
    sluice_net_avgpool(b, 7, 7);
    sluice_net_linear(b, "classifier.0", 4096, SLUICE_INIT_NORMAL_0_01);
    sluice_net_relu(b);
    sluice_net_dropout(b, p);
    sluice_net_linear(b, "classifier.3", 4096, SLUICE_INIT_NORMAL_0_01);
    sluice_net_relu(b);
    sluice_net_dropout(b, p);
    sluice_net_linear(b, "classifier.6", num_classes, SLUICE_INIT_NORMAL_0_01);
}

static void build_vgg11(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    build_vgg(b, vgg11, num_classes, p);
}

static void build_vgg16(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    build_vgg(b, vgg16, num_classes, p);
}

/* `prefix`.`conv`, then `prefix`.`norm`. */
static void conv_batchnorm(struct sluice_net_builder *b, unsigned input, const char *prefix,
                           const char *conv, const char *norm, uint32_t out_c, uint32_t kernel,
                           uint32_t stride)
{
    char name[48];
    snprintf(name, sizeof(name), "%s%s", prefix, conv);
    sluice_net_conv(b, input, name, out_c, kernel, stride, kernel / 2,
                    SLUICE_INIT_KAIMING_NORMAL_FAN_OUT, false);
    snprintf(name, sizeof(name), "%s%s", prefix, norm);
    sluice_net_batchnorm(b, name);
}

/* torchvision's BasicBlock (two 3x3 convolutions) and Bottleneck (1x1, 3x3 with the stride, 1x1 to
 * four times the channels):
 *
 *     x --- conv1 bn1 relu conv2 bn2 (relu conv3 bn3) --- + --- relu
 *      \--- (downsample: 1x1 conv, bn) ------------------/                */
static void resnet_block(struct sluice_net_builder *b, const char *prefix, bool is_bottleneck,
                         uint32_t channels, uint32_t stride)
{
    const unsigned input = sluice_net_last(b);
    const uint32_t out_c = is_bottleneck ? 4 * channels : channels;
    if (is_bottleneck) {
        conv_batchnorm(b, input, prefix, "conv1", "bn1", channels, 1, 1);
        sluice_net_relu(b);
        conv_batchnorm(b, sluice_net_last(b), prefix, "conv2", "bn2", channels, 3, stride);
        sluice_net_relu(b);
        conv_batchnorm(b, sluice_net_last(b), prefix, "conv3", "bn3", out_c, 1, 1);
    } else {
        conv_batchnorm(b, input, prefix, "conv1", "bn1", channels, 3, stride);
        sluice_net_relu(b);
        conv_batchnorm(b, sluice_net_last(b), prefix, "conv2", "bn2", channels, 3, 1);
    }
    const unsigned main_branch = sluice_net_last(b);
    unsigned shortcut = input;
    if (stride != 1 || sluice_net_shape(b, input).c != out_c) {
        conv_batchnorm(b, input, prefix, "downsample.0", "downsample.1", out_c, 1, stride);
        shortcut = sluice_net_last(b);
    }
    sluice_net_add(b, main_branch, shortcut);
    sluice_net_relu(b);
}

static void build_resnet(struct sluice_net_builder *b, bool is_bottleneck,
                         const unsigned num_blocks[4], uint32_t num_classes)
{
    conv_batchnorm(b, 0, "", "conv1", "bn1", 64, 7, 2);
    sluice_net_relu(b);
    sluice_net_maxpool(b, 3, 2, 1);
    for (unsigned stage = 0; stage < 4; stage++) {
        for (unsigned i = 0; i < num_blocks[stage]; i++) {
            char prefix[32];
            snprintf(prefix, sizeof(prefix), "layer%u.%u.", stage + 1, i);
            resnet_block(b, prefix, is_bottleneck, 64u << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    }
    sluice_net_avgpool(b, 1, 1);
    sluice_net_linear(b, "fc", num_classes, SLUICE_INIT_KAIMING_UNIFORM);
}

static void build_resnet18(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    (void)p; /* a resnet has no dropout */
    build_resnet(b, false, (const unsigned[]){2, 2, 2, 2}, num_classes);
}

static void build_resnet34(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    (void)p;
    build_resnet(b, false, (const unsigned[]){3, 4, 6, 3}, num_classes);
}

static void build_resnet50(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    (void)p;
    build_resnet(b, true, (const unsigned[]){3, 4, 6, 3}, num_classes);
}

static void build_resnet101(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    (void)p;
    build_resnet(b, true, (const unsigned[]){3, 4, 23, 3}, num_classes);
}

static void build_resnet152(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    (void)p;
    build_resnet(b, true, (const unsigned[]){3, 8, 36, 3}, num_classes);
}

/* Ours, for demonstrations and tests: 0.39 million parameters in its convolutions;
 * dropout, before the classifier, only if asked for. */
static void build_small_cnn(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    for (unsigned stage = 0; stage < 4; stage++) {
        char conv[32], norm[32];
        snprintf(conv, sizeof(conv), "features.%u", 3 * stage);
        snprintf(norm, sizeof(norm), "features.%u", 3 * stage + 1);
        conv_batchnorm(b, sluice_net_last(b), "", conv, norm, 32u << stage, 3, 2);
        sluice_net_relu(b);
    }
    sluice_net_avgpool(b, 1, 1);
    sluice_net_dropout(b, p);
    sluice_net_linear(b, "classifier", num_classes, SLUICE_INIT_KAIMING_UNIFORM);
}

static const struct sluice_net_model models[] = {
    {"alexnet", build_alexnet, 0.5},   {"vgg11", build_vgg11, 0.5},
    {"vgg16", build_vgg16, 0.5},       {"resnet18", build_resnet18, 0},
    {"resnet34", build_resnet34, 0},   {"resnet50", build_resnet50, 0},
    {"resnet101", build_resnet101, 0}, {"resnet152", build_resnet152, 0},
    {"small_cnn", build_small_cnn, 0},
};

sluice_status sluice_net_build(const char *model, uint32_t height, uint32_t width,
                               uint32_t num_classes, double dropout_p, struct sluice_net *net,
                               struct sluice_err *err)
{
    char known[128] = "";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(models); i++) {
        if (model && strcmp(model, models[i].name) == 0)
            return sluice_net_build_model(&models[i], height, width, num_classes, dropout_p, net,
                                          err);
        const size_t len = strlen(known);
        snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "", models[i].name);
    }
    return sluice_fail(err, SLUICE_E_INVALID, "model: one of %s, not \"%s\"", known,
                       model ? model : "");
}
