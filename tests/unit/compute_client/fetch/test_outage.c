#include "compute_client/fetch/outage.h"

#include "compute_client/loader/tuning.h"
#include "support/test.h"

#define SECOND 1000000000ull

TEST(one_line_when_it_is_lost_and_one_when_it_is_back)
{
    struct sluice_outage outage = {0};
    uint64_t untold = 1;
    double away_s = 0;
    CU_ASSERT_FALSE(sluice_outage_back(&outage, SECOND, &away_s));
    CU_ASSERT_TRUE(sluice_outage_lost(&outage, 2 * SECOND, &untold));
    CU_ASSERT_EQUAL(untold, 0);
    for (uint64_t i = 0; i < 100; i++) /* each attempt that fails */
        CU_ASSERT_FALSE(sluice_outage_lost(&outage, (3 + i) * SECOND, NULL));
    CU_ASSERT_EQUAL(outage.since_ns, 2 * SECOND);
    CU_ASSERT_TRUE(sluice_outage_back(&outage, 105 * SECOND, &away_s));
    CU_ASSERT_DOUBLE_EQUAL(away_s, 103, 1e-9);
    CU_ASSERT_FALSE(sluice_outage_back(&outage, 106 * SECOND, &away_s));
    CU_ASSERT_EQUAL(outage.num, 1);
}

TEST(a_second_stream_that_ended_before_it_was_back_is_no_second_outage)
{
    struct sluice_outage outage = {0};
    double away_s;
    CU_ASSERT_TRUE(sluice_outage_lost(&outage, 10, NULL));
    CU_ASSERT_TRUE(sluice_outage_back(&outage, 30, &away_s));
    CU_ASSERT_FALSE(sluice_outage_lost(&outage, 20, NULL));
    CU_ASSERT_EQUAL(outage.since_ns, 0);
    CU_ASSERT_EQUAL(outage.num, 1);
    CU_ASSERT_TRUE(sluice_outage_lost(&outage, 40, NULL));
    CU_ASSERT_EQUAL(outage.num, 2);
}

TEST(a_link_that_flaps_is_told_of_now_and_then_and_always_in_pairs)
{
    struct sluice_outage outage = {0};
    unsigned lost = 0, back = 0, untold_sum = 0;
    const unsigned num = 1000;
    for (unsigned i = 0; i < num; i++) { /* 100 s, ten outages a second */
        uint64_t untold = 0;
        double away_s;
        lost += sluice_outage_lost(&outage, (100 + i * 10) * (SECOND / 100), &untold);
        untold_sum += (unsigned)untold;
        back += sluice_outage_back(&outage, (105 + i * 10) * (SECOND / 100), &away_s);
    }
    CU_ASSERT_EQUAL(lost, back);
    CU_ASSERT(lost >= 9 && lost <= 10 + TUNING_OUTAGES_AT_ONCE);
    CU_ASSERT_EQUAL(outage.num, num);
    CU_ASSERT_EQUAL(lost + untold_sum + outage.untold, num);
}

TEST(one_that_lasts_is_told_of_whatever_was_before)
{
    struct sluice_outage outage = {0};
    uint64_t now = SECOND, untold = 0;
    double away_s;
    while (sluice_outage_lost(&outage, now, NULL)) { /* until there is no line left */
        (void)sluice_outage_back(&outage, ++now, &away_s);
        now++;
    }
    const uint64_t since_ns = now;
    while (!sluice_outage_lost(&outage, now, &untold))
        now += SECOND;
    CU_ASSERT(now - since_ns <= TUNING_TELL_OUTAGE_NS + SECOND);
    CU_ASSERT_TRUE(sluice_outage_back(&outage, now + SECOND, &away_s));
    CU_ASSERT_DOUBLE_EQUAL(away_s, (double)(now + SECOND - since_ns) * 1e-9, 1e-9);
}
