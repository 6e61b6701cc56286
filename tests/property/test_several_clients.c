#include "support/choices.h"
#include "support/sim.h"
#include "support/test.h"

#include <math.h>

/* Several clients of one storage node, each with the product's own plan, which share its cores by
 * the product's own queue and price (support/sim.h). */

#define MBIT 125e3
#define NOISE 0.3
#define SETTLE_S 14
#define MEASURE_S 6

/* The mean over the settings, and each of them: who needs the cores most is not told, but found. */
#define MOST_MEAN 1.025
#define MOST_RATIO 1.05
#define MOST_ALONE 1.03
#define MOST_ALONE_UNSTEADY 1.02
/* No client may be slower by more than this than with an equal part of the cores to itself; the
 * optimum itself takes some from those who need them least. */
#define MOST_OF_FAIR 1.4

/* No lie of one client may make the others slower than its truth by more: at worst they have their
 * equal parts of the cores.  It was 2.3 when every word was believed. */
#define MOST_HARM 1.2

#define NODE(mbit, cores)                                                                          \
    {                                                                                              \
        .link_bytes_per_s = (mbit)*MBIT, .compute_cores = (cores)                                  \
    }

static const struct sim_scenario settings[] = {
    {"equal", 2, {NODE(1000, 1), NODE(1000, 1)}, .storage_cores = 1},
    {"unequal links", 2, {NODE(100, 1), NODE(500, 1)}, .storage_cores = 1},
    {"very unequal cores", 2, {NODE(2000, 4), NODE(2000, 0.5)}, .storage_cores = 1},
    {"equal, quota", 2, {NODE(500, 0.5), NODE(500, 0.5)}, .storage_cores = 0.4, .quota_s = 0.1},
    {"unequal links, quota", 2, {NODE(100, 1), NODE(400, 1)}, .storage_cores = 0.4, .quota_s = 0.1},
    {"unequal cores, quota",
     2,
     {NODE(1000, 0.8), NODE(1000, 0.3)},
     .storage_cores = 0.4,
     .quota_s = 0.01},
    {"both unequal",
     4,
     {NODE(1000, 2), NODE(500, 4), NODE(250, 4), NODE(2000, 1)},
     .storage_cores = 2},
    {"unequal links",
     8,
     {NODE(1000, 1), NODE(100, 1), NODE(500, 1), NODE(200, 1), NODE(4000, 1), NODE(100, 1),
      NODE(500, 1), NODE(1000, 1)},
     .storage_cores = 2},
};

static double sum_of(const double *values, int n)
{
    double sum = 0;
    for (int j = 0; j < n; j++)
        sum += values[j];
    return sum;
}

static struct sim *create_settled(struct sim_scenario scenario)
{
    scenario.noise = NOISE;
    scenario.is_link_steady = true;
    struct sim *sim = sim_create(&scenario);
    (void)sim_run(sim, SETTLE_S);
    return sim;
}

static void print(const struct sim_scenario *scenario, const struct sim *sim, const double *time_s,
                  double ratio)
{
    if (!getenv("SLUICE_TEST_PRINT"))
        return;
    printf("\n%s, %d clients: %.3f of the optimum, price %.3f;", scenario->name,
           scenario->num_clients, ratio, sim_price(sim));
    const double part = scenario->storage_cores / scenario->num_clients;
    for (int j = 0; j < scenario->num_clients; j++)
        printf(" %.2f", time_s[j] / sim_best_s(scenario, &scenario->clients[j], part));
}

TEST(clients_that_hear_the_price_end_near_the_joint_optimum)
{
    double sum = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(settings); i++) {
        const struct sim_scenario *setting = &settings[i];
        const int n = setting->num_clients;
        struct sim *sim = create_settled(*setting);
        double time_s[SIM_MOST_CLIENTS];
        sim_measure(sim, MEASURE_S, time_s);
        const double ratio = sum_of(time_s, n) / sim_joint_optimum(setting, n);
        sum += ratio;
        CU_ASSERT(ratio < MOST_RATIO);
        CU_ASSERT(ratio > 0.97); /* else it is no optimum */
        const double part = setting->storage_cores / n;
        for (int j = 0; j < n; j++)
            CU_ASSERT(time_s[j] < MOST_OF_FAIR * sim_best_s(setting, &setting->clients[j], part));
        print(setting, sim, time_s, ratio);
        sim_destroy(sim);
    }
    const size_t num_settings = SLUICE_ARRAY_LEN(settings);
    CU_ASSERT(sum < MOST_MEAN * (double)num_settings);
}

TEST(one_alone_hears_no_price)
{
    static const struct sim_scenario alone = {"alone", 1, {NODE(1000, 1)}, .storage_cores = 1};
    struct sim *sim = create_settled(alone);
    double time_s[SIM_MOST_CLIENTS];
    sim_measure(sim, MEASURE_S, time_s);
    const double ratio = time_s[0] / sim_best_s(&alone, &alone.clients[0], 1);
    CU_ASSERT_EQUAL(sim_price(sim), 0);
    CU_ASSERT(ratio < MOST_ALONE);
    print(&alone, sim, time_s, ratio);
    sim_destroy(sim);
}

/* Other programs slow either node down for a while, for longer or for less time than the plan needs
 * to follow, so that what was asked for is soon all before one of them: the other is kept at work.
 */
TEST(neither_node_stands_still_while_the_other_is_slow)
{
    static const double paces_s[] = {5, 1, 0.3};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(paces_s); i++) {
        const struct sim_scenario unsteady = {
            "alone, unsteady", 1, {NODE(10000, 1)}, .storage_cores = 1, .pace_s = paces_s[i]};
        struct sim *sim = create_settled(unsteady);
        double time_s[SIM_MOST_CLIENTS];
        sim_measure(sim, 4 * MEASURE_S, time_s);
        const double ratio = time_s[0] * sim_could_do(sim) / (4 * MEASURE_S);
        CU_ASSERT(ratio < MOST_ALONE_UNSTEADY);
        CU_ASSERT(ratio > 0.97);
        print(&unsteady, sim, time_s, ratio);
        sim_destroy(sim);
    }
}

static const struct sim_scenario four_equal = {
    "four equal",
    4,
    {NODE(1000, 1), NODE(1000, 1), NODE(1000, 1), NODE(1000, 1)},
    .storage_cores = 2};

TEST(one_that_does_not_hear_it_starves_nobody)
{
    struct sim_scenario scenario = four_equal;
    scenario.clients[0].is_greedy = true;
    struct sim *sim = create_settled(scenario);
    double time_s[SIM_MOST_CLIENTS];
    sim_measure(sim, MEASURE_S, time_s);
    /* It has at most its part of the cores and what the others leave of theirs. */
    for (int j = 1; j < 4; j++)
        CU_ASSERT(time_s[j] < 1.1 * sim_best_s(&scenario, &scenario.clients[j], 2.0 / 4));
    print(&scenario, sim, time_s, sum_of(time_s, 4) / sim_joint_optimum(&four_equal, 4));
    sim_destroy(sim);
}

TEST(those_who_stay_take_over_what_others_leave)
{
    struct sim_scenario scenario = four_equal;
    scenario.storage_cores = 1;
    struct sim *sim = create_settled(scenario);
    for (int j = 2; j < 4; j++)
        sim_leave(sim, j);
    (void)sim_run(sim, SETTLE_S);
    double time_s[SIM_MOST_CLIENTS];
    sim_measure(sim, MEASURE_S, time_s);
    const double ratio = sum_of(time_s, 2) / sim_joint_optimum(&scenario, 2);
    CU_ASSERT(ratio < MOST_RATIO);
    print(&scenario, sim, time_s, ratio);
    for (int j = 0; j < 2; j++)
        sim_leave(sim, j);
    (void)sim_run(sim, SETTLE_S);
    CU_ASSERT_EQUAL(sim_price(sim), 0);
    sim_destroy(sim);
}

/* What a client may say that a core is worth to it. */
static double say_truth(double now_s, double truth)
{
    (void)now_s;
    return truth;
}

static double say_all(double now_s, double truth)
{
    (void)now_s, (void)truth;
    return 1e300;
}

static double say_nothing(double now_s, double truth)
{
    (void)now_s, (void)truth;
    return 0;
}

static double say_next_to_nothing(double now_s, double truth)
{
    (void)now_s, (void)truth;
    return 1e-300;
}

static double say_both_in_turn(double now_s, double truth)
{
    (void)truth;
    return fmod(now_s, 2) < 1 ? 1e300 : 1e-300;
}

static double exaggerate(double now_s, double truth)
{
    (void)now_s;
    return truth > 0 ? truth * 30 : 30;
}

static double understate(double now_s, double truth)
{
    (void)now_s;
    return truth > 0 ? truth / 30 : 1.0 / 30;
}

/* The mean time of a sample over the clients but the first. */
static double others_time(struct sim_scenario scenario, double (*lie)(double, double),
                          bool is_greedy)
{
    scenario.clients[0].lie = lie;
    scenario.clients[0].is_greedy = is_greedy;
    struct sim *sim = create_settled(scenario);
    double time_s[SIM_MOST_CLIENTS];
    sim_measure(sim, MEASURE_S, time_s);
    const double mean = sum_of(time_s + 1, scenario.num_clients - 1) / (scenario.num_clients - 1);
    sim_destroy(sim);
    return mean;
}

TEST(a_client_that_lies_about_the_price_harms_itself_alone)
{
    static double (*const lies[])(double, double) = {
        say_all, say_nothing, say_both_in_turn, say_next_to_nothing, exaggerate, understate};
    static const size_t tried[] = {0, 6};
    for (size_t i = 0; i < (sluice_test_is_long() ? SLUICE_ARRAY_LEN(tried) : 1); i++) {
        const struct sim_scenario *setting = &settings[tried[i]];
        /* As hungry as it can be while it tells the truth. */
        const double honest_s = others_time(*setting, say_truth, true);
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(lies); k++) {
            const double ratio = others_time(*setting, lies[k], k % 2 == 0) / honest_s;
            if (getenv("SLUICE_TEST_PRINT"))
                printf("\n%s, %d clients, lie %zu: the others take %.3f times as long",
                       setting->name, setting->num_clients, k, ratio);
            CU_ASSERT(ratio < MOST_HARM);
        }
    }
}
