#include "storage_server/rate_limit.h"

#include "base/rng.h"
#include "support/test.h"

#define MBIT_500 62.5e6

static uint64_t seconds(double s)
{
    return (uint64_t)(s * 1e9);
}

static void without_a_limit_everything_goes_at_once(void)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, 0, 0);
    for (int i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, 1u << 30, 1), 0);
    sluice_rate_limit_clear(&limit);
}

/* Sends until `until_ns`, asking again `late_ns` after the time it was told; returns the bytes. */
static double send_for(struct sluice_rate_limit *limit, uint64_t from_ns, uint64_t until_ns,
                       size_t len, uint64_t late_ns)
{
    double sent = 0;
    for (uint64_t now = from_ns; now < until_ns;) {
        const uint64_t wait_ns = sluice_rate_limit_take(limit, len, now);
        if (wait_ns)
            now += wait_ns + late_ns;
        else
            sent += (double)len;
    }
    return sent;
}

static void keeps_the_rate_for_messages_of_any_size(void)
{
    static const size_t lengths[] = {100, 1500, 20000, 150528, 602112, 5000000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct sluice_rate_limit limit;
        sluice_rate_limit_init(&limit, MBIT_500, seconds(3));
        const double sent = send_for(&limit, seconds(3), seconds(8), lengths[i], 0);
        /* One message may be on its way when the time is up. */
        CU_ASSERT(sent <= 5 * MBIT_500 * 1.005 + (double)lengths[i]);
        CU_ASSERT(sent >= 5 * MBIT_500 * 0.995);
        sluice_rate_limit_clear(&limit);
    }
}

static void an_asker_late_by_less_than_the_burst_loses_nothing(void)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, MBIT_500, 0);
    const double sent = send_for(&limit, 0, seconds(5), 110000, seconds(0.015));
    CU_ASSERT(sent <= 5 * MBIT_500 * 1.01);
    CU_ASSERT(sent >= 5 * MBIT_500 * 0.99);
    sluice_rate_limit_clear(&limit);
}

static void an_idle_time_is_not_saved_up_beyond_the_burst(void)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, MBIT_500, 0);
    const double sent = send_for(&limit, seconds(100), seconds(101), 10000, 0);
    CU_ASSERT(sent <= MBIT_500 * 1.02 + 10000);
    sluice_rate_limit_clear(&limit);
}

static void a_refusal_spends_nothing(void)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, 1e6, 0);
    CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, 100000, 0), 0);
    const uint64_t first = sluice_rate_limit_take(&limit, 1, 0);
    for (int i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, 1000000, 0), first);
    /* 100,000 bytes at 1,000,000 a second. */
    CU_ASSERT(first >= seconds(0.1) && first <= seconds(0.1) + 10);
    CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, 1, first), 0);
    sluice_rate_limit_clear(&limit);
}

static void a_clock_that_steps_back_gives_nothing_twice(void)
{
    struct sluice_rate_limit limit;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    sluice_rate_limit_init(&limit, 1e6, 0);
    double sent = 0;
    for (uint64_t now = 0; now < seconds(1); now += 100000) {
        const uint64_t jitter = sluice_rng_below(&rng, 1000000);
        if (sluice_rate_limit_take(&limit, 1000, now > jitter ? now - jitter : 0) == 0)
            sent += 1000;
    }
    CU_ASSERT(sent <= 1e6 * 1.01);
    CU_ASSERT(sent >= 1e6 * 0.98);
    sluice_rate_limit_clear(&limit);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(without_a_limit_everything_goes_at_once),
        SLUICE_TEST(keeps_the_rate_for_messages_of_any_size),
        SLUICE_TEST(an_asker_late_by_less_than_the_burst_loses_nothing),
        SLUICE_TEST(an_idle_time_is_not_saved_up_beyond_the_burst),
        SLUICE_TEST(a_refusal_spends_nothing),
        SLUICE_TEST(a_clock_that_steps_back_gives_nothing_twice),
    };
    return sluice_test_run("rate_limit", tests, SLUICE_TEST_COUNT(tests));
}
