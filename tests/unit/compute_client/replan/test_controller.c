#include "compute_client/replan/controller.h"

#include "support/choices.h"
#include "support/sim.h"
#include "support/test.h"

#include <math.h>

/* The plan against simulated machines (support/sim.h), whose rates change when a test says so. */

#define FORMS (1u << SLUICE_FORM_JPEG_CROP | 1u << SLUICE_FORM_U8_PACKED)
#define MBIT 125e3
#define RATES(mbit, storage)                                                                       \
    {                                                                                              \
        .link_bytes_per_s = (mbit)*MBIT, .storage_cores = (storage), .compute_cores = 16,          \
        .gpu_samples_per_s = INFINITY                                                              \
    }
#define ONE(mbit, storage, items)                                                                  \
    .num_clients = 1, .clients = {{.link_bytes_per_s = (mbit)*MBIT, .compute_cores = 16}},         \
    .storage_cores = (storage), .num_items = (items), .has_transport = true
#define PHASES(of) .phases = (of), .num_phases = SLUICE_ARRAY_LEN(of)

struct outcome {
    double seconds, oracle_s;
    struct sim_record record;
    struct sluice_rates rates; /* as estimated at the end */
};

static struct outcome run_and(const struct sim_scenario *scenario,
                              void (*look)(const struct sluice_controller *plan))
{
    struct sim *sim = sim_create(scenario);
    struct outcome outcome = {.seconds = sim_run(sim, 1e9), .oracle_s = sim_oracle_s(scenario)};
    outcome.record = *sim_record(sim);
    outcome.rates = sluice_controller_rates(sim_plan(sim, 0));
    if (look)
        look(sim_plan(sim, 0));
    if (getenv("SLUICE_TEST_VERBOSE"))
        printf("%s: %.2f s, with foresight %.2f s (%.3f), %zu re-plans\n", scenario->name,
               outcome.seconds, outcome.oracle_s, outcome.seconds / outcome.oracle_s,
               outcome.record.num_replans);
    sim_destroy(sim);
    return outcome;
}

static struct outcome run(const struct sim_scenario *scenario)
{
    return run_and(scenario, NULL);
}

static size_t replans_within(const struct outcome *outcome, double from_s, double to_s)
{
    const struct sim_record *record = &outcome->record;
    size_t n = 0;
    for (size_t i = 0; i < record->num_replans && i < SIM_MOST_REPLANS; i++)
        n += record->replan_s[i] >= from_s && record->replan_s[i] < to_s;
    return n;
}

static double share_of_files(const struct outcome *outcome, size_t phase)
{
    CU_ASSERT_FATAL(outcome->record.asked[phase].all > 100);
    return (double)outcome->record.asked[phase].files / (double)outcome->record.asked[phase].all;
}

/* A plan that a test drives by hand. */
static struct sluice_controller *make_plan_of(const struct sluice_choices *choices,
                                              const struct sluice_rates *rates, uint32_t forms,
                                              const struct sluice_plan_epoch *epoch,
                                              struct sluice_plan_forecast *forecast)
{
    const struct sluice_controller_options options = {
        .model = sluice_choice_model_default(choices),
        .transport = sim_transport(),
        .forms = forms,
        .rates = *rates,
        .most = {.link_bytes_per_s = INFINITY,
                 .storage_cores = 4,
                 .compute_cores = 16,
                 .gpu_samples_per_s = INFINITY},
    };
    struct sluice_controller *plan = NULL;
    REQUIRE_OK(sluice_controller_create(&options, &plan, NULL));
    REQUIRE_OK(sluice_controller_begin(plan, epoch, 0, forecast, NULL));
    return plan;
}

static struct sluice_controller *make_plan(const struct sluice_rates *rates, uint32_t forms,
                                           const struct sluice_plan_epoch *epoch,
                                           struct sluice_plan_forecast *forecast)
{
    const struct sluice_choices choices = sluice_choices_of(epoch->pipeline);
    return make_plan_of(&choices, rates, forms, epoch, forecast);
}

TEST(the_first_plan_says_what_it_takes_and_a_right_one_stays)
{
    const struct sim_scenario scenario = {"steady", ONE(300, 0.15, 8000)};
    const struct outcome outcome = run(&scenario);
    const struct sluice_plan_forecast *first = &outcome.record.first;
    CU_ASSERT(first->gap >= 0 && first->gap < 0.01);
    CU_ASSERT(first->bound_s <= first->rest_s);
    CU_ASSERT_STRING_EQUAL(first->reason, "");
    CU_ASSERT(first->forms[SLUICE_FORM_RAW] + first->forms[SLUICE_FORM_U8] > 0);
    CU_ASSERT_DOUBLE_EQUAL(first->rest_s, outcome.oracle_s, 0.01 * outcome.oracle_s);
    CU_ASSERT_DOUBLE_EQUAL(outcome.seconds, first->rest_s, 0.05 * first->rest_s);
    CU_ASSERT(outcome.record.num_replans <= 1);
}

TEST(an_epoch_is_planned_with_its_own_ops)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(
        sluice_pipeline_parse("decode,random_resized_crop=224,when(epoch>=71,tv_blur=2:kernel=23),"
                              "hflip,to_tensor,normalize=imagenet",
                              &pipeline, NULL));
    struct sluice_rates rates = RATES(2000, 2);
    rates.compute_cores = 2; /* CPUs are the limit */
    struct sluice_plan_epoch epoch = sim_epoch(100);
    epoch.pipeline = pipeline;
    struct sluice_plan_forecast without, with, again;
    struct sluice_controller *plan = make_plan(&rates, FORMS, &epoch, &without);
    epoch.schedule = 71;
    CHECK_OK(sluice_controller_begin(plan, &epoch, 0, &with, NULL));
    CU_ASSERT(with.rest_s > 1.02 * without.rest_s);
    epoch.schedule = 70;
    CHECK_OK(sluice_controller_begin(plan, &epoch, 0, &again, NULL));
    CU_ASSERT_DOUBLE_EQUAL(again.rest_s, without.rest_s, 1e-9 * without.rest_s);
    sluice_controller_destroy(plan);
    sluice_pipeline_destroy(pipeline);
}

/* As much more is asked for as is done, so that a few round trips fill every queue. */
TEST(the_time_until_the_first_interval_is_not_lost)
{
    const struct sim_scenario scenario = {"a short epoch", ONE(2000, 2, 2500)};
    const struct outcome outcome = run(&scenario);
    CU_ASSERT(outcome.oracle_s < 2 * sluice_tuning_default()->interval_s);
    CU_ASSERT(outcome.seconds < 1.1 * outcome.oracle_s);

    const struct sluice_rates rates = RATES(2000, 2);
    const struct sluice_plan_epoch epoch = sim_epoch(100);
    struct sluice_plan_forecast forecast;
    struct sluice_controller *plan = make_plan(&rates, FORMS, &epoch, &forecast);
    const struct sluice_plan_bounds first = sluice_controller_bounds(plan, 0);
    const struct sluice_plan_bounds later = sluice_controller_bounds(plan, 1000);
    CU_ASSERT(first.max_away >= 16 && first.max_away < 200);
    CU_ASSERT(first.max_unfinished >= first.max_away);
    CU_ASSERT_EQUAL(later.max_away, first.max_away + 1000);
    CU_ASSERT_EQUAL(later.max_unfinished, first.max_unfinished + 1000);
    sluice_controller_destroy(plan);
}

/* Every belief wrong by a factor of two to ten, upwards and downwards. */
TEST(a_cold_start_ends_within_a_tenth_of_foresight)
{
    static const struct sluice_rates believed[] = {RATES(3000, 4), RATES(30, 0.04)};
    const struct sim_scenario scenarios[] = {
        {"cold", ONE(300, 0.15, 16000)},
        {"cold, costs 2.5, 2.5, 1.2", ONE(300, 0.15, 16000), .storage_factor = 2.5,
         .compute_factor = 2.5, .byte_factor = 1.2},
        {"cold, costs 0.5, 0.5, 0.8", ONE(300, 0.15, 16000), .storage_factor = 0.5,
         .compute_factor = 0.5, .byte_factor = 0.8},
    };
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(scenarios); k++) {
        for (size_t b = 0; b < 2; b++) {
            struct sim_scenario scenario = scenarios[k];
            scenario.believed = &believed[b];
            const struct outcome outcome = run(&scenario);
            CU_ASSERT(outcome.seconds < 1.1 * outcome.oracle_s);
            CU_ASSERT(outcome.record.num_replans >= 1);
            const struct sluice_plan_forecast *last = &outcome.record.last;
            CU_ASSERT(last->reason[0]);
            CU_ASSERT(last->words[0]);
            CU_ASSERT_PTR_NULL(strstr(last->words, "inf"));
            CU_ASSERT_PTR_NULL(strstr(last->words, "price"));
        }
    }
}

/* Some seconds of one, some of the other, and back: at each change there are new prices soon, and
 * the whole is not far from foresight. */
static struct outcome check_there_and_back(const struct sim_scenario *scenario)
{
    const struct outcome outcome = run(scenario);
    CU_ASSERT(outcome.seconds < 1.15 * outcome.oracle_s);
    for (int p = 0; p < 2; p++) {
        const double at_s = scenario->phases[p].until_s;
        CU_ASSERT(replans_within(&outcome, at_s, at_s + 3) >= 1);
    }
    return outcome;
}

TEST(a_link_that_thins_and_widens_is_followed)
{
    static const struct sim_phase phases[] = {
        {.until_s = 8}, {.until_s = 18, .link_bytes_per_s = 100 * MBIT}, {.until_s = INFINITY}};
    const struct sim_scenario scenario = {"link 1000-100-1000", ONE(1000, 0.4, 40000),
                                          PHASES(phases), .noise = 0.05};
    const struct outcome outcome = check_there_and_back(&scenario);
    /* From files to smaller forms and back. */
    CU_ASSERT(share_of_files(&outcome, 0) > 0.3);
    CU_ASSERT(share_of_files(&outcome, 1) < 0.05);
    CU_ASSERT(share_of_files(&outcome, 2) > 0.3);
}

TEST(storage_cores_that_go_and_come_back_are_followed)
{
    static const struct sim_phase phases[] = {
        {.until_s = 8}, {.until_s = 18, .storage_cores = 0.2}, {.until_s = INFINITY}};
    const struct sim_scenario scenario = {"storage cores .8-.2-.8", ONE(500, 0.8, 40000),
                                          PHASES(phases), .noise = 0.05};
    const struct outcome outcome = check_there_and_back(&scenario);
    CU_ASSERT(share_of_files(&outcome, 1) > 2 * share_of_files(&outcome, 0));
    CU_ASSERT(share_of_files(&outcome, 1) > 2 * share_of_files(&outcome, 2));
}

/* A way that becomes longer looks like a slower link for the rest of the epoch, and costs little.
 */
TEST(a_longer_way_costs_little)
{
    static const struct sim_phase phases[] = {{.until_s = 3},
                                              {.until_s = INFINITY, .latency_s = 0.05}};
    const struct sim_scenario scenario = {"latency 1-51 ms", ONE(1000, 0.3, 40000), PHASES(phases),
                                          .noise = 0.05};
    const struct outcome outcome = run(&scenario);
    CU_ASSERT(outcome.seconds > 15); /* so that there was time to go wrong */
    CU_ASSERT(outcome.seconds < 1.1 * outcome.oracle_s);
}

/* Less is under way than would hold a changed plan up for long: what was asked for before the link
 * fell to a tenth is through within a second. */
TEST(a_fall_of_the_link_is_over_soon)
{
    static const struct sim_phase phases[] = {
        {.until_s = 6}, {.until_s = INFINITY, .link_bytes_per_s = 100 * MBIT}};
    const struct sim_scenario scenario = {"link 1000-100", ONE(1000, 0.4, 14000), PHASES(phases),
                                          .noise = 0.05};
    const struct outcome outcome = run(&scenario);
    CU_ASSERT(replans_within(&outcome, 6, 6.8) >= 1);
    CU_ASSERT(outcome.seconds < 1.1 * outcome.oracle_s);
}

TEST(noise_costs_less_than_a_tenth)
{
    const double noises[] = {0.15, 0.3};
    for (size_t k = 0; k < 2; k++) {
        const struct sim_scenario scenario = {"noise", ONE(300, 0.15, 40000), .noise = noises[k]};
        const struct outcome outcome = run(&scenario);
        CU_ASSERT(outcome.seconds > 50); /* so that there was time to swing in */
        CU_ASSERT(outcome.seconds < 1.1 * outcome.oracle_s);
    }
}

TEST(the_trainers_rate_is_no_reason_to_solve)
{
    struct sluice_rates rates = RATES(20, 4);
    rates.gpu_samples_per_s = 1e6;
    const struct sluice_plan_epoch epoch = sim_epoch(4000);
    struct sluice_plan_forecast forecast;
    struct sluice_controller *plan = make_plan(&rates, FORMS, &epoch, &forecast);
    CU_ASSERT_EQUAL(forecast.slowest, SLUICE_NETWORK);
    for (unsigned i = 1; i <= 50; i++) {
        /* Its pace moves; at last it is the limit. */
        const struct sluice_trainer_seen trainer = {
            .samples = i > 20 ? 1 : 100,
            .busy_ns = i > 20  ? 1000000000
                       : i % 2 ? 1000000
                               : 50000,
        };
        CU_ASSERT_FALSE(sluice_controller_update(plan, i * (uint64_t)250000000, 10 * i, NULL, 0,
                                                 &trainer, &forecast));
    }
    CU_ASSERT(sluice_controller_rates(plan).gpu_samples_per_s < 2);
    CU_ASSERT_EQUAL(sluice_controller_solves(plan), 1);
    sluice_controller_destroy(plan);
}

/* Nobody said that the disk is slow, and nothing can be done about it. */
TEST(a_slow_disk_is_seen_and_costs_nothing_more)
{
    static const struct sim_phase phases[] = {{.until_s = 2},
                                              {.until_s = INFINITY, .disk_bytes_per_s = 20e6}};
    const struct sim_scenario scenario = {"slow disk", ONE(1000, 1, 12000), PHASES(phases),
                                          .noise = 0.05};
    const struct outcome outcome = run(&scenario);
    CU_ASSERT_DOUBLE_EQUAL(outcome.rates.disk_bytes_per_s, 20e6, 1e6);
    CU_ASSERT(outcome.seconds < 1.05 * outcome.oracle_s);
    CU_ASSERT_PTR_NULL(strstr(outcome.record.last.reason, "inf")); /* "disk no limit -> ..." */
    CU_ASSERT(replans_within(&outcome, 0, phases[0].until_s + 2) >= 1);
    CU_ASSERT_EQUAL(replans_within(&outcome, phases[0].until_s + 8, INFINITY), 0);
}

/* With an index of the files a slow disk is a reason to ask for crops. */
TEST(a_slow_disk_reads_parts_where_it_can)
{
    struct sim_scenario scenario = {"slow disk, no index", ONE(1000, 1, 4000),
                                    .disk_bytes_per_s = 20e6, .noise = 0.05};
    const double whole_s = sim_oracle_s(&scenario);
    scenario.name = "slow disk, index";
    scenario.has_index = scenario.believes_index = true;
    const struct outcome parts = run(&scenario);
    CU_ASSERT(parts.seconds < 0.9 * whole_s);
    CU_ASSERT(parts.seconds < 1.05 * parts.oracle_s);
    CU_ASSERT_DOUBLE_EQUAL(parts.record.first.rest_s, parts.seconds, 0.05 * parts.seconds);
    /* One that turns out to be of other files costs nothing but the first moments. */
    scenario.name = "slow disk, stale index";
    scenario.has_index = false;
    CU_ASSERT(run(&scenario).seconds < 1.05 * whole_s);
}

/* What the plan asks for where nothing but the trainer is the limit is what it would ask for
 * without one, not whichever plan is as fast: little is left to chance from epoch to epoch. */
TEST(a_slow_trainer_leaves_the_plan_as_it_is)
{
    size_t counts[3][SLUICE_MAX_CHOICES] = {{0}};
    for (int k = 0; k < 3; k++) {
        struct sluice_rates rates = RATES(1000, 4);
        rates.gpu_samples_per_s = k == 0 ? INFINITY : 50;
        rates.link_bytes_per_s *= k == 2 ? 1.03 : 1; /* as another epoch may find it */
        const struct sluice_plan_epoch epoch = sim_epoch(4000);
        struct sluice_plan_forecast forecast;
        struct sluice_controller *plan = make_plan(&rates, FORMS, &epoch, &forecast);
        CU_ASSERT_EQUAL(forecast.slowest == SLUICE_GPU, k > 0);
        for (size_t i = 0; i < epoch.num_items; i++)
            counts[k][sluice_controller_choose(plan, i, NULL, NULL)]++;
        sluice_controller_destroy(plan);
    }
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        CU_ASSERT_EQUAL(counts[0][c], counts[1][c]);
        CU_ASSERT_DOUBLE_EQUAL((double)counts[1][c], (double)counts[2][c], 0.05 * 4000);
    }
}

static void has_no_bounds(const struct sluice_controller *plan)
{
    const struct sluice_plan_bounds bounds = sluice_controller_bounds(plan, 0);
    CU_ASSERT_EQUAL(bounds.max_away, UINT32_MAX);
    CU_ASSERT_EQUAL(bounds.max_unfinished, UINT32_MAX);
    CU_ASSERT_EQUAL(sluice_controller_solves(plan), 1);
}

TEST(a_fixed_plan_stays_whatever_is_seen)
{
    static const struct sim_phase phases[] = {
        {.until_s = 1},
        {.until_s = INFINITY, .link_bytes_per_s = 100 * MBIT, .storage_cores = 0.5}};
    const struct sim_scenario scenario = {"fixed", ONE(1000, 4, 4000), PHASES(phases),
                                          .storage_factor = 2, .is_fixed = true};
    const struct outcome outcome = run_and(&scenario, has_no_bounds);
    CU_ASSERT_EQUAL(outcome.record.num_replans, 0);
    CU_ASSERT_EQUAL(outcome.rates.link_bytes_per_s, 1000 * MBIT);
}

static void has_corrections(const struct sluice_controller *plan)
{
    const unsigned crop = SLUICE_TEST_JPEG_CROP;
    CU_ASSERT_DOUBLE_EQUAL(sluice_controller_correction(plan, crop, SLUICE_STORAGE_CPU), 3, 0.2);
    CU_ASSERT_DOUBLE_EQUAL(sluice_controller_correction(plan, crop, SLUICE_COMPUTE_CPU), 2, 0.1);
    CU_ASSERT_DOUBLE_EQUAL(sluice_controller_correction(plan, crop, SLUICE_NETWORK), 1.25, 0.02);
    /* A choice that was never made: the same CPUs, but bytes of its own. */
    CU_ASSERT_DOUBLE_EQUAL(sluice_controller_correction(plan, 1, SLUICE_STORAGE_CPU), 3, 0.3);
    CU_ASSERT_EQUAL(sluice_controller_correction(plan, 1, SLUICE_NETWORK), 1);
}

TEST(costs_are_corrected_by_what_is_seen_of_each_choice)
{
    const struct sim_scenario scenario = {"costs 3, 2, 1.25", ONE(100, 4, 4000),
                                          .storage_factor = 3, .compute_factor = 2,
                                          .byte_factor = 1.25};
    const struct outcome outcome = run_and(&scenario, has_corrections);
    CU_ASSERT(outcome.record.counts[SLUICE_TEST_JPEG_CROP] > 500);
    CU_ASSERT_EQUAL(outcome.record.counts[1], 0);
}

TEST(a_price_of_storage_cpu_keeps_work_away_from_it)
{
    struct sim_scenario scenario = {"no price", ONE(300, 4, 8000)};
    const struct outcome cheap = run(&scenario);
    scenario.name = "a high price";
    scenario.external_price = 1e5;
    const struct outcome dear = run(&scenario);
    CU_ASSERT(cheap.record.counts[0] < 800);
    CU_ASSERT(dear.record.counts[0] > 5000);
    CU_ASSERT(dear.record.num_replans > 5); /* by steps */
    CU_ASSERT_PTR_NOT_NULL(strstr(dear.record.last.reason, "price of storage CPU 1e+05"));
}

TEST(the_end_of_a_price_is_told)
{
    const struct sluice_rates rates = RATES(300, 4);
    const struct sluice_plan_epoch epoch = sim_epoch(1000);
    const struct sluice_trainer_seen trainer = {0};
    struct sluice_plan_forecast forecast;
    struct sluice_controller *plan = make_plan(&rates, FORMS, &epoch, &forecast);
    for (unsigned i = 1; i <= 2; i++) {
        const uint64_t now_ns = i * (uint64_t)250000000;
        const struct sluice_row_seen row = {.requested_ns = now_ns - 1000000,
                                            .arrived_ns = now_ns,
                                            .started_ns = now_ns,
                                            .done_ns = now_ns,
                                            .payload_bytes = 1000,
                                            .storage_cores = 4,
                                            .storage_price = i == 1 ? 500 : 0};
        CU_ASSERT(sluice_controller_update(plan, now_ns, i, &row, 1, &trainer, &forecast));
        CU_ASSERT_EQUAL(sluice_controller_storage_price(plan), row.storage_price);
        CU_ASSERT_PTR_NOT_NULL(strstr(forecast.reason, i == 1 ? "price of storage CPU 500"
                                                              : "storage CPU has no price"));
    }
    sluice_controller_destroy(plan);
}

TEST(only_forms_that_are_offered_and_fit_the_pipeline_are_chosen)
{
    struct sluice_pipeline *other = NULL;
    REQUIRE_OK(
        sluice_pipeline_parse("decode,hflip,random_resized_crop=224,to_tensor", &other, NULL));
    for (int k = 0; k < 3; k++) {
        const struct sluice_rates rates = RATES(50, 4);
        struct sluice_plan_epoch epoch = sim_epoch(1000);
        if (k == 2)
            epoch.pipeline = other;
        const struct sluice_choices choices = sluice_choices_of(epoch.pipeline);
        struct sluice_plan_forecast forecast;
        struct sluice_controller *plan = make_plan(&rates, k == 0 ? 0 : FORMS, &epoch, &forecast);
        size_t num_other_forms = 0;
        for (size_t i = 0; i < epoch.num_items; i++) {
            const struct sluice_choice choice =
                choices.at[sluice_controller_choose(plan, i, NULL, NULL)];
            num_other_forms +=
                choice.form == SLUICE_FORM_JPEG_CROP || choice.form == SLUICE_FORM_U8_PACKED;
            CU_ASSERT(choice.split <= sluice_pipeline_num_ops(epoch.pipeline));
            CU_ASSERT(choice.form != SLUICE_FORM_JPEG_CROP || k == 1);
        }
        CU_ASSERT_EQUAL(num_other_forms > 500, k > 0); /* packed pixels fit any */
        sluice_controller_destroy(plan);
    }
    sluice_pipeline_destroy(other);
}

/* --- a GPU that decodes --- */

/* Fills choice[]; how many of them are a GPU's. */
static size_t choose_all(struct sluice_controller *plan, const struct sluice_plan_epoch *epoch,
                         unsigned *choice)
{
    size_t on_gpu = 0;
    for (size_t i = 0; i < epoch->num_items; i++) {
        choice[i] = sluice_controller_choose(plan, i, NULL, NULL);
        on_gpu += choice[i] >= SLUICE_TEST_CHOICES;
    }
    return on_gpu;
}

TEST(a_short_compute_cpu_leaves_decoding_to_a_gpu_that_has_the_time)
{
    enum { ITEMS = 2000 };
    static unsigned choice[ITEMS], plain_choice[ITEMS];
    const struct sluice_plan_epoch epoch = sim_epoch(ITEMS);
    for (int k = 0; k < 4; k++) {
        struct sluice_rates rates = RATES(20000, 0.7);
        rates.compute_cores = 0.25;
        /* Not known yet; steps that leave it time; steps that are the limit by far; and a server
         * that does not cut. */
        static const double trainer[] = {INFINITY, 100000, 200, INFINITY};
        rates.gpu_samples_per_s = trainer[k];
        struct sluice_plan_forecast forecast;
        struct sluice_controller *plan =
            make_plan_of(sluice_test_gpu_choices(), &rates, k == 3 ? 0 : FORMS, &epoch, &forecast);
        const size_t on_gpu = choose_all(plan, &epoch, choice);
        CU_ASSERT_EQUAL(forecast.on_gpu, on_gpu);
        CU_ASSERT_EQUAL(forecast.slowest == SLUICE_GPU, k == 2);
        if (k < 2)
            CU_ASSERT_EQUAL(on_gpu, ITEMS);
        if (k == 3) { /* whole files, cut here */
            CU_ASSERT(on_gpu > 0);
            for (size_t i = 0; i < ITEMS; i++)
                CU_ASSERT(choice[i] != SLUICE_TEST_CUT_ON_GPU);
        }
        if (k == 2) { /* the plan is the one that there is without a place */
            struct sluice_plan_forecast plain_forecast;
            struct sluice_controller *plain = make_plan(&rates, FORMS, &epoch, &plain_forecast);
            CU_ASSERT_EQUAL(plain_forecast.rest_s, forecast.rest_s);
            CU_ASSERT_EQUAL(on_gpu, 0);
            (void)choose_all(plain, &epoch, plain_choice);
            CU_ASSERT_EQUAL(memcmp(choice, plain_choice, sizeof(choice)), 0);
            sluice_controller_destroy(plain);
        }
        sluice_controller_destroy(plan);
    }
}

/* Rows that cost what the model says, and a device that takes `slower` times as long to decode. */
static void see_decoding(struct sluice_controller *plan, const struct sluice_plan_epoch *epoch,
                         unsigned interval, double slower, struct sluice_plan_forecast *last)
{
    enum { ROWS = 200 };
    static struct sluice_row_seen rows[ROWS];
    const struct sluice_choice_model model = sluice_choice_model_default(sluice_test_gpu_choices());
    struct sluice_trainer_seen trainer = {0};
    for (size_t i = 0; i < ROWS; i++) {
        const size_t index = interval * ROWS + i;
        const unsigned choice = sluice_controller_choose(plan, index, NULL, NULL);
        const struct sluice_sampler_item *item = &epoch->items[index];
        const struct sluice_draw_key key = {.seed = epoch->seed,
                                            .epoch = item->draw_epoch,
                                            .sample_id = epoch->ids[item->position]};
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(epoch->manifest, key.sample_id);
        const struct sluice_sample_facts facts =
            sluice_sample_facts_of(epoch->pipeline, &entry, &key);
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&model, &facts, cost);
        const uint64_t at_ns = (interval + 1) * (uint64_t)250000000 - (ROWS - i) * 1000;
        rows[i] = (struct sluice_row_seen){
            .index = index,
            .asked = model.choices.at[choice],
            .got = model.choices.at[choice],
            .payload_bytes = (size_t)cost[choice][SLUICE_NETWORK],
            .read_bytes = facts.file_bytes,
            .requested_ns = at_ns - 500,
            .arrived_ns = at_ns,
            .started_ns = at_ns,
            .done_ns = at_ns,
            .storage_cpu_ns = (uint64_t)(1e9 * cost[choice][SLUICE_STORAGE_CPU]) + 20000,
            .compute_cpu_ns = (uint64_t)(1e9 * cost[choice][SLUICE_COMPUTE_CPU]),
        };
        trainer.decoded += choice >= SLUICE_TEST_CHOICES;
        trainer.decode_s += slower * cost[choice][SLUICE_GPU];
    }
    (void)sluice_controller_update(plan, (interval + 1) * (uint64_t)250000000,
                                   (interval + 1) * ROWS, rows, ROWS, &trainer, last);
}

TEST(a_gpu_that_decodes_ten_times_slower_gets_less_to_decode)
{
    enum { INTERVALS = 8 };
    const struct sluice_plan_epoch epoch = sim_epoch(4000);
    struct sluice_rates rates = RATES(20000, 4);
    rates.compute_cores = 8;
    rates.gpu_samples_per_s = 25000; /* a step takes 40 us */
    for (int k = 0; k < 2; k++) {
        struct sluice_plan_forecast first, last = {0};
        struct sluice_controller *plan =
            make_plan_of(sluice_test_gpu_choices(), &rates, FORMS, &epoch, &first);
        CU_ASSERT(first.on_gpu > 0.5 * (double)epoch.num_items);
        for (unsigned i = 0; i < INTERVALS; i++)
            see_decoding(plan, &epoch, i, k ? 10 : 1, &last);
        const double factor =
            sluice_controller_correction(plan, SLUICE_TEST_CUT_ON_GPU, SLUICE_GPU);
        if (k == 0) {
            CU_ASSERT_DOUBLE_EQUAL(factor, 1, 0.05);
            CU_ASSERT_EQUAL(sluice_controller_solves(plan), 2); /* without the GPU, and with it */
        } else {
            CU_ASSERT_DOUBLE_EQUAL(factor, 10, 1.5);
            CU_ASSERT(last.on_gpu > 0);
            uint64_t looked_at = 0;
            for (int f = 0; f < SLUICE_MAX_FORMS; f++)
                looked_at += last.forms[f];
            CU_ASSERT((double)last.on_gpu / (double)looked_at <
                      0.6 * (double)first.on_gpu / (double)epoch.num_items);
            CU_ASSERT(last.bound_s <= last.rest_s);
        }
        sluice_controller_destroy(plan);
    }
}

/* A folder's files come late, as from a link; that is nobody's limit.  What the GPU turns out not
 * to decode in time comes back to the CPUs. */
TEST(a_folder_has_files_alone_and_is_planned_anew)
{
    enum { INTERVALS = 16 };
    const struct sluice_plan_epoch epoch = sim_epoch(4000);
    const struct sluice_rates rates = {.link_bytes_per_s = INFINITY,
                                       .storage_cores = INFINITY,
                                       .compute_cores = 8,
                                       .gpu_samples_per_s = INFINITY,
                                       .pcie_bytes_per_s = INFINITY};
    struct sluice_controller_options options = {
        .model = sluice_choice_model_default(sluice_test_gpu_choices()),
        .is_local = true,
        .rates = rates,
        .most = rates,
    };
    static unsigned choice[4000];
    for (int k = 0; k < 2; k++) {
        struct sluice_plan_forecast first, last = {0};
        struct sluice_controller *plan = NULL;
        REQUIRE_OK(sluice_controller_create(&options, &plan, NULL));
        REQUIRE_OK(sluice_controller_begin(plan, &epoch, 0, &first, NULL));
        CU_ASSERT(first.on_gpu > 0.5 * (double)epoch.num_items);
        (void)choose_all(plan, &epoch, choice);
        for (size_t i = 0; i < epoch.num_items; i++) {
            const struct sluice_choice chosen = options.model.choices.at[choice[i]];
            CU_ASSERT(chosen.split == 0 && chosen.form == SLUICE_FORM_RAW);
        }
        for (unsigned i = 0; i < INTERVALS; i++)
            see_decoding(plan, &epoch, i, k ? 15 : 1, &last);
        const struct sluice_rates seen = sluice_controller_rates(plan);
        CU_ASSERT(isinf(seen.link_bytes_per_s) && isinf(seen.storage_cores));
        if (k == 1) {
            CU_ASSERT(last.on_gpu > 0);
            CU_ASSERT((double)last.on_gpu / (double)last.forms[SLUICE_FORM_RAW] <
                      0.8 * (double)first.on_gpu / (double)epoch.num_items);
        }
        sluice_controller_destroy(plan);
    }
}

/* It is in the choices where the GPU decodes, too. */
TEST(the_trainers_rate_counts_where_its_device_decodes)
{
    struct sluice_rates rates = RATES(20000, 1);
    rates.compute_cores = 0.5;
    const struct sluice_plan_epoch epoch = sim_epoch(2000);
    struct sluice_plan_forecast forecast;
    struct sluice_controller *plan =
        make_plan_of(sluice_test_gpu_choices(), &rates, FORMS, &epoch, &forecast);
    CU_ASSERT(forecast.on_gpu == epoch.num_items);
    /* Quick steps hide behind the rest and are no reason to plan anew. */
    struct sluice_trainer_seen trainer = {.samples = 100, .busy_ns = 100};
    CU_ASSERT_FALSE(sluice_controller_update(plan, 250000000, 10, NULL, 0, &trainer, &forecast));
    trainer.busy_ns = 1000000000;
    bool is_planned = false;
    for (unsigned i = 2; i < 30 && !is_planned; i++)
        is_planned = sluice_controller_update(plan, i * (uint64_t)250000000, 10 * i, NULL, 0,
                                              &trainer, &forecast);
    CU_ASSERT(is_planned);
    CU_ASSERT_PTR_NOT_NULL(strstr(forecast.reason, "trainer"));
    CU_ASSERT_PTR_NOT_NULL(strstr(forecast.reason, "samples/s"));
    sluice_controller_destroy(plan);
}

TEST(a_rate_that_is_no_rate_is_refused)
{
    for (int k = 0; k < 4; k++) {
        struct sluice_controller_options options = {
            .model = sluice_test_model(),
            .rates = RATES(100, 4),
        };
        double *const rates[] = {&options.rates.link_bytes_per_s, &options.rates.storage_cores,
                                 &options.rates.compute_cores, &options.rates.gpu_samples_per_s};
        options.most = options.rates;
        *rates[k] = k % 2 ? 0 : NAN;
        struct sluice_controller *plan = NULL;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_controller_create(&options, &plan, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(plan);
        CU_ASSERT(err.text[0]);
    }
    sluice_controller_destroy(NULL);
}
