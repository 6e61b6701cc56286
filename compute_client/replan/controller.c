#include "compute_client/replan/controller.h"

#include "base/c_locale.h"
#include "base/rng.h"
#include "base/show.h"
#include "compute_client/replan/backpressure.h"
#include "compute_client/replan/cost_correction.h"
#include "compute_client/replan/cpu_share.h"
#include "op/form.h"
#include "plan/resource.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The inputs of a plan. */
struct basis {
    double per_s[SLUICE_NUM_RESOURCES], shared_cores;
    double factor[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    double read_factor;
};

struct sluice_controller {
    struct sluice_controller_options options;
    const struct sluice_tuning *tuning;
    struct sluice_capacity_estimator capacity;
    struct sluice_cost_correction costs;
    struct sluice_cpu_share share;
    struct sluice_backpressure backpressure;

    struct sluice_plan_epoch epoch;
    struct sluice_offer offer;

    bool has_plan;
    struct sluice_dual_plan prices;
    struct sluice_dual_balance balance;
    double dual[SLUICE_NUM_RESOURCES];
    struct basis basis;
    double forecast_per_s; /* items */
    double told_cores;     /* of the storage node, by the plan told last; 0: by no price */
    uint64_t num_solves;

    double seen_per_s;  /* items, in the last interval */
    double link_waited; /* share of it in which something waited for the link */
    double in_hand_s;   /* an item is read and worked on, of late */

    struct sluice_menu *menus; /* max_menus */
    size_t max_menus;
    struct sluice_wait_span *spans;
    size_t max_spans;
};

/* --- costs --- */

static struct sluice_sample_facts facts_of(const struct sluice_controller *c, size_t index)
{
    const struct sluice_plan_epoch *epoch = &c->epoch;
    const struct sluice_sampler_item *item = &epoch->items[index];
    const uint32_t sample_id = epoch->ids[item->position];
    const struct sluice_draw_key key = {
        .seed = epoch->seed,
        .epoch = item->draw_epoch,
        .sample_id = sample_id,
    };
    const struct sluice_manifest_entry entry = sluice_manifest_at(epoch->manifest, sample_id);
    return sluice_sample_facts_of(epoch->pipeline, &entry, &key);
}

/* Costs are learnt for the requested choice, not for the form that arrived: the plan decides on
 * requests. */
static void learn_costs(struct sluice_controller *c, const struct sluice_row_seen *row)
{
    const int choice = sluice_choices_find(&c->options.model.choices, row->asked);
    if (choice < 0 || row->status != SLUICE_OK || row->index >= c->epoch.num_items)
        return;
    const struct sluice_sample_facts facts = facts_of(c, row->index);
    const double seen[SLUICE_NUM_RESOURCES] = {
        [SLUICE_STORAGE_CPU] = (double)row->storage_cpu_ns * 1e-9,
        [SLUICE_COMPUTE_CPU] = (double)row->compute_cpu_ns * 1e-9,
        [SLUICE_NETWORK] = (double)row->payload_bytes,
    };
    sluice_cost_correction_learn(&c->costs, (unsigned)choice, &facts, seen,
                                 (double)row->read_bytes);
}

/* A sample's part of a training step, by the current estimate. */
static double step_s(const struct sluice_controller *c)
{
    const struct sluice_rates rates = {.gpu_samples_per_s = c->capacity.per_s[SLUICE_GPU]};
    return sluice_rates_step_s(&rates);
}

static void fill_menu(const struct sluice_controller *c, size_t index, struct sluice_menu *menu)
{
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    double offered[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    const struct sluice_sample_facts facts = facts_of(c, index);
    sluice_cost_correction_costs(&c->costs, &facts, cost);
    for (unsigned k = 0; k < c->offer.num; k++) {
        memcpy(offered[k], cost[c->offer.at[k]], sizeof(offered[k]));
        offered[k][SLUICE_GPU] += step_s(c);
    }
    sluice_menu_set(menu, c->offer.num, (const double(*)[SLUICE_NUM_RESOURCES])offered);
}

/* Menus of a stratified sample of `count` items from `next` on: one random item of each part. */
static void fill_menus(struct sluice_controller *c, size_t next, size_t count)
{
    const size_t left = c->epoch.num_items - next;
    struct sluice_rng rng = sluice_rng_init(c->epoch.seed, 0, next, 0);
    for (size_t k = 0; k < count; k++) {
        const size_t from = (size_t)((double)left * (double)k / (double)count);
        const size_t to = (size_t)((double)left * (double)(k + 1) / (double)count);
        const size_t width = to > from ? to - from : 1;
        const size_t at = from + (count < left ? sluice_rng_below(&rng, (uint32_t)width) : 0);
        fill_menu(c, next + (at < left ? at : left - 1), &c->menus[k]);
    }
}

double sluice_controller_correction(const struct sluice_controller *c, unsigned choice,
                                    enum sluice_resource resource)
{
    return c->costs.factor[choice][resource];
}

/* --- plans --- */

static struct sluice_capacities capacities_of(const struct sluice_controller *c)
{
    const struct sluice_rates rates = sluice_controller_rates(c);
    return sluice_capacities_of(&rates);
}

static struct basis basis_of(const struct sluice_controller *c)
{
    struct basis basis = {.read_factor = c->costs.read_factor,
                          .shared_cores = c->capacity.shared_cores};
    memcpy(basis.per_s, c->capacity.per_s, sizeof(basis.per_s));
    memcpy(basis.factor, c->costs.factor, sizeof(basis.factor));
    return basis;
}

static bool is_offered(const struct sluice_controller *c, struct sluice_choice choice)
{
    if (c->options.is_local)
        return choice.split == 0 && choice.form == sluice_form_plain(SLUICE_KIND_FILE);
    return sluice_choice_is_offered(choice, c->options.forms);
}

/* The plain forms, and the other forms that the server offers. */
static struct sluice_offer offer(const struct sluice_controller *c, bool with_gpu)
{
    const struct sluice_choices *choices = &c->options.model.choices;
    bool has[SLUICE_MAX_CHOICES];
    for (unsigned k = 0; k < choices->num; k++)
        has[k] = is_offered(c, choices->at[k]);
    return sluice_choices_offer(choices, has, with_gpu);
}

/* The LP over `count` items from `next` on. */
static sluice_status solve_offered(struct sluice_controller *c, size_t next, size_t count,
                                   const struct sluice_capacities *capacities, bool with_gpu,
                                   struct sluice_lp_result *result, struct sluice_err *err)
{
    c->offer = offer(c, with_gpu);
    fill_menus(c, next, count);
    const struct sluice_menu_source source = sluice_menu_array(c->menus, count);
    c->num_solves++;
    return sluice_plan_lp(&source, capacities, NULL, result, err);
}

/* Solves the LP over *count of the items from `next` on, at most max_menus, and adopts its prices.
 * If storage CPU has a price, the plan is for this client's share of the cores.  If the training
 * step is the bottleneck, decoding on the GPU gains nothing. */
static sluice_status solve(struct sluice_controller *c, size_t next, size_t max_menus,
                           uint64_t now_ns, size_t *num_looked_at, struct sluice_lp_result *result,
                           struct sluice_err *err)
{
    const size_t left = c->epoch.num_items - next, count = left < max_menus ? left : max_menus;
    struct sluice_capacities capacities = capacities_of(c);
    double *cores = &capacities.per_s[SLUICE_STORAGE_CPU];
    const double share = sluice_cpu_share_next(&c->share, now_ns, *cores);
    if (share > 0) {
        *cores = share;
        SLUICE_EACH_RESOURCE (r, SLUICE_MODELLED)
            capacities.external_cost_s[r] = c->tuning->thrift / capacities.per_s[r];
    }
    sluice_status status = solve_offered(c, next, count, &capacities, false, result, err);
    if (status == SLUICE_OK && c->offer.has_gpu && result->slowest != SLUICE_GPU)
        status = solve_offered(c, next, count, &capacities, true, result, err);
    if (status != SLUICE_OK)
        return status;
    *num_looked_at = count;
    sluice_cpu_share_planned(&c->share, *cores, result, count);
    const double slowest_s = result->primal_s - result->external_s;
    c->prices = result->plan;
    c->balance = (struct sluice_dual_balance){0};
    memcpy(c->dual, result->dual, sizeof(c->dual));
    c->basis = basis_of(c);
    c->forecast_per_s = slowest_s > 0 ? (double)count / slowest_s : INFINITY;
    c->has_plan = true;
    return SLUICE_OK;
}

static struct sluice_plan_forecast forecast_of(const struct sluice_controller *c,
                                               const struct sluice_lp_result *result, size_t count,
                                               size_t left)
{
    const double scale = count ? (double)left / (double)count : 0;
    struct sluice_plan_forecast forecast = {
        .rest_s = scale * (result->primal_s - result->external_s),
        .bound_s = scale * (result->dual_s - result->external_s),
        .gap = result->gap,
        .slowest = result->slowest,
        .rates = sluice_controller_rates(c),
    };
    memcpy(forecast.dual, result->dual, sizeof(forecast.dual));
    struct sluice_dual_balance balance = {0};
    for (size_t i = 0; i < count; i++) {
        const unsigned k = sluice_dual_plan_choose(&result->plan, &balance, &c->menus[i]);
        forecast.forms[c->options.model.choices.at[c->offer.at[k]].form]++;
        forecast.on_gpu += c->options.model.choices.at[c->offer.at[k]].on_gpu;
        if (!c->options.is_local)
            forecast.wire_bytes += scale * sluice_menu_cost(&c->menus[i], SLUICE_NETWORK, k);
    }
    return forecast;
}

sluice_status sluice_controller_begin(struct sluice_controller *c,
                                      const struct sluice_plan_epoch *epoch, uint64_t now_ns,
                                      struct sluice_plan_forecast *forecast, struct sluice_err *err)
{
    c->epoch = *epoch;
    if (sluice_pipeline_has_schedule(epoch->pipeline)) {
        c->costs.model = c->options.model;
        sluice_choice_model_set_schedule(&c->costs.model, epoch->pipeline, epoch->schedule);
    }
    sluice_capacity_estimator_begin(&c->capacity, now_ns);
    c->seen_per_s = 0;
    c->num_solves = 0;
    size_t count;
    struct sluice_lp_result result;
    const sluice_status status =
        solve(c, epoch->first_item, c->max_menus, now_ns, &count, &result, err);
    if (status != SLUICE_OK)
        return status;
    c->told_cores = c->share.cores;
    *forecast = forecast_of(c, &result, count, epoch->num_items - epoch->first_item);
    return SLUICE_OK;
}

/* The current prices for one item: the duals with backpressure. */
static struct sluice_dual_plan prices_now(const struct sluice_controller *c,
                                          const struct sluice_expected *under_way)
{
    struct sluice_dual_plan prices = c->prices;
    if (c->options.is_fixed || c->share.cores > 0 || !under_way)
        return prices;
    double factor[SLUICE_NUM_RESOURCES];
    sluice_backpressure_factors(&c->backpressure, under_way, c->dual, c->capacity.per_s, factor);
    for (unsigned k = 0; k < prices.num_duals; k++) {
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            prices.weight[k][r] *= (float)factor[r];
    }
    return prices;
}

unsigned sluice_controller_choose(struct sluice_controller *c, size_t index,
                                  const struct sluice_expected *under_way,
                                  struct sluice_expected *expected)
{
    assert(c->has_plan && index < c->epoch.num_items);
    struct sluice_menu menu;
    fill_menu(c, index, &menu);
    const struct sluice_dual_plan prices = prices_now(c, under_way);
    const unsigned k = sluice_dual_plan_choose(&prices, &c->balance, &menu);
    if (expected)
        *expected = (struct sluice_expected){
            .storage_s = sluice_menu_cost(&menu, SLUICE_STORAGE_CPU, k),
            .bytes = sluice_menu_cost(&menu, SLUICE_NETWORK, k),
            .compute_s = sluice_menu_cost(&menu, SLUICE_COMPUTE_CPU, k),
        };
    return c->offer.at[k];
}

/* --- intervals --- */

static bool reserve_spans(struct sluice_controller *c, size_t num_rows)
{
    if (num_rows <= c->max_spans)
        return true;
    struct sluice_wait_span *spans = realloc(c->spans, num_rows * sizeof(*spans));
    if (!spans)
        return false;
    c->spans = spans;
    c->max_spans = num_rows;
    return true;
}

/* The time of reading and of work on an item, without its queues. */
static void learn_in_hand(struct sluice_controller *c, const struct sluice_row_seen *rows,
                          size_t num_rows)
{
    double held_s = 0;
    size_t num_seen = 0;
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_row_seen *row = &rows[i];
        if (row->status != SLUICE_OK)
            continue;
        held_s += 1e-9 * (double)(row->disk_ns + row->storage_ns - row->storage_queue_ns +
                                  row->done_ns - row->started_ns);
        num_seen++;
    }
    if (num_seen > 0)
        c->in_hand_s += c->tuning->ewma_weight *
                        (fmin(held_s / (double)num_seen, c->tuning->max_in_hand_s) - c->in_hand_s);
}

static void learn(struct sluice_controller *c, const struct sluice_row_seen *rows, size_t num_rows,
                  const struct sluice_trainer_seen *trainer)
{
    for (size_t i = 0; i < num_rows; i++)
        learn_costs(c, &rows[i]);
    sluice_cost_correction_learn_decoded(&c->costs, trainer->decoded, trainer->decode_s);
    sluice_cost_correction_settle(&c->costs);
    const struct sluice_interval interval =
        sluice_capacity_estimator_see(&c->capacity, rows, num_rows, trainer, c->spans);
    sluice_capacity_estimator_learn(&c->capacity, &interval);
    sluice_backpressure_see(&c->backpressure, rows, num_rows);
    learn_in_hand(c, rows, num_rows);
    if (!(interval.seconds > 0))
        return;
    sluice_cpu_share_see(&c->share, interval.storage_price,
                         interval.used_per_s[SLUICE_STORAGE_CPU]);
    c->link_waited = interval.waited[SLUICE_NETWORK];
    c->seen_per_s = (double)interval.num_rows / interval.seconds;
}

static double change_of(double before, double now)
{
    if (before == now)
        return 0;
    if (!isfinite(before) || !isfinite(now) || !(before > 0) || !(now > 0))
        return INFINITY;
    return fabs(log(now / before));
}

/* "500", "1.50"; "no limit" in place of infinity. */
static const char *show_estimate(double value, char out[SLUICE_SHOW_BYTES])
{
    if (isfinite(value))
        return sluice_show_number(value, out);
    snprintf(out, SLUICE_SHOW_BYTES, "no limit");
    return out;
}

/* The change of what the step makes of an item's time: the trainer's rate is in no choice but the
 * GPU's, and there its part in the GPU's time counts. */
static double change_of_step(const struct sluice_controller *c)
{
    const struct sluice_rates was = {.gpu_samples_per_s = c->basis.per_s[SLUICE_GPU]};
    const double item_s = 1 / c->forecast_per_s;
    return c->offer.has_gpu ? change_of(item_s + sluice_rates_step_s(&was), item_s + step_s(c)) : 0;
}

/* The largest change since the plan in force was made, of what a plan goes by, in words in reason.
 */
static double find_change(const struct sluice_controller *c, char *reason, size_t size)
{
    static const struct {
        double scale;
        const char *name;
    } units[SLUICE_NUM_RESOURCES] = {
        [SLUICE_DISK] = {1e-6, "MB/s"},      [SLUICE_NETWORK] = {8e-6, "Mbit/s"},
        [SLUICE_STORAGE_CPU] = {1, "cores"}, [SLUICE_COMPUTE_CPU] = {1, "cores"},
        [SLUICE_GPU] = {1, "samples/s"},
    };
    const struct basis *was = &c->basis, is = basis_of(c);
    double most = 0;
    SLUICE_EACH_RESOURCE (r, SLUICE_ESTIMATED) {
        const double change =
            r == SLUICE_GPU ? change_of_step(c) : change_of(was->per_s[r], is.per_s[r]);
        if (change <= most)
            continue;
        most = change;
        char from[SLUICE_SHOW_BYTES], to[SLUICE_SHOW_BYTES];
        snprintf(reason, size, "%s %s -> %s%s%s",
                 r == SLUICE_GPU ? "trainer" : sluice_resource_words((enum sluice_resource)r),
                 show_estimate(was->per_s[r] * units[r].scale, from),
                 show_estimate(is.per_s[r] * units[r].scale, to), isfinite(is.per_s[r]) ? " " : "",
                 isfinite(is.per_s[r]) ? units[r].name : "");
    }
    if (change_of(was->shared_cores, is.shared_cores) > most) {
        most = change_of(was->shared_cores, is.shared_cores);
        sluice_snprintf(reason, size, "%s %.2f -> %.2f cores",
                        sluice_resource_words(SLUICE_SHARED_CPU), was->shared_cores,
                        is.shared_cores);
    }
    for (unsigned k = 0; k < c->offer.num; k++) {
        const unsigned choice = c->offer.at[k];
        SLUICE_EACH_RESOURCE (r, SLUICE_MODELLED) {
            const double change = change_of(was->factor[choice][r], is.factor[choice][r]);
            /* Estimates without observations follow from the others. */
            if (change <= most || !(c->costs.ratios[choice][r].rows > 0))
                continue;
            most = change;
            sluice_snprintf(reason, size, "%s of %s x%.2f -> x%.2f",
                            sluice_modelled_name((enum sluice_resource)r),
                            sluice_choice_name(c->options.model.choices.at[choice]),
                            was->factor[choice][r], is.factor[choice][r]);
        }
    }
    if (change_of(was->read_factor, is.read_factor) > most) {
        most = change_of(was->read_factor, is.read_factor);
        sluice_snprintf(reason, size, "read of files x%.2f -> x%.2f", was->read_factor,
                        is.read_factor);
    }
    return most;
}

/* Whether a plan that follows a price is too similar to the last one to be reported. */
static bool is_told(const struct sluice_controller *c)
{
    return c->share.cores > 0 && c->told_cores > 0 &&
           change_of(c->told_cores, c->share.cores) < c->tuning->solve_change;
}

bool sluice_controller_update(struct sluice_controller *c, uint64_t now_ns, size_t next_item,
                              const struct sluice_row_seen *rows, size_t num_rows,
                              const struct sluice_trainer_seen *trainer,
                              struct sluice_plan_forecast *forecast)
{
    assert(c->has_plan);
    if (c->options.is_fixed || !reserve_spans(c, num_rows))
        return false;
    learn(c, rows, num_rows, trainer);
    char reason[sizeof(forecast->reason)] = "";
    const double change = find_change(c, reason, sizeof(reason));
    const bool is_shared = c->share.cores > 0 || c->share.price > 0;
    if (next_item >= c->epoch.num_items || (!is_shared && change < log1p(c->tuning->solve_change)))
        return false;
    size_t count;
    struct sluice_lp_result result;
    /* Out of memory: the old prices are still good for something. */
    if (solve(c, next_item, (size_t)c->tuning->samples, now_ns, &count, &result, NULL) !=
            SLUICE_OK ||
        is_told(c))
        return false;
    c->told_cores = c->share.cores;
    *forecast = forecast_of(c, &result, count, c->epoch.num_items - next_item);
    if (c->share.price > 0) {
        sluice_snprintf(forecast->reason, sizeof(forecast->reason),
                        "%.3g storage cores, worth %.3g, at the price of storage CPU %.3g",
                        c->share.cores, c->share.worth, c->share.price);
        char cores[SLUICE_SHOW_BYTES];
        snprintf(forecast->words, sizeof(forecast->words),
                 "%s storage cores are this client's share",
                 sluice_show_number(c->share.cores, cores));
    } else if (is_shared) {
        snprintf(forecast->reason, sizeof(forecast->reason), "storage CPU has no price any more");
        snprintf(forecast->words, sizeof(forecast->words), "storage CPU is not scarce any more");
    } else {
        memcpy(forecast->reason, reason, sizeof(reason));
        memcpy(forecast->words, reason, sizeof(reason));
    }
    return true;
}

void sluice_controller_see_rest(struct sluice_controller *c,
                                const struct sluice_trainer_seen *trainer, double part)
{
    sluice_capacity_estimator_learn_trainer(&c->capacity, trainer, part);
}

/* --- what may be under way --- */

static uint32_t whole(double items)
{
    return items < UINT32_MAX ? (uint32_t)items : UINT32_MAX;
}

struct sluice_plan_bounds sluice_controller_bounds(const struct sluice_controller *c,
                                                   size_t num_done)
{
    if (c->options.is_fixed)
        return (struct sluice_plan_bounds){UINT32_MAX, UINT32_MAX};
    const struct sluice_tuning *tuning = c->tuning;
    const double latency_s =
        c->capacity.latency_ns == UINT64_MAX ? 0 : (double)c->capacity.latency_ns * 1e-9;
    /* The measured rate, or up to twice that while the forecast is higher, so that a wrong forecast
     * fills no queue. */
    const double per_s = fmax(c->seen_per_s, fmin(c->forecast_per_s, 2 * c->seen_per_s));
    /* The queue of a link that is not the bottleneck is kept short, so that choices can change. */
    const double link_part = c->link_waited * c->dual[SLUICE_NETWORK];
    const double ahead_s =
        tuning->free_link_ahead_s + link_part * (tuning->ahead_s - tuning->free_link_ahead_s);
    const double cores =
        c->capacity.per_s[SLUICE_STORAGE_CPU] + c->capacity.per_s[SLUICE_COMPUTE_CPU];
    const double away = per_s * (ahead_s + 3 * latency_s + c->in_hand_s) + 4 * cores +
                        tuning->min_rows + (per_s > 0 ? 0 : (double)num_done);
    /* Samples that have arrived keep this node at work while the others stand still; where a price
     * is followed, the answer to it must not come late. */
    const double here = c->share.cores > 0 ? 0 : per_s * tuning->here_s;
    return (struct sluice_plan_bounds){whole(away), whole(away + here)};
}

/* --- the rest --- */

double sluice_controller_storage_worth(const struct sluice_controller *c)
{
    return c->share.worth;
}

double sluice_controller_storage_price(const struct sluice_controller *c)
{
    return c->share.price;
}

const double *sluice_controller_prices(const struct sluice_controller *controller)
{
    return controller->dual;
}

uint64_t sluice_controller_solves(const struct sluice_controller *c)
{
    return c->num_solves;
}

struct sluice_rates sluice_controller_rates(const struct sluice_controller *c)
{
    struct sluice_rates rates = sluice_capacity_estimator_rates(&c->capacity);
    rates.pcie_bytes_per_s = c->options.rates.pcie_bytes_per_s;
    return rates;
}

sluice_status sluice_controller_create(const struct sluice_controller_options *options,
                                       struct sluice_controller **out, struct sluice_err *err)
{
    const struct sluice_tuning *tuning =
        options->tuning ? options->tuning : sluice_tuning_default();
    struct sluice_capacity_estimator capacity = sluice_capacity_estimator_init(
        &options->rates, &options->most, &options->transport, tuning);
    capacity.is_local = options->is_local;
    SLUICE_EACH_RESOURCE (r, SLUICE_ESTIMATED) {
        if (!(capacity.per_s[r] > 0))
            return sluice_fail(err, SLUICE_E_INVALID, "the rate of %s is %g",
                               sluice_resource_name((enum sluice_resource)r), capacity.per_s[r]);
    }
    struct sluice_controller *c = calloc(1, sizeof(*c));
    const size_t max_menus = (size_t)fmax(tuning->samples, tuning->first_samples);
    struct sluice_menu *menus = malloc(max_menus * sizeof(*menus));
    if (!c || !menus) {
        free(c);
        free(menus);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan over %zu items",
                           max_menus);
    }
    c->options = *options;
    c->tuning = tuning;
    c->capacity = capacity;
    c->costs = sluice_cost_correction_init(&options->model, &options->transport, tuning);
    c->share.tuning = tuning;
    c->backpressure.tuning = tuning;
    c->menus = menus;
    c->max_menus = max_menus;
    *out = c;
    return SLUICE_OK;
}

void sluice_controller_destroy(struct sluice_controller *c)
{
    if (!c)
        return;
    free(c->menus);
    free(c->spans);
    free(c);
}
