#include "compute_client/replan/auto_plan.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "compute_client/replan/auto_costs.h"
#include "compute_client/replan/auto_price.h"
#include "compute_client/replan/auto_queues.h"
#include "compute_client/replan/auto_state.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first plan is over as many items, whose gap is well under 1 %; a later one must be done in a
 * few ms. */
#define FIRST_ITEMS 8192
#define DEFAULT_ITEMS 2048

/* New prices are taken if the rest of the epoch is faster by this much: by so many times as much
 * more for each change of late that took back what another had done for the same reason, so that a
 * long way in steps is gone at once, and one to and fro is not. */
#define TAKE_GAIN 0.04
#define RELUCTANCE 3.0
#define LATE_NS 5e9

/* A smaller one may be noise, and has to show at two looks in a row. */
#define SURE_GAIN 0.15

/* Work for so long is under way, beside what a round trip holds and what disk and cores have in
 * hand; of what was seen done, or twice that while more is expected, so that a wrong forecast fills
 * no queue.  What is asked for of a link that then thins has to come through it. */
#define AHEAD_S 0.05
/* Where the link is not what is waited for, or cores are the limit as well, little stands in it,
 * and cores that others have too are kept at work by more: as much as the link's price leaves. */
#define FREE_LINK_AHEAD_S 0.2
#define LINK_WAITED 0.5 /* of the last interval */
/* What has arrived waits beside that, so that this node has work while the others stand still;
 * unless a price is followed, where the answer to it must not come late. */
#define HERE_S 0.1
#define IN_HAND_WEIGHT 0.5
#define MOST_IN_HAND_S 0.2
#define MOST_QUEUED_S 0.05 /* of that: the storage node finds its price by its queue */

/* Another resource is the limit once it takes so much longer, so many times. */
#define LIMIT_MARGIN 1.1
#define LIMIT_TICKS 2

/* Where the storage node has a price, of plans that are as fast the one that leaves most of
 * everything: each resource has so small a price beside its own. */
#define THRIFT 1e-3

/* Where a price is followed plans change a little all the time; that is told once the use of the
 * storage cores has changed by so much. */
#define TOLD_USE 0.1 /* in natural logarithms */

/* So many items, each asked for by itself, show the link empty. */
#define LATENCY_ITEMS 2

/* Of what a plan follows from: how often a plan that was made for it went back to where another had
 * come from. */
struct swings {
    double change; /* log of the last, 0: none */
    double count;  /* each counts for less and less */
    uint64_t at_ns;
};

struct sluice_auto_plan {
    struct sluice_auto_plan_options options;
    struct sluice_rate_watch watch;
    struct sluice_auto_costs costs;
    /* Those of the prices in force.  Where two resources are the limit many samples are worth about
     * the same, and prices that were found for other costs would choose alike for all of them. */
    struct sluice_auto_costs taken_costs;
    struct sluice_auto_price price; /* of the storage cores */
    double told_use;                /* of them, when a plan was told last; 0: by no price */
    struct sluice_auto_queues queues;

    struct sluice_auto_epoch epoch;
    uint8_t offered[SLUICE_MAX_CHOICES];
    unsigned num_offered;

    bool has_prices;
    struct sluice_dual_plan prices;
    struct sluice_dual_balance balance;
    uint64_t since_ns;     /* the prices are in force */
    double forecast_per_s; /* items */
    double seen_per_s;     /* items, in the last interval */
    double link_waited;    /* share of the last interval in which something waited for the link */
    double in_hand_s;      /* an item is read and worked on, of late */
    bool is_doubted;       /* the last look had a small gain to offer */
    struct sluice_auto_burden burden;
    struct sluice_auto_state considered, taken;
    struct swings swings[SLUICE_AUTO_NUM_STATES];
    double refused_gain; /* of prices that swings spoke against; 0: there were none */
    size_t refused_for;  /* what had moved */
    uint64_t num_solves;
    enum sluice_resource limit;
    unsigned past_limit; /* ticks in a row at which another took longer */
    size_t latency_item; /* from here on LATENCY_ITEMS go by themselves */
    bool is_alone;       /* the item that was chosen for last */

    struct sluice_menu *menus; /* FIRST_ITEMS or more */
    size_t *menu_items;        /* whose they are */
    size_t max_menus;
    struct sluice_rate_span *spans;
    size_t max_spans;
};

static bool is_without(const struct sluice_auto_plan *plan, const char *layer)
{
    return plan->options.without && strstr(plan->options.without, layer);
}

/* --- costs --- */

static struct sluice_sample_facts facts_of(const struct sluice_auto_plan *plan, size_t index)
{
    const struct sluice_auto_epoch *epoch = &plan->epoch;
    const struct sluice_sampler_item *item = &epoch->items[index];
    const uint32_t sample_id = epoch->ids[item->position];
    const struct sluice_draw_key key = {
        .seed = epoch->seed,
        .epoch = item->draw_epoch,
        .sample_id = sample_id,
    };
    return sluice_sample_facts_of(epoch->pipeline, &epoch->manifest->entries[sample_id], &key);
}

/* Costs are learnt under what was asked for: that is what is chosen, whatever comes of it. */
static void learn_costs(struct sluice_auto_plan *plan, const struct sluice_row_seen *row)
{
    unsigned k = 0;
    while (k < plan->num_offered) {
        const struct sluice_choice choice = plan->costs.model.choices.at[plan->offered[k]];
        if (choice.split == row->asked.split && choice.form == row->asked.form)
            break;
        k++;
    }
    if (k == plan->num_offered || row->status != SLUICE_OK || row->index >= plan->epoch.num_items)
        return;
    const struct sluice_sample_facts facts = facts_of(plan, row->index);
    const double seen[SLUICE_NUM_RESOURCES] = {
        [SLUICE_STORAGE_CPU] = (double)row->storage_cpu_ns * 1e-9,
        [SLUICE_COMPUTE_CPU] = (double)row->compute_cpu_ns * 1e-9,
        [SLUICE_NETWORK] = (double)row->payload_bytes,
    };
    sluice_auto_costs_learn(&plan->costs, plan->offered[k], &facts, seen, (double)row->read_bytes);
}

double sluice_auto_plan_correction(const struct sluice_auto_plan *plan, unsigned choice,
                                   enum sluice_resource side)
{
    return plan->costs.factor[choice][side];
}

/* --- prices --- */

static struct sluice_capacities capacities_of(const struct sluice_auto_plan *plan)
{
    struct sluice_rates rates = sluice_rate_watch_rates(&plan->watch);
    rates.pcie_bytes_per_s = plan->options.rates.pcie_bytes_per_s;
    struct sluice_capacities capacities = sluice_capacities_of(&rates);
    if (!(plan->price.heard > 0))
        return capacities;
    capacities.external_cost_s[SLUICE_STORAGE_CPU] = THRIFT / rates.storage_cores;
    capacities.external_cost_s[SLUICE_COMPUTE_CPU] = THRIFT / rates.compute_cores;
    capacities.external_cost_s[SLUICE_NETWORK] = THRIFT / rates.link_bytes_per_s;
    return capacities;
}

/* Of what the plan in force is for. */
static struct sluice_capacities planned_capacities(const struct sluice_auto_plan *plan)
{
    struct sluice_capacities capacities = capacities_of(plan);
    if (plan->price.use > 0)
        capacities.per_s[SLUICE_STORAGE_CPU] = plan->price.use;
    return capacities;
}

static void fill_menu(const struct sluice_auto_plan *plan, const struct sluice_auto_costs *costs,
                      size_t index, struct sluice_menu *menu)
{
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    double offered[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    const struct sluice_sample_facts facts = facts_of(plan, index);
    sluice_auto_costs_of(costs, &facts, cost);
    for (unsigned k = 0; k < plan->num_offered; k++)
        memcpy(offered[k], cost[plan->offered[k]], sizeof(offered[k]));
    sluice_menu_set(menu, plan->num_offered, (const double(*)[SLUICE_NUM_RESOURCES])offered);
}

/* Menus of at most max_menus items from `next` on, spread evenly, each at random in its part. */
static size_t fill_menus(struct sluice_auto_plan *plan, size_t next, size_t max_menus)
{
    const size_t left = plan->epoch.num_items - next;
    const size_t count = left < max_menus ? left : max_menus;
    struct sluice_rng rng = sluice_rng_init(plan->epoch.seed, 0, next, 0);
    for (size_t k = 0; k < count; k++) {
        const size_t from = (size_t)((double)left * (double)k / (double)count);
        const size_t to = (size_t)((double)left * (double)(k + 1) / (double)count);
        const size_t width = to > from ? to - from : 1;
        const size_t at = from + (count < left ? sluice_rng_below(&rng, (uint32_t)width) : 0);
        plan->menu_items[k] = next + (at < left ? at : left - 1);
        fill_menu(plan, &plan->costs, plan->menu_items[k], &plan->menus[k]);
    }
    return count;
}

/* What the prices in force, by the costs that they were found for, make of the menus: the load of
 * one item. */
static void find_load(const struct sluice_auto_plan *plan, size_t count,
                      double load[SLUICE_NUM_RESOURCES])
{
    struct sluice_dual_balance balance = {0};
    memset(load, 0, SLUICE_NUM_RESOURCES * sizeof(*load));
    for (size_t k = 0; k < count; k++) {
        struct sluice_menu menu;
        fill_menu(plan, &plan->taken_costs, plan->menu_items[k], &menu);
        const unsigned c = sluice_dual_plan_choose(&plan->prices, &balance, &menu);
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            load[r] += sluice_menu_cost(&plan->menus[k], (enum sluice_resource)r, c);
    }
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        load[r] /= (double)(count ? count : 1);
}

static double priced_s(const double load[SLUICE_NUM_RESOURCES],
                       const struct sluice_capacities *capacities)
{
    double priced_s = 0;
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        priced_s += load[r] * capacities->external_cost_s[r];
    return priced_s;
}

/* --- plans --- */

static void take(struct sluice_auto_plan *plan, const struct sluice_lp_result *result, size_t count,
                 uint64_t now_ns)
{
    plan->prices = result->plan;
    sluice_rate_watch_plan(&plan->watch);
    plan->taken_costs = plan->costs;
    plan->has_prices = true;
    plan->since_ns = now_ns;
    const double slowest_s = result->primal_s - result->external_s;
    plan->forecast_per_s = slowest_s > 0 ? (double)count / slowest_s : INFINITY;
    plan->limit = result->slowest;
    plan->past_limit = 0;
    find_load(plan, count, plan->burden.load);
    memcpy(plan->burden.price, result->dual, sizeof(plan->burden.price));
}

static struct sluice_auto_forecast forecast_of(const struct sluice_auto_plan *plan,
                                               const struct sluice_lp_result *result, size_t count,
                                               size_t left, double kept_s)
{
    const double scale = count ? (double)left / (double)count : 0;
    struct sluice_auto_forecast forecast = {
        .rest_s = scale * (result->primal_s - result->external_s),
        .bound_s = scale * (result->dual_s - result->external_s),
        .kept_s = scale * kept_s,
        .gap = result->gap,
        .wire_bytes = scale * result->busy_s[SLUICE_NETWORK] * plan->watch.per_s[SLUICE_NETWORK],
        .slowest = result->slowest,
        .rates = sluice_auto_plan_rates(plan),
    };
    memcpy(forecast.price, result->dual, sizeof(forecast.price));
    return forecast;
}

static sluice_status solve(struct sluice_auto_plan *plan, size_t count,
                           const struct sluice_capacities *capacities,
                           struct sluice_lp_result *result, struct sluice_err *err)
{
    const struct sluice_menu_source source = sluice_menu_array(plan->menus, count);
    plan->num_solves++;
    return sluice_plan_lp(&source, capacities, NULL, result, err);
}

/* As solve(), but where a price is followed for so many of the storage node's cores as it says. */
static sluice_status solve_priced(struct sluice_auto_plan *plan, size_t count, uint64_t now_ns,
                                  struct sluice_capacities capacities,
                                  struct sluice_lp_result *result, struct sluice_err *err)
{
    double *cores = &capacities.per_s[SLUICE_STORAGE_CPU];
    const double use = sluice_auto_price_next_use(&plan->price, now_ns, *cores);
    if (use > 0) {
        capacities.external_cost_s[SLUICE_STORAGE_CPU] = THRIFT / use;
        *cores = use;
    }
    const sluice_status status = solve(plan, count, &capacities, result, err);
    if (status == SLUICE_OK)
        sluice_auto_price_planned(&plan->price, *cores, result, count);
    return status;
}

sluice_status sluice_auto_plan_begin(struct sluice_auto_plan *plan,
                                     const struct sluice_auto_epoch *epoch, uint64_t now_ns,
                                     struct sluice_auto_forecast *forecast, struct sluice_err *err)
{
    plan->epoch = *epoch;
    plan->num_offered = 0;
    const struct sluice_choices *choices = &plan->costs.model.choices;
    for (unsigned c = 0; c < choices->num; c++) {
        if (sluice_choice_is_plain(choices->at[c]) ||
            (plan->options.forms >> choices->at[c].form & 1))
            plan->offered[plan->num_offered++] = (uint8_t)c;
    }
    sluice_rate_watch_restart(&plan->watch, now_ns);
    plan->seen_per_s = 0;
    memset(plan->swings, 0, sizeof(plan->swings));
    plan->refused_gain = 0;
    plan->is_doubted = false;
    plan->num_solves = 0;
    plan->latency_item = SIZE_MAX;
    plan->is_alone = false;
    const size_t count = fill_menus(plan, epoch->first_item, plan->max_menus);
    const struct sluice_capacities capacities = capacities_of(plan);
    struct sluice_lp_result result;
    const sluice_status status = solve_priced(plan, count, now_ns, capacities, &result, err);
    if (status != SLUICE_OK)
        return status;
    plan->balance = (struct sluice_dual_balance){0};
    take(plan, &result, count, now_ns);
    plan->told_use = plan->price.use;
    plan->considered = plan->taken =
        sluice_auto_state_of(&plan->watch, &plan->costs, plan->price.heard);
    *forecast = forecast_of(plan, &result, count, epoch->num_items - epoch->first_item, 0);
    return SLUICE_OK;
}

static bool is_latency_item(const struct sluice_auto_plan *plan, size_t index)
{
    return index >= plan->latency_item && index - plan->latency_item < LATENCY_ITEMS;
}

/* The prices in force, as the queues make them for one item.  A plan that follows a price leaves
 * storage cores idle for others; leaning would use them. */
static struct sluice_dual_plan leaning_prices(const struct sluice_auto_plan *plan,
                                              const struct sluice_expected *under_way)
{
    struct sluice_dual_plan prices = plan->prices;
    if (plan->options.is_fixed || plan->price.use > 0 || !under_way ||
        is_without(plan, "backpressure"))
        return prices;
    const struct sluice_capacities capacities = capacities_of(plan);
    double by[SLUICE_NUM_RESOURCES];
    sluice_auto_queues_lean(&plan->queues, under_way, plan->burden.price, capacities.per_s, by);
    for (unsigned k = 0; k < prices.num_duals; k++) {
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            prices.weight[k][r] *= (float)by[r];
    }
    return prices;
}

unsigned sluice_auto_plan_choose(struct sluice_auto_plan *plan, size_t index,
                                 const struct sluice_expected *under_way,
                                 struct sluice_expected *expected)
{
    assert(plan->has_prices && index < plan->epoch.num_items);
    struct sluice_menu menu;
    fill_menu(plan, &plan->taken_costs, index, &menu);
    plan->is_alone = is_latency_item(plan, index);
    const struct sluice_dual_plan prices = leaning_prices(plan, under_way);
    const unsigned k = sluice_dual_plan_choose(&prices, &plan->balance, &menu);
    if (expected)
        *expected = (struct sluice_expected){
            .storage_s = sluice_menu_cost(&menu, SLUICE_STORAGE_CPU, k),
            .bytes = sluice_menu_cost(&menu, SLUICE_NETWORK, k),
            .compute_s = sluice_menu_cost(&menu, SLUICE_COMPUTE_CPU, k),
        };
    return plan->offered[k];
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

static double swings_of_late(const struct swings *swings, uint64_t now_ns)
{
    return swings->count * exp(-(double)(now_ns - swings->at_ns) / LATE_NS);
}

static double gain_to_take(const struct swings *swings, uint64_t now_ns)
{
    return TAKE_GAIN * (1 + RELUCTANCE * swings_of_late(swings, now_ns));
}

/* What moved from `before` to `now` is why there is another plan. */
static void count_swing(struct swings *swings, double before, double now, uint64_t now_ns)
{
    const double change = log(now / before);
    if (change * swings->change < 0) {
        swings->count = swings_of_late(swings, now_ns) + 1;
        swings->at_ns = now_ns;
    }
    swings->change = change;
}

/* All of it grows with what is asked for. */
static void learn_in_hand(struct sluice_auto_plan *plan, const struct sluice_row_seen *rows,
                          size_t num_rows)
{
    double held_s = 0, queued_s = 0;
    size_t num_seen = 0;
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->status != SLUICE_OK)
            continue;
        held_s += 1e-9 * (double)(row->disk_ns + row->storage_ns - row->storage_queue_ns +
                                  row->done_ns - row->started_ns);
        queued_s += 1e-9 * (double)row->storage_queue_ns;
        num_seen++;
    }
    if (num_seen == 0)
        return;
    const double n = (double)num_seen;
    const double in_hand_s = fmin(held_s / n + fmin(queued_s / n, MOST_QUEUED_S), MOST_IN_HAND_S);
    plan->in_hand_s += IN_HAND_WEIGHT * (in_hand_s - plan->in_hand_s);
}

static void learn(struct sluice_auto_plan *plan, uint64_t now_ns, size_t next_item,
                  const struct sluice_row_seen *rows, size_t num_rows,
                  const struct sluice_trainer_seen *trainer)
{
    uint64_t last_ns = 0;
    double storage_cores = 0;
    bool has_latency = false;
    for (size_t i = 0; i < num_rows; i++) {
        learn_costs(plan, &rows[i]);
        has_latency |= rows[i].status == SLUICE_OK && is_latency_item(plan, rows[i].index);
        if (rows[i].arrived_ns >= last_ns) {
            last_ns = rows[i].arrived_ns;
            storage_cores = rows[i].storage_cores;
        }
    }
    sluice_auto_costs_settle(&plan->costs);
    if (!is_without(plan, "shared_price"))
        sluice_auto_price_hear(&plan->price, rows, num_rows);
    if (has_latency)
        sluice_rate_watch_forget_latency(&plan->watch);
    struct sluice_rate_sight sight =
        sluice_rate_watch_see(&plan->watch, rows, num_rows, trainer, plan->spans);
    if (sluice_rate_watch_hear_cores(&plan->watch, storage_cores))
        sight.used_per_s[SLUICE_STORAGE_CPU] = 0;
    /* While the link runs empty, and is filled again, little is done of what could be. */
    const bool is_draining = plan->latency_item != SIZE_MAX;
    if (!is_draining) {
        sluice_rate_watch_learn(&plan->watch, &sight);
        sluice_auto_queues_see(&plan->queues, rows, num_rows);
    }
    if (!is_draining && sight.seconds > 0) {
        sluice_auto_price_see_used(&plan->price, sight.used_per_s[SLUICE_STORAGE_CPU]);
        plan->link_waited = sight.waiting[SLUICE_NETWORK];
        plan->seen_per_s = (double)sight.num_rows / sight.seconds;
    }
    learn_in_hand(plan, rows, num_rows);
    if (has_latency)
        plan->latency_item = SIZE_MAX;
    if (!is_draining && !is_without(plan, "latency") &&
        sluice_rate_watch_is_latency_old(&plan->watch, now_ns))
        plan->latency_item = next_item;
}

static void watch_limit(struct sluice_auto_plan *plan, const struct sluice_capacities *capacities)
{
    enum sluice_resource slowest = plan->limit;
    const double slowest_s = sluice_auto_slowest_s(plan->burden.load, capacities, &slowest);
    const double limit_s = plan->burden.load[plan->limit] / capacities->per_s[plan->limit];
    plan->past_limit = slowest_s > LIMIT_MARGIN * limit_s ? plan->past_limit + 1 : 0;
    if (plan->past_limit < LIMIT_TICKS)
        return;
    plan->limit = slowest;
    plan->past_limit = 0;
}

struct sluice_auto_limit sluice_auto_plan_limit(const struct sluice_auto_plan *plan,
                                                size_t next_item)
{
    const struct sluice_capacities capacities = planned_capacities(plan);
    return (struct sluice_auto_limit){
        .load = plan->limit,
        .rest_s = (double)(plan->epoch.num_items - next_item) *
                  sluice_auto_slowest_s(plan->burden.load, &capacities, NULL),
    };
}

/* Whether prices that make the rest faster by `gain` are to be taken, now that of[most] moved most;
 * was_better: they were at the last look. */
static bool is_worth_it(struct sluice_auto_plan *plan, const struct sluice_auto_state *now,
                        size_t most, double gain, bool was_better, uint64_t now_ns)
{
    /* A plan for what a resource was never seen to do was an attempt, and it failed. */
    const double taken = plan->taken.of[most];
    const bool has_failed = most < SLUICE_NUM_RESOURCES && now->of[most] < taken &&
                            taken > plan->watch.steps[most].shown_per_s;
    if (is_without(plan, "hysteresis"))
        return gain > 0;
    if (!(gain > (has_failed || is_without(plan, "reluctance")
                      ? TAKE_GAIN
                      : gain_to_take(&plan->swings[most], now_ns)))) {
        plan->refused_gain = gain > TAKE_GAIN ? gain : 0;
        plan->refused_for = most;
        return false;
    }
    plan->is_doubted = !was_better && gain <= SURE_GAIN;
    return !plan->is_doubted;
}

void sluice_auto_plan_see_rest(struct sluice_auto_plan *plan,
                               const struct sluice_trainer_seen *trainer, double part)
{
    sluice_rate_watch_learn_trainer(&plan->watch, trainer, part);
}

bool sluice_auto_plan_tick(struct sluice_auto_plan *plan, uint64_t now_ns, size_t next_item,
                           const struct sluice_row_seen *rows, size_t num_rows,
                           const struct sluice_trainer_seen *trainer,
                           struct sluice_auto_forecast *forecast)
{
    assert(plan->has_prices);
    if (plan->options.is_fixed || !reserve_spans(plan, num_rows))
        return false;
    learn(plan, now_ns, next_item, rows, num_rows, trainer);
    const struct sluice_auto_state state =
        sluice_auto_state_of(&plan->watch, &plan->costs, plan->price.heard);
    const struct sluice_capacities capacities = capacities_of(plan);
    struct sluice_capacities planned = planned_capacities(plan);
    watch_limit(plan, &planned);
    const bool was_following = plan->price.use > 0, was_doubted = plan->is_doubted;
    const bool is_following = sluice_auto_price_is_followed(&plan->price);
    const bool is_due =
        was_following || is_following || was_doubted ||
        plan->refused_gain > gain_to_take(&plan->swings[plan->refused_for], now_ns) ||
        sluice_auto_state_has_moved(&plan->considered, &state, &plan->burden, &capacities);
    if (next_item >= plan->epoch.num_items || !is_due)
        return false;
    plan->considered = state;
    plan->is_doubted = false;
    plan->refused_gain = 0;

    const size_t sample = plan->options.sample_items ? plan->options.sample_items : DEFAULT_ITEMS;
    const size_t count = fill_menus(plan, next_item, sample);
    struct sluice_lp_result result;
    /* Out of memory: the old prices are still good for something. */
    find_load(plan, count, plan->burden.load);
    if (solve_priced(plan, count, now_ns, capacities, &result, NULL) != SLUICE_OK)
        return false;
    const struct sluice_auto_burden before = plan->burden;
    planned = planned_capacities(plan);
    const size_t most = sluice_auto_state_moved_most(&plan->taken, &state, &before, &before,
                                                     &planned, &plan->costs);
    double kept = sluice_auto_slowest_s(before.load, &planned, NULL) * (double)count;
    if (is_following) {
        take(plan, &result, count, now_ns);
        if (plan->told_use > 0 && fabs(log(plan->price.use / plan->told_use)) < TOLD_USE)
            return false;
    } else {
        kept += priced_s(before.load, &planned) * (double)count;
        const double gain = result.primal_s > 0 ? kept / result.primal_s - 1 : 0;
        if (!is_worth_it(plan, &state, most, gain, was_following || was_doubted, now_ns))
            return false;
        kept -= result.external_s;
        plan->balance = (struct sluice_dual_balance){0};
        take(plan, &result, count, now_ns);
    }
    *forecast = forecast_of(plan, &result, count, plan->epoch.num_items - next_item, kept);
    sluice_auto_state_reason(&plan->taken, &state, &before, &plan->burden, &capacities,
                             &plan->costs, forecast->reason, sizeof(forecast->reason));
    if (is_following) {
        const size_t used = strlen(forecast->reason);
        snprintf(forecast->reason + used, sizeof(forecast->reason) - used,
                 ", %.3g storage cores, worth %.3g, at the price of storage CPU %.3g",
                 plan->price.use, plan->price.worth, plan->price.heard);
    }
    plan->told_use = plan->price.use;
    count_swing(&plan->swings[most], plan->taken.of[most], state.of[most], now_ns);
    plan->taken = state;
    return true;
}

/* Of what is asked for: done by the second. */
static double done_per_s(const struct sluice_auto_plan *plan)
{
    return fmax(plan->seen_per_s, fmin(plan->forecast_per_s, 2 * plan->seen_per_s));
}

static uint32_t whole(double items)
{
    return items < UINT32_MAX ? (uint32_t)items : UINT32_MAX;
}

struct sluice_auto_bounds sluice_auto_plan_bounds(const struct sluice_auto_plan *plan,
                                                  size_t num_done)
{
    if (plan->is_alone)
        return (struct sluice_auto_bounds){1, 1};
    if (plan->options.is_fixed)
        return (struct sluice_auto_bounds){UINT32_MAX, UINT32_MAX};
    const struct sluice_rates rates = sluice_rate_watch_rates(&plan->watch);
    const double least_link_s =
        plan->watch.least_link_ns == UINT64_MAX ? 0 : (double)plan->watch.least_link_ns * 1e-9;
    const double link_price =
        plan->link_waited >= LINK_WAITED ? plan->burden.price[SLUICE_NETWORK] : 0;
    const double ahead_s = FREE_LINK_AHEAD_S - link_price * (FREE_LINK_AHEAD_S - AHEAD_S);
    const double per_s = done_per_s(plan);
    const double away = per_s * (ahead_s + 3 * least_link_s + plan->in_hand_s) +
                        4 * (rates.storage_cores + rates.compute_cores) + 16 +
                        (per_s > 0 ? 0 : (double)num_done);
    const double here = plan->price.use > 0 ? 0 : per_s * HERE_S;
    return (struct sluice_auto_bounds){whole(away), whole(away + here)};
}

double sluice_auto_plan_storage_worth(const struct sluice_auto_plan *plan)
{
    return plan->price.worth;
}

double sluice_auto_plan_storage_price(const struct sluice_auto_plan *plan)
{
    return plan->price.heard;
}

uint64_t sluice_auto_plan_solves(const struct sluice_auto_plan *plan)
{
    return plan->num_solves;
}

struct sluice_rates sluice_auto_plan_rates(const struct sluice_auto_plan *plan)
{
    struct sluice_rates rates = sluice_rate_watch_rates(&plan->watch);
    rates.pcie_bytes_per_s = plan->options.rates.pcie_bytes_per_s;
    return rates;
}

sluice_status sluice_auto_plan_create(const struct sluice_auto_plan_options *options,
                                      struct sluice_auto_plan **out, struct sluice_err *err)
{
    const struct sluice_rate_watch watch = sluice_rate_watch_init(&options->rates, &options->most);
    SLUICE_EACH_RESOURCE (k, SLUICE_WATCHED) {
        if (!(watch.per_s[k] > 0))
            return sluice_fail(err, SLUICE_E_INVALID, "the rate of the %s is %g",
                               sluice_resource_name((enum sluice_resource)k), watch.per_s[k]);
    }
    struct sluice_auto_plan *plan = calloc(1, sizeof(*plan));
    const size_t sample = options->sample_items ? options->sample_items : DEFAULT_ITEMS;
    const size_t max_menus = sample > FIRST_ITEMS ? sample : FIRST_ITEMS;
    struct sluice_menu *menus = malloc(max_menus * sizeof(*menus));
    size_t *menu_items = malloc(max_menus * sizeof(*menu_items));
    if (!plan || !menus || !menu_items) {
        free(plan);
        free(menus);
        free(menu_items);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan over %zu items",
                           max_menus);
    }
    plan->options = *options;
    plan->watch = watch;
    plan->watch.transport = options->transport;
    plan->watch.without_probing = is_without(plan, "probing");
    plan->costs = sluice_auto_costs_init(&options->model, &options->transport);
    plan->menus = menus;
    plan->menu_items = menu_items;
    plan->max_menus = max_menus;
    *out = plan;
    return SLUICE_OK;
}

void sluice_auto_plan_destroy(struct sluice_auto_plan *plan)
{
    if (!plan)
        return;
    free(plan->menus);
    free(plan->menu_items);
    free(plan->spans);
    free(plan);
}
