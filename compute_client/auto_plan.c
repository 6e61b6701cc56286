#include "compute_client/auto_plan.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "profiler/form_menu.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first plan is over as many items, whose gap is well under 1 %; a later one must be done in a
 * few ms. */
#define FIRST_ITEMS 8192
#define DEFAULT_ITEMS 2048

/* New prices are looked for once something moved by this much, and taken if the rest of the epoch
 * is faster by this much; so soon after others only if by more. */
#define LOOK_CHANGE 0.05
#define TAKE_GAIN 0.04
#define SOON_NS 500000000u
#define TAKE_GAIN_SOON 0.15

/* What is named among the reasons for a change. */
#define NAMED_CHANGE 0.1

/* A price of storage CPU matters in comparison with what its cores can be worth: 1 over their
 * number. */
#define PRICE_SCALE 0.2

/* Work for so long is under way, beside what a round trip holds; of what was seen done, or twice
 * that while more is expected, so that a wrong forecast fills no queue. */
#define AHEAD_S 0.2

/* Of plans that are as fast, the one that leaves most of everything: each resource has so small a
 * price beside its own. */
#define THRIFT 1e-3

/* A correction counts the last so many rows of a choice, and begins as if this many had shown what
 * the other choices do. */
#define CORRECTION_ROWS 1000
#define PRIOR_ROWS 24
/* A single row is taken to be off by no more than this factor. */
#define MAX_ROW_FACTOR 4.0

struct correction {
    double seen, expected, rows;
};

struct sluice_auto_plan {
    struct sluice_auto_plan_options options;
    struct sluice_rate_watch watch;
    struct correction corrections[SLUICE_NUM_CHOICES][SLUICE_NUM_CHOICE_SIDES];
    double storage_price;

    struct sluice_auto_epoch epoch;
    uint8_t offered[SLUICE_NUM_CHOICES];
    unsigned num_offered;

    bool has_prices;
    struct sluice_price_plan prices;
    struct sluice_price_balance balance;
    uint64_t since_ns;     /* the prices are in force */
    double forecast_per_s; /* items */
    double seen_per_s;     /* items, in the last interval */
    double considered[SLUICE_NUM_WATCHED + SLUICE_NUM_CHOICES * SLUICE_NUM_CHOICE_SIDES + 1];
    double taken[SLUICE_NUM_WATCHED + SLUICE_NUM_CHOICES * SLUICE_NUM_CHOICE_SIDES + 1];

    struct sluice_menu *menus; /* FIRST_ITEMS or more */
    size_t max_menus;
    struct sluice_rate_span *spans;
    size_t max_spans;
};

/* --- corrections --- */

static const enum sluice_load side_loads[SLUICE_NUM_CHOICE_SIDES] = {
    [SLUICE_SIDE_STORAGE_CPU] = SLUICE_LOAD_STORAGE_CPU,
    [SLUICE_SIDE_COMPUTE_CPU] = SLUICE_LOAD_COMPUTE_CPU,
    [SLUICE_SIDE_BYTES] = SLUICE_LOAD_NET_DOWN,
};

/* How far the machine is from the model's, as far as the choices that were seen say. */
static double side_correction(const struct sluice_auto_plan *plan, enum sluice_choice_side side)
{
    if (side == SLUICE_SIDE_BYTES)
        return 1; /* one form says nothing of another */
    double seen = 0, expected = 0, rows = 0;
    for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++) {
        seen += plan->corrections[c][side].seen;
        expected += plan->corrections[c][side].expected;
        rows += plan->corrections[c][side].rows;
    }
    if (!(rows > 0) || !(expected > 0))
        return 1;
    const double prior = PRIOR_ROWS * expected / rows;
    return (seen + prior) / (expected + prior);
}

static double correction_beside(const struct sluice_auto_plan *plan, unsigned choice,
                                enum sluice_choice_side side, double of_side)
{
    const struct correction *correction = &plan->corrections[choice][side];
    if (!(correction->rows > 0) || !(correction->expected > 0))
        return of_side;
    const double prior = PRIOR_ROWS * correction->expected / correction->rows;
    return (correction->seen + of_side * prior) / (correction->expected + prior);
}

double sluice_auto_plan_correction(const struct sluice_auto_plan *plan, unsigned choice,
                                   enum sluice_choice_side side)
{
    return correction_beside(plan, choice, side, side_correction(plan, side));
}

struct factors {
    double of[SLUICE_NUM_CHOICES][SLUICE_NUM_CHOICE_SIDES];
};

static struct factors factors_of(const struct sluice_auto_plan *plan)
{
    struct factors factors;
    for (int s = 0; s < SLUICE_NUM_CHOICE_SIDES; s++) {
        const double of_side = side_correction(plan, (enum sluice_choice_side)s);
        for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++)
            factors.of[c][s] = correction_beside(plan, c, (enum sluice_choice_side)s, of_side);
    }
    return factors;
}

static void model_costs(const struct sluice_auto_plan *plan, size_t index,
                        double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_LOADS])
{
    const struct sluice_auto_epoch *epoch = &plan->epoch;
    const struct sluice_sampler_item *item = &epoch->items[index];
    const uint32_t sample_id = epoch->ids[item->position];
    const struct sluice_draw_key key = {
        .seed = epoch->seed,
        .epoch = item->draw_epoch,
        .sample_id = sample_id,
    };
    const struct sluice_sample_facts facts =
        sluice_sample_facts_of(epoch->pipeline, &epoch->manifest->entries[sample_id], &key);
    sluice_choice_model_costs(&plan->options.model, &facts, cost);
}

static void correct(struct correction *correction, double seen, double expected, double factor)
{
    if (!(expected > 0))
        return;
    correction->seen += fmin(seen, MAX_ROW_FACTOR * factor * expected);
    correction->expected += expected;
    if (++correction->rows >= 2 * CORRECTION_ROWS) {
        correction->seen /= 2;
        correction->expected /= 2;
        correction->rows /= 2;
    }
}

/* Costs are learnt under what was asked for: that is what is chosen, whatever comes of it. */
static void learn_costs(struct sluice_auto_plan *plan, const struct sluice_row_seen *row,
                        const struct factors *factors)
{
    unsigned c = 0;
    while (c < plan->num_offered) {
        const struct sluice_choice choice = sluice_choice_listed(plan->offered[c]);
        if (choice.split == row->asked.split && choice.form == row->asked.form)
            break;
        c++;
    }
    if (c == plan->num_offered || row->status != SLUICE_OK || row->index >= plan->epoch.num_items)
        return;
    c = plan->offered[c];
    double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_LOADS];
    model_costs(plan, row->index, cost);
    const double seen[SLUICE_NUM_CHOICE_SIDES] = {
        [SLUICE_SIDE_STORAGE_CPU] = (double)row->storage_cpu_ns * 1e-9,
        [SLUICE_SIDE_COMPUTE_CPU] = (double)row->compute_cpu_ns * 1e-9,
        [SLUICE_SIDE_BYTES] = (double)row->payload_bytes,
    };
    for (int s = 0; s < SLUICE_NUM_CHOICE_SIDES; s++)
        correct(&plan->corrections[c][s], seen[s], cost[c][side_loads[s]], factors->of[c][s]);
}

/* --- prices --- */

static struct sluice_capacities capacities_of(const struct sluice_auto_plan *plan)
{
    const struct sluice_rates rates = sluice_rate_watch_rates(&plan->watch);
    struct sluice_capacities capacities = {.per_s = {
                                               [SLUICE_LOAD_DISK] = INFINITY,
                                               [SLUICE_LOAD_STORAGE_CPU] = rates.storage_cores,
                                               [SLUICE_LOAD_NET_DOWN] = rates.link_bytes_per_s,
                                               [SLUICE_LOAD_RECEIVE] = 1,
                                               [SLUICE_LOAD_COMPUTE_CPU] = rates.compute_cores,
                                               [SLUICE_LOAD_PCIE] = INFINITY,
                                               [SLUICE_LOAD_GPU] = rates.gpu_samples_per_s,
                                           }};
    capacities.price_s[SLUICE_LOAD_STORAGE_CPU] =
        plan->storage_price + THRIFT / rates.storage_cores;
    capacities.price_s[SLUICE_LOAD_COMPUTE_CPU] = THRIFT / rates.compute_cores;
    capacities.price_s[SLUICE_LOAD_NET_DOWN] = THRIFT / rates.link_bytes_per_s;
    return capacities;
}

static void fill_menu(const struct sluice_auto_plan *plan, const struct factors *factors,
                      size_t index, struct sluice_menu *menu)
{
    double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_LOADS];
    double offered[SLUICE_NUM_CHOICES][SLUICE_NUM_LOADS];
    model_costs(plan, index, cost);
    for (unsigned k = 0; k < plan->num_offered; k++) {
        const unsigned c = plan->offered[k];
        memcpy(offered[k], cost[c], sizeof(offered[k]));
        for (int s = 0; s < SLUICE_NUM_CHOICE_SIDES; s++)
            offered[k][side_loads[s]] *= factors->of[c][s];
    }
    sluice_menu_set(menu, plan->num_offered, (const double(*)[SLUICE_NUM_LOADS])offered);
}

/* Menus of at most max_menus items from `next` on, spread evenly, each at random in its part. */
static size_t fill_menus(struct sluice_auto_plan *plan, size_t next, size_t max_menus)
{
    const size_t left = plan->epoch.num_items - next;
    const size_t count = left < max_menus ? left : max_menus;
    const struct factors factors = factors_of(plan);
    struct sluice_rng rng = sluice_rng_init(plan->epoch.seed, 0, next, 0);
    for (size_t k = 0; k < count; k++) {
        const size_t from = (size_t)((double)left * (double)k / (double)count);
        const size_t to = (size_t)((double)left * (double)(k + 1) / (double)count);
        const size_t width = to > from ? to - from : 1;
        const size_t at = from + (count < left ? sluice_rng_below(&rng, (uint32_t)width) : 0);
        fill_menu(plan, &factors, next + (at < left ? at : left - 1), &plan->menus[k]);
    }
    return count;
}

/* What the prices in force make of the menus: the slowest resource, and what is priced. */
static double evaluate(const struct sluice_auto_plan *plan, size_t count,
                       const struct sluice_capacities *capacities)
{
    struct sluice_price_balance balance = {0};
    double load[SLUICE_NUM_LOADS] = {0};
    for (size_t k = 0; k < count; k++) {
        const unsigned c = sluice_price_plan_choose(&plan->prices, &balance, &plan->menus[k]);
        for (int r = 0; r < SLUICE_NUM_LOADS; r++)
            load[r] += sluice_menu_cost(&plan->menus[k], (enum sluice_load)r, c);
    }
    double slowest_s = 0, priced_s = 0;
    for (int r = 0; r < SLUICE_NUM_LOADS; r++) {
        slowest_s = fmax(slowest_s, load[r] / capacities->per_s[r]);
        priced_s += load[r] * capacities->price_s[r];
    }
    return slowest_s + priced_s;
}

/* --- what moved --- */

/* Everything that a plan follows from, in one row. */
static void list_state(const struct sluice_auto_plan *plan, double *state)
{
    memcpy(state, plan->watch.per_s, sizeof(plan->watch.per_s));
    const struct factors factors = factors_of(plan);
    memcpy(state + SLUICE_NUM_WATCHED, factors.of, sizeof(factors.of));
    state[SLUICE_NUM_WATCHED + SLUICE_NUM_CHOICES * SLUICE_NUM_CHOICE_SIDES] =
        plan->storage_price + PRICE_SCALE / plan->watch.per_s[SLUICE_WATCHED_STORAGE];
}

static double change_of(double before, double now)
{
    if (before == now)
        return 0;
    if (!isfinite(before) || !isfinite(now) || !(before > 0) || !(now > 0))
        return INFINITY;
    return fabs(log(now / before));
}

static void SLUICE_PRINTF(2, 3) append(struct sluice_auto_forecast *forecast, const char *fmt, ...)
{
    const size_t used = strlen(forecast->reason);
    va_list args;
    va_start(args, fmt);
    vsnprintf(forecast->reason + used, sizeof(forecast->reason) - used, fmt, args);
    va_end(args);
}

static void name_changes(const struct sluice_auto_plan *plan, const double *before,
                         const double *now, struct sluice_auto_forecast *forecast)
{
    static const struct {
        double scale;
        const char *unit;
    } units[SLUICE_NUM_WATCHED] = {
        [SLUICE_WATCHED_LINK] = {8e-6, "Mbit/s"},
        [SLUICE_WATCHED_STORAGE] = {1, "cores"},
        [SLUICE_WATCHED_COMPUTE] = {1, "cores"},
        [SLUICE_WATCHED_TRAINER] = {1, "samples/s"},
    };
    forecast->reason[0] = '\0';
    for (int k = 0; k < SLUICE_NUM_WATCHED; k++) {
        if (change_of(before[k], now[k]) >= NAMED_CHANGE)
            append(forecast, "%s%s %.3g -> %.3g %s", forecast->reason[0] ? ", " : "",
                   sluice_watched_name((enum sluice_watched)k), before[k] * units[k].scale,
                   now[k] * units[k].scale, units[k].unit);
    }
    for (unsigned k = 0; k < plan->num_offered; k++) {
        const unsigned c = plan->offered[k];
        for (int s = 0; s < SLUICE_NUM_CHOICE_SIDES; s++) {
            const size_t at = SLUICE_NUM_WATCHED + c * SLUICE_NUM_CHOICE_SIDES + (size_t)s;
            /* What no row has shown follows from the others, which are named. */
            if (plan->corrections[c][s].rows > 0 && change_of(before[at], now[at]) >= NAMED_CHANGE)
                append(forecast, "%s%s of %s x%.2f -> x%.2f", forecast->reason[0] ? ", " : "",
                       sluice_choice_side_name((enum sluice_choice_side)s),
                       sluice_form_menu_name(c), before[at], now[at]);
        }
    }
    const size_t at = SLUICE_NUM_WATCHED + SLUICE_NUM_CHOICES * SLUICE_NUM_CHOICE_SIDES;
    if (change_of(before[at], now[at]) >= LOOK_CHANGE &&
        change_of(before[SLUICE_WATCHED_STORAGE], now[SLUICE_WATCHED_STORAGE]) < LOOK_CHANGE)
        append(forecast, "%sprice of storage CPU %.3g -> %.3g", forecast->reason[0] ? ", " : "",
               before[at] - PRICE_SCALE / before[SLUICE_WATCHED_STORAGE],
               now[at] - PRICE_SCALE / now[SLUICE_WATCHED_STORAGE]);
    if (!forecast->reason[0])
        append(forecast, "small changes");
}

/* --- plans --- */

static void take(struct sluice_auto_plan *plan, const struct sluice_lp_result *result, size_t count,
                 uint64_t now_ns)
{
    plan->prices = result->plan;
    plan->balance = (struct sluice_price_balance){0};
    plan->has_prices = true;
    plan->since_ns = now_ns;
    const double slowest_s = result->primal_s - result->priced_s;
    plan->forecast_per_s = slowest_s > 0 ? (double)count / slowest_s : INFINITY;
}

static struct sluice_auto_forecast forecast_of(const struct sluice_auto_plan *plan,
                                               const struct sluice_lp_result *result, size_t count,
                                               size_t left, double kept_s)
{
    const double scale = count ? (double)left / (double)count : 0;
    struct sluice_auto_forecast forecast = {
        .rest_s = scale * (result->primal_s - result->priced_s),
        .bound_s = scale * (result->dual_s - result->priced_s),
        .kept_s = scale * kept_s,
        .gap = result->gap,
        .wire_bytes =
            scale * result->busy_s[SLUICE_LOAD_NET_DOWN] * plan->watch.per_s[SLUICE_WATCHED_LINK],
        .slowest = result->slowest,
        .rates = sluice_auto_plan_rates(plan),
    };
    memcpy(forecast.price, result->price, sizeof(forecast.price));
    return forecast;
}

static sluice_status solve(struct sluice_auto_plan *plan, size_t count,
                           const struct sluice_capacities *capacities,
                           struct sluice_lp_result *result, struct sluice_err *err)
{
    const struct sluice_menu_source source = sluice_menu_array(plan->menus, count);
    return sluice_plan_lp(&source, capacities, NULL, result, err);
}

sluice_status sluice_auto_plan_begin(struct sluice_auto_plan *plan,
                                     const struct sluice_auto_epoch *epoch, uint64_t now_ns,
                                     struct sluice_auto_forecast *forecast, struct sluice_err *err)
{
    plan->epoch = *epoch;
    plan->num_offered = 0;
    for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++) {
        const struct sluice_choice choice = sluice_choice_listed(c);
        if (choice.split > sluice_pipeline_num_ops(epoch->pipeline))
            continue;
        /* The plain forms, and of the others those that are meant for this pipeline. */
        const struct sluice_choice plain = sluice_choice_at(epoch->pipeline, choice.split);
        const bool is_plain = choice.form == plain.form;
        const bool is_cut =
            choice.form == SLUICE_FORM_JPEG_CROP && sluice_pipeline_can_crop_jpeg(epoch->pipeline);
        const bool is_packed = choice.form == SLUICE_FORM_U8_PACKED &&
                               plain.form == SLUICE_FORM_U8 &&
                               choice.split == sluice_pipeline_u8_split(epoch->pipeline);
        if (is_plain || ((is_cut || is_packed) && (plan->options.forms >> choice.form & 1)))
            plan->offered[plan->num_offered++] = (uint8_t)c;
    }
    sluice_rate_watch_restart(&plan->watch, now_ns);
    plan->seen_per_s = 0;
    const size_t count = fill_menus(plan, epoch->first_item, plan->max_menus);
    const struct sluice_capacities capacities = capacities_of(plan);
    struct sluice_lp_result result;
    const sluice_status status = solve(plan, count, &capacities, &result, err);
    if (status != SLUICE_OK)
        return status;
    take(plan, &result, count, now_ns);
    list_state(plan, plan->considered);
    memcpy(plan->taken, plan->considered, sizeof(plan->taken));
    *forecast = forecast_of(plan, &result, count, epoch->num_items - epoch->first_item, 0);
    return SLUICE_OK;
}

unsigned sluice_auto_plan_choose(struct sluice_auto_plan *plan, size_t index)
{
    assert(plan->has_prices && index < plan->epoch.num_items);
    const struct factors factors = factors_of(plan);
    struct sluice_menu menu;
    fill_menu(plan, &factors, index, &menu);
    return plan->offered[sluice_price_plan_choose(&plan->prices, &plan->balance, &menu)];
}

static bool reserve_spans(struct sluice_auto_plan *plan, size_t num_rows)
{
    if (num_rows <= plan->max_spans)
        return true;
    struct sluice_rate_span *spans = realloc(plan->spans, num_rows * sizeof(*spans));
    if (!spans)
        return false;
    plan->spans = spans;
    plan->max_spans = num_rows;
    return true;
}

bool sluice_auto_plan_tick(struct sluice_auto_plan *plan, uint64_t now_ns, size_t next_item,
                           const struct sluice_row_seen *rows, size_t num_rows,
                           const struct sluice_trainer_seen *trainer,
                           struct sluice_auto_forecast *forecast)
{
    assert(plan->has_prices);
    if (plan->options.is_fixed || !reserve_spans(plan, num_rows))
        return false;
    const struct sluice_rate_sight sight =
        sluice_rate_watch_see(&plan->watch, rows, num_rows, trainer, plan->spans);
    sluice_rate_watch_learn(&plan->watch, &sight);
    if (sight.seconds > 0)
        plan->seen_per_s = (double)sight.num_rows / sight.seconds;
    const struct factors factors = factors_of(plan);
    uint64_t last_ns = 0;
    for (size_t i = 0; i < num_rows; i++) {
        learn_costs(plan, &rows[i], &factors);
        if (rows[i].arrived_ns >= last_ns) {
            last_ns = rows[i].arrived_ns;
            plan->storage_price = rows[i].storage_price;
        }
    }

    double state[SLUICE_ARRAY_LEN(plan->considered)];
    list_state(plan, state);
    double most = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(state); i++)
        most = fmax(most, change_of(plan->considered[i], state[i]));
    if (most < LOOK_CHANGE || next_item >= plan->epoch.num_items)
        return false;
    memcpy(plan->considered, state, sizeof(state));

    const size_t sample = plan->options.sample_items ? plan->options.sample_items : DEFAULT_ITEMS;
    const size_t count = fill_menus(plan, next_item, sample);
    const struct sluice_capacities capacities = capacities_of(plan);
    struct sluice_lp_result result;
    /* Out of memory: the old prices are still good for something. */
    if (solve(plan, count, &capacities, &result, NULL) != SLUICE_OK)
        return false;
    const double kept_s = evaluate(plan, count, &capacities);
    const double gain = now_ns - plan->since_ns < SOON_NS ? TAKE_GAIN_SOON : TAKE_GAIN;
    if (!(kept_s > result.primal_s * (1 + gain)))
        return false;
    take(plan, &result, count, now_ns);
    *forecast = forecast_of(plan, &result, count, plan->epoch.num_items - next_item,
                            kept_s - result.priced_s);
    name_changes(plan, plan->taken, state, forecast);
    memcpy(plan->taken, state, sizeof(state));
    return true;
}

uint32_t sluice_auto_plan_max_unfinished(const struct sluice_auto_plan *plan)
{
    const struct sluice_rates rates = sluice_rate_watch_rates(&plan->watch);
    const double least_link_s =
        plan->watch.least_link_ns == UINT64_MAX ? 0 : (double)plan->watch.least_link_ns * 1e-9;
    const double per_s = fmax(plan->seen_per_s, fmin(plan->forecast_per_s, 2 * plan->seen_per_s));
    const double items =
        per_s * (AHEAD_S + 2 * least_link_s) + 4 * (rates.storage_cores + rates.compute_cores) + 16;
    return items < UINT32_MAX ? (uint32_t)items : UINT32_MAX;
}

struct sluice_rates sluice_auto_plan_rates(const struct sluice_auto_plan *plan)
{
    struct sluice_rates rates = sluice_rate_watch_rates(&plan->watch);
    rates.storage_cpu_price = plan->storage_price;
    return rates;
}

sluice_status sluice_auto_plan_create(const struct sluice_auto_plan_options *options,
                                      struct sluice_auto_plan **out, struct sluice_err *err)
{
    const double rates[] = {options->rates.link_bytes_per_s, options->rates.storage_cores,
                            options->rates.compute_cores, options->rates.gpu_samples_per_s};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(rates); k++) {
        if (!(rates[k] > 0))
            return sluice_fail(err, SLUICE_E_INVALID, "the rate of the %s is %g",
                               sluice_watched_name((enum sluice_watched)k), rates[k]);
    }
    struct sluice_auto_plan *plan = calloc(1, sizeof(*plan));
    const size_t sample = options->sample_items ? options->sample_items : DEFAULT_ITEMS;
    const size_t max_menus = sample > FIRST_ITEMS ? sample : FIRST_ITEMS;
    struct sluice_menu *menus = malloc(max_menus * sizeof(*menus));
    if (!plan || !menus) {
        free(plan);
        free(menus);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan over %zu items",
                           max_menus);
    }
    plan->options = *options;
    plan->watch = sluice_rate_watch_init(&options->rates, &options->most);
    plan->menus = menus;
    plan->max_menus = max_menus;
    *out = plan;
    return SLUICE_OK;
}

void sluice_auto_plan_destroy(struct sluice_auto_plan *plan)
{
    if (!plan)
        return;
    free(plan->menus);
    free(plan->spans);
    free(plan);
}
