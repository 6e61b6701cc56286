#include "profiler/transport_cost.h"

#include "profiler/form_menu.h"
#include "support/test.h"

#include <math.h>

static const struct sluice_transport_cost some = {
    .storage_s_per_sample = 1,
    .storage_s_per_job = 10,
    .storage_s_per_byte = 0.5,
    .compute_s_per_sample = 100,
    .compute_s_per_byte = 0.25,
};

static void adds_to_both_cpus_and_to_nothing_else(void)
{
    double cost[SLUICE_NUM_LOADS];
    for (int r = 0; r < SLUICE_NUM_LOADS; r++)
        cost[r] = 1000 + r;
    cost[SLUICE_LOAD_NET_DOWN] = 8;
    sluice_transport_cost_add(&some, 3, cost);
    for (int r = 0; r < SLUICE_NUM_LOADS; r++) {
        const double expected = r == SLUICE_LOAD_STORAGE_CPU   ? 1000 + r + 1 + 10 + 4
                                : r == SLUICE_LOAD_COMPUTE_CPU ? 1000 + r + 100 + 2
                                : r == SLUICE_LOAD_NET_DOWN    ? 8
                                                               : 1000 + r;
        CU_ASSERT_DOUBLE_EQUAL(cost[r], expected, 1e-9);
    }
}

static void a_file_needs_no_prep_worker(void)
{
    for (unsigned choice = 0; choice < SLUICE_NUM_CHOICES; choice++) {
        double cost[SLUICE_NUM_LOADS] = {[SLUICE_LOAD_NET_DOWN] = 2};
        sluice_transport_cost_add(&some, choice, cost);
        CU_ASSERT_DOUBLE_EQUAL(cost[SLUICE_LOAD_STORAGE_CPU], choice ? 12 : 2, 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(cost[SLUICE_LOAD_COMPUTE_CPU], 100.5, 1e-9);
    }
}

static void the_default_is_above_nothing_and_grows_with_bytes(void)
{
    const struct sluice_transport_cost transport = sluice_transport_cost_default();
    double last[SLUICE_NUM_LOADS] = {0};
    for (double bytes = 1e3; bytes < 1e8; bytes *= 10) {
        double cost[SLUICE_NUM_LOADS] = {[SLUICE_LOAD_NET_DOWN] = bytes};
        sluice_transport_cost_add(&transport, 0, cost);
        CU_ASSERT(cost[SLUICE_LOAD_STORAGE_CPU] > last[SLUICE_LOAD_STORAGE_CPU]);
        CU_ASSERT(cost[SLUICE_LOAD_COMPUTE_CPU] > last[SLUICE_LOAD_COMPUTE_CPU]);
        for (int r = 0; r < SLUICE_NUM_LOADS; r++)
            last[r] = cost[r];
    }
    CU_ASSERT(isfinite(last[SLUICE_LOAD_STORAGE_CPU]) && isfinite(last[SLUICE_LOAD_COMPUTE_CPU]));
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(adds_to_both_cpus_and_to_nothing_else),
        SLUICE_TEST(a_file_needs_no_prep_worker),
        SLUICE_TEST(the_default_is_above_nothing_and_grows_with_bytes),
    };
    return sluice_test_run("transport_cost", tests, SLUICE_TEST_COUNT(tests));
}
