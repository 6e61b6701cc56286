#include "storage_server/cpu_price.h"

#include "base/compiler.h"
#include "support/test.h"

#include <math.h>

static uint64_t to_ns(double s)
{
    return (uint64_t)(s * 1e9);
}

/* Four workers, and jobs of 2 ms each. */
static double look(struct sluice_cpu_price *price, double now_s, double wait_s, double done_s)
{
    const double jobs_per_s = 4 / 0.002;
    const struct sluice_cpu_load load = {
        .num_waiting = (size_t)(wait_s * jobs_per_s + 0.5),
        .num_done = (uint64_t)(done_s * jobs_per_s + 0.5),
        .held_s = 4 * done_s,
        .num_workers = 4,
        .num_followers = 1,
    };
    return sluice_cpu_price_update(price, to_ns(now_s), &load);
}

/* Clients in front of a queue, as a fluid: what they ask for falls as the price rises, and follows
 * it late.  Work is counted in seconds of all workers together. */
struct world {
    double asked;    /* at no price, of what the cores can do */
    double worth;    /* the price at which half of it is left; INFINITY: they do not care */
    double lag_s;    /* from a price to what is asked for at it */
    double most_s;   /* of work, that clients have open */
    double now_s;    /* so far */
    double wait_s;   /* in the queue */
    double heard[8]; /* the prices of the last lag_s, the oldest first */
};

/* The samples' worth is spread over some octaves about the middle. */
static double asked_at(const struct world *world, double price)
{
    if (price <= 0 || isinf(world->worth))
        return world->asked;
    const double octaves = log2(price / world->worth);
    return world->asked * fmin(fmax(0.5 - octaves / 6, 0), 1);
}

struct seen {
    double busy;        /* share of worker time with a job */
    double most_wait_s; /* in the second half */
    double least, most; /* price, in the second half */
};

static struct seen run(struct world *world, struct sluice_cpu_price *price, double seconds,
                       double step_s)
{
    enum { MEMORY = SLUICE_ARRAY_LEN(world->heard) };
    struct seen seen = {.least = INFINITY};
    const double end_s = world->now_s + seconds, half_s = world->now_s + seconds / 2;
    double next_heard_s = world->now_s, busy_s = 0;
    while (world->now_s < end_s) {
        if (world->now_s >= next_heard_s) {
            for (int i = 0; i + 1 < MEMORY; i++)
                world->heard[i] = world->heard[i + 1];
            world->heard[MEMORY - 1] = price->price;
            next_heard_s += world->lag_s / (MEMORY - 1);
        }
        const double room_s = world->most_s - world->wait_s + step_s;
        const double asked_s = fmin(asked_at(world, world->heard[0]) * step_s, room_s);
        const double done_s = fmin(world->wait_s + asked_s, step_s);
        world->wait_s += asked_s - done_s;
        world->now_s += step_s;
        const double now = look(price, world->now_s, world->wait_s, done_s);
        if (world->now_s > half_s) {
            busy_s += done_s;
            seen.most_wait_s = fmax(seen.most_wait_s, world->wait_s);
            seen.least = fmin(seen.least, now);
            seen.most = fmax(seen.most, now);
        }
    }
    seen.busy = busy_s / (end_s - half_s);
    return seen;
}

static void is_0_while_the_cores_suffice(void)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    struct world world = {.asked = 0.95, .worth = 1, .lag_s = 0.5, .most_s = 2};
    CU_ASSERT_EQUAL(run(&world, &price, 100, 0.05).most, 0);
}

static void settles_where_the_cores_are_just_busy(void)
{
    static const double asked[] = {1.2, 2, 4, 8}, worths[] = {0.05, 1, 30}, lags[] = {0.2, 0.5, 1},
                        steps[] = {0.02, 0.05, 0.1};
    for (size_t i = 0; i < 4 * 3 * 3 * 3; i++) {
        struct world world = {.asked = asked[i % 4],
                              .worth = worths[i / 4 % 3],
                              .lag_s = lags[i / 12 % 3],
                              .most_s = 2};
        struct sluice_cpu_price price = sluice_cpu_price_init(0);
        const struct seen seen = run(&world, &price, 60, steps[i / 36]);
        CU_ASSERT(seen.busy > 0.95);
        CU_ASSERT(seen.most_wait_s < 0.6);
        CU_ASSERT(seen.least > 0 && seen.most < 2 * seen.least);
        /* And near the price at which what is asked for is what there is. */
        const double right = world.worth * exp2(6 * (0.5 - 1 / world.asked));
        CU_ASSERT(seen.least > right / 2 && seen.most < right * 2);
    }
}

static void noise_does_not_slow_it_down(void)
{
    /* A queue that swings twice a second and is too long on the whole. */
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    double now_s = 0;
    for (int i = 0; i < 200; i++) {
        now_s += 0.05;
        look(&price, now_s, i / 5 % 2 ? 0.05 : 0.25, 0.05);
    }
    CU_ASSERT(price.gain > 1);
    CU_ASSERT(price.price > 8 * SLUICE_CPU_PRICE_LEAST);
}

static void follows_when_clients_come_and_go(void)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    struct world world = {.asked = 1.5, .worth = 1, .lag_s = 0.5, .most_s = 2};
    const double one = run(&world, &price, 60, 0.05).most;
    world.asked = 4.5;
    const struct seen three = run(&world, &price, 60, 0.05);
    CU_ASSERT(three.least > 2 * one);
    CU_ASSERT(three.busy > 0.95);
    world.asked = 1.5;
    const struct seen again = run(&world, &price, 60, 0.05);
    CU_ASSERT(again.most < 2 * one);
    CU_ASSERT(again.busy > 0.95);
    world.asked = 0.5;
    CU_ASSERT_EQUAL(run(&world, &price, 60, 0.05).most, 0);
}

static void falls_to_0_over_one_long_pause(void)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    struct world world = {.asked = 4, .worth = 1, .lag_s = 0.5, .most_s = 2};
    CU_ASSERT(run(&world, &price, 60, 0.05).least > 0);
    CU_ASSERT_EQUAL(look(&price, world.now_s + 3600, 0, 0), 0);
}

static void one_late_look_does_not_raise_it_by_much(void)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    CU_ASSERT(look(&price, 3600, 5, 3600) < 2 * SLUICE_CPU_PRICE_LEAST);
}

static void is_bounded_where_clients_do_not_care(void)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    struct world world = {.asked = 2, .worth = INFINITY, .lag_s = 0.5, .most_s = 2};
    CU_ASSERT_EQUAL(run(&world, &price, 100, 0.05).most, SLUICE_CPU_PRICE_MOST);
    /* And it comes down from there as soon as they do. */
    world.worth = 1;
    CU_ASSERT(run(&world, &price, 60, 0.05).busy > 0.95);
}

static void others_take_their_part_and_do_not_move_it(void)
{
    /* Of four workers the one other client keeps two busy, all the time. */
    static const struct {
        double held; /* workers, by the follower */
        size_t num_waiting;
        bool is_dear;
    } cases[] = {{1.5, 0, false}, {2, 200, true}, {0, 0, false}};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(cases); k++) {
        struct sluice_cpu_price price = sluice_cpu_price_init(0);
        for (int i = 1; i <= 100; i++) {
            const struct sluice_cpu_load load = {
                .num_workers = 4,
                .num_waiting = cases[k].num_waiting,
                .num_done = (uint64_t)(50 * cases[k].held),
                .held_s = 0.1 * cases[k].held,
                .others_held_s = 0.1 * 2,
                .num_followers = cases[k].held > 0,
                .num_others = 1,
            };
            sluice_cpu_price_update(&price, to_ns(0.1 * i), &load);
        }
        CU_ASSERT_EQUAL(price.price > 0, cases[k].is_dear);
    }
    /* Where the other has more than its part, a follower with a job is not told to wait for it. */
    struct sluice_cpu_price price = sluice_cpu_price_init(0);
    for (int i = 1; i <= 100; i++) {
        const struct sluice_cpu_load load = {
            .num_workers = 4,
            .num_done = 50,
            .held_s = 0.1 * 1,
            .others_held_s = 0.1 * 3,
            .num_followers = 1,
            .num_others = 1,
        };
        CU_ASSERT_EQUAL(sluice_cpu_price_update(&price, to_ns(0.1 * i), &load), 0);
    }
}

static void a_clock_that_stands_changes_nothing(void)
{
    struct sluice_cpu_price price = sluice_cpu_price_init(5);
    price.price = 3;
    const struct sluice_cpu_load load = {.num_waiting = 9, .num_workers = 1};
    CU_ASSERT_EQUAL(sluice_cpu_price_update(&price, 5, &load), 3);
    CU_ASSERT_EQUAL(sluice_cpu_price_update(&price, 4, &load), 3);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(is_0_while_the_cores_suffice),
        SLUICE_TEST(settles_where_the_cores_are_just_busy),
        SLUICE_TEST(noise_does_not_slow_it_down),
        SLUICE_TEST(follows_when_clients_come_and_go),
        SLUICE_TEST(falls_to_0_over_one_long_pause),
        SLUICE_TEST(one_late_look_does_not_raise_it_by_much),
        SLUICE_TEST(is_bounded_where_clients_do_not_care),
        SLUICE_TEST(others_take_their_part_and_do_not_move_it),
        SLUICE_TEST(a_clock_that_stands_changes_nothing),
    };
    return sluice_test_run("cpu_price", tests, SLUICE_TEST_COUNT(tests));
}
