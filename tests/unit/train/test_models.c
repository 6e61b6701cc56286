#include "train/model_names.h"
#include "train/net.h"

#include "support/test.h"

#include <math.h>
#include <stdlib.h>

/* Every model of torchvision against its layers and parameters, which
 * tests/golden/make_model_tables.py reads off torchvision and writes to model_tables.txt. */

static const char *const names[] = {SLUICE_MODEL_NAMES};

#define MAX_LINE 256
/* Of that, what a name of a module or a parameter takes. */
#define MAX_NAME 64

static char line[MAX_LINE];
static struct sluice_net net;
static unsigned num_layers, num_params; /* of the table, so far */

static bool has_shape(struct sluice_shape shape, unsigned c, unsigned h, unsigned w)
{
    return shape.c == c && shape.h == h && shape.w == w;
}

static bool has_name(int param, const char *module, const char *suffix)
{
    char name[2 * MAX_NAME];
    snprintf(name, sizeof(name), "%s.%s", module, suffix);
    return param >= 0 && strcmp(net.params[param].name, name) == 0;
}

/* The line is the layer's. */
static bool is_layer(const struct sluice_layer *layer)
{
    char module[MAX_NAME], kind[16];
    unsigned input, input2, c, h, w, kernel, stride, pad, has_bias;
    double p;
    if (sscanf(line, "add %u %u %ux%ux%u", &input, &input2, &c, &h, &w) == 5)
        return layer->kind == SLUICE_LAYER_ADD && layer->input == input &&
               layer->input2 == input2 && has_shape(layer->out, c, h, w);
    if (sscanf(line, "%15s %u %ux%ux%u", kind, &input, &c, &h, &w) != 5 || layer->input != input ||
        !has_shape(layer->out, c, h, w))
        return false;
    if (sscanf(line, "conv %*u %*s %u %u %u %u %63s", &kernel, &stride, &pad, &has_bias, module) ==
        5)
        return layer->kind == SLUICE_LAYER_CONV && layer->kernel == kernel &&
               layer->stride == stride && layer->pad == pad &&
               has_name(layer->weight, module, "weight") &&
               (has_bias ? has_name(layer->bias, module, "bias") : layer->bias < 0);
    if (sscanf(line, "maxpool %*u %*s %u %u %u", &kernel, &stride, &pad) == 3)
        return layer->kind == SLUICE_LAYER_MAXPOOL && layer->kernel == kernel &&
               layer->stride == stride && layer->pad == pad;
    if (sscanf(line, "batchnorm %*u %*s %63s", module) == 1)
        return layer->kind == SLUICE_LAYER_BATCHNORM && has_name(layer->weight, module, "weight") &&
               has_name(layer->bias, module, "bias") &&
               has_name(layer->running_mean, module, "running_mean") &&
               has_name(layer->running_var, module, "running_var");
    if (sscanf(line, "linear %*u %*s %63s", module) == 1)
        return layer->kind == SLUICE_LAYER_LINEAR && has_name(layer->weight, module, "weight") &&
               has_name(layer->bias, module, "bias");
    if (sscanf(line, "dropout %*u %*s %lf", &p) == 1)
        return layer->kind == SLUICE_LAYER_DROPOUT && layer->p == p;
    return layer->kind == (strcmp(kind, "relu") == 0 ? SLUICE_LAYER_RELU : SLUICE_LAYER_AVGPOOL);
}

/* `value` is the constant, or the deviation of one draw of as many values. */
static bool is_drawn(const struct sluice_param *param, const char *distribution, double value)
{
    double wanted = 0;
    const char *kind = NULL;
    switch (param->init) {
    case SLUICE_INIT_ZERO:
    case SLUICE_INIT_ONE:
        return strcmp(distribution, "constant") == 0 &&
               value == (param->init == SLUICE_INIT_ONE ? 1 : 0);
    case SLUICE_INIT_KAIMING_UNIFORM:
        wanted = 1 / sqrt(3.0 * param->fan);
        kind = "uniform";
        break;
    case SLUICE_INIT_KAIMING_NORMAL_FAN_OUT:
        wanted = sqrt(2.0 / param->fan);
        kind = "normal";
        break;
    case SLUICE_INIT_NORMAL_0_01:
        wanted = 0.01;
        kind = "normal";
        break;
    }
    /* Five standard errors, and the file's rounding. */
    const double limit = 5 / sqrt(2.0 * (double)param->count) + 1e-3;
    return strcmp(distribution, kind) == 0 && fabs(value / wanted - 1) < limit;
}

static bool is_param(const struct sluice_param *param)
{
    char kind[16], name[MAX_NAME], shape[MAX_NAME], distribution[16], ours[MAX_NAME] = "";
    double value;
    if (sscanf(line, "%15s %63s %63s %15s %lf", kind, name, shape, distribution, &value) != 5)
        return false;
    size_t count = 1;
    for (unsigned i = 0; i < param->num_dims; i++) {
        const size_t len = strlen(ours);
        snprintf(ours + len, sizeof(ours) - len, "%s%u", i ? "x" : "", param->dims[i]);
        count *= param->dims[i];
    }
    return strcmp(param->name, name) == 0 && strcmp(ours, shape) == 0 && param->count == count &&
           param->is_trained == (strcmp(kind, "param") == 0) &&
           is_drawn(param, distribution, value);
}

static void finish_model(void)
{
    CU_ASSERT_EQUAL(net.num_layers, num_layers);
    CU_ASSERT_EQUAL(net.num_params, num_params);
    num_layers = num_params = 0;
    sluice_net_clear(&net);
}

/* Returns whether the line is right. */
static bool check_line(void)
{
    if (strncmp(line, "param ", 6) == 0 || strncmp(line, "buffer ", 7) == 0)
        return num_params++ < net.num_params && is_param(&net.params[num_params - 1]);
    return num_layers++ < net.num_layers && is_layer(&net.layers[num_layers - 1]);
}

TEST(models_are_torchvisions)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/golden/model_tables.txt", sluice_test_source_dir());
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    size_t num_models = 0;
    while (fgets(line, sizeof(line), file)) {
        char model[MAX_NAME];
        unsigned height, width, num_classes;
        if (line[0] == '#')
            continue;
        if (sscanf(line, "model %63s %u %u %u", model, &height, &width, &num_classes) == 4) {
            finish_model();
            REQUIRE_OK(sluice_net_build(model, height, width, num_classes, -1, &net, NULL));
            num_models++;
        } else if (!check_line()) {
            printf("%s: torchvision has %s", net.model, line);
            CU_FAIL("another layer or parameter");
        }
    }
    finish_model();
    fclose(file);
    CU_ASSERT_EQUAL(num_models, SLUICE_ARRAY_LEN(names) - 1); /* small_cnn is ours */
}

/* torchvision publishes these totals with its weights ("num_params"). */
TEST(models_have_as_many_parameters_as_torchvision_says)
{
    static const struct {
        const char *model;
        size_t num_trained;
        unsigned num_layers, num_params;
    } cases[] = {{"alexnet", 61100840, 21, 16},     {"vgg11", 132863336, 29, 22},
                 {"vgg16", 138357544, 39, 32},      {"resnet18", 11689512, 68, 102},
                 {"resnet34", 21797672, 124, 182},  {"resnet50", 25557032, 174, 267},
                 {"resnet101", 44549160, 344, 522}, {"resnet152", 60192808, 514, 777}};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(cases); k++) {
        REQUIRE_OK(sluice_net_build(cases[k].model, 224, 224, 1000, -1, &net, NULL));
        size_t num_trained = 0;
        for (unsigned i = 0; i < net.num_params; i++)
            num_trained += net.params[i].is_trained ? net.params[i].count : 0;
        CU_ASSERT_EQUAL(num_trained, cases[k].num_trained);
        CU_ASSERT_EQUAL(net.num_layers, cases[k].num_layers);
        CU_ASSERT_EQUAL(net.num_params, cases[k].num_params);
        sluice_net_clear(&net);
    }
}

/* The list is what options offer. */
TEST(listed_names_are_models_and_the_error_lists_them_all)
{
    struct sluice_err err = {{0}};
    char wanted[256] = "model: one of ";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        REQUIRE_OK(sluice_net_build(names[i], 64, 96, 10, -1, &net, NULL));
        CU_ASSERT_STRING_EQUAL(net.model, names[i]);
        sluice_net_clear(&net);
        const size_t len = strlen(wanted);
        snprintf(wanted + len, sizeof(wanted) - len, "%s%s", i ? ", " : "", names[i]);
    }
    strcat(wanted, ", not \"resnet\"");
    CU_ASSERT_EQUAL(sluice_net_build("resnet", 64, 64, 10, -1, &net, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, wanted);
}
