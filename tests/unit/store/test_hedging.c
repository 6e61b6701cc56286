#include "store/hedging.h"

#include "base/rng.h"
#include "store/tuning.h"
#include "support/test.h"

#define MS UINT64_C(1000000)

static struct sluice_hedging of(uint64_t slow_ms, unsigned slow_per_1000)
{
    struct sluice_hedging hedging = sluice_hedging_init();
    for (unsigned i = 0; i < 2000; i++) {
        sluice_hedging_count(&hedging);
        const bool is_slow = i * slow_per_1000 % 1000 < slow_per_1000;
        sluice_hedging_note(&hedging, is_slow ? slow_ms * MS : (20 + i % 10) * MS);
    }
    return hedging;
}

TEST(waits_for_the_slowest_in_a_hundred)
{
    struct sluice_hedging hedging = of(2000, 2);
    CU_ASSERT_EQUAL(sluice_hedging_after_ns(&hedging), 2 * 25 * MS); /* twice the median */
    hedging = of(70, 50);
    CU_ASSERT_EQUAL(sluice_hedging_after_ns(&hedging), 70 * MS); /* the 99th */
    hedging = of(2000, 50);
    CU_ASSERT_EQUAL(sluice_hedging_after_ns(&hedging), 3 * 29 * MS); /* of the 90th */
}

TEST(never_before_the_floor)
{
    struct sluice_hedging hedging = sluice_hedging_init();
    for (unsigned i = 0; i < 1000; i++) {
        sluice_hedging_count(&hedging);
        sluice_hedging_note(&hedging, 1000);
    }
    CU_ASSERT_EQUAL(sluice_hedging_after_ns(&hedging), STORE_HEDGE_FLOOR_MS * MS);
}

TEST(not_before_enough_is_known)
{
    struct sluice_hedging hedging = sluice_hedging_init();
    for (unsigned i = 0; i < 99; i++) {
        sluice_hedging_count(&hedging);
        sluice_hedging_note(&hedging, 30 * MS);
        CU_ASSERT_EQUAL(sluice_hedging_after_ns(&hedging), UINT64_MAX);
    }
    sluice_hedging_note(&hedging, 30 * MS);
    CU_ASSERT_EQUAL(sluice_hedging_after_ns(&hedging), 60 * MS);
}

TEST(has_a_budget)
{
    struct sluice_hedging hedging = of(2000, 10);
    unsigned num_hedges = 0;
    while (sluice_hedging_after_ns(&hedging) != UINT64_MAX) {
        sluice_hedging_spend(&hedging);
        num_hedges++;
    }
    CU_ASSERT(num_hedges == (unsigned)STORE_MAX_HEDGES_SAVED);
    for (unsigned i = 0; i < 1000; i++) {
        sluice_hedging_count(&hedging);
        if (sluice_hedging_after_ns(&hedging) != UINT64_MAX) {
            sluice_hedging_spend(&hedging);
            num_hedges++;
        }
    }
    CU_ASSERT(num_hedges <= STORE_MAX_HEDGES_SAVED + 1000 * STORE_HEDGE_RATIO + 1);
    CU_ASSERT(num_hedges >= STORE_MAX_HEDGES_SAVED + 1000 * STORE_HEDGE_RATIO - 1);
}

TEST(follows_a_store_that_becomes_slower)
{
    struct sluice_hedging hedging = of(2000, 2);
    for (unsigned i = 0; i < 1000; i++)
        sluice_hedging_note(&hedging, 300 * MS);
    CU_ASSERT_EQUAL(sluice_hedging_after_ns(&hedging), 600 * MS);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* 5 to 20 ms, or in so many of 1000 two seconds. */
static uint64_t draw_ns(struct sluice_rng *rng, unsigned slow_per_1000)
{
    const bool is_slow = sluice_rng_below(rng, 1000) < slow_per_1000;
    return (is_slow ? 2000 : 5 + sluice_rng_below(rng, 16)) * MS;
}

/* Requests one after the other, each with its second one where the policy says so. */
TEST(a_tail_of_seconds_is_cut_within_the_budget)
{
    enum { NUM = 20000 };
    static uint64_t without[NUM], with[NUM];
    for (unsigned slow_per_1000 = 5; slow_per_1000 <= 15; slow_per_1000 += 5) {
        struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, slow_per_1000, 0);
        struct sluice_hedging hedging = sluice_hedging_init();
        unsigned num_hedges = 0;
        for (unsigned i = 0; i < NUM; i++) {
            with[i] = without[i] = draw_ns(&rng, slow_per_1000);
            sluice_hedging_count(&hedging);
            const uint64_t after_ns = sluice_hedging_after_ns(&hedging);
            if (with[i] > after_ns) {
                const uint64_t second = after_ns + draw_ns(&rng, slow_per_1000);
                with[i] = second < with[i] ? second : with[i];
                sluice_hedging_spend(&hedging);
                num_hedges++;
            }
            sluice_hedging_note(&hedging, with[i]);
        }
        qsort(without, NUM, sizeof(without[0]), by_value);
        qsort(with, NUM, sizeof(with[0]), by_value);
        const size_t at = NUM / 1000 * 999;
        printf("%u in 1000 take 2 s: p99.9 %.0f ms, with %u seconds %.0f ms\n", slow_per_1000,
               (double)without[at] * 1e-6, num_hedges, (double)with[at] * 1e-6);
        CU_ASSERT_EQUAL(without[at], 2000 * MS);
        CU_ASSERT(with[at] < 150 * MS);
        CU_ASSERT(num_hedges <= NUM * STORE_HEDGE_RATIO + STORE_MAX_HEDGES_SAVED);
    }
}
