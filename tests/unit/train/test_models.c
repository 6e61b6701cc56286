#include "train/model_names.h"
#include "train/net.h"

#include "support/test.h"

static const char *const names[] = {SLUICE_MODEL_NAMES};

/* torchvision publishes the first number with its weights ("num_params"); the second is that of its
 * state_dict without num_batches_tracked. */
TEST(models_have_torchvisions_parameters)
{
    static const struct {
        const char *model;
        size_t num_trained;
        unsigned num_params;
    } cases[] = {{"alexnet", 61100840, 16},    {"vgg11", 132863336, 22},
                 {"vgg16", 138357544, 32},     {"resnet18", 11689512, 102},
                 {"resnet34", 21797672, 182},  {"resnet50", 25557032, 267},
                 {"resnet101", 44549160, 522}, {"resnet152", 60192808, 777}};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(cases); k++) {
        struct sluice_net net;
        REQUIRE_OK(sluice_net_build(cases[k].model, 224, 224, 1000, -1, &net, NULL));
        size_t num_trained = 0;
        for (unsigned i = 0; i < net.num_params; i++)
            num_trained += net.params[i].is_trained ? net.params[i].count : 0;
        CU_ASSERT_EQUAL(num_trained, cases[k].num_trained);
        CU_ASSERT_EQUAL(net.num_params, cases[k].num_params);
        sluice_net_clear(&net);
    }
}

/* The list is what options offer. */
TEST(listed_names_are_models_and_the_error_lists_them_all)
{
    struct sluice_err err = {{0}};
    struct sluice_net net;
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
