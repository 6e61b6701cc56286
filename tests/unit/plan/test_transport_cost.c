#include "plan/transport_cost.h"

#include "plan/form_menu.h"
#include "plan/planner_lp.h"
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

TEST(adds_to_both_cpus_and_the_receiving_thread_alone)
{
    double cost[SLUICE_NUM_RESOURCES];
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        cost[r] = 1000 + r;
    cost[SLUICE_NETWORK] = 8;
    sluice_transport_cost_add(&some, 3, cost);
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        const double expected = r == SLUICE_STORAGE_CPU   ? 1000 + r + 1 + 10 + 4
                                : r == SLUICE_COMPUTE_CPU ? 1000 + r + 100 + 50 + 2
                                : r == SLUICE_RECEIVE     ? 1000 + r + 7 + 1
                                : r == SLUICE_NETWORK     ? 8
                                                          : 1000 + r;
        CU_ASSERT_DOUBLE_EQUAL(cost[r], expected, 1e-9);
    }
}

TEST(a_file_needs_no_prep_worker)
{
    for (unsigned choice = 0; choice < SLUICE_MAX_CHOICES; choice++) {
        double cost[SLUICE_NUM_RESOURCES] = {[SLUICE_NETWORK] = 2};
        sluice_transport_cost_add(&some, choice, cost);
        CU_ASSERT_DOUBLE_EQUAL(cost[SLUICE_STORAGE_CPU], choice ? 12 : 2, 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(cost[SLUICE_COMPUTE_CPU], choice ? 150.5 : 100.5, 1e-9);
    }
}

TEST(what_the_gpu_decodes_is_put_into_a_batch)
{
    const struct sluice_transport_cost transport = {.batch_s_per_sample = 5,
                                                    .batch_s_per_byte = 0.25};
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        double cost[SLUICE_NUM_RESOURCES] = {
            [SLUICE_NETWORK] = 2, [SLUICE_PCIE] = 8, [SLUICE_GPU] = on_gpu ? 1e-6 : 0};
        sluice_transport_cost_add(&transport, false, cost);
        CU_ASSERT_EQUAL(cost[SLUICE_COMPUTE_CPU], on_gpu ? 7 : 0);
        CU_ASSERT_EQUAL(cost[SLUICE_STORAGE_CPU], 0);
    }
}

/* What machines with these costs show: phases of files, of pixels and of both, in which either node
 * may be busy. */
static size_t see(const struct sluice_transport_cost *true_cost, double busy_s, double idle_s,
                  struct sluice_transport_seen seen[6])
{
    static const struct {
        double job_share, bytes, storage_share, compute_share;
    } phases[6] = {
        {0, 110e3, 0.2, 1}, {1, 150e3, 1, 0.2}, {1, 64e3, 1, 0.3},
        {1, 44e3, 0.8, 1},  {0.5, 130e3, 1, 1}, {1, 602e3, 1, 0.5},
    };
    for (size_t i = 0; i < 6; i++) {
        const double n = 200, jobs = phases[i].job_share;
        seen[i] = (struct sluice_transport_seen){
            .num_samples = (size_t)n,
            .num_jobs = (size_t)(n * jobs),
            .bytes = n * phases[i].bytes,
            .storage_share = phases[i].storage_share,
            .compute_share = phases[i].compute_share,
            .storage_s =
                n * (true_cost->storage_s_per_sample + jobs * true_cost->storage_s_per_job +
                     phases[i].bytes * true_cost->storage_s_per_byte +
                     (phases[i].storage_share < 0.5 ? idle_s : busy_s)),
            .compute_s =
                n * (true_cost->compute_s_per_sample + jobs * true_cost->compute_s_per_job +
                     phases[i].bytes * true_cost->compute_s_per_byte +
                     (phases[i].compute_share < 0.5 ? idle_s : busy_s)),
        };
    }
    return 6;
}

static const struct sluice_transport_cost other_machine = {
    .storage_s_per_sample = 60e-6,
    .storage_s_per_job = 50e-6,
    .storage_s_per_byte = 0.4e-9,
    .compute_s_per_sample = 30e-6,
    .compute_s_per_job = 10e-6,
    .compute_s_per_byte = 0.5e-9,
};

static double error_of(const struct sluice_transport_cost *got, double jobs, double bytes,
                       bool is_storage)
{
    const struct sluice_transport_cost *want = &other_machine;
    const double a = is_storage ? got->storage_s_per_sample + jobs * got->storage_s_per_job +
                                      bytes * got->storage_s_per_byte
                                : got->compute_s_per_sample + jobs * got->compute_s_per_job +
                                      bytes * got->compute_s_per_byte;
    const double b = is_storage ? want->storage_s_per_sample + jobs * want->storage_s_per_job +
                                      bytes * want->storage_s_per_byte
                                : want->compute_s_per_sample + jobs * want->compute_s_per_job +
                                      bytes * want->compute_s_per_byte;
    return fabs(a / b - 1);
}

TEST(follows_what_a_profile_saw)
{
    struct sluice_transport_seen seen[6];
    struct sluice_transport_cost fitted = sluice_transport_cost_default();
    const double receive = fitted.receive_s_per_byte;
    sluice_transport_cost_fit(&fitted, 20e-6, seen, see(&other_machine, 0, 0, seen));
    CU_ASSERT(error_of(&fitted, 1, 150e3, true) < 0.02);
    CU_ASSERT(error_of(&fitted, 0.3, 110e3, true) < 0.02);
    CU_ASSERT(error_of(&fitted, 0, 110e3, false) < 0.02);
    CU_ASSERT(error_of(&fitted, 1, 44e3, false) < 0.02);
    CU_ASSERT_EQUAL(fitted.receive_s_per_byte, receive);
}

/* Phases of what a GPU decodes say what its batches take, and nothing of the rest. */
TEST(batches_follow_what_a_gpus_phases_took_beyond_the_rest)
{
    struct sluice_transport_seen seen[8];
    struct sluice_transport_cost fitted = sluice_transport_cost_default(), without = fitted;
    const struct sluice_transport_cost usual = fitted;
    const size_t num_seen = see(&other_machine, 0, 0, seen);
    sluice_transport_cost_fit(&without, 20e-6, seen, num_seen);
    CU_ASSERT_EQUAL(without.batch_s_per_sample, usual.batch_s_per_sample);
    seen[num_seen] = seen[3]; /* cut there: twice what is usual */
    seen[num_seen].num_decoded = 150;
    seen[num_seen].compute_s +=
        2 * 150 * (usual.batch_s_per_sample + usual.batch_s_per_byte * 44e3);
    seen[num_seen + 1] = seen[0]; /* cut here */
    seen[num_seen + 1].num_decoded = 200;
    seen[num_seen + 1].compute_s = 1;
    sluice_transport_cost_fit(&fitted, 20e-6, seen, num_seen + 2);
    CU_ASSERT_EQUAL(fitted.compute_s_per_sample, without.compute_s_per_sample);
    CU_ASSERT_EQUAL(fitted.compute_s_per_byte, without.compute_s_per_byte);
    CU_ASSERT_DOUBLE_EQUAL(fitted.batch_s_per_sample, 2 * usual.batch_s_per_sample, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(fitted.batch_s_per_byte, 2 * usual.batch_s_per_byte, 2e-11);
    seen[num_seen].compute_s = 1e3; /* no more than four times */
    fitted = usual;
    sluice_transport_cost_fit(&fitted, 20e-6, seen, num_seen + 1);
    CU_ASSERT_DOUBLE_EQUAL(fitted.batch_s_per_sample, 4 * usual.batch_s_per_sample, 1e-12);
}

TEST(what_a_node_takes_while_it_is_idle_counts_little)
{
    struct sluice_transport_seen seen[6];
    struct sluice_transport_cost fitted = sluice_transport_cost_default();
    sluice_transport_cost_fit(&fitted, 20e-6, seen, see(&other_machine, 0, 200e-6, seen));
    CU_ASSERT(error_of(&fitted, 1, 150e3, true) < 0.05);
    CU_ASSERT(error_of(&fitted, 0.5, 130e3, true) < 0.05);
    CU_ASSERT(error_of(&fitted, 0, 110e3, false) < 0.05);
}

TEST(a_sample_takes_no_less_than_reading_its_file)
{
    struct sluice_transport_seen seen[6];
    struct sluice_transport_cost fitted = sluice_transport_cost_default();
    sluice_transport_cost_fit(&fitted, 1e-3, seen, see(&other_machine, 0, 0, seen));
    CU_ASSERT(fitted.storage_s_per_sample >= 1e-3);
    CU_ASSERT(fitted.storage_s_per_job >= 0 && fitted.storage_s_per_byte >= 0);
}

TEST(without_anything_seen_it_stays_as_it_is)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    struct sluice_transport_cost fitted = usual;
    const struct sluice_transport_seen empty = {0};
    sluice_transport_cost_fit(&fitted, 0, &empty, 1);
    CU_ASSERT_DOUBLE_EQUAL(fitted.storage_s_per_job, usual.storage_s_per_job, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(fitted.compute_s_per_sample, usual.compute_s_per_sample, 1e-12);

    /* A server that does not say its CPU time: the compute side is fitted all the same. */
    struct sluice_transport_seen seen[6];
    const size_t n = see(&other_machine, 0, 0, seen);
    for (size_t i = 0; i < n; i++)
        seen[i].storage_s = seen[i].storage_share = NAN;
    sluice_transport_cost_fit(&fitted, 0, seen, n);
    CU_ASSERT_DOUBLE_EQUAL(fitted.storage_s_per_job, usual.storage_s_per_job, 1e-12);
    CU_ASSERT(error_of(&fitted, 0, 110e3, false) < 0.02);
}

TEST(the_default_is_above_nothing_and_grows_with_bytes)
{
    const struct sluice_transport_cost transport = sluice_transport_cost_default();
    double last[SLUICE_NUM_RESOURCES] = {0};
    for (unsigned bytes = 1000; bytes < 100000000; bytes *= 10) {
        double cost[SLUICE_NUM_RESOURCES] = {[SLUICE_NETWORK] = (double)bytes};
        sluice_transport_cost_add(&transport, 0, cost);
        CU_ASSERT(cost[SLUICE_STORAGE_CPU] > last[SLUICE_STORAGE_CPU]);
        CU_ASSERT(cost[SLUICE_COMPUTE_CPU] > last[SLUICE_COMPUTE_CPU]);
        CU_ASSERT(cost[SLUICE_RECEIVE] > last[SLUICE_RECEIVE]);
        /* A part of what the node does. */
        CU_ASSERT(cost[SLUICE_RECEIVE] <= cost[SLUICE_COMPUTE_CPU]);
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            last[r] = cost[r];
    }
    CU_ASSERT(isfinite(last[SLUICE_STORAGE_CPU]) && isfinite(last[SLUICE_COMPUTE_CPU]));
}

TEST(the_receiving_thread_is_as_fast_as_a_probe_was)
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

TEST(a_cipher_makes_bytes_dearer_and_nothing_else)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    struct sluice_transport_cost tls = usual, absurd = usual, none = usual;
    sluice_transport_cost_set_receive_tls(&tls, 0.5e-9);
    sluice_transport_cost_add_tls(&tls, 0.5e-9);
    const double cipher = 0.3e-9; /* beside the 0.2 ns of a byte without it */
    CU_ASSERT_DOUBLE_EQUAL(tls.receive_s_per_byte, usual.receive_s_per_byte + cipher, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(tls.storage_s_per_byte, usual.storage_s_per_byte + cipher, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(tls.compute_s_per_byte, usual.compute_s_per_byte + cipher, 1e-15);
    CU_ASSERT_EQUAL(tls.receive_s_per_sample, usual.receive_s_per_sample);
    CU_ASSERT_EQUAL(tls.storage_s_per_sample, usual.storage_s_per_sample);
    CU_ASSERT_EQUAL(tls.storage_s_per_job, usual.storage_s_per_job);
    sluice_transport_cost_add_tls(&none, 0.1e-9); /* faster than usual: what the cipher takes is
                                                     not to be seen */
    CU_ASSERT_EQUAL(none.storage_s_per_byte, usual.storage_s_per_byte);
    sluice_transport_cost_add_tls(&absurd, 1);
    CU_ASSERT_DOUBLE_EQUAL(absurd.storage_s_per_byte, usual.storage_s_per_byte + 0.6e-9, 1e-15);
}

/* Bytes that a plan moves for 100 photographs between two nodes of one core each. */
static double planned_bytes(const struct sluice_transport_cost *transport)
{
    /* Pixels as they are, or packed, which takes 60 us more. */
    static const double ops[2][SLUICE_NUM_RESOURCES] = {
        {[SLUICE_NETWORK] = 150e3, [SLUICE_STORAGE_CPU] = 1e-3},
        {[SLUICE_NETWORK] = 64e3, [SLUICE_STORAGE_CPU] = 1.06e-3},
    };
    double cost[2][SLUICE_NUM_RESOURCES];
    struct sluice_menu menus[100];
    for (unsigned c = 0; c < 2; c++) {
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            cost[c][r] = ops[c][r];
        sluice_transport_cost_add(transport, true, cost[c]);
    }
    for (int i = 0; i < 100; i++)
        sluice_menu_set(&menus[i], 2, cost);
    struct sluice_capacities capacities = {
        .per_s = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}};
    capacities.per_s[SLUICE_STORAGE_CPU] = 1;
    capacities.per_s[SLUICE_COMPUTE_CPU] = 1;
    capacities.per_s[SLUICE_RECEIVE] = 1;
    capacities.per_s[SLUICE_NETWORK] = 1.25e9;
    const struct sluice_menu_source source = sluice_menu_array(menus, 100);
    uint8_t choice[100];
    struct sluice_lp_result result;
    REQUIRE_OK(sluice_plan_lp(&source, &capacities, choice, &result, NULL));
    double bytes = 0;
    for (int i = 0; i < 100; i++)
        bytes += cost[choice[i]][SLUICE_NETWORK];
    return bytes;
}

TEST(less_is_moved_where_a_byte_is_dearer)
{
    struct sluice_transport_cost plain = sluice_transport_cost_default(), tls = plain;
    sluice_transport_cost_set_receive(&plain, 0.2e-9);
    sluice_transport_cost_set_receive_tls(&tls, 0.68e-9);
    sluice_transport_cost_add_tls(&tls, 0.68e-9);
    CU_ASSERT(planned_bytes(&tls) < 0.6 * planned_bytes(&plain));
}
