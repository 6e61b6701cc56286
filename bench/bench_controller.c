/* The running plan of remote_auto in simulated time (tests/support/sim.h): how long each scenario
 * takes, over what it takes with foresight.  Variants leave a layer out or change a constant; all
 * of them see the same seeds.  docs/PLANNER.md */

#include "base/cli.h"
#include "base/compiler.h"
#include "bench/bench.h"
#include "support/sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MBIT 125e3
#define NOISE 0.3
#define SETTLE_S 20
#define MEASURE_S 10
#define MOST_SEEDS 15

static const struct sim_phase link_falls[] = {
    {.until_s = 8, .link_bytes_per_s = 1000 * MBIT},
    {.until_s = 18, .link_bytes_per_s = 100 * MBIT},
    {.until_s = INFINITY, .link_bytes_per_s = 1000 * MBIT},
};
static const struct sim_phase cores_go[] = {
    {.until_s = 8, .storage_cores = 4},
    {.until_s = 18, .storage_cores = 1},
    {.until_s = INFINITY, .storage_cores = 4},
};
static const struct sim_phase cores_fall[] = {
    {.until_s = 8, .storage_cores = 0.8},
    {.until_s = 18, .storage_cores = 0.2},
    {.until_s = INFINITY, .storage_cores = 0.8},
};
static const struct sim_phase longer_way[] = {
    {.until_s = 3},
    {.until_s = INFINITY, .latency_s = 0.05},
};

#define RATES(mbit, storage, compute)                                                              \
    {                                                                                              \
        .link_bytes_per_s = (mbit)*MBIT, .storage_cores = (storage), .compute_cores = (compute),   \
        .gpu_samples_per_s = INFINITY                                                              \
    }
static const struct sluice_rates too_high = RATES(3000, 4, 16), too_low = RATES(30, 0.04, 1);
static const struct sluice_rates wrong_link = RATES(3000, 1, 1);

#define ONE(mbit, compute)                                                                         \
    .num_clients = 1, .clients = {{.link_bytes_per_s = (mbit)*MBIT, .compute_cores = (compute)}}
#define PHASES(of) .phases = (of), .num_phases = SLUICE_ARRAY_LEN(of)
#define NODE(mbit, compute)                                                                        \
    {                                                                                              \
        .link_bytes_per_s = (mbit)*MBIT, .compute_cores = (compute)                                \
    }
#define REAL .has_transport = true, .noise = NOISE

static const struct sim_scenario scenarios[] = {
    {"steady, 50 Mbit/s", ONE(50, 1), .storage_cores = 1, REAL, .num_items = 3000},
    {"steady, 250 Mbit/s", ONE(250, 1), .storage_cores = 1, REAL, .num_items = 8000},
    {"steady, 1 Gbit/s", ONE(1000, 1), .storage_cores = 1, REAL, .num_items = 20000},
    {"steady, 2.5 Gbit/s", ONE(2500, 1), .storage_cores = 1, REAL, .num_items = 20000},
    {"steady, 10 Gbit/s", ONE(10000, 1), .storage_cores = 1, REAL, .num_items = 20000},
    {"steady, 10 Gbit/s, 4+8", ONE(10000, 8), .storage_cores = 4, REAL, .num_items = 60000},
    {"steady, 300 Mbit/s, .15+16", ONE(300, 16), .storage_cores = 0.15, REAL, .num_items = 12000},
    {"link 1000-100-1000", ONE(1000, 4), .storage_cores = 0.4, .has_transport = true, .noise = 0.05,
     PHASES(link_falls), .num_items = 40000},
    {"storage cores 4-1-4", ONE(2500, 4), .storage_cores = 4, .has_transport = true, .noise = 0.05,
     PHASES(cores_go), .num_items = 60000},
    {"storage cores .8-.2-.8", ONE(500, 16), .storage_cores = 0.8, .has_transport = true,
     .noise = 0.05, PHASES(cores_fall), .num_items = 40000},
    {"latency 1-51 ms", ONE(1000, 16), .storage_cores = 0.3, .has_transport = true, .noise = 0.05,
     PHASES(longer_way), .num_items = 30000},
    {"cold, rates too high", ONE(300, 16), .storage_cores = 0.15, .has_transport = true,
     .noise = 0.05, .believed = &too_high, .num_items = 12000},
    {"cold, rates too low", ONE(300, 16), .storage_cores = 0.15, .has_transport = true,
     .noise = 0.05, .believed = &too_low, .num_items = 12000},
    {"cold, link and costs", ONE(500, 1), .storage_cores = 1, REAL, .believed = &wrong_link,
     .storage_factor = 0.6, .compute_factor = 1.4, .num_items = 12000},
    {"costs 2.5, 1.2, 1.2", ONE(1000, 1), .storage_cores = 1, REAL, .storage_factor = 2.5,
     .compute_factor = 1.2, .byte_factor = 1.2, .num_items = 12000},
    {"CPU speeds, 5 s", ONE(10000, 1), .storage_cores = 1, .noise = NOISE, .pace_s = 5},
    {"CPU speeds, 1 s", ONE(10000, 1), .storage_cores = 1, .noise = NOISE, .pace_s = 1},
    {"CPU speeds, .3 s", ONE(10000, 1), .storage_cores = 1, .noise = NOISE, .pace_s = 0.3},
    {"CPU speeds, 1 s, 2.5 Gbit/s", ONE(2500, 1), .storage_cores = 1, .noise = NOISE, .pace_s = 1},
    {"2 equal clients", 2, {NODE(1000, 1), NODE(1000, 1)}, .storage_cores = 1, .noise = NOISE},
    {"2, unequal links", 2, {NODE(100, 1), NODE(500, 1)}, .storage_cores = 1, .noise = NOISE},
    {"2, unequal cores", 2, {NODE(2000, 4), NODE(2000, 0.5)}, .storage_cores = 1, .noise = NOISE},
    {"2, quota",
     2,
     {NODE(100, 1), NODE(400, 1)},
     .storage_cores = 0.4,
     .quota_s = 0.1,
     .noise = NOISE},
    {"4, both unequal",
     4,
     {NODE(1000, 2), NODE(500, 4), NODE(250, 4), NODE(2000, 1)},
     .storage_cores = 2,
     .noise = NOISE},
    {"8, unequal links",
     8,
     {NODE(1000, 1), NODE(100, 1), NODE(500, 1), NODE(200, 1), NODE(4000, 1), NODE(100, 1),
      NODE(500, 1), NODE(1000, 1)},
     .storage_cores = 2,
     .noise = NOISE},
};

struct outcome {
    double ratio, replans;
};

static struct outcome simulate(const struct sim_scenario *scenario)
{
    struct sim *sim = sim_create(scenario);
    struct outcome outcome = {0};
    double time_s[SIM_MOST_CLIENTS];
    if (scenario->num_items > 0) {
        outcome.ratio = sim_run(sim, 1e9) / sim_oracle_s(scenario);
    } else if (scenario->pace_s > 0) {
        (void)sim_run(sim, SETTLE_S);
        sim_measure(sim, 4 * MEASURE_S, time_s);
        outcome.ratio = time_s[0] * sim_could_do(sim) / (4 * MEASURE_S);
    } else {
        (void)sim_run(sim, SETTLE_S);
        sim_measure(sim, MEASURE_S, time_s);
        for (int j = 0; j < scenario->num_clients; j++)
            outcome.ratio += time_s[j];
        outcome.ratio /= sim_joint_optimum(scenario, scenario->num_clients);
    }
    outcome.replans = (double)sim_record(sim)->num_replans;
    sim_destroy(sim);
    return outcome;
}

/* The medians over seeds 1, 2, ... */
static struct outcome measure(const struct sim_scenario *scenario, size_t num_seeds)
{
    double ratio[MOST_SEEDS], replans[MOST_SEEDS];
    for (size_t i = 0; i < num_seeds; i++) {
        struct sim_scenario seeded = *scenario;
        seeded.seed = i + 1;
        const struct outcome outcome = simulate(&seeded);
        ratio[i] = outcome.ratio;
        replans[i] = outcome.replans;
    }
    return (struct outcome){bench_quantile(ratio, num_seeds, 0.5),
                            bench_quantile(replans, num_seeds, 0.5)};
}

/* A row for each scenario, a column for each variant. */
static void compare(struct bench_report *report, const char *only, size_t num_seeds,
                    const char *const *variants, size_t num_variants)
{
    double sum[16] = {0};
    size_t num_scenarios = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(scenarios); i++) {
        struct sim_scenario scenario = scenarios[i];
        if (only && !strstr(scenario.name, only))
            continue;
        bench_row_begin(report, scenario.name);
        for (size_t v = 0; v < num_variants; v++) {
            scenario.is_fixed = strcmp(variants[v], "static") == 0;
            const double ratio = measure(&scenario, num_seeds).ratio;
            sum[v] += ratio;
            bench_row_number(report, variants[v], 3, ratio);
        }
        bench_row_end(report);
        num_scenarios++;
    }
    bench_row_begin(report, "mean");
    for (size_t v = 0; v < num_variants; v++)
        bench_row_number(report, variants[v], 4, sum[v] / (double)num_scenarios);
    bench_row_end(report);
}

int main(int argc, char **argv)
{
    uint64_t num_seeds = 5;
    const char *only = NULL;
    const struct sluice_option options[] = {
        {.name = "seeds",
         .type = SLUICE_OPTION_UINT,
         .value = &num_seeds,
         .arg = "N",
         .min = 1,
         .max = MOST_SEEDS,
         .help = "Each figure is a median over so many seeds."},
        {.name = "scenario",
         .type = SLUICE_OPTION_STRING,
         .value = &only,
         .arg = "TEXT",
         .help = "Only scenarios with this in their names."},
    };
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "The running plan in simulated time: how long each scenario takes, over what it "
                   "takes with foresight.",
        .positional = "VARIANT...",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .epilog = "VARIANT is all, static (the first plan stays), or layers to leave out:\n"
                  "backpressure, hysteresis, reluctance, probing, shared_price, latency.\n",
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    bench_print_machine();
    struct bench_report report = {.is_json = parsed.is_json};
    compare(&report, only, num_seeds, parsed.positional, parsed.num_positional);
    return 0;
}
