#include "compute_client/loader/source/retry.h"

#include "support/test.h"

#define MS 1000000ull

TEST(waits_double_up_to_two_seconds_with_jitter_above_half)
{
    struct sluice_retry retry = sluice_retry_init(1e6, sluice_test_seed());
    const uint64_t ranges_ms[] = {50, 100, 200, 400, 800, 1600, 2000, 2000, 2000};
    for (size_t i = 0; i < sizeof(ranges_ms) / sizeof(ranges_ms[0]); i++) {
        uint64_t wait = 0;
        CU_ASSERT_TRUE_FATAL(sluice_retry_failed(&retry, 5 * MS, &wait));
        CU_ASSERT(wait >= ranges_ms[i] * MS / 2 && wait <= ranges_ms[i] * MS);
    }
}

TEST(two_clients_do_not_wait_alike)
{
    struct sluice_retry a = sluice_retry_init(10, 1), b = sluice_retry_init(10, 2);
    uint64_t wait_a = 0, wait_b = 0;
    CU_ASSERT_TRUE(sluice_retry_failed(&a, 1, &wait_a));
    CU_ASSERT_TRUE(sluice_retry_failed(&b, 1, &wait_b));
    CU_ASSERT_NOT_EQUAL(wait_a, wait_b);
}

TEST(the_patience_counts_from_the_first_failure_after_a_success)
{
    struct sluice_retry retry = sluice_retry_init(1, 3);
    uint64_t wait = 0;
    CU_ASSERT_TRUE(sluice_retry_failed(&retry, 1000 * MS, &wait));
    CU_ASSERT_TRUE(sluice_retry_failed(&retry, 1999 * MS, &wait));
    CU_ASSERT_EQUAL(wait, MS); /* never beyond the end */
    CU_ASSERT_FALSE(sluice_retry_failed(&retry, 2000 * MS, &wait));
    sluice_retry_succeeded(&retry);
    CU_ASSERT_TRUE(sluice_retry_failed(&retry, 2000 * MS, &wait));
    CU_ASSERT(wait <= 50 * MS);
}

TEST(without_patience_the_first_failure_is_the_last)
{
    struct sluice_retry retry = sluice_retry_init(0, 3);
    uint64_t wait = 0;
    CU_ASSERT_FALSE(sluice_retry_failed(&retry, 77 * MS, &wait));
}

TEST(only_what_the_data_is_is_not_worth_another_try)
{
    for (int status = 0; status < SLUICE_NUM_STATUS; status++)
        CU_ASSERT_EQUAL(sluice_retry_is_worth((sluice_status)status),
                        status != SLUICE_OK && status != SLUICE_E_CORRUPT &&
                            status != SLUICE_E_UNSUPPORTED && status != SLUICE_E_NOT_FOUND &&
                            status != SLUICE_E_INVALID);
}
