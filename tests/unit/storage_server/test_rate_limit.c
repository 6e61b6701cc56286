#include "storage_server/session/rate_limit.h"

#include "base/rng.h"
#include "support/test.h"

#define MBIT_500 62.5e6

static uint64_t seconds(double s)
{
    return (uint64_t)(s * 1e9);
}

TEST(without_a_limit_everything_goes_at_once)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, 0, 0);
    for (int i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, NULL, 1u << 30, 1), 0);
    sluice_rate_limit_clear(&limit);
}

/* Sends until `until_ns`, asking again `late_ns` after the time it was told; returns the bytes. */
static double send_for(struct sluice_rate_limit *limit, uint64_t from_ns, uint64_t until_ns,
                       size_t len, uint64_t late_ns)
{
    double sent = 0;
    for (uint64_t now = from_ns; now < until_ns;) {
        const uint64_t wait_ns = sluice_rate_limit_take(limit, NULL, len, now);
        if (wait_ns)
            now += wait_ns + late_ns;
        else
            sent += (double)len;
    }
    return sent;
}

TEST(keeps_the_rate_for_messages_of_any_size)
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

TEST(an_asker_late_by_less_than_the_burst_loses_nothing)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, MBIT_500, 0);
    const double sent = send_for(&limit, 0, seconds(5), 110000, seconds(0.015));
    CU_ASSERT(sent <= 5 * MBIT_500 * 1.01);
    CU_ASSERT(sent >= 5 * MBIT_500 * 0.99);
    sluice_rate_limit_clear(&limit);
}

TEST(an_idle_time_is_not_saved_up_beyond_the_burst)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, MBIT_500, 0);
    const double sent = send_for(&limit, seconds(100), seconds(101), 10000, 0);
    CU_ASSERT(sent <= MBIT_500 * 1.02 + 10000);
    sluice_rate_limit_clear(&limit);
}

TEST(a_refusal_spends_nothing)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, 1e6, 0);
    CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, NULL, 100000, 0), 0);
    const uint64_t first = sluice_rate_limit_take(&limit, NULL, 1, 0);
    for (int i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, NULL, 1000000, 0), first);
    /* 100,000 bytes at 1,000,000 a second. */
    CU_ASSERT(first >= seconds(0.1) && first <= seconds(0.1) + 10);
    CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, NULL, 1, first), 0);
    sluice_rate_limit_clear(&limit);
}

TEST(a_clock_that_steps_back_gives_nothing_twice)
{
    struct sluice_rate_limit limit;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    sluice_rate_limit_init(&limit, 1e6, 0);
    double sent = 0;
    for (uint64_t now = 0; now < seconds(1); now += 100000) {
        const uint64_t jitter = sluice_rng_below(&rng, 1000000);
        if (sluice_rate_limit_take(&limit, NULL, 1000, now > jitter ? now - jitter : 0) == 0)
            sent += 1000;
    }
    CU_ASSERT(sent <= 1e6 * 1.01);
    CU_ASSERT(sent >= 1e6 * 0.98);
    sluice_rate_limit_clear(&limit);
}

/* Clients that always have a message, each of its own length and late by its own time, or with
 * pauses, in simulated time.  Counts what each sends until 10 s. */
struct sender {
    struct sluice_rate_share *client;
    size_t len;
    uint64_t late_ns, next_ns, pause_ns;
    double sent;
    uint64_t longest_wait_ns, asked_ns;
};

static void simulate(struct sluice_rate_limit *limit, struct sender *senders, size_t count)
{
    for (;;) {
        struct sender *s = senders;
        for (size_t i = 1; i < count; i++)
            s = senders[i].next_ns < s->next_ns ? &senders[i] : s;
        if (s->next_ns >= seconds(10))
            return;
        const uint64_t wait_ns = sluice_rate_limit_take(limit, s->client, s->len, s->next_ns);
        if (wait_ns) {
            s->next_ns += wait_ns + s->late_ns;
            continue;
        }
        s->sent += (double)s->len;
        if (s->next_ns - s->asked_ns > s->longest_wait_ns)
            s->longest_wait_ns = s->next_ns - s->asked_ns;
        s->next_ns += s->pause_ns;
        s->asked_ns = s->next_ns;
    }
}

TEST(clients_that_always_send_have_equal_parts)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, 12.5e6, 0);
    struct sluice_rate_share many = {0}, one = {0};
    sluice_rate_limit_join(&limit, &many);
    sluice_rate_limit_join(&limit, &many);
    sluice_rate_limit_leave(&limit, &many); /* it has another connection */
    sluice_rate_limit_join(&limit, &one);
    /* A hundred streams of one client, on several threads, and one stream of another. */
    struct sender senders[101];
    for (int i = 0; i < 101; i++)
        senders[i] =
            (struct sender){.client = &many, .len = 262144, .late_ns = (uint64_t)(i % 4) * 700000};
    senders[100] = (struct sender){.client = &one, .len = 20000, .late_ns = 1000000};
    simulate(&limit, senders, 101);
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += senders[i].sent;
    CU_ASSERT(senders[100].sent > 0.45 * 125e6 && senders[100].sent < 0.55 * 125e6);
    CU_ASSERT(sum + senders[100].sent > 0.98 * 125e6); /* and nothing is lost */
    sluice_rate_limit_leave(&limit, &many);
    sluice_rate_limit_leave(&limit, &one);
    sluice_rate_limit_clear(&limit);
}

TEST(a_client_that_asks_for_little_waits_for_one_message)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, 12.5e6, 0);
    struct sluice_rate_share many = {0}, one = {0};
    sluice_rate_limit_join(&limit, &many);
    sluice_rate_limit_join(&limit, &one);
    struct sender senders[101];
    for (int i = 0; i < 100; i++)
        senders[i] =
            (struct sender){.client = &many, .len = 262144, .late_ns = (uint64_t)(i % 4) * 700000};
    senders[100] =
        (struct sender){.client = &one, .len = 20000, .late_ns = 1000000, .pause_ns = 50000000};
    simulate(&limit, senders, 101);
    /* 21 ms for a message of another client, and what it comes late. */
    CU_ASSERT(senders[100].longest_wait_ns < seconds(0.030));
    sluice_rate_limit_leave(&limit, &many);
    sluice_rate_limit_leave(&limit, &one);
    sluice_rate_limit_clear(&limit);
}

TEST(a_client_that_does_not_come_back_holds_nobody_up)
{
    struct sluice_rate_limit limit;
    sluice_rate_limit_init(&limit, 12.5e6, 0);
    struct sluice_rate_share gone = {0}, one = {0};
    sluice_rate_limit_join(&limit, &gone);
    sluice_rate_limit_join(&limit, &one);
    struct sender sender = {.client = &one, .len = 100000};
    CU_ASSERT_EQUAL(sluice_rate_limit_take(&limit, sender.client, 100000, 0), 0);
    CU_ASSERT(sluice_rate_limit_take(&limit, &gone, 100000, 0) > 0);
    simulate(&limit, &sender, 1);
    CU_ASSERT(sender.sent > 0.99 * 125e6);
    sluice_rate_limit_leave(&limit, &gone);
    sluice_rate_limit_leave(&limit, &one);
    sluice_rate_limit_clear(&limit);
}
