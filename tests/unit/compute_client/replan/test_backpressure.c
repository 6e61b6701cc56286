#include "compute_client/replan/backpressure.h"

#include "support/choices.h"
#include "support/test.h"

#include <math.h>

enum { S = SLUICE_STORAGE_CPU, N = SLUICE_NETWORK, C = SLUICE_COMPUTE_CPU };

static const double ones[SLUICE_NUM_RESOURCES] = {1, 1, 1, 1, 1, 1, 1};

/* 100 ms on the way, 75 of them at the storage node, for 1 ms of work there and 10 bytes. */
static struct sluice_row_seen row_of(uint64_t compute_cpu_ns)
{
    return (struct sluice_row_seen){
        .status = SLUICE_OK,
        .payload_bytes = 10,
        .requested_ns = 1000000000,
        .arrived_ns = 1100000000,
        .storage_ns = 75000000,
        .storage_cpu_ns = 1000000,
        .compute_cpu_ns = compute_cpu_ns,
    };
}

static struct sluice_backpressure unseen(void)
{
    return (struct sluice_backpressure){.tuning = sluice_tuning_default()};
}

static struct sluice_backpressure seen(void)
{
    struct sluice_backpressure backpressure = unseen();
    const struct sluice_row_seen row = row_of(1000000);
    sluice_backpressure_see(&backpressure, &row, 1);
    return backpressure;
}

static double gain(void)
{
    return sluice_tuning_default()->gain_per_s;
}

TEST(where_items_were_is_learnt_by_what_they_took)
{
    struct sluice_backpressure backpressure = unseen();
    /* A file is in the link for all of its time, and has ten times the bytes; another row has none
     * of its work; a bad one says nothing. */
    struct sluice_row_seen rows[4] = {row_of(2000000), row_of(2000000), row_of(0), row_of(2000000)};
    rows[1].storage_cpu_ns = 1000;
    rows[1].storage_ns = 0;
    rows[1].payload_bytes = 100;
    rows[2].payload_bytes = 0;
    rows[2].arrived_ns = 9000000000;
    rows[2].storage_cpu_ns = 0;
    rows[3].status = SLUICE_E_IO;
    rows[3].arrived_ns = 9000000000;
    sluice_backpressure_see(&backpressure, rows, SLUICE_ARRAY_LEN(rows));
    CU_ASSERT_DOUBLE_EQUAL(backpressure.storage_share, 0.75, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(backpressure.link_share, (10 * 0.25 + 100) / 110, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(backpressure.away_s, 0.1, 1e-9);
    /* What comes later counts for half. */
    struct sluice_row_seen later = row_of(1000000);
    later.arrived_ns = later.requested_ns + 300000000;
    sluice_backpressure_see(&backpressure, &later, 1);
    CU_ASSERT_DOUBLE_EQUAL(backpressure.storage_share, 0.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(backpressure.away_s, 0.2, 1e-9);
    const struct sluice_backpressure before = backpressure;
    sluice_backpressure_see(&backpressure, NULL, 0);
    CU_ASSERT_EQUAL(backpressure.storage_share, before.storage_share);
    CU_ASSERT_EQUAL(backpressure.away_s, before.away_s);
}

TEST(a_longer_queue_makes_its_resource_dearer)
{
    const struct sluice_backpressure backpressure = seen();
    const double dual[SLUICE_NUM_RESOURCES] = {[S] = 0.5, [C] = 0.5};
    double factor[SLUICE_NUM_RESOURCES];
    /* 0.08 s of 0.75 at the storage node, as long as 0.06 s beside what is done in 0.1 s. */
    struct sluice_expected under_way = {0.08, 1e9, 0.16};
    sluice_backpressure_factors(&backpressure, &under_way, dual, ones, factor);
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        CU_ASSERT_DOUBLE_EQUAL(factor[r], 1, 1e-9);
    under_way = (struct sluice_expected){0.12, 0, 0.16};
    sluice_backpressure_factors(&backpressure, &under_way, dual, ones, factor);
    CU_ASSERT_DOUBLE_EQUAL(factor[S], exp(gain() * 0.015), 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(factor[C], exp(-gain() * 0.015), 1e-9);
    CU_ASSERT_EQUAL(factor[N], 1);
    /* On twice the cores it is half as long. */
    double twice[SLUICE_NUM_RESOURCES] = {1, 1, 1, 1, 1, 1, 1};
    twice[S] = 2;
    under_way = (struct sluice_expected){0.16, 0, 0.16};
    sluice_backpressure_factors(&backpressure, &under_way, dual, twice, factor);
    CU_ASSERT_DOUBLE_EQUAL(factor[S], 1, 1e-9);
    /* However long: 7.5 s against none. */
    under_way = (struct sluice_expected){10, 0, 0.1};
    sluice_backpressure_factors(&backpressure, &under_way, dual, ones, factor);
    CU_ASSERT_DOUBLE_EQUAL(factor[S], exp(gain() * 3.75), 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(factor[S] * factor[C], 1, 1e-9);
}

TEST(the_link_counts_where_it_is_a_limit)
{
    const struct sluice_backpressure backpressure = seen();
    const double dual[SLUICE_NUM_RESOURCES] = {[S] = 0.3, [N] = 0.4, [C] = 0.3};
    double factor[SLUICE_NUM_RESOURCES];
    /* 0.06 s each, and 0.03 s more in the link. */
    const struct sluice_expected under_way = {0.08, 0.36, 0.16};
    sluice_backpressure_factors(&backpressure, &under_way, dual, ones, factor);
    CU_ASSERT_DOUBLE_EQUAL(factor[N], exp(gain() * 0.02), 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(factor[S], exp(-gain() * 0.01), 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(factor[C], exp(-gain() * 0.01), 1e-9);
}

TEST(one_limit_alone_leaves_prices_as_they_are)
{
    const struct sluice_backpressure backpressure = seen(), nothing_seen = unseen();
    const struct sluice_expected under_way = {5, 5, 50};
    const double duals[][SLUICE_NUM_RESOURCES] = {
        {[S] = 1}, {[C] = 1}, {[N] = 0.995, [C] = 0.005}, {[SLUICE_GPU] = 1}};
    double factor[SLUICE_NUM_RESOURCES];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(duals); i++) {
        sluice_backpressure_factors(&backpressure, &under_way, duals[i], ones, factor);
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            CU_ASSERT_EQUAL(factor[r], 1);
    }
    /* And where nothing came in yet. */
    const double both[SLUICE_NUM_RESOURCES] = {[S] = 0.5, [C] = 0.5};
    sluice_backpressure_factors(&nothing_seen, &under_way, both, ones, factor);
    CU_ASSERT_EQUAL(factor[S], 1);
    CU_ASSERT_EQUAL(factor[C], 1);
}
