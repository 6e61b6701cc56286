#include "profiler/transport_cost.h"

#include "profiler/form_menu.h"
#include "support/test.h"

#include <math.h>

static const struct sluice_transport_cost some = {
    .storage_s_per_sample = 1,
    .storage_s_per_job = 10,
    .storage_s_per_byte = 0.5,
    .compute_s_per_sample = 100,
    .compute_s_per_job = 50,
    .compute_s_per_byte = 0.25,
    .receive_s_per_sample = 7,
    .receive_s_per_byte = 0.125,
};

static void adds_to_both_cpus_and_the_receiving_thread_alone(void)
{
    double cost[SLUICE_NUM_LOADS];
    for (int r = 0; r < SLUICE_NUM_LOADS; r++)
        cost[r] = 1000 + r;
    cost[SLUICE_LOAD_NET_DOWN] = 8;
    sluice_transport_cost_add(&some, 3, cost);
    for (int r = 0; r < SLUICE_NUM_LOADS; r++) {
        const double expected = r == SLUICE_LOAD_STORAGE_CPU   ? 1000 + r + 1 + 10 + 4
                                : r == SLUICE_LOAD_COMPUTE_CPU ? 1000 + r + 100 + 50 + 2
                                : r == SLUICE_LOAD_RECEIVE     ? 1000 + r + 7 + 1
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
        CU_ASSERT_DOUBLE_EQUAL(cost[SLUICE_LOAD_COMPUTE_CPU], choice ? 150.5 : 100.5, 1e-9);
    }
}

static void follows_what_a_profile_saw(void)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    struct sluice_transport_cost slow = usual, slower = usual, none = usual, absurd = usual;
    sluice_transport_cost_fit(&slow, 40e-6, 1, 0.6);
    sluice_transport_cost_fit(&slower, 1e-3, 1, 0.9);
    sluice_transport_cost_fit(&none, 0, 0, 0);
    sluice_transport_cost_fit(&absurd, 0, 1, 1000);
    CU_ASSERT_DOUBLE_EQUAL(slower.compute_s_per_sample / slow.compute_s_per_sample, 1.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(slower.compute_s_per_job / slow.compute_s_per_job, 1.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(slower.compute_s_per_byte / slow.compute_s_per_byte, 1.5, 1e-9);
    /* Reading is in it. */
    CU_ASSERT_DOUBLE_EQUAL(slower.storage_s_per_sample - slow.storage_s_per_sample, 0.96e-3, 1e-9);
    CU_ASSERT(slower.storage_s_per_sample >= 1e-3 && none.storage_s_per_sample >= 0);
    CU_ASSERT_EQUAL(none.compute_s_per_sample, usual.compute_s_per_sample);
    CU_ASSERT_DOUBLE_EQUAL(absurd.compute_s_per_sample / usual.compute_s_per_sample, 2, 1e-9);
    CU_ASSERT_EQUAL(slower.storage_s_per_job, usual.storage_s_per_job);
}

static void the_default_is_above_nothing_and_grows_with_bytes(void)
{
    const struct sluice_transport_cost transport = sluice_transport_cost_default();
    double last[SLUICE_NUM_LOADS] = {0};
    for (unsigned bytes = 1000; bytes < 100000000; bytes *= 10) {
        double cost[SLUICE_NUM_LOADS] = {[SLUICE_LOAD_NET_DOWN] = (double)bytes};
        sluice_transport_cost_add(&transport, 0, cost);
        CU_ASSERT(cost[SLUICE_LOAD_STORAGE_CPU] > last[SLUICE_LOAD_STORAGE_CPU]);
        CU_ASSERT(cost[SLUICE_LOAD_COMPUTE_CPU] > last[SLUICE_LOAD_COMPUTE_CPU]);
        CU_ASSERT(cost[SLUICE_LOAD_RECEIVE] > last[SLUICE_LOAD_RECEIVE]);
        /* A part of what the node does. */
        CU_ASSERT(cost[SLUICE_LOAD_RECEIVE] <= cost[SLUICE_LOAD_COMPUTE_CPU]);
        for (int r = 0; r < SLUICE_NUM_LOADS; r++)
            last[r] = cost[r];
    }
    CU_ASSERT(isfinite(last[SLUICE_LOAD_STORAGE_CPU]) && isfinite(last[SLUICE_LOAD_COMPUTE_CPU]));
}

static void the_receiving_thread_is_as_fast_as_a_probe_was(void)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    struct sluice_transport_cost slow = usual, slower = usual, absurd = usual, none = usual;
    sluice_transport_cost_set_receive(&slow, 0.2e-9);
    sluice_transport_cost_set_receive(&slower, 0.3e-9);
    sluice_transport_cost_set_receive(&absurd, 1);
    sluice_transport_cost_set_receive(&none, 0);
    CU_ASSERT_DOUBLE_EQUAL(slower.receive_s_per_byte / slow.receive_s_per_byte, 1.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(slower.receive_s_per_sample / slow.receive_s_per_sample, 1.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(absurd.receive_s_per_byte / usual.receive_s_per_byte, 4, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(none.receive_s_per_byte / usual.receive_s_per_byte, 0.25, 1e-12);
    CU_ASSERT_EQUAL(slower.compute_s_per_byte, usual.compute_s_per_byte);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(adds_to_both_cpus_and_the_receiving_thread_alone),
        SLUICE_TEST(a_file_needs_no_prep_worker),
        SLUICE_TEST(the_receiving_thread_is_as_fast_as_a_probe_was),
        SLUICE_TEST(follows_what_a_profile_saw),
        SLUICE_TEST(the_default_is_above_nothing_and_grows_with_bytes),
    };
    return sluice_test_run("transport_cost", tests, SLUICE_TEST_COUNT(tests));
}
