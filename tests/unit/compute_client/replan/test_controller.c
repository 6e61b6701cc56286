#include "compute_client/replan/auto_plan.h"

#include "base/rng.h"
#include "image/coding.h"
#include "plan/form_menu.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A plan against simulated machines: the link, the cores and the trainer are servers with a queue
 * each, whose rates change when a test says so; time is the simulation's. */

#define PIPELINE "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
#define NUM_FILES 400
#define MAX_ITEMS 40000
#define FORMS (1u << SLUICE_FORM_JPEG_CROP | 1u << SLUICE_FORM_U8_PACKED)
#define LATENCY_S 0.001
#define TICK_S 0.25

static struct sluice_pipeline *pipeline;
static struct sluice_manifest *manifest;
static uint32_t ids[NUM_FILES];
static struct sluice_sampler_item items[MAX_ITEMS];

/* --- the machines --- */

struct phase {
    double until_s;
    struct sluice_rates rates;
    double latency_s; /* beside LATENCY_S */
};

struct world {
    const struct phase *phases;
    size_t num_phases;
    double storage_factor, compute_factor, byte_factor; /* true costs over the model's */
    double noise; /* each cost is off by up to so much, and each rate from tick to tick */
    double storage_price;
    size_t num_items;
};

/* Of the JPEGs, so that crops need a part of each file. */
static struct {
    bool is_there, is_believed;
} file_index;

enum what { READ, READY, ARRIVES, DONE };

struct event {
    double at_s;
    enum what what;
    uint32_t item;
};

struct flight {
    struct sluice_row_seen row;
    struct sluice_expected expected;
    double storage_s, compute_s, bytes, disk_s;
};

static struct {
    struct event heap[3 * MAX_ITEMS];
    size_t num_events;
    struct flight flights[MAX_ITEMS];
    struct sluice_row_seen seen[MAX_ITEMS];
    size_t num_seen;
} sim;

static void push(struct event event)
{
    size_t i = sim.num_events++;
    while (i > 0 && sim.heap[(i - 1) / 2].at_s > event.at_s) {
        sim.heap[i] = sim.heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim.heap[i] = event;
}

static struct event pop(void)
{
    const struct event first = sim.heap[0], last = sim.heap[--sim.num_events];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= sim.num_events)
            break;
        if (child + 1 < sim.num_events && sim.heap[child + 1].at_s < sim.heap[child].at_s)
            child++;
        if (sim.heap[child].at_s >= last.at_s)
            break;
        sim.heap[i] = sim.heap[child];
        i = child;
    }
    sim.heap[i] = last;
    return first;
}

static uint64_t ns_of(double s)
{
    return (uint64_t)(s * 1e9);
}

static const struct phase *phase_at(const struct world *world, double s)
{
    size_t p = 0;
    while (p + 1 < world->num_phases && s >= world->phases[p].until_s)
        p++;
    return &world->phases[p];
}

static const struct sluice_rates *rates_at(const struct world *world, double s)
{
    return &phase_at(world, s)->rates;
}

static const struct sluice_transport_cost transport = {
    .storage_s_per_sample = 20e-6,
    .storage_s_per_job = 50e-6,
    .storage_s_per_byte = 0.3e-9,
    .compute_s_per_sample = 80e-6,
    .compute_s_per_byte = 0.2e-9,
};

/* Of the ops, and with what every sample takes beside them. */
static void true_costs(const struct world *world, size_t index,
                       double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES])
{
    struct sluice_choice_model model = sluice_choice_model_default();
    model.has_jpeg_index = file_index.is_there;
    const struct sluice_sampler_item *item = &items[index];
    const struct sluice_draw_key key = {
        .seed = 1, .epoch = item->draw_epoch, .sample_id = ids[item->position]};
    const struct sluice_sample_facts facts =
        sluice_sample_facts_of(pipeline, &manifest->entries[ids[item->position]], &key);
    sluice_choice_model_costs(&model, &facts, cost);
    for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++) {
        cost[c][SLUICE_STORAGE_CPU] *= world->storage_factor;
        cost[c][SLUICE_COMPUTE_CPU] *= world->compute_factor;
        if (c == SLUICE_CHOICE_JPEG_CROP)
            cost[c][SLUICE_NETWORK] *= world->byte_factor;
        sluice_transport_cost_add(&transport, c, cost[c]);
        cost[c][SLUICE_DISK] = sluice_choice_read_bytes(&model, &facts, c);
    }
}

static double disk_of(const struct sluice_rates *rates)
{
    return rates->disk_bytes_per_s > 0 ? rates->disk_bytes_per_s : INFINITY;
}

/* What the rows do not say that they took. */
static double storage_beside_s(unsigned choice, double bytes)
{
    return transport.storage_s_per_byte * bytes + (choice ? transport.storage_s_per_job : 0);
}
static double compute_beside_s(double bytes)
{
    return transport.compute_s_per_sample + transport.compute_s_per_byte * bytes;
}

/* --- a run --- */

#define MAX_REPLANS 200
#define MIDDLE_S 10
#define MAX_PHASES 3

struct outcome {
    double seconds;
    size_t num_replans;
    double replan_s[MAX_REPLANS], replan_gain[MAX_REPLANS];
    struct sluice_auto_forecast first, last;
    struct sluice_auto_limit limit; /* at the last look before MIDDLE_S ... */
    double limit_s;                 /* ... which was then */
    size_t counts[SLUICE_NUM_CHOICES];
    size_t asked[MAX_PHASES][2]; /* in all, and whole files, from 4 s after a change on */
    size_t num_alone;            /* items that were asked for with nothing else under way */
};

static struct sluice_auto_plan *make_plan(const struct sluice_rates *rates, bool is_fixed)
{
    struct sluice_auto_plan_options options = {
        .model = sluice_choice_model_default(),
        .transport = transport,
        .forms = FORMS,
        .rates = *rates,
        .most = {.link_bytes_per_s = INFINITY,
                 .storage_cores = 4,
                 .compute_cores = 16,
                 .gpu_samples_per_s = INFINITY},
        .is_fixed = is_fixed,
    };
    options.model.has_jpeg_index = file_index.is_believed;
    struct sluice_auto_plan *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_create(&options, &plan, NULL), SLUICE_OK);
    return plan;
}

static struct sluice_auto_epoch epoch_of(size_t num_items)
{
    return (struct sluice_auto_epoch){
        .pipeline = pipeline,
        .manifest = manifest,
        .ids = ids,
        .seed = 1,
        .items = items,
        .num_items = num_items,
    };
}

static double jitter(struct sluice_rng *rng, double noise)
{
    return 1 + noise * (2 * sluice_rng_double(rng) - 1);
}

static void count(const struct world *world, double now, unsigned choice, struct outcome *outcome)
{
    const struct phase *phase = phase_at(world, now);
    if (phase > world->phases && now < phase[-1].until_s + 4)
        return;
    size_t *asked = outcome->asked[phase - world->phases];
    asked[0]++;
    asked[1] += choice == 0;
}

static struct outcome run(const struct world *world, struct sluice_auto_plan *plan)
{
    struct outcome outcome = {0};
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    const struct sluice_auto_epoch epoch = epoch_of(world->num_items);
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_begin(plan, &epoch, 0, &outcome.first, &err), SLUICE_OK);
    sim.num_events = sim.num_seen = 0;
    double now = 0, disk_free = 0, storage_free = 0, link_free = 0, compute_free = 0, last_tick = 0;
    double link_noise = 1;
    size_t next = 0, away = 0, unfinished = 0;
    struct sluice_expected under_way = {0}, expected = {0};
    unsigned c = 0;
    bool is_chosen = false;
    while (next < world->num_items || unfinished > 0) {
        while (next < world->num_items) {
            if (!is_chosen && now - last_tick >= TICK_S && sim.num_seen >= 16) {
                last_tick = now;
                link_noise = jitter(&rng, world->noise);
                struct sluice_auto_forecast forecast;
                const struct sluice_trainer_seen trainer = {0};
                if (sluice_auto_plan_tick(plan, ns_of(now), next, sim.seen, sim.num_seen, &trainer,
                                          &forecast)) {
                    CU_ASSERT(forecast.reason[0]);
                    /* A price that is new changes what is planned for, and maybe nothing else. */
                    CU_ASSERT(forecast.rest_s <
                              forecast.kept_s * (world->storage_price > 0 ? 1.001 : 1));
                    CU_ASSERT_FATAL(outcome.num_replans < MAX_REPLANS);
                    outcome.replan_gain[outcome.num_replans] =
                        forecast.kept_s / forecast.rest_s - 1;
                    outcome.replan_s[outcome.num_replans++] = now;
                    outcome.last = forecast;
                    if (getenv("SLUICE_TEST_VERBOSE"))
                        printf("%.2f s: %s; the rest %.2f s, was %.2f\n", now, forecast.reason,
                               forecast.rest_s, forecast.kept_s);
                }
                if (now < MIDDLE_S) {
                    outcome.limit = sluice_auto_plan_limit(plan, next);
                    outcome.limit_s = now;
                }
                sim.num_seen = 0;
            }
            if (!is_chosen) {
                c = sluice_auto_plan_choose(plan, next, &under_way, &expected);
                outcome.counts[c]++;
                count(world, now, c, &outcome);
                is_chosen = true;
            }
            const struct sluice_auto_bounds bounds = sluice_auto_plan_bounds(plan, sim.num_seen);
            CU_ASSERT(bounds.max_unfinished >= bounds.max_away);
            if ((away > 0 && away >= bounds.max_away) ||
                (unfinished > 0 && unfinished >= bounds.max_unfinished))
                break;
            is_chosen = false;
            outcome.num_alone += bounds.max_away == 1;
            const struct sluice_rates *rates = rates_at(world, now);
            double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES];
            true_costs(world, next, cost);
            struct flight *flight = &sim.flights[next];
            *flight = (struct flight){
                .expected = expected,
                .storage_s = cost[c][SLUICE_STORAGE_CPU] * jitter(&rng, world->noise),
                .compute_s = cost[c][SLUICE_COMPUTE_CPU] * jitter(&rng, world->noise),
                .bytes = cost[c][SLUICE_NETWORK],
            };
            const double disk_s = cost[c][SLUICE_DISK] / disk_of(rates);
            disk_free = fmax(now, disk_free) + disk_s;
            flight->disk_s = disk_s > 0 ? disk_free - now : 0;
            flight->row = (struct sluice_row_seen){
                .index = next,
                .asked = sluice_choice_listed(c),
                .got = sluice_choice_listed(c),
                .payload_bytes = (size_t)flight->bytes,
                .read_bytes = (uint64_t)cost[c][SLUICE_DISK],
                .requested_ns = ns_of(now),
                .disk_ns = ns_of(flight->disk_s),
                .disk_busy_ns = ns_of(disk_s),
                .storage_cpu_ns =
                    ns_of(fmax(0, flight->storage_s - storage_beside_s(c, flight->bytes))),
                .storage_price = world->storage_price,
                .compute_cpu_ns =
                    ns_of(fmax(0, flight->compute_s - compute_beside_s(flight->bytes))),
            };
            push((struct event){now + flight->disk_s, READ, (uint32_t)next});
            next++;
            away++;
            unfinished++;
            under_way.storage_s += expected.storage_s;
            under_way.bytes += expected.bytes;
            under_way.compute_s += expected.compute_s;
        }
        const struct event event = pop();
        now = event.at_s;
        const struct sluice_rates *rates = rates_at(world, now);
        struct flight *flight = &sim.flights[event.item];
        switch (event.what) {
        case READ: {
            /* Files do not stand in line, but the cores that send them are the same. */
            const double free_at = fmax(now, storage_free);
            const double start = flight->row.asked.form == SLUICE_FORM_RAW ? now : free_at;
            storage_free = free_at + flight->storage_s / rates->storage_cores;
            flight->row.storage_queue_ns = ns_of(start - now);
            flight->row.storage_ns = ns_of(start - now + flight->storage_s);
            push((struct event){start + flight->storage_s, READY, event.item});
            break;
        }
        case READY:
            link_free =
                fmax(now, link_free) + flight->bytes / (rates->link_bytes_per_s * link_noise);
            push((struct event){link_free + LATENCY_S + phase_at(world, now)->latency_s, ARRIVES,
                                event.item});
            break;
        case ARRIVES: {
            away--;
            under_way.storage_s -= flight->expected.storage_s;
            under_way.bytes -= flight->expected.bytes;
            const double start = fmax(now, compute_free);
            compute_free = start + flight->compute_s / rates->compute_cores;
            flight->row.arrived_ns = ns_of(now);
            flight->row.started_ns = ns_of(start);
            flight->row.done_ns = ns_of(start + flight->compute_s);
            push((struct event){start + flight->compute_s, DONE, event.item});
            break;
        }
        case DONE:
            sim.seen[sim.num_seen++] = flight->row;
            unfinished--;
            under_way.compute_s -= flight->expected.compute_s;
            break;
        }
    }
    outcome.seconds = now;
    return outcome;
}

/* --- who knew everything beforehand --- */

static double best_per_s(const struct world *world, const struct sluice_rates *rates)
{
    enum { N = 2000 };
    static struct sluice_menu menus[N];
    for (size_t i = 0; i < N; i++) {
        double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES];
        true_costs(world, i, cost);
        sluice_menu_set(&menus[i], SLUICE_NUM_CHOICES, (const double(*)[SLUICE_NUM_RESOURCES])cost);
    }
    const struct sluice_menu_source source = sluice_menu_array(menus, N);
    const struct sluice_capacities capacities = {
        .per_s = {disk_of(rates), rates->storage_cores, rates->link_bytes_per_s,
                  rates->link_bytes_per_s, rates->compute_cores, INFINITY, INFINITY}};
    struct sluice_lp_result result;
    CU_ASSERT_EQUAL_FATAL(sluice_plan_lp(&source, &capacities, NULL, &result, NULL), SLUICE_OK);
    return N / result.dual_s;
}

static double oracle_s(const struct world *world)
{
    double left = (double)world->num_items, from_s = 0;
    for (size_t p = 0; p < world->num_phases; p++) {
        const double per_s = best_per_s(world, &world->phases[p].rates);
        const double length = world->phases[p].until_s - from_s;
        if (p + 1 == world->num_phases || left <= per_s * length)
            return from_s + left / per_s;
        left -= per_s * length;
        from_s = world->phases[p].until_s;
    }
    return 0;
}

static struct outcome run_from(const struct world *world, const struct sluice_rates *believed)
{
    struct sluice_auto_plan *plan = make_plan(believed, false);
    const struct outcome outcome = run(world, plan);
    if (getenv("SLUICE_TEST_VERBOSE"))
        printf("%.2f s, with foresight %.2f s, %zu re-plans\n", outcome.seconds, oracle_s(world),
               outcome.num_replans);
    sluice_auto_plan_destroy(plan);
    return outcome;
}

#define MBIT 125e3
#define RATES(mbit, storage)                                                                       \
    {                                                                                              \
        .link_bytes_per_s = (mbit)*MBIT, .storage_cores = (storage), .compute_cores = 16,          \
        .gpu_samples_per_s = INFINITY                                                              \
    }

#define SLOW_DISK                                                                                  \
    {                                                                                              \
        .disk_bytes_per_s = 20e6, .link_bytes_per_s = 1000 * MBIT, .storage_cores = 1,             \
        .compute_cores = 16, .gpu_samples_per_s = INFINITY                                         \
    }

/* --- the promises --- */

static void the_first_plan_says_what_it_takes_and_a_right_one_stays(void)
{
    const struct phase phase = {1e9, RATES(300, 0.15), 0};
    const struct world world = {&phase, 1, 1, 1, 1, 0, 0, 8000};
    const struct outcome outcome = run_from(&world, &phase.rates);
    CU_ASSERT(outcome.first.gap >= 0 && outcome.first.gap < 0.01);
    CU_ASSERT(outcome.first.bound_s <= outcome.first.rest_s);
    CU_ASSERT_DOUBLE_EQUAL(outcome.first.rest_s, oracle_s(&world), 0.01 * oracle_s(&world));
    CU_ASSERT_DOUBLE_EQUAL(outcome.seconds, outcome.first.rest_s, 0.05 * outcome.first.rest_s);
    CU_ASSERT_EQUAL(outcome.first.kept_s, 0);
    CU_ASSERT(outcome.num_replans <= 1);
}

/* As much more is asked for as is done, so that a few round trips fill every queue. */
static void the_time_until_the_first_look_is_not_lost(void)
{
    const struct phase phase = {1e9, RATES(2000, 2), 0};
    const struct world world = {&phase, 1, 1, 1, 1, 0, 0, 2500};
    const struct outcome outcome = run_from(&world, &phase.rates);
    CU_ASSERT(oracle_s(&world) < 2 * TICK_S);
    CU_ASSERT(outcome.seconds < 1.1 * oracle_s(&world));

    struct sluice_auto_plan *plan = make_plan(&phase.rates, false);
    const struct sluice_auto_epoch epoch = epoch_of(100);
    struct sluice_auto_forecast forecast;
    CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_begin(plan, &epoch, 0, &forecast, NULL), SLUICE_OK);
    const struct sluice_auto_bounds first = sluice_auto_plan_bounds(plan, 0);
    CU_ASSERT(first.max_away >= 16 && first.max_away < 200);
    CU_ASSERT_EQUAL(sluice_auto_plan_bounds(plan, 1000).max_away, first.max_away + 1000);
    CU_ASSERT_EQUAL(sluice_auto_plan_bounds(plan, 1000).max_unfinished,
                    first.max_unfinished + 1000);
    sluice_auto_plan_destroy(plan);
}

static void a_cold_start_ends_within_a_tenth_of_foresight(void)
{
    /* Every belief wrong by a factor of two to ten, upwards and downwards. */
    static const struct sluice_rates believed[] = {RATES(3000, 4), RATES(30, 0.04)};
    const struct phase phase = {1e9, RATES(300, 0.15), 0};
    const struct world worlds[] = {
        {&phase, 1, 1, 1, 1, 0, 0, 16000},
        {&phase, 1, 2.5, 2.5, 1.2, 0, 0, 16000},
        {&phase, 1, 0.5, 0.5, 0.8, 0, 0, 16000},
    };
    for (size_t w = 0; w < 3; w++) {
        for (size_t b = 0; b < 2; b++) {
            const struct outcome outcome = run_from(&worlds[w], &believed[b]);
            CU_ASSERT(outcome.seconds < 1.1 * oracle_s(&worlds[w]));
            CU_ASSERT(outcome.num_replans >= 1);
        }
    }
}

static size_t replans_within(const struct outcome *outcome, double from_s, double to_s)
{
    size_t n = 0;
    for (size_t i = 0; i < outcome->num_replans; i++)
        n += outcome->replan_s[i] >= from_s && outcome->replan_s[i] < to_s;
    return n;
}

/* Some seconds of one, some of the other, and back: at each change there are new prices soon, which
 * then stay, and the whole is not far from foresight. */
static struct outcome check_there_and_back(const struct phase *phases)
{
    const struct world world = {phases, 3, 1, 1, 1, 0.05, 0, MAX_ITEMS};
    const struct outcome outcome = run_from(&world, &phases[0].rates);
    CU_ASSERT(outcome.seconds < 1.15 * oracle_s(&world));
    for (int p = 0; p < 2; p++) {
        const double at = phases[p].until_s;
        CU_ASSERT(replans_within(&outcome, at, at + 3) >= 1);
        CU_ASSERT(replans_within(&outcome, at + 5, phases[p + 1].until_s) <= 5);
    }
    return outcome;
}

static double share_of_files(const struct outcome *outcome, size_t phase)
{
    const size_t *asked = outcome->asked[phase];
    CU_ASSERT_FATAL(asked[0] > 100);
    return (double)asked[1] / (double)asked[0];
}

static void a_link_that_thins_and_widens_is_followed(void)
{
    static const struct phase phases[] = {
        {8, RATES(1000, 0.4), 0}, {18, RATES(100, 0.4), 0}, {1e9, RATES(1000, 0.4), 0}};
    const struct outcome outcome = check_there_and_back(phases);
    /* From files to smaller forms and back. */
    CU_ASSERT(share_of_files(&outcome, 0) > 0.3);
    CU_ASSERT(share_of_files(&outcome, 1) < 0.05);
    CU_ASSERT(share_of_files(&outcome, 2) > 0.3);
}

static void storage_cores_that_go_and_come_back_are_followed(void)
{
    static const struct phase phases[] = {
        {8, RATES(500, 0.8), 0}, {18, RATES(500, 0.2), 0}, {1e9, RATES(500, 0.8), 0}};
    const struct outcome outcome = check_there_and_back(phases);
    CU_ASSERT(share_of_files(&outcome, 1) > 2 * share_of_files(&outcome, 0));
    CU_ASSERT(share_of_files(&outcome, 1) > 2 * share_of_files(&outcome, 2));
}

/* A way that becomes longer is no slow link: what is asked for stays as it was, once that has been
 * seen, and finding out costs next to nothing. */
static void a_longer_way_is_not_taken_for_a_slow_link_for_good(void)
{
    static const struct phase phases[] = {{3, RATES(1000, 0.3), 0},
                                          {1e9, RATES(1000, 0.3), .latency_s = 0.05}};
    const struct world world = {phases, 2, 1, 1, 1, 0.05, 0, MAX_ITEMS};
    const struct outcome outcome = run_from(&world, &phases[0].rates);
    CU_ASSERT(outcome.seconds > 15); /* so that there was time to find out */
    CU_ASSERT(outcome.seconds < 1.1 * oracle_s(&world));
    CU_ASSERT(outcome.num_alone >= 2 && outcome.num_alone <= 10);
}

/* Less is under way than would hold a changed plan up for long: what was asked for before the link
 * fell to a tenth is through within a second. */
static void a_fall_of_the_link_is_over_soon(void)
{
    static const struct phase phases[] = {{6, RATES(1000, 0.4), 0}, {1e9, RATES(100, 0.4), 0}};
    const struct world world = {phases, 2, 1, 1, 1, 0.05, 0, 14000};
    const struct outcome outcome = run_from(&world, &phases[0].rates);
    CU_ASSERT_EQUAL_FATAL(replans_within(&outcome, 0, 6) < outcome.num_replans, true);
    CU_ASSERT(replans_within(&outcome, 6, 6.8) >= 1);
    CU_ASSERT(outcome.seconds < 1.08 * oracle_s(&world));
}

static void what_offers_little_is_looked_at_twice(void)
{
    const struct phase phase = {1e9, RATES(300, 0.15), 0};
    const struct world world = {&phase, 1, 1, 1, 1, 0.3, 0, 20000};
    const struct outcome outcome = run_from(&world, &phase.rates);
    CU_ASSERT(outcome.num_replans > 1);
    for (size_t i = 1; i < outcome.num_replans; i++)
        CU_ASSERT(outcome.replan_s[i] - outcome.replan_s[i - 1] > 1.5 * TICK_S ||
                  outcome.replan_gain[i] > 0.15);
    CU_ASSERT(outcome.seconds < 1.1 * oracle_s(&world));
}

static void noise_does_not_make_it_swing(void)
{
    const struct phase phase = {1e9, RATES(300, 0.15), 0};
    const struct world world = {&phase, 1, 1, 1, 1, 0.15, 0, MAX_ITEMS};
    const struct outcome outcome = run_from(&world, &phase.rates);
    CU_ASSERT(outcome.seconds > 50); /* so there was time to swing in */
    CU_ASSERT(outcome.num_replans <= 15);
    CU_ASSERT(outcome.seconds < 1.1 * oracle_s(&world));
}

/* The trainer's pace and the cores move, the link alone is the limit: nothing is solved again. */
static void what_is_no_limit_is_no_reason(void)
{
    struct sluice_rates rates = RATES(20, 4);
    rates.gpu_samples_per_s = 1e6;
    struct sluice_auto_plan *plan = make_plan(&rates, false);
    const struct sluice_auto_epoch epoch = epoch_of(4000);
    struct sluice_auto_forecast forecast;
    CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_begin(plan, &epoch, 0, &forecast, NULL), SLUICE_OK);
    CU_ASSERT_EQUAL(forecast.slowest, SLUICE_NETWORK);
    for (unsigned i = 1; i <= 20; i++) {
        const struct sluice_trainer_seen trainer = {.samples = 100,
                                                    .busy_ns = i % 2 ? 1000000 : 50000};
        CU_ASSERT_FALSE(
            sluice_auto_plan_tick(plan, i * ns_of(TICK_S), 10 * i, NULL, 0, &trainer, &forecast));
    }
    CU_ASSERT_EQUAL(sluice_auto_plan_solves(plan), 1);
    /* Until the trainer is the limit. */
    const struct sluice_trainer_seen slow = {.samples = 1, .busy_ns = 1000000000};
    for (unsigned i = 21; i <= 30; i++)
        (void)sluice_auto_plan_tick(plan, i * ns_of(TICK_S), 300, NULL, 0, &slow, &forecast);
    CU_ASSERT(sluice_auto_plan_solves(plan) > 1);
    sluice_auto_plan_destroy(plan);
}

/* Nobody said that the disk is slow, and nothing can be done about it: the plan knows what is left,
 * and leaves the others in peace. */
static void a_slow_disk_is_seen_and_no_reason(void)
{
    static const struct phase phases[] = {{2, RATES(1000, 1), 0}, {1e9, SLOW_DISK, 0}};
    const struct world world = {phases, 2, 1, 1, 1, 0.05, 0, 12000};
    const struct outcome outcome = run_from(&world, &phases[0].rates);
    CU_ASSERT_EQUAL(outcome.limit.load, SLUICE_DISK);
    CU_ASSERT(outcome.seconds > 2 * MIDDLE_S);
    CU_ASSERT_DOUBLE_EQUAL(outcome.limit_s + outcome.limit.rest_s, outcome.seconds,
                           0.05 * outcome.seconds);
    CU_ASSERT(outcome.seconds < 1.05 * oracle_s(&world));
    CU_ASSERT_EQUAL(replans_within(&outcome, phases[0].until_s + 1, INFINITY), 0);
}

/* With an index of the files a slow disk is a reason to ask for crops. */
static void a_slow_disk_reads_parts_where_it_can(void)
{
    static const struct phase phases[] = {{1e9, SLOW_DISK, 0}};
    const struct world world = {phases, 1, 1, 1, 1, 0.05, 0, 4000};
    const double whole_s = oracle_s(&world);
    file_index.is_there = file_index.is_believed = true;
    const struct outcome parts = run_from(&world, &phases[0].rates);
    CU_ASSERT(parts.seconds < 0.9 * whole_s);
    CU_ASSERT(parts.seconds < 1.05 * oracle_s(&world));
    CU_ASSERT_DOUBLE_EQUAL(parts.first.rest_s, parts.seconds, 0.05 * parts.seconds);
    /* One that turns out to be of other files costs nothing but the first moments. */
    file_index.is_there = false;
    const struct outcome stale = run_from(&world, &phases[0].rates);
    file_index.is_believed = false;
    CU_ASSERT(stale.seconds < 1.05 * whole_s);
    CU_ASSERT_EQUAL(stale.limit.load, SLUICE_DISK);
    CU_ASSERT_DOUBLE_EQUAL(stale.limit_s + stale.limit.rest_s, stale.seconds, 0.1 * stale.seconds);
}

/* What the plan asks for where nothing but the trainer is the limit is what it would ask for
 * without one, not whichever plan is as fast: little is left to chance from epoch to epoch. */
static void a_slow_trainer_leaves_the_plan_as_it_is(void)
{
    size_t counts[3][SLUICE_NUM_CHOICES] = {{0}};
    for (int k = 0; k < 3; k++) {
        struct sluice_rates rates = RATES(1000, 4);
        rates.gpu_samples_per_s = k == 0 ? INFINITY : 50;
        rates.link_bytes_per_s *= k == 2 ? 1.03 : 1; /* as another epoch may find it */
        struct sluice_auto_plan *plan = make_plan(&rates, false);
        const struct sluice_auto_epoch epoch = epoch_of(4000);
        struct sluice_auto_forecast forecast;
        CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_begin(plan, &epoch, 0, &forecast, NULL), SLUICE_OK);
        CU_ASSERT_EQUAL(forecast.slowest == SLUICE_GPU, k > 0);
        for (size_t i = 0; i < epoch.num_items; i++)
            counts[k][sluice_auto_plan_choose(plan, i, NULL, NULL)]++;
        sluice_auto_plan_destroy(plan);
    }
    for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++) {
        CU_ASSERT_EQUAL(counts[0][c], counts[1][c]);
        CU_ASSERT_DOUBLE_EQUAL((double)counts[1][c], (double)counts[2][c], 0.05 * 4000);
    }
}

static void a_fixed_plan_stays_whatever_is_seen(void)
{
    static const struct phase phases[] = {{1, RATES(1000, 4), 0}, {1e9, RATES(100, 0.5), 0}};
    const struct world world = {phases, 2, 2, 1, 1, 0, 0, 4000};
    struct sluice_auto_plan *plan = make_plan(&phases[0].rates, true);
    const struct outcome outcome = run(&world, plan);
    CU_ASSERT_EQUAL(outcome.num_replans, 0);
    CU_ASSERT_EQUAL(sluice_auto_plan_rates(plan).link_bytes_per_s, 1000 * MBIT);
    /* It does not see how fast items are done, so it bounds none. */
    const struct sluice_auto_bounds bounds = sluice_auto_plan_bounds(plan, 0);
    CU_ASSERT_EQUAL(bounds.max_away, UINT32_MAX);
    CU_ASSERT_EQUAL(bounds.max_unfinished, UINT32_MAX);
    sluice_auto_plan_destroy(plan);
}

/* Cores of both nodes are the limit, and most samples are worth about the same on either. */
static void costs_that_move_too_little_for_another_plan_change_no_choice(void)
{
    enum { SEEN = 500, LATER = 3000 };
    static struct sluice_row_seen rows[SEEN];
    struct sluice_rates rates = RATES(40000, 4);
    rates.compute_cores = 8;
    const struct world world = {.compute_factor = 1.04, .storage_factor = 1, .byte_factor = 1};
    struct sluice_auto_plan *plans[] = {make_plan(&rates, false), make_plan(&rates, true)};
    const struct sluice_auto_epoch epoch = epoch_of(SEEN + LATER);
    struct sluice_auto_forecast forecast;
    for (int p = 0; p < 2; p++)
        CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_begin(plans[p], &epoch, 0, &forecast, NULL),
                              SLUICE_OK);
    CU_ASSERT(forecast.price[SLUICE_STORAGE_CPU] > 0.05);
    CU_ASSERT(forecast.price[SLUICE_COMPUTE_CPU] > 0.05);
    for (size_t i = 0; i < SEEN; i++) {
        const unsigned c = sluice_auto_plan_choose(plans[0], i, NULL, NULL);
        CU_ASSERT_EQUAL(sluice_auto_plan_choose(plans[1], i, NULL, NULL), c);
        double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES];
        true_costs(&world, i, cost);
        const double bytes = cost[c][SLUICE_NETWORK];
        const uint64_t at = ns_of(1e-4 * (double)(i + 1));
        rows[i] = (struct sluice_row_seen){
            .index = i,
            .asked = sluice_choice_listed(c),
            .got = sluice_choice_listed(c),
            .payload_bytes = (size_t)bytes,
            .storage_cpu_ns =
                ns_of(fmax(0, cost[c][SLUICE_STORAGE_CPU] - storage_beside_s(c, bytes))),
            .compute_cpu_ns = ns_of(cost[c][SLUICE_COMPUTE_CPU] - compute_beside_s(bytes)),
            .requested_ns = at,
            .arrived_ns = at + 1000000,
            .started_ns = at + 1000000,
            .done_ns = at + 2000000,
        };
    }
    const struct sluice_trainer_seen trainer = {0};
    CU_ASSERT_FALSE(
        sluice_auto_plan_tick(plans[0], ns_of(TICK_S), SEEN, rows, SEEN, &trainer, &forecast));
    CU_ASSERT(sluice_auto_plan_correction(plans[0], 0, SLUICE_COMPUTE_CPU) > 1.02);
    for (size_t i = SEEN; i < SEEN + LATER; i++)
        CU_ASSERT_EQUAL(sluice_auto_plan_choose(plans[0], i, NULL, NULL),
                        sluice_auto_plan_choose(plans[1], i, NULL, NULL));
    for (int p = 0; p < 2; p++)
        sluice_auto_plan_destroy(plans[p]);
}

static void costs_are_corrected_by_what_is_seen_of_each_choice(void)
{
    const struct phase phase = {1e9, RATES(100, 4), 0};
    const struct world world = {&phase, 1, 3, 2, 1.25, 0, 0, 4000};
    struct sluice_auto_plan *plan = make_plan(&phase.rates, false);
    const struct outcome outcome = run(&world, plan);
    CU_ASSERT(outcome.counts[SLUICE_CHOICE_JPEG_CROP] > 500);
    const unsigned crop = SLUICE_CHOICE_JPEG_CROP;
    CU_ASSERT_DOUBLE_EQUAL(sluice_auto_plan_correction(plan, crop, SLUICE_STORAGE_CPU), 3, 0.2);
    CU_ASSERT_DOUBLE_EQUAL(sluice_auto_plan_correction(plan, crop, SLUICE_COMPUTE_CPU), 2, 0.1);
    CU_ASSERT_DOUBLE_EQUAL(sluice_auto_plan_correction(plan, crop, SLUICE_NETWORK), 1.25, 0.02);
    /* A choice that was never made: the same CPUs, but bytes of its own. */
    CU_ASSERT_EQUAL(outcome.counts[1], 0);
    CU_ASSERT_DOUBLE_EQUAL(sluice_auto_plan_correction(plan, 1, SLUICE_STORAGE_CPU), 3, 0.3);
    CU_ASSERT_EQUAL(sluice_auto_plan_correction(plan, 1, SLUICE_NETWORK), 1);
    sluice_auto_plan_destroy(plan);
}

static void a_price_of_storage_cpu_keeps_work_away_from_it(void)
{
    const struct phase phase = {1e9, RATES(300, 4), 0};
    const struct world cheap = {&phase, 1, 1, 1, 1, 0, 0, 8000};
    struct world dear = cheap;
    dear.storage_price = 1e5;
    const struct outcome free_of_charge = run_from(&cheap, &phase.rates);
    const struct outcome priced = run_from(&dear, &phase.rates);
    CU_ASSERT(free_of_charge.counts[0] < 800);
    CU_ASSERT(priced.counts[0] > 5000);
    CU_ASSERT(priced.num_replans > 5); /* by steps */
    CU_ASSERT_PTR_NOT_NULL(strstr(priced.last.reason, "price of storage CPU 1e+05"));
}

static void only_forms_that_are_offered_and_fit_the_pipeline_are_chosen(void)
{
    const struct sluice_rates rates = RATES(50, 4);
    struct sluice_pipeline *other = NULL;
    CU_ASSERT_EQUAL_FATAL(
        sluice_pipeline_parse("decode,resize=256,center_crop=224,to_tensor", &other, NULL),
        SLUICE_OK);
    for (int k = 0; k < 3; k++) {
        const struct sluice_auto_plan_options options = {
            .model = sluice_choice_model_default(),
            .forms = k == 0 ? 0 : FORMS,
            .rates = rates,
            .most = rates,
        };
        struct sluice_auto_plan *plan = NULL;
        CU_ASSERT_EQUAL_FATAL(sluice_auto_plan_create(&options, &plan, NULL), SLUICE_OK);
        struct sluice_auto_epoch epoch = epoch_of(1000);
        epoch.pipeline = k == 2 ? other : pipeline;
        struct sluice_auto_forecast forecast;
        CU_ASSERT_EQUAL(sluice_auto_plan_begin(plan, &epoch, 0, &forecast, NULL), SLUICE_OK);
        size_t num_other_forms = 0;
        for (size_t i = 0; i < 1000; i++) {
            const struct sluice_choice choice =
                sluice_choice_listed(sluice_auto_plan_choose(plan, i, NULL, NULL));
            num_other_forms +=
                choice.form == SLUICE_FORM_JPEG_CROP || choice.form == SLUICE_FORM_U8_PACKED;
            CU_ASSERT(choice.split <= sluice_pipeline_num_ops(epoch.pipeline));
            CU_ASSERT(choice.form != SLUICE_FORM_JPEG_CROP || k == 1);
        }
        CU_ASSERT_EQUAL(num_other_forms > 500, k > 0); /* packed pixels fit any */
        sluice_auto_plan_destroy(plan);
    }
    sluice_pipeline_destroy(other);
}

static void a_rate_that_is_no_rate_is_refused(void)
{
    for (int k = 0; k < 4; k++) {
        struct sluice_auto_plan_options options = {
            .model = sluice_choice_model_default(),
            .rates = RATES(100, 4),
        };
        double *const rates[] = {&options.rates.link_bytes_per_s, &options.rates.storage_cores,
                                 &options.rates.compute_cores, &options.rates.gpu_samples_per_s};
        *rates[k] = k % 2 ? 0 : NAN;
        struct sluice_auto_plan *plan = NULL;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_auto_plan_create(&options, &plan, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(plan);
        CU_ASSERT(err.text[0]);
    }
    sluice_auto_plan_destroy(NULL);
}

/* Photographs of some 30 to 250 kB. */
static void make_dataset(void)
{
    static char paths[NUM_FILES][16];
    static struct sluice_manifest_entry entries[NUM_FILES];
    static const char *const classes[] = {"c"};
    struct sluice_rng rng = sluice_rng_init(7, 0, 0, 0);
    for (uint32_t i = 0; i < NUM_FILES; i++) {
        snprintf(paths[i], sizeof(paths[i]), "c/%04u.jpg", i);
        const uint32_t width = 300 + sluice_rng_below(&rng, 400);
        const uint32_t height = 250 + sluice_rng_below(&rng, 300);
        entries[i] = (struct sluice_manifest_entry){
            .path = paths[i],
            .bytes = (uint64_t)width * height * (2 + sluice_rng_below(&rng, 5)) / 8,
            .width = width,
            .height = height,
        };
        ids[i] = i;
    }
    for (uint32_t i = 0; i < MAX_ITEMS; i++) {
        items[i] = (struct sluice_sampler_item){.position = sluice_rng_below(&rng, NUM_FILES),
                                                .draw_epoch = i / NUM_FILES};
    }
    if (sluice_manifest_create(entries, NUM_FILES, classes, 1, &manifest, NULL) != SLUICE_OK)
        abort();
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(the_first_plan_says_what_it_takes_and_a_right_one_stays),
        SLUICE_TEST(the_time_until_the_first_look_is_not_lost),
        SLUICE_TEST(a_cold_start_ends_within_a_tenth_of_foresight),
        SLUICE_TEST(a_link_that_thins_and_widens_is_followed),
        SLUICE_TEST(storage_cores_that_go_and_come_back_are_followed),
        SLUICE_TEST(a_longer_way_is_not_taken_for_a_slow_link_for_good),
        SLUICE_TEST(a_fall_of_the_link_is_over_soon),
        SLUICE_TEST(what_offers_little_is_looked_at_twice),
        SLUICE_TEST(what_is_no_limit_is_no_reason),
        SLUICE_TEST(noise_does_not_make_it_swing),
        SLUICE_TEST(a_slow_disk_is_seen_and_no_reason),
        SLUICE_TEST(a_slow_disk_reads_parts_where_it_can),
        SLUICE_TEST(a_slow_trainer_leaves_the_plan_as_it_is),
        SLUICE_TEST(a_fixed_plan_stays_whatever_is_seen),
        SLUICE_TEST(costs_that_move_too_little_for_another_plan_change_no_choice),
        SLUICE_TEST(costs_are_corrected_by_what_is_seen_of_each_choice),
        SLUICE_TEST(a_price_of_storage_cpu_keeps_work_away_from_it),
        SLUICE_TEST(only_forms_that_are_offered_and_fit_the_pipeline_are_chosen),
        SLUICE_TEST(a_rate_that_is_no_rate_is_refused),
    };
    if (sluice_pipeline_parse(PIPELINE, &pipeline, NULL) != SLUICE_OK)
        return 1;
    make_dataset();
    const int failed = sluice_test_run("auto_plan", tests, SLUICE_TEST_COUNT(tests));
    sluice_manifest_destroy(manifest);
    sluice_pipeline_destroy(pipeline);
    return failed;
}
