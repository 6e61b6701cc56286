#include "storage_server/work/cpu_market.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

#define MS 1000000ull
#define S (1000 * MS)

/* Where a market of 0 would be taken for one that has never been asked. */
#define BEGIN (100 * S)

static struct sluice_cpu_market market;
static struct sluice_cpu_market_client one, other;

static void begin(unsigned num_workers)
{
    memset(&one, 0, sizeof(one));
    memset(&other, 0, sizeof(other));
    market = sluice_cpu_market_init(BEGIN, num_workers);
    sluice_cpu_market_join(&market, &one);
    sluice_cpu_market_join(&market, &other);
}

static void follow(struct sluice_cpu_market_client *client, double worth)
{
    sluice_cpu_market_follow(&market, client);
    sluice_cpu_market_hear_worth(client, worth);
}

/* A job of PREP, from its arrival at `from` on, which takes all of the time. */
static void run_job(struct sluice_cpu_market_client *client, uint64_t from, uint64_t took_ns)
{
    sluice_cpu_market_queued(&market, client, from);
    sluice_cpu_market_started(&market, client, from);
    sluice_cpu_market_done(&market, client, from + took_ns, took_ns);
}

static double update(uint64_t at)
{
    return sluice_cpu_market_update(&market, at, market.num_workers, 0);
}

TEST(it_is_due_once_an_interval_has_passed)
{
    begin(1);
    CU_ASSERT_FALSE(sluice_cpu_market_is_due(&market, BEGIN));
    CU_ASSERT_FALSE(sluice_cpu_market_is_due(&market, BEGIN + 50 * MS - 1));
    CU_ASSERT(sluice_cpu_market_is_due(&market, BEGIN + 50 * MS));
    update(BEGIN + 70 * MS);
    CU_ASSERT_FALSE(sluice_cpu_market_is_due(&market, BEGIN + 119 * MS));
    CU_ASSERT(sluice_cpu_market_is_due(&market, BEGIN + 120 * MS));
}

TEST(the_price_is_of_those_who_follow_it_and_ask)
{
    begin(1);
    follow(&one, 2);
    sluice_cpu_market_hear_worth(&other, 8);
    sluice_cpu_market_asked(&one, BEGIN + MS);
    sluice_cpu_market_asked(&other, BEGIN + MS);
    CU_ASSERT_EQUAL(update(BEGIN + 50 * MS), 0); /* the other does not follow */
    CU_ASSERT_EQUAL(market.num_followers, 1);
    sluice_cpu_market_follow(&market, &other);
    /* The mean of 2 and 8, and less, by half at most, as nothing waits. */
    const double price = update(BEGIN + 100 * MS);
    CU_ASSERT_EQUAL(market.num_followers, 2);
    CU_ASSERT_DOUBLE_EQUAL(market.price.worth, 4, 1e-9);
    CU_ASSERT(price > 4 * 0.49 && price < 4);
    sluice_cpu_market_leave(&market, &other);
    CU_ASSERT_EQUAL(update(BEGIN + 150 * MS), 0);
    CU_ASSERT_EQUAL(market.num_followers, 1);
}

TEST(a_client_without_requests_does_not_share_the_cores)
{
    begin(1);
    follow(&one, 2);
    follow(&other, 8);
    sluice_cpu_market_asked(&one, BEGIN + MS);
    update(BEGIN + 50 * MS);
    CU_ASSERT_EQUAL(market.num_followers, 1); /* the other has not asked yet */
    CU_ASSERT_DOUBLE_EQUAL(market.price.worth, 2, 1e-9);
    sluice_cpu_market_asked(&other, BEGIN + 2 * S);
    update(BEGIN + 3 * S);
    CU_ASSERT_EQUAL(market.num_followers, 2);
    update(BEGIN + 3 * S + MS);
    CU_ASSERT_EQUAL(market.num_followers, 1);
    CU_ASSERT_DOUBLE_EQUAL(market.price.worth, 8, 1e-9);
    sluice_cpu_market_queued(&market, &one, BEGIN + 4 * S);
    update(BEGIN + 4 * S);
    CU_ASSERT_EQUAL(market.num_followers, 2);
}

TEST(the_worth_counts_by_what_a_client_used_of_late)
{
    begin(2);
    follow(&one, 1);
    follow(&other, 16);
    run_job(&one, BEGIN, 30 * MS);
    run_job(&other, BEGIN + 30 * MS, 10 * MS);
    update(BEGIN + 50 * MS);
    CU_ASSERT_DOUBLE_EQUAL(market.price.worth, 2, 0.001); /* 16 to the power of 10 / 40 */
    /* What was used two seconds ago counts for exp(-2). */
    update(BEGIN + 2000 * MS);
    run_job(&other, BEGIN + 2000 * MS, 10 * MS);
    update(BEGIN + 2050 * MS);
    const double used_one = 0.030 * exp(-2), used_other = 0.010 * exp(-2) + 0.010;
    CU_ASSERT_DOUBLE_EQUAL(one.used_s, used_one * exp(-0.05), 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(market.price.worth, pow(16, used_other / (used_one + used_other)), 0.01);
}

TEST(the_worth_is_searched_for_while_a_client_has_not_told_it)
{
    begin(1);
    sluice_cpu_market_follow(&market, &one);
    sluice_cpu_market_leave(&market, &other);
    sluice_cpu_market_queued(&market, &one, BEGIN); /* one more than are ever taken */
    double price = 0;
    for (unsigned i = 0; i < 20; i++) {
        run_job(&one, BEGIN + i * 50 * MS, 50 * MS);
        price = sluice_cpu_market_update(&market, BEGIN + (i + 1) * 50 * MS, 1, 0.5);
    }
    CU_ASSERT(price > 0);
    sluice_cpu_market_hear_worth(&one, 3); /* it is alone, so the cores are its own */
    CU_ASSERT_EQUAL(sluice_cpu_market_update(&market, BEGIN + 1050 * MS, 1, 0.5), 0);
    sluice_cpu_market_hear_worth(&one, 0); /* what was told stays told */
    CU_ASSERT_EQUAL(sluice_cpu_market_update(&market, BEGIN + 1100 * MS, 1, 0.5), 0);
}

/* Else the cores would be taken for as few as did nothing then, and the price be too high for long.
 */
TEST(cores_that_nobody_had_asked_for_yet_were_idle)
{
    begin(1);
    const uint64_t at = BEGIN + 350 * MS; /* long enough to learn from */
    follow(&one, 2);
    follow(&other, 2);
    sluice_cpu_market_asked(&other, at);
    for (int i = 0; i < 3; i++)
        sluice_cpu_market_queued(&market, &one, at);
    sluice_cpu_market_started(&market, &one, at); /* from here on one waits all the time */
    sluice_cpu_market_done(&market, &one, at + MS, MS);
    const double price = sluice_cpu_market_update(&market, at + MS, 1, 0.002);
    CU_ASSERT(price > 0 && price < 2);
    CU_ASSERT_FALSE(market.was_empty);
}

TEST(jobs_that_wait_when_a_client_begins_to_follow_count)
{
    begin(1);
    sluice_cpu_market_queued(&market, &one, BEGIN);
    sluice_cpu_market_queued(&market, &one, BEGIN);
    update(BEGIN + 50 * MS);
    CU_ASSERT(market.was_empty);
    sluice_cpu_market_follow(&market, &one);
    sluice_cpu_market_follow(&market, &one); /* they count once */
    update(BEGIN + 100 * MS);
    CU_ASSERT_FALSE(market.was_empty);
    sluice_cpu_market_started(&market, &one, BEGIN + 110 * MS);
    CU_ASSERT_FALSE(market.was_empty);
    sluice_cpu_market_started(&market, &one, BEGIN + 120 * MS);
    CU_ASSERT(market.was_empty);
    CU_ASSERT_EQUAL(market.num_waiting, 0);
}

TEST(jobs_that_began_before_their_client_followed_are_of_others)
{
    begin(2);
    sluice_cpu_market_queued(&market, &one, BEGIN);
    sluice_cpu_market_started(&market, &one, BEGIN);
    follow(&one, 1);
    sluice_cpu_market_queued(&market, &one, BEGIN + 10 * MS);
    sluice_cpu_market_started(&market, &one, BEGIN + 10 * MS);
    sluice_cpu_market_done(&market, &one, BEGIN + 20 * MS, 20 * MS);
    CU_ASSERT_EQUAL(market.done_ns, 0);
    sluice_cpu_market_done(&market, &one, BEGIN + 30 * MS, 15 * MS);
    CU_ASSERT_EQUAL(market.done_ns, 15 * MS);
    CU_ASSERT_EQUAL(market.at_work[false].ns, 20 * MS);
    CU_ASSERT_EQUAL(market.at_work[true].ns, 20 * MS);
    CU_ASSERT_DOUBLE_EQUAL(one.used_s, 0.015, 1e-12);
}

/* Runs a job of each client in every 100 ms until `until`, and updates the price. */
static void keep_busy(struct sluice_cpu_market_client *clients[], int count, uint64_t from,
                      uint64_t until)
{
    for (uint64_t now = from; now < until; now += 100 * MS) {
        for (int j = 0; j < count; j++) {
            sluice_cpu_market_queued(&market, clients[j], now);
            sluice_cpu_market_started(&market, clients[j], now);
            sluice_cpu_market_done(&market, clients[j], now + 50 * MS, 40 * MS);
        }
        update(now + 60 * MS);
    }
}

TEST(who_says_what_is_incredible_for_long_moves_no_price)
{
    static const double lies[] = {1e300, 1e-300, 3000, 0.1};
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct sluice_cpu_market_client third = {0};
        struct sluice_cpu_market_client *all[] = {&one, &other, &third};
        begin(3);
        sluice_cpu_market_join(&market, &third);
        follow(&one, 100);
        follow(&other, 110);
        follow(&third, lies[i]);
        keep_busy(all, 3, BEGIN, BEGIN + 3 * S);
        CU_ASSERT(one.is_priced && other.is_priced);
        CU_ASSERT_FALSE(third.is_priced);
        CU_ASSERT_EQUAL(market.num_followers, 2);
        /* The price is within the level's reach of what the others say. */
        CU_ASSERT(market.price.worth > 99 && market.price.worth < 111);

        /* Jobs that wait while it changes sides are counted right. */
        sluice_cpu_market_queued(&market, &third, BEGIN + 3 * S);
        CU_ASSERT_EQUAL(market.num_waiting, 0);
        sluice_cpu_market_hear_worth(&third, 90);
        keep_busy(all, 2, BEGIN + 3 * S + 100 * MS, BEGIN + 14 * S);
        sluice_cpu_market_asked(&third, BEGIN + 14 * S);
        update(BEGIN + 14 * S + 100 * MS);
        CU_ASSERT(third.is_priced); /* it has come to its senses */
        CU_ASSERT_EQUAL(market.num_waiting, 1);
        CU_ASSERT_EQUAL(market.num_followers, 3);
        sluice_cpu_market_withdrawn(&market, &third);
        CU_ASSERT_EQUAL(market.num_waiting, 0);
        sluice_cpu_market_leave(&market, &third);
    }
}

TEST(a_client_that_hardly_uses_the_cores_may_say_anything)
{
    begin(2);
    struct sluice_cpu_market_client *busy[] = {&one};
    follow(&one, 100);
    follow(&other, 100);
    for (uint64_t now = BEGIN; now < BEGIN + 5 * S; now += 100 * MS) {
        sluice_cpu_market_hear_worth(&other, now / (100 * MS) % 2 ? 1e6 : 1e-6);
        sluice_cpu_market_asked(&other, now);
        keep_busy(busy, 1, now, now + 100 * MS);
    }
    CU_ASSERT(other.is_priced);
}

/* --- against sums over every job there was --- */

#define NUM_CLIENTS 5
#define NUM_WORKERS 4
#define NUM_JOBS 400
#define LAST (BEGIN + 20 * S)

struct job {
    unsigned client;
    uint64_t queued_ns, started_ns, done_ns;
};

static uint64_t overlap(uint64_t a, uint64_t b, uint64_t from, uint64_t to)
{
    const uint64_t first = a > from ? a : from, last = b < to ? b : to;
    return last > first ? last - first : 0;
}

/* What sluice_cpu_price_update() has to be told of (from, to], from the jobs alone.  The even
 * clients follow the price; a worth of 0 was never told. */
static struct sluice_cpu_load load_of(const struct job *jobs, const double *worths, uint64_t from,
                                      uint64_t to)
{
    struct sluice_cpu_load load = {.cores = NUM_WORKERS};
    double used_s[NUM_CLIENTS] = {0};
    uint64_t asked_ns[NUM_CLIENTS] = {0};
    load.was_empty = from == BEGIN;
    for (int i = 0; i < NUM_JOBS; i++) {
        const struct job *job = &jobs[i];
        const bool is_priced = job->client % 2 == 0;
        const double at_work_s = (double)overlap(job->started_ns, job->done_ns, from, to) * 1e-9;
        *(is_priced ? &load.busy_s : &load.others_s) += at_work_s;
        if (job->queued_ns <= to && job->queued_ns > asked_ns[job->client])
            asked_ns[job->client] = job->queued_ns;
        if (!is_priced)
            continue;
        if (job->done_ns > from && job->done_ns <= to)
            load.done_s += (double)(job->done_ns - job->started_ns) * 1e-9;
        if (job->queued_ns <= to && job->started_ns > to)
            load.waiting_s += 0.01;
    }
    load.idle_s = NUM_WORKERS * (double)(to - from) * 1e-9 - load.busy_s - load.others_s;
    /* None waited at some time: at `from`, or just after one had started. */
    for (int i = -1; i < NUM_JOBS; i++) {
        const uint64_t at = i < 0 ? from : jobs[i].started_ns;
        if (at < from || at > to || (i >= 0 && (jobs[i].client % 2 || at == from)))
            continue;
        int num_waiting = 0;
        for (int k = 0; k < NUM_JOBS; k++)
            num_waiting +=
                jobs[k].client % 2 == 0 && jobs[k].queued_ns <= at && (jobs[k].started_ns > at);
        load.was_empty |= num_waiting == 0;
    }
    double sum = 0, sum_weight = 0;
    for (int i = 0; i < NUM_JOBS; i++) {
        /* Whatever is done in an interval decays by all of it. */
        uint64_t end = BEGIN;
        while (end < jobs[i].done_ns)
            end += 50 * MS;
        const uint64_t begin = end > BEGIN ? end - 50 * MS : BEGIN;
        if (jobs[i].done_ns <= to)
            used_s[jobs[i].client] += (double)(jobs[i].done_ns - jobs[i].started_ns) * 1e-9 *
                                      exp(-(double)(to - begin) * 1e-9);
    }
    for (int j = 0; j < NUM_CLIENTS; j += 2) {
        if (!asked_ns[j] || to - asked_ns[j] >= 3 * S)
            continue;
        load.num_followers++;
        load.has_silent |= !(worths[j] > 0);
        if (worths[j] > 0) {
            sum += (used_s[j] + 1e-6) * log(worths[j]);
            sum_weight += used_s[j] + 1e-6;
        }
    }
    load.worth = sum_weight > 0 ? exp(sum / sum_weight) : 0;
    return load;
}

/* Jobs one after the other on each worker, in bursts, so that some wait and some workers idle. */
static void make_jobs(struct sluice_rng *rng, struct job *jobs)
{
    uint64_t free_ns[NUM_WORKERS];
    for (int k = 0; k < NUM_WORKERS; k++)
        free_ns[k] = BEGIN;
    uint64_t at = BEGIN;
    for (int i = 0; i < NUM_JOBS; i++) {
        const double gap = sluice_rng_double(rng);
        at += (uint64_t)((gap < 0.02 ? 2.5e9 : 40e6) * sluice_rng_double(rng)) + 1;
        int first = 0;
        for (int k = 1; k < NUM_WORKERS; k++)
            first = free_ns[k] < free_ns[first] ? k : first;
        const uint64_t started = at > free_ns[first] ? at : free_ns[first];
        free_ns[first] = started + 1 + (uint64_t)(150e6 * sluice_rng_double(rng));
        jobs[i] = (struct job){(unsigned)(NUM_CLIENTS * sluice_rng_double(rng)), at, started,
                               free_ns[first]};
    }
}

/* Tells the market of what became of jobs within (from, to], in the order of time. */
static void tell(struct sluice_cpu_market_client *clients, const struct job *jobs, uint64_t from,
                 uint64_t to)
{
    for (uint64_t at = from; at < to;) {
        uint64_t next = UINT64_MAX;
        for (int i = 0; i < NUM_JOBS; i++) {
            const uint64_t times[] = {jobs[i].queued_ns, jobs[i].started_ns, jobs[i].done_ns};
            for (int k = 0; k < 3; k++)
                next = times[k] > at && times[k] < next ? times[k] : next;
        }
        for (int i = 0; i < NUM_JOBS && next <= to; i++) {
            struct sluice_cpu_market_client *client = &clients[jobs[i].client];
            if (jobs[i].done_ns == next)
                sluice_cpu_market_done(&market, client, next, next - jobs[i].started_ns);
            if (jobs[i].queued_ns == next)
                sluice_cpu_market_queued(&market, client, next);
            if (jobs[i].started_ns == next)
                sluice_cpu_market_started(&market, client, next);
        }
        at = next;
    }
}

TEST(the_accounts_are_the_sums_over_all_jobs)
{
    static struct job jobs[NUM_JOBS];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    make_jobs(&rng, jobs);
    struct sluice_cpu_market_client clients[NUM_CLIENTS] = {{0}};
    const double worths[NUM_CLIENTS] = {3, 100, 0.5, 100, 0};
    market = sluice_cpu_market_init(BEGIN, NUM_WORKERS);
    for (int j = 0; j < NUM_CLIENTS; j++) {
        sluice_cpu_market_join(&market, &clients[j]);
        sluice_cpu_market_hear_worth(&clients[j], worths[j]);
        if (j % 2 == 0)
            sluice_cpu_market_follow(&market, &clients[j]);
    }
    struct sluice_cpu_price price = sluice_cpu_price_init(BEGIN);
    unsigned num_above_0 = 0;
    for (uint64_t at = BEGIN; at < LAST; at += 50 * MS) {
        tell(clients, jobs, at, at + 50 * MS);
        const struct sluice_cpu_load load = load_of(jobs, worths, at, at + 50 * MS);
        const double expected = sluice_cpu_price_update(&price, at + 50 * MS, &load);
        const double got =
            sluice_cpu_market_update(&market, at + 50 * MS, NUM_WORKERS, load.waiting_s);
        CU_ASSERT_DOUBLE_EQUAL_FATAL(got, expected, 1e-6 * expected);
        CU_ASSERT_DOUBLE_EQUAL_FATAL(market.price.cores, price.cores, 1e-6 * price.cores);
        CU_ASSERT_EQUAL_FATAL(market.num_followers, load.num_followers);
        num_above_0 += got > 0;
    }
    CU_ASSERT(num_above_0 > 50);
}
