#include "profiler/cost_model.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

enum { N = 400 };

static void make_features(struct sluice_cost_features features[N])
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < N; i++) {
        const uint32_t width = 100 + sluice_rng_below(&rng, 900);
        const uint32_t height = 100 + sluice_rng_below(&rng, 900);
        const uint32_t bottom = 1 + sluice_rng_below(&rng, height);
        features[i] = sluice_cost_features(5000 + sluice_rng_below(&rng, 400000), width, height,
                                           bottom, (uint64_t)width * (1 + bottom / 2));
    }
}

static void finds_the_weights_of_exact_costs(void)
{
    struct sluice_cost_features features[N];
    make_features(features);
    static const double truth[SLUICE_NUM_FEATURES] = {30e-6, 1e-9, 0.5e-9, 4e-9, 2e-9};
    double cost[N];
    for (int i = 0; i < N; i++) {
        cost[i] = 0;
        for (int f = 0; f < SLUICE_NUM_FEATURES; f++)
            cost[i] += truth[f] * features[i].value[f];
    }
    struct sluice_cost_model model;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_cost_model_fit(features, cost, N, &model, &err), SLUICE_OK);
    for (int f = 0; f < SLUICE_NUM_FEATURES; f++)
        CU_ASSERT_DOUBLE_EQUAL(model.weight[f] / truth[f], 1, 1e-3);
    for (int i = 0; i < N; i++)
        CU_ASSERT_DOUBLE_EQUAL(sluice_cost_model_predict(&model, &features[i]) / cost[i], 1, 1e-4);
}

static void is_right_to_some_per_cent_for_small_and_large(void)
{
    struct sluice_cost_features features[N];
    make_features(features);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 1);
    double cost[N];
    for (int i = 0; i < N; i++)
        cost[i] = 6e-9 * features[i].value[SLUICE_FEATURE_FILE_BYTES] *
                  (0.9 + 0.2 * sluice_rng_double(&rng));
    struct sluice_cost_model model;
    struct sluice_err err = {0};
    /* Fitted to the first half, tried on the second. */
    CU_ASSERT_EQUAL_FATAL(sluice_cost_model_fit(features, cost, N / 2, &model, &err), SLUICE_OK);
    int num_near = 0;
    for (int i = N / 2; i < N; i++)
        num_near += fabs(sluice_cost_model_predict(&model, &features[i]) / cost[i] - 1) < 0.13;
    CU_ASSERT(num_near > N / 2 * 95 / 100);
}

static void shares_weight_between_features_that_say_the_same(void)
{
    struct sluice_cost_features features[N];
    double cost[N];
    for (int i = 0; i < N; i++) {
        /* All the same shape, crop and bytes per pixel: one feature is all there is. */
        features[i] = sluice_cost_features(10000, 100, 100, 100, 10000);
        cost[i] = 1e-3;
    }
    struct sluice_cost_model model;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_cost_model_fit(features, cost, N, &model, &err), SLUICE_OK);
    CU_ASSERT_DOUBLE_EQUAL(sluice_cost_model_predict(&model, &features[0]), 1e-3, 1e-6);
}

static void leaves_out_samples_of_no_cost_and_refuses_too_few(void)
{
    struct sluice_cost_features features[N];
    make_features(features);
    double cost[N] = {0};
    struct sluice_cost_model model = {{7}};
    struct sluice_err err = {0};
    for (int i = 0; i < SLUICE_NUM_FEATURES - 1; i++)
        cost[i * 50] = 1;
    CU_ASSERT_EQUAL(sluice_cost_model_fit(features, cost, N, &model, &err), SLUICE_E_INVALID);
    CU_ASSERT(err.text[0] != 0);
    CU_ASSERT_EQUAL(model.weight[0], 7);
    for (int i = 0; i < N; i += 2)
        cost[i] = 1e-3;
    CU_ASSERT_EQUAL(sluice_cost_model_fit(features, cost, N, &model, NULL), SLUICE_OK);
    CU_ASSERT_DOUBLE_EQUAL(sluice_cost_model_predict(&model, &features[1]), 1e-3, 2e-4);
}

static void predicts_no_negative_cost(void)
{
    const struct sluice_cost_model model = {{-1}};
    const struct sluice_cost_features features = sluice_cost_features(1, 1, 1, 1, 1);
    CU_ASSERT_EQUAL(sluice_cost_model_predict(&model, &features), 0);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(finds_the_weights_of_exact_costs),
        SLUICE_TEST(is_right_to_some_per_cent_for_small_and_large),
        SLUICE_TEST(shares_weight_between_features_that_say_the_same),
        SLUICE_TEST(leaves_out_samples_of_no_cost_and_refuses_too_few),
        SLUICE_TEST(predicts_no_negative_cost),
    };
    return sluice_test_run("cost_model", tests, SLUICE_TEST_COUNT(tests));
}
