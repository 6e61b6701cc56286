#include "train/cpu/onednn_plans.h"

#include "support/test.h"

static struct sluice_net net;
static struct sluice_onednn *onednn;
static struct sluice_onednn_plans plans;

static struct sluice_onednn_plan *get(unsigned n)
{
    struct sluice_onednn_plan *plan = NULL;
    REQUIRE_OK(sluice_onednn_plans_get(&plans, onednn, &net, n, &plan, sluice_test_err()));
    CU_ASSERT_EQUAL(plan->n, n);
    CU_ASSERT_EQUAL(plan->num_layers, net.num_layers);
    return plan;
}

/* The cached sizes, as bits. */
static unsigned sizes(void)
{
    unsigned bits = 0;
    for (int i = 0; i < SLUICE_ONEDNN_MAX_PLANS; i++)
        bits |= plans.plans[i] ? 1u << plans.plans[i]->n : 0;
    return bits;
}

TEST(the_size_that_was_used_the_longest_ago_makes_room)
{
    struct sluice_onednn_plan *of_3 = get(3);
    CU_ASSERT_PTR_EQUAL(get(3), of_3);
    get(1);
    get(2);
    get(4);
    CU_ASSERT_EQUAL(sizes(), 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4);
    CU_ASSERT_PTR_EQUAL(get(3), of_3);
    get(5);
    CU_ASSERT_EQUAL(sizes(), 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5);
    CU_ASSERT_PTR_EQUAL(get(3), of_3);
    get(6);
    CU_ASSERT_EQUAL(sizes(), 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6);
    sluice_onednn_plans_clear(&plans);
    CU_ASSERT_EQUAL(sizes(), 0);
}

TEST(layers_that_plain_loops_compute_have_no_operation)
{
    const struct sluice_onednn_plan *plan = get(2);
    for (unsigned i = 0; i < net.num_layers; i++) {
        const enum sluice_layer_kind kind = net.layers[i].kind;
        const bool is_plain = kind == SLUICE_LAYER_AVGPOOL || kind == SLUICE_LAYER_DROPOUT ||
                              kind == SLUICE_LAYER_ADD;
        CU_ASSERT_EQUAL(!plan->layers[i], is_plain);
    }
    sluice_onednn_plans_clear(&plans);
}

int main(void)
{
    struct sluice_err err = {0};
    if (sluice_net_build("small_cnn", 16, 16, 3, -1, &net, &err) ||
        sluice_onednn_create(1, &onednn, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const int status = sluice_test_main();
    sluice_onednn_destroy(onednn);
    sluice_net_clear(&net);
    return status;
}
