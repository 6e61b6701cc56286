#include "compute_client/replan/replan.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/show.h"
#include "compute_client/loader/tuning.h"
#include "op/form_words.h"
#include "plan/resource.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most rows of an interval; further ones are dropped, so that memory is bounded. */
#define MAX_ROWS 32768

/* Choices per one that is timed. */
#define TIMED_CHOICES 64

struct sluice_replan {
    pthread_mutex_t lock;
    struct sluice_row_seen *rows; /* MAX_ROWS */
    size_t num_rows;
    bool has_overflowed;
    struct sluice_trainer_seen trainer; /* since the last look */
    uint64_t trained_ns;                /* of the epoch, the same included */
    uint64_t last_batch_ns;             /* the trainer took one; 0: none in this epoch */
    unsigned last_batch_n;
    uint64_t num_batches; /* that the trainer was done with, of all epochs */

    /* The prefetcher's thread's, while an epoch runs. */
    const struct sluice_tuning *tuning;
    uint64_t interval_ns;
    struct sluice_choices choices;
    struct sluice_controller *controller;
    struct sluice_row_seen *looked_at; /* MAX_ROWS; swapped with rows */
    uint64_t begin_ns, last_look_ns;
    struct sluice_machine here, servers; /* used where they share cores */
    double shared_cores;                 /* 0: they share none */
    double last_busy_s;                  /* of these cores, at the last look; < 0: not known */
    struct sluice_plan_stats stats;
    uint64_t num_choices;
    uint64_t asked[SLUICE_MAX_CHOICES]; /* since the last look */
    struct sluice_plan_forecast told;   /* to a person */
    uint64_t told_ns;
};

struct text {
    char chars[512];
    size_t used;
};

static void SLUICE_PRINTF(2, 3) append(struct text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n =
        sluice_vsnprintf(text->chars + text->used, sizeof(text->chars) - text->used, fmt, args);
    va_end(args);
    if (n > 0)
        text->used += (size_t)n;
    if (text->used >= sizeof(text->chars))
        text->used = sizeof(text->chars) - 1;
}

/* "network 0.71, storage_cpu 0.29" */
static struct text prices_text(const double price[SLUICE_NUM_RESOURCES])
{
    struct text text = {0};
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (price[r] >= 0.005)
            append(&text, "%s%s %.2f", text.used ? ", " : "",
                   sluice_resource_name((enum sluice_resource)r), price[r]);
    }
    return text;
}

static struct text rates_text(const struct sluice_rates *rates)
{
    struct text text = {0};
    append(&text, "link %.4g Mbit/s, storage %.3g cores, compute %.3g cores",
           rates->link_bytes_per_s * 8e-6, rates->storage_cores, rates->compute_cores);
    if (rates->gpu_samples_per_s < INFINITY)
        append(&text, ", trainer %.4g samples/s", rates->gpu_samples_per_s);
    else
        append(&text, ", trainer unknown samples/s");
    if (rates->shared_cores > 0)
        append(&text, ", %.3g cores for both sides", rates->shared_cores);
    if (rates->disk_bytes_per_s < INFINITY)
        append(&text, ", disk %.1f MB/s", rates->disk_bytes_per_s * 1e-6);
    return text;
}

static uint64_t num_looked_at(const struct sluice_plan_forecast *forecast)
{
    uint64_t sum = 0;
    for (int f = 0; f < SLUICE_MAX_FORMS; f++)
        sum += forecast->forms[f];
    return sum;
}

static double gpu_share(const struct sluice_plan_forecast *forecast)
{
    const uint64_t num = num_looked_at(forecast);
    return num > 0 ? (double)forecast->on_gpu / (double)num : 0;
}

/* "93% JPEG crops, 7% files, 80% decoded on the GPU; limited by the network (500 Mbit/s)" */
static struct text plan_text(const struct sluice_plan_forecast *forecast)
{
    struct text text = {0};
    char choices[160], number[SLUICE_SHOW_BYTES];
    sluice_form_shares(forecast->forms, SLUICE_FORMS_LONG, choices, sizeof(choices));
    append(&text, "%s", choices);
    if (forecast->on_gpu > 0)
        append(&text, ", %.0f%% decoded on the GPU", 100 * gpu_share(forecast));
    append(&text, "; limited by %s%s",
           forecast->slowest == SLUICE_STORAGE_CPU || forecast->slowest == SLUICE_COMPUTE_CPU ||
                   forecast->slowest == SLUICE_PCIE || forecast->slowest == SLUICE_SHARED_CPU
               ? ""
               : "the ",
           forecast->slowest == SLUICE_GPU && forecast->on_gpu == 0
               ? "trainer"
               : sluice_resource_words(forecast->slowest));
    const struct sluice_rates *rates = &forecast->rates;
    if (forecast->slowest == SLUICE_NETWORK)
        append(&text, " (%s)", sluice_show_rate(rates->link_bytes_per_s, number));
    else if (forecast->slowest == SLUICE_STORAGE_CPU)
        append(&text, " (%s cores)", sluice_show_number(rates->storage_cores, number));
    else if (forecast->slowest == SLUICE_COMPUTE_CPU)
        append(&text, " (%s cores)", sluice_show_number(rates->compute_cores, number));
    else if (forecast->slowest == SLUICE_SHARED_CPU)
        append(&text, " (%s cores)", sluice_show_number(rates->shared_cores, number));
    else if (forecast->slowest == SLUICE_GPU && forecast->on_gpu == 0)
        append(&text, " (%s samples/s)", sluice_show_number(rates->gpu_samples_per_s, number));
    return text;
}

/* "41.2 s" */
static struct text time_text(double seconds)
{
    struct text text = {0};
    char number[SLUICE_SHOW_BYTES];
    append(&text, "%s", sluice_show_seconds(seconds, number));
    return text;
}

/* " raw@0 x0.00 x1.02 x1.00" for each choice that was requested since the last look: the factors of
 * the model's storage CPU, compute CPU, bytes and GPU decoding. */
static struct text corrections_text(const struct sluice_replan *replan)
{
    struct text text = {0};
    for (unsigned c = 0; c < replan->choices.num; c++) {
        if (!replan->asked[c])
            continue;
        append(&text, " %s", sluice_choice_name(replan->choices.at[c]));
        append(&text, " x%.3f x%.3f x%.3f",
               sluice_controller_correction(replan->controller, c, SLUICE_STORAGE_CPU),
               sluice_controller_correction(replan->controller, c, SLUICE_COMPUTE_CPU),
               sluice_controller_correction(replan->controller, c, SLUICE_NETWORK));
        if (replan->choices.at[c].on_gpu)
            append(&text, " x%.3f",
                   sluice_controller_correction(replan->controller, c, SLUICE_GPU));
    }
    return text;
}

/* --- what the prefetcher asks and tells --- */

/* Whether a person wants to know of the new plan. */
static bool is_news(struct sluice_replan *replan, const struct sluice_plan_forecast *forecast,
                    uint64_t now)
{
    const struct sluice_plan_forecast *told = &replan->told;
    double moved = 0;
    const double sums[2] = {(double)num_looked_at(told), (double)num_looked_at(forecast)};
    for (int f = 0; f < SLUICE_MAX_FORMS && sums[0] > 0 && sums[1] > 0; f++)
        moved +=
            0.5 * fabs((double)told->forms[f] / sums[0] - (double)forecast->forms[f] / sums[1]);
    moved = fmax(moved, fabs(gpu_share(told) - gpu_share(forecast)));
    if ((told->slowest == forecast->slowest && moved < TUNING_TELL_PLAN_SHARE) ||
        now - replan->told_ns < TUNING_TELL_PLAN_NS)
        return false;
    replan->told = *forecast;
    replan->told_ns = now;
    return true;
}

/* The share of the shared cores that was busy since the last call; < 0: not known. */
static double shared_busy(struct sluice_replan *replan, double seconds)
{
    if (!(replan->shared_cores > 0))
        return -1;
    const double busy_s = sluice_machine_busy_s("", &replan->here, &replan->servers);
    const double before_s = replan->last_busy_s;
    replan->last_busy_s = busy_s;
    return busy_s >= 0 && before_s >= 0 && seconds > 0
               ? (busy_s - before_s) / (seconds * replan->shared_cores)
               : -1;
}

static void look(struct sluice_replan *replan, size_t index, uint64_t now)
{
    pthread_mutex_lock(&replan->lock);
    if ((double)replan->num_rows < replan->tuning->min_rows &&
        (double)(now - replan->last_look_ns) <
            replan->tuning->max_intervals * (double)replan->interval_ns) {
        pthread_mutex_unlock(&replan->lock);
        return;
    }
    struct sluice_row_seen *rows = replan->rows;
    const size_t num_rows = replan->has_overflowed ? 0 : replan->num_rows;
    struct sluice_trainer_seen trainer = replan->trainer;
    replan->rows = replan->looked_at;
    replan->looked_at = rows;
    replan->num_rows = 0;
    replan->has_overflowed = false;
    replan->trainer = (struct sluice_trainer_seen){0};
    pthread_mutex_unlock(&replan->lock);

    trainer.shared_busy = shared_busy(replan, 1e-9 * (double)(now - replan->last_look_ns));
    replan->last_look_ns = now;
    replan->stats.looks++;
    const double at_s = (double)(now - replan->begin_ns) * 1e-9;
    struct sluice_plan_forecast forecast;
    if (sluice_controller_update(replan->controller, now, index, rows, num_rows, &trainer,
                                 &forecast)) {
        replan->stats.replans++;
        if (is_news(replan, &forecast, now))
            sluice_log(SLUICE_LOG_INFO, "re-plan after %.0f s, %s: %s; %s left in this epoch", at_s,
                       forecast.words, plan_text(&forecast).chars,
                       time_text(forecast.rest_s).chars);
        sluice_log(
            SLUICE_LOG_DEBUG,
            "re-plan %llu at %.2f s, before item %zu: %s; the limit is %s; prices %s; the rest "
            "takes %.3f s",
            (unsigned long long)replan->stats.replans, at_s, index, forecast.reason,
            sluice_resource_name(forecast.slowest), prices_text(forecast.dual).chars,
            forecast.rest_s);
    }
    if (sluice_log_is_enabled(SLUICE_LOG_DEBUG)) {
        struct text text = {0};
        for (unsigned c = 0; c < replan->choices.num; c++) {
            if (replan->asked[c])
                append(&text, " %s %llu", sluice_choice_name(replan->choices.at[c]),
                       (unsigned long long)replan->asked[c]);
        }
        const struct sluice_rates rates = sluice_controller_rates(replan->controller);
        const struct sluice_plan_bounds bounds = sluice_controller_bounds(replan->controller, 0);
        sluice_log(SLUICE_LOG_DEBUG,
                   "plan at %.3f s, item %zu: %s; done %zu, away %u, unfinished %u; asked%s", at_s,
                   index, rates_text(&rates).chars, num_rows, bounds.max_away,
                   bounds.max_unfinished, text.chars);
        sluice_log(SLUICE_LOG_DEBUG, "costs at %.3f s: price of storage CPU %.4g; model%s", at_s,
                   sluice_controller_storage_price(replan->controller),
                   corrections_text(replan).chars);
    }
    memset(replan->asked, 0, sizeof(replan->asked));
}

/* Until the first look, after which it is not needed. */
static size_t rows_in(struct sluice_replan *replan)
{
    if (replan->stats.looks > 0)
        return 0;
    pthread_mutex_lock(&replan->lock);
    const size_t num_rows = replan->num_rows;
    pthread_mutex_unlock(&replan->lock);
    return num_rows;
}

static struct sluice_ask choose(void *ctx, size_t index, const struct sluice_sampler_item *item,
                                const struct sluice_expected *under_way)
{
    (void)item;
    struct sluice_replan *replan = ctx;
    const uint64_t now = sluice_clock_ns();
    if (now - replan->last_look_ns >= replan->interval_ns) {
        const uint64_t start_ns = sluice_thread_cpu_ns();
        look(replan, index, now);
        replan->stats.looks_s += (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    }
    const bool is_timed = replan->num_choices++ % TIMED_CHOICES == 0;
    const uint64_t start_ns = is_timed ? sluice_thread_cpu_ns() : 0;
    struct sluice_expected expected;
    const unsigned choice =
        sluice_controller_choose(replan->controller, index, under_way, &expected);
    if (is_timed)
        replan->stats.choices_s +=
            TIMED_CHOICES * (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    replan->asked[choice]++;
    const struct sluice_plan_bounds bounds =
        sluice_controller_bounds(replan->controller, rows_in(replan));
    return (struct sluice_ask){
        .choice = replan->choices.at[choice],
        .max_away = bounds.max_away,
        .max_unfinished = bounds.max_unfinished,
        .storage_worth = sluice_controller_storage_worth(replan->controller),
        .expected = expected,
        .prices = sluice_controller_prices(replan->controller),
    };
}

static void on_row(void *ctx, const struct sluice_row_seen *row)
{
    struct sluice_replan *replan = ctx;
    pthread_mutex_lock(&replan->lock);
    if (replan->num_rows < MAX_ROWS)
        replan->rows[replan->num_rows++] = *row;
    else
        replan->has_overflowed = true;
    pthread_mutex_unlock(&replan->lock);
}

/* The time between two batches, without the wait for the second, was spent on the first; of the
 * first of all also on what a device does once. */
static void on_batch(void *ctx, unsigned n, uint64_t waited_ns, uint64_t now_ns)
{
    struct sluice_replan *replan = ctx;
    pthread_mutex_lock(&replan->lock);
    if (replan->last_batch_ns && replan->num_batches++ >= TUNING_WARM_UP_BATCHES) {
        replan->trainer.samples += replan->last_batch_n;
        const uint64_t busy_ns = now_ns - replan->last_batch_ns - waited_ns;
        replan->trainer.busy_ns += busy_ns;
        replan->trainer.waited_ns += waited_ns;
        replan->trained_ns += busy_ns;
    }
    replan->last_batch_ns = now_ns;
    replan->last_batch_n = n;
    pthread_mutex_unlock(&replan->lock);
}

static void on_decoded(void *ctx, unsigned n, double device_s)
{
    struct sluice_replan *replan = ctx;
    pthread_mutex_lock(&replan->lock);
    replan->trainer.decoded += n;
    replan->trainer.decode_s += device_s;
    pthread_mutex_unlock(&replan->lock);
}

/* --- from outside --- */

sluice_status sluice_replan_begin(struct sluice_replan *replan,
                                  const struct sluice_plan_epoch *epoch,
                                  struct sluice_chooser *face, struct sluice_err *err)
{
    struct sluice_plan_forecast forecast;
    const uint64_t now = sluice_clock_ns(), cpu_start_ns = sluice_thread_cpu_ns();
    if (replan->trained_ns > 0) /* most of a short epoch comes after the last look */
        sluice_controller_see_rest(replan->controller, &replan->trainer,
                                   (double)replan->trainer.busy_ns / (double)replan->trained_ns);
    const sluice_status status =
        sluice_controller_begin(replan->controller, epoch, now, &forecast, err);
    if (status != SLUICE_OK)
        return status;
    /* Before its first batch nothing tells how fast it is. */
    const bool knows_trainer = forecast.rates.gpu_samples_per_s < INFINITY;
    sluice_log(epoch->is_brief ? SLUICE_LOG_DEBUG : SLUICE_LOG_INFO, "plan: %s; %s an epoch %s",
               plan_text(&forecast).chars, time_text(forecast.rest_s).chars,
               knows_trainer ? "expected" : "if the trainer keeps up");
    replan->told = forecast;
    replan->told_ns = now;
    sluice_log(SLUICE_LOG_DEBUG,
               "the plan takes %.3f s and %.1f MB, with %s the limit; no plan takes less than "
               "%.3f s (gap %.3f%%); %s; prices %s",
               forecast.rest_s, forecast.wire_bytes * 1e-6, sluice_resource_name(forecast.slowest),
               forecast.bound_s, 100 * forecast.gap, rates_text(&forecast.rates).chars,
               prices_text(forecast.dual).chars);
    replan->num_rows = 0;
    replan->has_overflowed = false;
    replan->trainer = (struct sluice_trainer_seen){0};
    replan->trained_ns = 0;
    replan->last_batch_ns = 0;
    replan->begin_ns = replan->last_look_ns = now;
    (void)shared_busy(replan, 0);
    replan->stats = (struct sluice_plan_stats){
        .first_s = (double)(sluice_thread_cpu_ns() - cpu_start_ns) * 1e-9,
    };
    replan->num_choices = 0;
    memset(replan->asked, 0, sizeof(replan->asked));
    *face = (struct sluice_chooser){
        .choose = choose,
        .on_row = on_row,
        .on_batch = on_batch,
        .on_decoded = on_decoded,
        .ctx = replan,
    };
    return SLUICE_OK;
}

struct sluice_plan_stats sluice_replan_stats(const struct sluice_replan *replan)
{
    struct sluice_plan_stats stats = replan->stats;
    stats.solves = sluice_controller_solves(replan->controller);
    stats.rates = sluice_controller_rates(replan->controller);
    return stats;
}

sluice_status sluice_replan_create(const struct sluice_controller_options *options,
                                   struct sluice_replan **out, struct sluice_err *err)
{
    struct sluice_replan *replan = calloc(1, sizeof(*replan));
    if (!replan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan");
    pthread_mutex_init(&replan->lock, NULL);
    replan->choices = options->model.choices;
    replan->tuning = options->tuning ? options->tuning : sluice_tuning_default();
    replan->interval_ns = (uint64_t)(replan->tuning->interval_s * 1e9);
    replan->here = options->here;
    replan->servers = options->servers;
    replan->shared_cores = options->most.shared_cores;
    replan->rows = calloc(MAX_ROWS, sizeof(*replan->rows));
    replan->looked_at = calloc(MAX_ROWS, sizeof(*replan->looked_at));
    sluice_status status = SLUICE_OK;
    if (!replan->rows || !replan->looked_at)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan");
    if (status == SLUICE_OK)
        status = sluice_controller_create(options, &replan->controller, err);
    if (status != SLUICE_OK) {
        sluice_replan_destroy(replan);
        return status;
    }
    *out = replan;
    return SLUICE_OK;
}

void sluice_replan_destroy(struct sluice_replan *replan)
{
    if (!replan)
        return;
    sluice_controller_destroy(replan->controller);
    free(replan->rows);
    free(replan->looked_at);
    pthread_mutex_destroy(&replan->lock);
    free(replan);
}
