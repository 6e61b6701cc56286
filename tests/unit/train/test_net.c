#include "train/net_internal.h"

#include "support/test.h"
#include "train_support.h"

#include <math.h>

static struct sluice_net net; /* of the last build() */

static void build(const char *model, uint32_t height, uint32_t width, uint32_t num_classes)
{
    struct sluice_err err = {{0}};
    sluice_net_clear(&net);
    REQUIRE_OK(sluice_net_build(model, height, width, num_classes, -1, &net, &err));
}

static int find_param(const char *name)
{
    for (unsigned i = 0; i < net.num_params; i++) {
        if (strcmp(net.params[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

TEST(shapes_chain_from_the_image_to_the_classes)
{
    static const struct {
        const char *model;
        uint32_t height, width;
    } cases[] = {{"alexnet", 224, 224},  {"alexnet", 63, 63},    {"alexnet", 63, 256},
                 {"vgg11", 32, 70},      {"resnet50", 224, 224}, {"resnet152", 33, 47},
                 {"resnet18", 224, 224}, {"resnet18", 33, 70},   {"small_cnn", 64, 64},
                 {"small_cnn", 1, 1},    {"small_cnn", 40, 24}};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(cases); k++) {
        build(cases[k].model, cases[k].height, cases[k].width, 7);
        for (unsigned i = 0; i < net.num_layers; i++) {
            const struct sluice_layer *layer = &net.layers[i];
            CU_ASSERT_FATAL(layer->input <= i);
            const struct sluice_shape input =
                layer->input ? net.layers[layer->input - 1].out
                             : (struct sluice_shape){3, cases[k].height, cases[k].width};
            CU_ASSERT_EQUAL(memcmp(&input, &layer->in, sizeof(input)), 0);
            if (layer->kind == SLUICE_LAYER_ADD) {
                CU_ASSERT_FATAL(layer->input2 > 0 && layer->input2 <= i);
                CU_ASSERT_EQUAL(
                    memcmp(&net.layers[layer->input2 - 1].out, &layer->out, sizeof(input)), 0);
            }
        }
        const struct sluice_shape out = net.layers[net.num_layers - 1].out;
        CU_ASSERT(out.c == 7 && out.h == 1 && out.w == 1);
    }
    build("alexnet", 224, 160, 7);
    CU_ASSERT_EQUAL(net.layers[0].out.h, 55);
    CU_ASSERT_EQUAL(net.layers[0].out.w, 39);
    CU_ASSERT_EQUAL(net.layers[2].out.h, 27);
    CU_ASSERT_EQUAL(net.layers[12].out.h, 6);
}

TEST(every_parameter_belongs_to_one_layer)
{
    build("resnet18", 64, 64, 10);
    unsigned *uses = calloc(net.num_params, sizeof(*uses));
    for (unsigned i = 0; i < net.num_layers; i++) {
        const struct sluice_layer *layer = &net.layers[i];
        const int params[] = {layer->weight, layer->bias, layer->running_mean, layer->running_var};
        for (int k = 0; k < 4; k++) {
            if (params[k] >= 0)
                uses[params[k]]++;
        }
    }
    for (unsigned i = 0; i < net.num_params; i++)
        CU_ASSERT_EQUAL(uses[i], 1);
    free(uses);
}

TEST(names_what_it_refuses)
{
    CHECK_FAILS(SLUICE_E_INVALID, "vgg",
                sluice_net_build("vgg", 224, 224, 10, -1, &net, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "at least 63",
                sluice_net_build("alexnet", 62, 62, 10, -1, &net, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "224 x 62 (height x width): alexnet needs sides of at least 63",
                sluice_net_build("alexnet", 224, 62, 10, -1, &net, sluice_test_err()));
    CU_ASSERT_EQUAL(sluice_net_build("small_cnn", 0, 0, 10, -1, &net, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_net_build("small_cnn", 100000, 100000, 10, -1, &net, NULL),
                    SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_net_build("small_cnn", 64, 64, 0, -1, &net, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_net_build("alexnet", 224, 224, 10, 1, &net, NULL), SLUICE_E_INVALID);
    CU_ASSERT_EQUAL(sluice_net_build(NULL, 224, 224, 10, -1, &net, NULL), SLUICE_E_INVALID);
}

static unsigned depth;

/* A relu and a linear layer each, which has a weight and a bias. */
static void build_deep(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    (void)p;
    for (unsigned i = 0; i < depth; i++) {
        sluice_net_relu(b);
        sluice_net_linear(b, "layer", num_classes, SLUICE_INIT_ZERO);
    }
}

TEST(a_net_has_as_many_layers_and_parameters_as_its_model)
{
    static const struct sluice_net_model deep = {"deep", build_deep, 0};
    for (depth = 1; depth <= 4096; depth *= 8) {
        struct sluice_net deep_net;
        REQUIRE_OK(sluice_net_build_model(&deep, 8, 8, 10, -1, &deep_net, NULL));
        CU_ASSERT_EQUAL(deep_net.num_layers, 2 * depth);
        CU_ASSERT_EQUAL(deep_net.num_params, 2 * depth);
        CU_ASSERT_EQUAL(deep_net.layers[2 * depth - 1].input, 2 * depth - 1);
        CU_ASSERT_EQUAL(deep_net.layers[2 * depth - 1].weight, (int)(2 * depth - 2));
        CU_ASSERT_EQUAL(deep_net.params[2 * depth - 2].count, depth == 1 ? 10 * 3 * 64 : 100);
        sluice_net_clear(&deep_net);
        CU_ASSERT_PTR_NULL(deep_net.layers);
        sluice_net_clear(&deep_net);
    }
}

TEST(a_refused_net_leaves_the_old_one)
{
    build("small_cnn", 40, 40, 10);
    const struct sluice_net before = net;
    CU_ASSERT_EQUAL(sluice_net_build("alexnet", 62, 62, 10, -1, &net, NULL), SLUICE_E_INVALID);
    CU_ASSERT(net.layers == before.layers && net.params == before.params);
    CU_ASSERT_EQUAL(net.num_layers, before.num_layers);
}

TEST(dropout_is_the_models_unless_given)
{
    build("alexnet", 64, 64, 10);
    unsigned num_dropouts = 0;
    for (unsigned i = 0; i < net.num_layers; i++) {
        if (net.layers[i].kind == SLUICE_LAYER_DROPOUT) {
            num_dropouts++;
            CU_ASSERT_EQUAL(net.layers[i].p, 0.5);
        }
    }
    CU_ASSERT_EQUAL(num_dropouts, 2);
    sluice_net_clear(&net);
    REQUIRE_OK(sluice_net_build("alexnet", 64, 64, 10, 0.25, &net, NULL));
    for (unsigned i = 0; i < net.num_layers; i++) {
        if (net.layers[i].kind == SLUICE_LAYER_DROPOUT)
            CU_ASSERT_EQUAL(net.layers[i].p, 0.25);
    }
}

static void moments(const float *values, size_t count, double *mean, double *variance, double *max)
{
    double sum = 0, squares = 0;
    *max = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
        *max = fmax(*max, fabs((double)values[i]));
    }
    *mean = sum / (double)count;
    *variance = squares / (double)count - *mean * *mean;
}

TEST(initial_values_have_torchs_distributions)
{
    double mean, variance, max;
    build("alexnet", 64, 64, 10);
    int param = find_param("features.3.weight"); /* fan_in 64 * 25 */
    size_t count = net.params[param].count;
    float *values = malloc(count * sizeof(*values));
    sluice_net_init_param(&net, (unsigned)param, 1, values);
    moments(values, count, &mean, &variance, &max);
    CU_ASSERT_DOUBLE_EQUAL(mean, 0, 0.0002);
    CU_ASSERT(max <= 1 / 40.0 && max > 0.999 / 40.0);
    CU_ASSERT_DOUBLE_EQUAL(variance * 1600 * 3, 1, 0.01);
    free(values);

    build("resnet18", 64, 64, 10);
    param = find_param("layer4.1.conv2.weight"); /* fan_out 512 * 9 */
    count = net.params[param].count;
    values = malloc(count * sizeof(*values));
    sluice_net_init_param(&net, (unsigned)param, 1, values);
    moments(values, count, &mean, &variance, &max);
    const double deviation = sqrt(2 / (512 * 9.0));
    CU_ASSERT_DOUBLE_EQUAL(mean / deviation, 0, 0.005);
    CU_ASSERT_DOUBLE_EQUAL(sqrt(variance) / deviation, 1, 0.005);
    CU_ASSERT(max > 4 * deviation && max < 7 * deviation);
    free(values);

    build("vgg11", 32, 32, 10);
    param = find_param("classifier.3.weight");
    count = net.params[param].count;
    values = malloc(count * sizeof(*values));
    sluice_net_init_param(&net, (unsigned)param, 1, values);
    moments(values, count, &mean, &variance, &max);
    CU_ASSERT_DOUBLE_EQUAL(mean / 0.01, 0, 0.005);
    CU_ASSERT_DOUBLE_EQUAL(sqrt(variance) / 0.01, 1, 0.005);
    CU_ASSERT(max > 0.04 && max < 0.07);
    free(values);

    build("resnet18", 64, 64, 10);
    float ones[64], zeros[64];
    sluice_net_init_param(&net, (unsigned)find_param("bn1.running_var"), 1, ones);
    sluice_net_init_param(&net, (unsigned)find_param("bn1.bias"), 1, zeros);
    for (int i = 0; i < 64; i++)
        CU_ASSERT(ones[i] == 1 && zeros[i] == 0);
}

TEST(initial_values_differ_by_seed_and_parameter_alone)
{
    build("small_cnn", 64, 64, 10);
    const unsigned param = (unsigned)find_param("classifier.weight");
    const size_t bytes = net.params[param].count * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes);
    sluice_net_init_param(&net, param, 5, a);
    sluice_net_init_param(&net, param, 5, b);
    CU_ASSERT(train_test_same_bits(a, b, bytes));
    sluice_net_init_param(&net, param, 5ull << 32, b);
    CU_ASSERT(!train_test_same_bits(a, b, bytes));
    sluice_net_init_param(&net, param + 1, 5, b); /* the bias: 10 values */
    CU_ASSERT(!train_test_same_bits(a, b, 10 * sizeof(float)));
    free(a);
    free(b);
}

TEST(dropout_drops_p_and_scales_the_rest)
{
    enum { COUNT = 40001 };
    static float mask[COUNT + 1], other[COUNT];
    mask[COUNT] = -1;
    sluice_net_dropout_mask(sluice_test_seed(), 9, 3, 0.2, mask, COUNT);
    unsigned dropped = 0;
    for (int i = 0; i < COUNT; i++) {
        CU_ASSERT(mask[i] == 0 || mask[i] == 1.25f);
        dropped += mask[i] == 0;
    }
    CU_ASSERT_DOUBLE_EQUAL(dropped / (double)COUNT, 0.2, 0.01);
    CU_ASSERT_EQUAL(mask[COUNT], -1);

    /* An element depends on its own index, not on how many are asked for. */
    sluice_net_dropout_mask(sluice_test_seed(), 9, 3, 0.2, other, 1001);
    CU_ASSERT(train_test_same_bits(mask, other, 1001 * sizeof(float)));
    sluice_net_dropout_mask(sluice_test_seed(), 10, 3, 0.2, other, COUNT);
    CU_ASSERT(!train_test_same_bits(mask, other, sizeof(other)));
    sluice_net_dropout_mask(sluice_test_seed(), 9, 4, 0.2, other, COUNT);
    CU_ASSERT(!train_test_same_bits(mask, other, sizeof(other)));
    sluice_net_dropout_mask(sluice_test_seed(), 9, 3, 0, other, COUNT);
    for (int i = 0; i < COUNT; i++)
        CU_ASSERT_EQUAL(other[i], 1);
}
