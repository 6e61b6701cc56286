/* The running plan of remote_auto in simulated time (tests/support/sim.h): how long each scenario
 * takes, over what it takes with foresight.  Whatever is compared sees the same seeds.
 * docs/PLANNER.md */

#include "base/compiler.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "support/sim.h"

#include <math.h>
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

static double simulate(const struct sim_scenario *scenario)
{
    struct sim *sim = sim_create(scenario);
    double ratio = 0, time_s[SIM_MOST_CLIENTS];
    if (scenario->num_items > 0) {
        ratio = sim_run(sim, 1e9) / sim_oracle_s(scenario);
    } else if (scenario->pace_s > 0) {
        (void)sim_run(sim, SETTLE_S);
        sim_measure(sim, 4 * MEASURE_S, time_s);
        ratio = time_s[0] * sim_could_do(sim) / (4 * MEASURE_S);
    } else {
        (void)sim_run(sim, SETTLE_S);
        sim_measure(sim, MEASURE_S, time_s);
        for (int j = 0; j < scenario->num_clients; j++)
            ratio += time_s[j];
        ratio /= sim_joint_optimum(scenario, scenario->num_clients);
    }
    sim_destroy(sim);
    return ratio;
}

/* The median over seeds 1, 2, ... */
static double measure(struct sim_scenario scenario, size_t num_seeds)
{
    double ratios[MOST_SEEDS];
    for (size_t i = 0; i < num_seeds; i++) {
        scenario.seed = i + 1;
        ratios[i] = simulate(&scenario);
    }
    return bench_quantile(ratios, num_seeds, 0.5);
}

/* The options of a command line. */
struct plan {
    uint64_t num_seeds;
    const char *only;
    const char *constant;
    bool is_sweep;
};

static bool is_meant(const struct plan *plan, size_t i)
{
    return !plan->only || strstr(scenarios[i].name, plan->only);
}

/* A row for each scenario: the plan as it runs, and the first plan kept. */
static void compare(struct bench_report *report, const struct plan *plan)
{
    double running_sum = 0, static_sum = 0;
    size_t num_scenarios = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(scenarios); i++) {
        if (!is_meant(plan, i))
            continue;
        struct sim_scenario fixed = scenarios[i];
        fixed.is_fixed = true;
        const double running = measure(scenarios[i], plan->num_seeds);
        const double kept = measure(fixed, plan->num_seeds);
        bench_row_begin(report, scenarios[i].name);
        bench_row_number(report, "running", 3, running);
        bench_row_number(report, "static", 3, kept);
        bench_row_end(report);
        running_sum += running;
        static_sum += kept;
        num_scenarios++;
    }
    bench_row_begin(report, "mean");
    bench_row_number(report, "running", 4, running_sum / (double)num_scenarios);
    bench_row_number(report, "static", 4, static_sum / (double)num_scenarios);
    bench_row_end(report);
}

/* Runs every scenario with this tuning, and adds a row: against default_ratios, which it fills if
 * the tuning is the default (NULL). */
static void run_tuned(struct bench_report *report, const struct plan *plan, const char *name,
                      double value, const struct sluice_tuning *tuning,
                      double default_ratios[SLUICE_ARRAY_LEN(scenarios)])
{
    double sum = 0, worst = -INFINITY;
    size_t num_scenarios = 0;
    const char *worst_in = "";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(scenarios); i++) {
        if (!is_meant(plan, i))
            continue;
        struct sim_scenario scenario = scenarios[i];
        scenario.tuning = tuning;
        const double ratio = measure(scenario, plan->num_seeds);
        if (!tuning)
            default_ratios[i] = ratio;
        if (ratio / default_ratios[i] - 1 > worst) {
            worst = ratio / default_ratios[i] - 1;
            worst_in = scenario.name;
        }
        sum += ratio;
        num_scenarios++;
    }
    bench_row_begin(report, name);
    bench_row_number(report, "value", 6, value);
    bench_row_number(report, "mean", 4, sum / (double)num_scenarios);
    bench_row_number(report, "worst_change", 4, tuning ? worst : 0);
    bench_row_text(report, "worst_in", tuning ? worst_in : "-");
    bench_row_end(report);
}

/* Twice a share or a weight is at most all of it. */
static double most_of(const char *name)
{
    return strstr(name, "share") || strstr(name, "kept") || strstr(name, "weight") ? 1 : INFINITY;
}

/* Two rows for each constant: at half and at twice its value. */
static void sweep(struct bench_report *report, const struct plan *plan)
{
    double default_ratios[SLUICE_ARRAY_LEN(scenarios)];
    run_tuned(report, plan, "default", NAN, NULL, default_ratios);
    for (size_t index = 0; sluice_tuning_name(index); index++) {
        const char *name = sluice_tuning_name(index);
        if (strncmp(name, "prefetch_", strlen("prefetch_")) == 0 ||
            (plan->constant && strcmp(plan->constant, name) != 0))
            continue;
        for (int k = 0; k < 2; k++) {
            struct sluice_tuning tuning = *sluice_tuning_default();
            double *value = sluice_tuning_field(&tuning, index);
            *value = fmin((k == 0 ? 0.5 : 2) * *value, most_of(name));
            run_tuned(report, plan, name, *value, &tuning, default_ratios);
        }
    }
}

int main(int argc, char **argv)
{
    struct plan plan = {.num_seeds = 5};
    const struct sluice_option options[] = {
        {.name = "seeds",
         SLUICE_VALUE_UINT(plan.num_seeds, "N"),
         SLUICE_RANGE(1, MOST_SEEDS),
         .help = "Each figure is a median over so many seeds."},
        {.name = "scenario",
         SLUICE_VALUE_STRING(plan.only, "TEXT"),
         .help = "Only scenarios with this in their names."},
        {.name = "sweep",
         SLUICE_VALUE_FLAG(plan.is_sweep),
         .help = "Half and twice of each constant in compute_client/loader/tuning.h, over all "
                 "scenarios."},
        {.name = "constant",
         SLUICE_VALUE_STRING(plan.constant, "NAME"),
         .help = "With --sweep: only this one."},
    };
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "The running plan in simulated time: how long each scenario takes, over what it "
                   "takes with foresight.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .epilog = "Columns: running is the plan as it follows what it sees; static is the first "
                  "plan kept.\n"
                  "With --sweep: the mean over scenarios, and where it is worst against the "
                  "default, by how much.\n"
                  "The constants prefetch_* are left out: the simulator has no trainer.\n",
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    bool is_any = false;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(scenarios); i++)
        is_any |= is_meant(&plan, i);
    if (!is_any)
        bench_die("no scenario has '%s' in its name", plan.only);
    bench_print_machine();
    struct bench_report report = {.is_json = parsed.is_json};
    if (plan.is_sweep)
        sweep(&report, &plan);
    else
        compare(&report, &plan);
    return 0;
}
