#include "compute_client/replan/cpu_share.h"

#include "support/choices.h"
#include "support/test.h"

#include <math.h>

#define MS 1000000u

/* A million of so many take a second. */
#define NUM_ITEMS 2000000

static struct sluice_lp_result plan_of(double share, double used)
{
    struct sluice_lp_result result = {.primal_s = 2};
    result.dual[SLUICE_STORAGE_CPU] = share;
    result.busy_s[SLUICE_STORAGE_CPU] = 2 * used;
    return result;
}

static struct sluice_cpu_share unseen(void)
{
    return (struct sluice_cpu_share){.tuning = sluice_tuning_default()};
}

/* Follows a price from 0.5 cores of 4. */
static struct sluice_cpu_share following(double price)
{
    struct sluice_cpu_share share = unseen();
    for (int i = 0; i < 30; i++)
        sluice_cpu_share_see(&share, price, 0.5);
    CU_ASSERT_DOUBLE_EQUAL(sluice_cpu_share_next(&share, 0, 4), 0.5, 1e-6);
    return share;
}

TEST(without_a_price_there_is_no_share_to_keep_to)
{
    struct sluice_cpu_share share = unseen();
    sluice_cpu_share_see(&share, 0, 0.5);
    CU_ASSERT_EQUAL(sluice_cpu_share_next(&share, 0, 4), 0);
    /* Nor once it has gone. */
    share = following(1);
    CU_ASSERT_EQUAL(share.price, 1);
    sluice_cpu_share_see(&share, 0, 0.5);
    CU_ASSERT_EQUAL(sluice_cpu_share_next(&share, 1, 4), 0);
    CU_ASSERT_EQUAL(share.cores, 0);
}

TEST(the_worth_of_a_core_is_what_another_would_gain)
{
    /* T (1 - p d) with x (1 + d). */
    struct sluice_cpu_share share = following(1);
    const struct sluice_lp_result result = plan_of(0.2, 1);
    sluice_cpu_share_planned(&share, 0.5, &result, NUM_ITEMS);
    CU_ASSERT_DOUBLE_EQUAL(share.worth, 0.2 / 0.5, 1e-9);
    /* Of a tenth of the samples in the same time: each has ten times as much of it. */
    sluice_cpu_share_planned(&share, 0.5, &result, NUM_ITEMS / 10);
    CU_ASSERT_DOUBLE_EQUAL(share.worth, 10 * 0.2 / 0.5, 1e-9);
}

TEST(the_worth_is_that_of_the_program)
{
    /* T = max(1 - s, s / x), as of work that storage seconds s take off the client. */
    const double xs[] = {0.1, 0.5, 2};
    for (int i = 0; i < 3; i++) {
        const double x = xs[i], t = 1 / (1 + x), h = 1e-6 * x;
        const double slope = (1 / (1 + x + h) - t) / h; /* of T by x */
        struct sluice_cpu_share share = following(1);
        struct sluice_lp_result result = plan_of(-slope * x / t, 1);
        result.primal_s *= t;
        result.busy_s[SLUICE_STORAGE_CPU] *= t;
        sluice_cpu_share_planned(&share, x, &result, NUM_ITEMS);
        CU_ASSERT_DOUBLE_EQUAL(share.worth, -slope, 1e-3);
    }
}

TEST(uses_more_where_a_core_is_worth_more_than_its_price)
{
    struct sluice_cpu_share share = following(1);
    const struct sluice_lp_result dear = plan_of(1, 1); /* worth 2 */
    sluice_cpu_share_planned(&share, 0.5, &dear, NUM_ITEMS);
    const double more = sluice_cpu_share_next(&share, 250 * MS, 4);
    CU_ASSERT(more > 0.55 && more < 0.7);
    const struct sluice_lp_result cheap = plan_of(0.2, 1);
    sluice_cpu_share_planned(&share, more, &cheap, NUM_ITEMS);
    CU_ASSERT(sluice_cpu_share_next(&share, 500 * MS, 4) < more);
}

TEST(steps_become_small_near_the_right_share)
{
    struct sluice_cpu_share share = following(1);
    const struct sluice_lp_result near = plan_of(0.515, 1); /* worth 1.03 */
    sluice_cpu_share_planned(&share, 0.5, &near, NUM_ITEMS);
    const double next = sluice_cpu_share_next(&share, 250 * MS, 4);
    CU_ASSERT(next > 0.5 && next < 0.51);
    /* However far the worth is off, and however long ago it was. */
    const struct sluice_lp_result all = plan_of(1, 1);
    sluice_cpu_share_planned(&share, next, &all, NUM_ITEMS);
    CU_ASSERT(sluice_cpu_share_next(&share, 60000 * (uint64_t)MS, 4) < 1.5 * next);
}

TEST(does_not_ask_for_more_than_a_plan_has_a_use_for)
{
    struct sluice_cpu_share share = following(0.1);
    const struct sluice_lp_result dear = plan_of(1, 1), slack = plan_of(0, 0.6);
    sluice_cpu_share_planned(&share, 0.5, &dear, NUM_ITEMS); /* there was one before */
    sluice_cpu_share_planned(&share, 0.5, &slack, NUM_ITEMS);
    CU_ASSERT_EQUAL(share.worth, 0);
    CU_ASSERT_DOUBLE_EQUAL(share.cores, 0.3, 1e-6);
    const double planned = share.cores;
    CU_ASSERT(sluice_cpu_share_next(&share, 250 * MS, 4) <= planned);
}

TEST(stays_within_the_cores_and_above_nothing)
{
    struct sluice_cpu_share share = following(1);
    CU_ASSERT_EQUAL(sluice_cpu_share_next(&share, 250 * MS, 0.25), 0.25);
    const struct sluice_lp_result cheap = plan_of(0.001, 1);
    for (unsigned i = 2; i < 200; i++) {
        const double cores = sluice_cpu_share_next(&share, i * (uint64_t)(250 * MS), 4);
        sluice_cpu_share_planned(&share, cores, &cheap, NUM_ITEMS);
        CU_ASSERT(cores >= sluice_tuning_default()->least_share * 4);
    }
}
