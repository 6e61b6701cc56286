#include "train/nonfinite.h"

#include "support/test.h"

#include <math.h>

TEST(one_value_is_enough)
{
    float values[67] = {0};
    values[3] = -3e38f;
    CU_ASSERT_TRUE(sluice_all_finite(values, 67));
    CU_ASSERT_TRUE(sluice_all_finite(values, 0));
    values[66] = NAN;
    CU_ASSERT_FALSE(sluice_all_finite(values, 67));
    CU_ASSERT_TRUE(sluice_all_finite(values, 66));
    values[0] = -INFINITY;
    CU_ASSERT_FALSE(sluice_all_finite(values, 1));
}

/* The first layer of a kind at or after `from`. */
static unsigned find(const struct sluice_net *net, unsigned from, enum sluice_layer_kind kind)
{
    while (net->layers[from].kind != kind)
        CU_ASSERT_FATAL(++from < net->num_layers);
    return from;
}

TEST(layers_have_the_names_of_their_modules)
{
    struct sluice_net net = {0};
    REQUIRE_OK(sluice_net_build("resnet18", 32, 32, 10, -1, &net, sluice_test_err()));
    static const struct {
        enum sluice_layer_kind kind;
        const char *where;
    } cases[] = {
        {SLUICE_LAYER_CONV, "the output of conv1"},
        {SLUICE_LAYER_BATCHNORM, "the output of bn1"},
        {SLUICE_LAYER_RELU, "the output of the relu after bn1"},
        {SLUICE_LAYER_MAXPOOL, "the output of the maxpool after bn1"},
        {SLUICE_LAYER_ADD, "the output of the add after layer1.0.bn2"},
        {SLUICE_LAYER_LINEAR, "the output of fc"},
    };
    struct sluice_nonfinite found;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        sluice_nonfinite_in_output(&net, find(&net, 0, cases[i].kind), &found);
        CU_ASSERT_STRING_EQUAL(found.where, cases[i].where);
    }
    sluice_nonfinite_in_param(&net, 1, &found);
    CU_ASSERT_STRING_EQUAL(found.where, "parameter bn1.weight");
    sluice_nonfinite_in_grad(&net, 0, &found);
    CU_ASSERT_STRING_EQUAL(found.where, "the gradient of conv1.weight");
    sluice_net_clear(&net);

    REQUIRE_OK(sluice_net_build("vgg16", 32, 32, 10, -1, &net, sluice_test_err()));
    sluice_nonfinite_in_output(&net, find(&net, 0, SLUICE_LAYER_DROPOUT), &found);
    CU_ASSERT_STRING_EQUAL(found.where, "the output of the dropout after classifier.0");
    sluice_net_clear(&net);
}
