#include "compute_client/fetch/replica_load.h"

#include "compute_client/fetch/tuning.h"
#include "support/test.h"

#include <math.h>

#define MS 1000000ull

/* Keeps `depth` requests at a server that answers one each gap_ms, from *now on. */
static void serve(struct sluice_replica_load *load, uint64_t *now, size_t count, size_t depth,
                  uint64_t gap_ms)
{
    while (load->num_owed < depth)
        sluice_replica_load_asked(load, *now);
    for (size_t i = 0; i < count; i++) {
        const uint64_t trip_ns = depth * gap_ms * MS;
        *now += gap_ms * MS;
        sluice_replica_load_answered(load, *now > trip_ns ? *now - trip_ns : 0, *now);
        sluice_replica_load_asked(load, *now);
    }
}

TEST(a_server_without_history_counts_what_it_was_asked_for)
{
    struct sluice_replica_load load = {0};
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_wait_s(&load, 5, 0.01), 0.01, 1e-9);
    sluice_replica_load_asked(&load, 5);
    sluice_replica_load_asked(&load, 5);
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_wait_s(&load, 5, 0.01), 0.03, 1e-9);
    CU_ASSERT_EQUAL(sluice_replica_load_gap_s(&load), 0);
}

TEST(the_wait_is_the_queue_over_the_rate)
{
    struct sluice_replica_load load = {0};
    uint64_t now = 1000 * MS;
    serve(&load, &now, 200, 10, 4);
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_gap_s(&load), 0.004, 1e-4);
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_wait_s(&load, now, 1), 0.044, 1e-3);
    for (int i = 0; i < 5; i++)
        sluice_replica_load_forgot(&load);
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_wait_s(&load, now, 1), 0.040, 1e-3); /* the trip */
    for (int i = 0; i < 20; i++)
        sluice_replica_load_asked(&load, now);
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_wait_s(&load, now, 1), 0.104, 2e-3);
}

TEST(the_rate_is_of_the_time_in_which_it_owed_answers)
{
    struct sluice_replica_load load = {0};
    uint64_t now = 1000 * MS;
    for (int i = 0; i < 100; i++) {
        sluice_replica_load_asked(&load, now);
        now += 3 * MS;
        sluice_replica_load_answered(&load, now - 3 * MS, now);
        now += 200 * MS; /* nobody asks */
    }
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_gap_s(&load), 0.003, 1e-4);
}

TEST(replies_in_bursts_do_not_hide_the_rate)
{
    struct sluice_replica_load load = {0};
    uint64_t now = 1000 * MS;
    for (int i = 0; i < 200; i++)
        sluice_replica_load_asked(&load, now);
    for (int burst = 0; burst < 40; burst++) {
        now += 50 * MS;
        for (int i = 0; i < 50; i++) {
            sluice_replica_load_answered(&load, now - 200 * MS, now);
            sluice_replica_load_asked(&load, now);
        }
        if (burst >= 20)
            CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_gap_s(&load), 0.001, 2e-4);
    }
}

TEST(a_change_of_the_rate_is_known_soon)
{
    struct sluice_replica_load load = {0};
    uint64_t now = 1000 * MS;
    serve(&load, &now, 1000, 10, 1);
    const uint64_t changed = now;
    while (sluice_replica_load_gap_s(&load) < 0.005)
        serve(&load, &now, 1, 10, 20);
    CU_ASSERT(now - changed < 2 * (uint64_t)TUNING_REPLICA_MEMORY_NS);
}

TEST(one_that_falls_silent_is_expected_to_be_so_for_as_long_again)
{
    struct sluice_replica_load load = {0};
    uint64_t now = 1000 * MS;
    serve(&load, &now, 200, 10, 1);
    CU_ASSERT(sluice_replica_load_wait_s(&load, now, 1) < 0.012);
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_wait_s(&load, now + 700 * MS, 1), 0.7, 1e-6);
}

TEST(a_slow_servers_usual_silence_is_longer_than_its_gaps)
{
    struct sluice_replica_load load = {0};
    CU_ASSERT_EQUAL(sluice_replica_load_usual_silence_s(&load), 0);
    uint64_t now = 1000 * MS;
    for (int i = 0; i < 100; i++) {
        serve(&load, &now, 1, 4, 8000 + i % 2 * 500);
        CU_ASSERT(sluice_replica_load_usual_silence_s(&load) > 9);
        CU_ASSERT(sluice_replica_load_usual_silence_s(&load) < 30);
    }
}

TEST(a_bursty_servers_usual_silence_is_that_between_bursts)
{
    struct sluice_replica_load load = {0};
    uint64_t now = 1000 * MS;
    for (int burst = 0; burst < 100; burst++) {
        serve(&load, &now, 1, 20, 30);
        serve(&load, &now, 19, 20, 0);
    }
    const double usual_s = sluice_replica_load_usual_silence_s(&load);
    CU_ASSERT(usual_s > 0.025 && usual_s < 0.1);
    /* One that was busy for a while is soon expected to be as before. */
    serve(&load, &now, 1, 20, 5000);
    CU_ASSERT(sluice_replica_load_usual_silence_s(&load) > 1);
    for (int burst = 0; burst < 40; burst++)
        serve(&load, &now, 1, 20, 30);
    CU_ASSERT(sluice_replica_load_usual_silence_s(&load) < 0.2);
}

TEST(what_is_known_of_one_that_is_asked_nothing_ages)
{
    struct sluice_replica_load load = {0};
    uint64_t now = 1000 * MS;
    sluice_replica_load_asked(&load, now);
    now += 10000 * MS;
    sluice_replica_load_answered(&load, now - 10000 * MS, now);
    const double wait_s = sluice_replica_load_wait_s(&load, now, 1);
    CU_ASSERT_DOUBLE_EQUAL(wait_s, 10, 0.1);
    now += 3 * (uint64_t)TUNING_REPLICA_FORGET_NS;
    CU_ASSERT_DOUBLE_EQUAL(sluice_replica_load_wait_s(&load, now, 1), wait_s / 8, 0.01);
    /* One request at a time: what is known counts again. */
    sluice_replica_load_asked(&load, now);
    CU_ASSERT(sluice_replica_load_wait_s(&load, now, 1) > wait_s);
}

TEST(it_should_owe_what_it_answers_in_a_while)
{
    struct sluice_replica_load load = {0};
    CU_ASSERT_EQUAL(sluice_replica_load_most_owed(&load), TUNING_REPLICA_LEAST_AHEAD);
    uint64_t now = 1000 * MS;
    serve(&load, &now, 500, 4, 1);
    const double most = TUNING_REPLICA_AHEAD_S / 0.001;
    CU_ASSERT_DOUBLE_EQUAL((double)sluice_replica_load_most_owed(&load), most, most / 20);
    /* As much, however long its queue has been. */
    serve(&load, &now, 5000, 1000, 1);
    CU_ASSERT_DOUBLE_EQUAL((double)sluice_replica_load_most_owed(&load), most, most / 20);
    struct sluice_replica_load slow = {0};
    serve(&slow, &now, 100, 4, 200);
    CU_ASSERT_EQUAL(sluice_replica_load_most_owed(&slow), TUNING_REPLICA_LEAST_AHEAD);
    /* Behind a long way. */
    struct sluice_replica_load far = {0};
    serve(&far, &now, 2000, 400, 1);
    CU_ASSERT(sluice_replica_load_most_owed(&far) > 400 * (TUNING_REPLICA_AHEAD_TRIPS - 1));
}
