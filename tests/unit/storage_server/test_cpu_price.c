#include "storage_server/work/cpu_price.h"

#include "storage_server/tuning.h"
#include "support/test.h"

#include <math.h>

#define INTERVAL_S 0.05
#define STEP_S 0.001
#define CLIENT_INTERVAL_S 0.25

static uint64_t to_ns(double s)
{
    return (uint64_t)(s * 1e9 + 0.5);
}

/* Clients in front of a queue, as a fluid.  Each uses some of the cores, and moves as auto_price.h
 * says. */
struct client {
    double worth, steepness; /* of the last core second: worth / use ^ steepness */
    double use;
};

struct world {
    struct client clients[4];
    int n;
    double cores;    /* that are left for these clients' jobs */
    double said;     /* how many there are said to be */
    double period_s; /* of a quota that stops all workers until its next period; 0: none */
    double lag_s;    /* from a price to what is asked for at it */
    double most_s;   /* of work, that clients have open */
    double now_s, waiting_s;
    struct sluice_cpu_price price;
    double heard[1024]; /* the price, step by step */
};

struct seen {
    double busy;        /* of what the cores can do */
    double most_wait_s; /* in the queue */
    double least, most; /* price */
};

static double worth_of(const struct client *client)
{
    return client->worth * pow(client->use, -client->steepness);
}

static double mean_worth(const struct world *world)
{
    double sum = 0, sum_use = 0;
    for (int j = 0; j < world->n; j++) {
        sum += world->clients[j].use * log(worth_of(&world->clients[j]));
        sum_use += world->clients[j].use;
    }
    return sum_use > 0 ? exp(sum / sum_use) : 0;
}

static void follow(struct client *client, double price)
{
    const double step = price > 0 ? CLIENT_INTERVAL_S * log(worth_of(client) / price) : 0.1;
    client->use *= exp(fmin(fmax(step, -0.3), 0.3));
}

/* What workers can do in a step that begins at now_s: with a quota all of it early in a period. */
static double capacity_at(const struct world *world)
{
    if (!(world->period_s > 0))
        return world->cores * STEP_S;
    const double at_s = fmod(world->now_s + STEP_S / 2, world->period_s);
    const bool is_stopped = at_s > world->period_s * world->cores;
    return is_stopped ? 0 : STEP_S;
}

static struct seen run(struct world *world, double seconds)
{
    struct seen seen = {.least = INFINITY};
    const int memory = SLUICE_ARRAY_LEN(world->heard);
    const int lag = (int)(world->lag_s / STEP_S);
    double busy_s = 0, done_s = 0, held_s = 0, idle_s = 0;
    bool was_empty = false;
    const long first = lround(world->now_s / STEP_S), last = first + lround(seconds / STEP_S);
    for (long i = first; i < last; i++) {
        world->now_s = (double)i * STEP_S;
        for (int j = 0; j < world->n; j++) {
            if (i % lround(CLIENT_INTERVAL_S / STEP_S) == 60 * j)
                follow(&world->clients[j], world->heard[(i + memory - lag) % memory]);
        }
        double asked_s = 0;
        for (int j = 0; j < world->n; j++)
            asked_s += world->clients[j].use * STEP_S;
        const double most_s = world->most_s * world->cores;
        world->waiting_s = fmin(world->waiting_s + asked_s, most_s);
        const double could_s = capacity_at(world);
        const double step_s = fmin(world->waiting_s, could_s);
        const double held = could_s > 0 ? step_s / could_s : world->waiting_s > 0;
        held_s += world->said * STEP_S * held; /* also while all workers are stopped */
        idle_s += world->said * STEP_S * (1 - held);
        world->waiting_s -= step_s;
        was_empty |= world->waiting_s <= 0;
        done_s += step_s;
        busy_s += step_s;
        if ((i + 1) % lround(INTERVAL_S / STEP_S) == 0) {
            const struct sluice_cpu_load load = {
                .cores = world->said,
                .waiting_s = world->waiting_s,
                .done_s = done_s,
                .busy_s = held_s,
                .idle_s = idle_s,
                .was_empty = was_empty,
                .num_followers = (unsigned)world->n,
                .worth = mean_worth(world),
            };
            const double price =
                sluice_cpu_price_update(&world->price, to_ns(world->now_s + STEP_S), &load);
            seen.least = fmin(seen.least, price);
            seen.most = fmax(seen.most, price);
            seen.most_wait_s = fmax(seen.most_wait_s, world->waiting_s / world->cores);
            done_s = held_s = idle_s = 0;
            was_empty = world->waiting_s <= 0;
        }
        world->heard[i % memory] = world->price.price;
    }
    world->now_s = (double)last * STEP_S;
    seen.busy = busy_s / (seconds * world->cores);
    return seen;
}

TEST(settles_where_the_cores_are_busy_and_worth_the_same_to_all)
{
    static const double uses[] = {0.1, 0.5, 2}, lags[] = {0.1, 0.3, 0.5}, steep[] = {0, 0.2, 1, 3};
    for (size_t i = 0; i < 3 * 3 * 4; i++) {
        const double steepness = steep[i / 9];
        struct world world = {
            .clients = {{1, steepness, uses[i % 3]}, {0.7, fmax(steepness, 0.5), uses[i % 3]}},
            .n = 2,
            .cores = 1,
            .said = 1,
            .lag_s = lags[i / 3 % 3],
            .most_s = 0.5,
        };
        run(&world, 10);
        const struct seen seen = run(&world, 20);
        CU_ASSERT(seen.busy > 0.97);
        CU_ASSERT(seen.most_wait_s < 0.2);
        CU_ASSERT(seen.most < 2 * seen.least);
        const double one = worth_of(&world.clients[0]), other = worth_of(&world.clients[1]);
        CU_ASSERT(fabs(log(one / other)) < 0.15);
    }
}

TEST(pauses_of_a_quota_are_no_lack_of_work)
{
    static const double periods[] = {0.01, 0.1};
    for (int k = 0; k < 2; k++) {
        struct world world = {
            .clients = {{1, 0.2, 0.2}, {1, 0.2, 0.2}},
            .n = 2,
            .cores = 0.4,
            .said = 1,
            .period_s = periods[k],
            .lag_s = 0.3,
            .most_s = 0.5,
        };
        run(&world, 10);
        CU_ASSERT(run(&world, 20).busy > 0.95);
        CU_ASSERT_DOUBLE_EQUAL(world.price.cores, 0.4, 0.04);
        CU_ASSERT_DOUBLE_EQUAL(world.clients[0].use + world.clients[1].use, 0.4, 0.04);
    }
}

TEST(capacity_is_what_is_done_while_jobs_wait)
{
    struct world world = {.clients = {{1, 1, 1}, {1, 1, 1}},
                          .n = 2,
                          .cores = 2.5,
                          .said = 4,
                          .lag_s = 0.3,
                          .most_s = 1};
    CU_ASSERT(run(&world, 10).busy > 0.8);
    CU_ASSERT_DOUBLE_EQUAL(world.price.cores, 2.5, 0.1);
    /* Somebody takes half of them, and gives them back. */
    world.cores = 1.25;
    run(&world, 10);
    CU_ASSERT_DOUBLE_EQUAL(world.price.cores, 1.25, 0.1);
    world.cores = 2.5;
    run(&world, 3); /* workers that find no jobs show it */
    CU_ASSERT_DOUBLE_EQUAL(world.price.cores, 2.5, 0.25);
    CU_ASSERT(run(&world, 10).busy > 0.97);
}

static struct sluice_cpu_load standing(unsigned num_followers, double worth)
{
    return (struct sluice_cpu_load){.cores = 1,
                                    .waiting_s = CPU_PRICE_TARGET_S,
                                    .done_s = INTERVAL_S,
                                    .busy_s = INTERVAL_S,
                                    .num_followers = num_followers,
                                    .worth = worth};
}

static struct sluice_cpu_price update_often(const struct sluice_cpu_load *load, int times)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    for (int i = 1; i <= times; i++)
        sluice_cpu_price_update(&price, to_ns(i * INTERVAL_S), load);
    return price;
}

TEST(time_for_other_clients_is_spare_only_while_no_job_waits)
{
    struct sluice_cpu_load load = standing(2, 1);
    load.cores = 4;
    load.others_s = 3 * INTERVAL_S;
    CU_ASSERT_DOUBLE_EQUAL(update_often(&load, 400).cores, 1, 0.01);
    load.was_empty = true;
    load.waiting_s = 0;
    const struct sluice_cpu_price price = update_often(&load, 400);
    CU_ASSERT(price.cores > 1.2);
    CU_ASSERT(price.price < 0.9);
}

TEST(at_rest_it_is_the_mean_worth)
{
    const struct sluice_cpu_load load = standing(3, 0.7);
    CU_ASSERT_DOUBLE_EQUAL(update_often(&load, 100).price, 0.7, 0.01);
}

TEST(it_is_0_for_a_single_client)
{
    const struct sluice_cpu_load alone = standing(1, 5), nobody = standing(0, 0);
    CU_ASSERT_EQUAL(update_often(&alone, 100).price, 0);
    CU_ASSERT_EQUAL(update_often(&nobody, 100).price, 0);
}

TEST(it_is_higher_while_jobs_stand_and_lower_while_cores_are_idle)
{
    struct sluice_cpu_load load = standing(2, 1);
    load.waiting_s = 0.3;
    CU_ASSERT(update_often(&load, 100).price > 1.2);
    load.waiting_s = 0;
    load.was_empty = true;
    load.done_s = load.busy_s = 0.8 * INTERVAL_S;
    load.idle_s = 0.2 * INTERVAL_S;
    struct sluice_cpu_price price = update_often(&load, 100);
    CU_ASSERT(price.price < 0.9 && price.price > 0.4);
    CU_ASSERT_DOUBLE_EQUAL(price.asked, -0.2, 0.01);
}

TEST(it_answers_to_the_growth_of_the_queue)
{
    /* The queue is as short as it should be, but grows, or shrinks. */
    struct sluice_cpu_load load = standing(2, 1);
    struct sluice_cpu_price price = update_often(&load, 100);
    load.waiting_s += 0.3 * INTERVAL_S;
    CU_ASSERT(sluice_cpu_price_update(&price, to_ns(101 * INTERVAL_S), &load) > 1.05);
}

TEST(cores_without_a_use_are_worth_nothing_unless_jobs_wait)
{
    struct sluice_cpu_load load = standing(2, 1);
    struct sluice_cpu_price price = update_often(&load, 100);
    load.worth = 0;
    for (int i = 101; i <= 300; i++)
        sluice_cpu_price_update(&price, to_ns(i * INTERVAL_S), &load);
    CU_ASSERT(price.price > 0.9);
    load.waiting_s = load.done_s = load.busy_s = 0;
    load.idle_s = INTERVAL_S;
    load.was_empty = true;
    for (int i = 301; i <= 500; i++)
        sluice_cpu_price_update(&price, to_ns(i * INTERVAL_S), &load);
    CU_ASSERT_EQUAL(price.price, 0);
}

TEST(it_is_searched_for_if_nobody_tells_the_worth)
{
    struct sluice_cpu_load load = standing(1, 0);
    load.waiting_s = 0.3;
    CU_ASSERT_EQUAL(update_often(&load, 100).price, 0);
    load.has_silent = true;
    CU_ASSERT(update_often(&load, 20).price > 0);
    CU_ASSERT(update_often(&load, 200).price > 4 * update_often(&load, 100).price);
    CU_ASSERT_EQUAL(update_often(&load, 10000).price, SLUICE_CPU_PRICE_MOST);
    struct sluice_cpu_price price = update_often(&load, 200);
    CU_ASSERT(sluice_cpu_price_update(&price, to_ns(3600), &load) <
              2 * update_often(&load, 200).price);
    load.waiting_s = load.done_s = load.busy_s = 0;
    load.idle_s = INTERVAL_S;
    load.was_empty = true;
    CU_ASSERT_EQUAL(sluice_cpu_price_update(&price, to_ns(7200), &load), 0);
}

TEST(it_is_bounded)
{
    const struct sluice_cpu_load dear = standing(2, 1e12), cheap = standing(2, 1e-3);
    CU_ASSERT_EQUAL(update_often(&dear, 10).price, SLUICE_CPU_PRICE_MOST);
    CU_ASSERT_EQUAL(update_often(&cheap, 10).price, 0);
}

TEST(a_clock_that_stands_changes_nothing)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(5);
    price.price = 3;
    const struct sluice_cpu_load load = standing(2, 1);
    CU_ASSERT_EQUAL(sluice_cpu_price_update(&price, 5, &load), 3);
    CU_ASSERT_EQUAL(sluice_cpu_price_update(&price, 4, &load), 3);
}
