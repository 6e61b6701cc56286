#include "metrics/histogram.h"

#include "support/test.h"

TEST(bounds_ascend_from_100_us_to_a_minute)
{
    CU_ASSERT_EQUAL(sluice_histogram_bounds_ns[0], 100000);
    CU_ASSERT_EQUAL(sluice_histogram_bounds_ns[SLUICE_HISTOGRAM_BUCKETS - 1], 60000000000);
    for (size_t i = 1; i < SLUICE_HISTOGRAM_BUCKETS; i++) {
        const double ratio =
            (double)sluice_histogram_bounds_ns[i] / (double)sluice_histogram_bounds_ns[i - 1];
        CU_ASSERT(ratio >= 2 && ratio <= 2.5);
    }
}

TEST(an_entry_is_in_the_first_bucket_whose_bound_it_does_not_exceed)
{
    for (size_t i = 0; i < SLUICE_HISTOGRAM_BUCKETS; i++) {
        struct sluice_histogram h = {0};
        sluice_histogram_add(&h, sluice_histogram_bounds_ns[i]);
        sluice_histogram_add(&h, sluice_histogram_bounds_ns[i] + 1);
        CU_ASSERT_EQUAL(h.counts[i], 1);
        CU_ASSERT_EQUAL(h.counts[i + 1], 1);
        CU_ASSERT_EQUAL(h.sum_ns, 2 * sluice_histogram_bounds_ns[i] + 1);
    }
    struct sluice_histogram zero = {0};
    sluice_histogram_add(&zero, 0);
    CU_ASSERT_EQUAL(zero.counts[0], 1);
}
