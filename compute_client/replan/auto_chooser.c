#include "compute_client/replan/auto_chooser.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often what was seen is looked at: long enough that what the link and the cores did in it is
 * no accident, short enough that a change costs little before it is noticed. */
#define TICK_NS 250000000u
/* So few rows say nothing yet; but this long is long enough. */
#define MIN_ROWS 16
#define MAX_TICK_NS 2000000000u

/* More rows than that between two looks tell nothing new. */
#define MAX_ROWS 32768

/* One choice in so many is timed. */
#define TIMED_CHOICES 64

struct sluice_auto_chooser {
    pthread_mutex_t lock;
    struct sluice_row_seen *rows; /* MAX_ROWS */
    size_t num_rows;
    bool has_overflowed;
    struct sluice_trainer_seen trainer; /* since the last tick */
    uint64_t trained_ns;                /* of the epoch, the same included */
    uint64_t last_batch_ns;             /* the trainer took one; 0: none in this epoch */
    unsigned last_batch_n;

    /* The loader thread's, while an epoch runs. */
    struct sluice_auto_plan *plan;
    struct sluice_choices choices;
    struct sluice_row_seen *looked_at; /* MAX_ROWS; swapped with rows */
    uint64_t begin_ns, last_tick_ns;
    struct sluice_plan_stats stats;
    uint64_t num_choices;
    enum sluice_resource limit;         /* as last said */
    uint64_t asked[SLUICE_MAX_CHOICES]; /* since the last look */
};

struct text {
    char chars[512];
    size_t used;
};

static void SLUICE_PRINTF(2, 3) append(struct text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text->chars + text->used, sizeof(text->chars) - text->used, fmt, args);
    va_end(args);
    if (n > 0)
        text->used += (size_t)n;
    if (text->used >= sizeof(text->chars))
        text->used = sizeof(text->chars) - 1;
}

/* "net_down 0.71, storage_cpu 0.29" */
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
    append(&text,
           "link %.4g Mbit/s, storage %.3g cores, compute %.3g cores, trainer %.4g samples/s",
           rates->link_bytes_per_s * 8e-6, rates->storage_cores, rates->compute_cores,
           rates->gpu_samples_per_s);
    if (rates->disk_bytes_per_s < INFINITY)
        append(&text, ", disk %.4g MB/s", rates->disk_bytes_per_s * 1e-6);
    return text;
}

/* " raw@0 x0.00 x1.02 x1.00" for what was asked for since the last look: by what the model's
 * storage CPU, compute CPU and bytes are multiplied. */
static struct text corrections_text(const struct sluice_auto_chooser *chooser)
{
    struct text text = {0};
    for (unsigned c = 0; c < chooser->choices.num; c++) {
        if (!chooser->asked[c])
            continue;
        append(&text, " %s", sluice_choice_name(chooser->choices.at[c]));
        SLUICE_EACH_RESOURCE (s, SLUICE_MODELLED)
            append(&text, " x%.3f",
                   sluice_auto_plan_correction(chooser->plan, c, (enum sluice_resource)s));
    }
    return text;
}

/* --- what the loader asks and tells --- */

static void look(struct sluice_auto_chooser *chooser, size_t index, uint64_t now)
{
    pthread_mutex_lock(&chooser->lock);
    if (chooser->num_rows < MIN_ROWS && now - chooser->last_tick_ns < MAX_TICK_NS) {
        pthread_mutex_unlock(&chooser->lock);
        return;
    }
    struct sluice_row_seen *rows = chooser->rows;
    const size_t num_rows = chooser->has_overflowed ? 0 : chooser->num_rows;
    const struct sluice_trainer_seen trainer = chooser->trainer;
    chooser->rows = chooser->looked_at;
    chooser->looked_at = rows;
    chooser->num_rows = 0;
    chooser->has_overflowed = false;
    chooser->trainer = (struct sluice_trainer_seen){0};
    pthread_mutex_unlock(&chooser->lock);

    chooser->last_tick_ns = now;
    chooser->stats.looks++;
    const double at_s = (double)(now - chooser->begin_ns) * 1e-9;
    struct sluice_auto_forecast forecast;
    if (sluice_auto_plan_tick(chooser->plan, now, index, rows, num_rows, &trainer, &forecast)) {
        chooser->stats.replans++;
        sluice_log(SLUICE_LOG_INFO,
                   "re-plan %llu at %.2f s, before item %zu: %s; prices %s; the rest takes %.3f s, "
                   "with the prices before %.3f s",
                   (unsigned long long)chooser->stats.replans, at_s, index, forecast.reason,
                   prices_text(forecast.price).chars, forecast.rest_s, forecast.kept_s);
    }
    const struct sluice_auto_limit limit = sluice_auto_plan_limit(chooser->plan, index);
    if (limit.load != chooser->limit) {
        const struct sluice_rates rates = sluice_auto_plan_rates(chooser->plan);
        sluice_log(SLUICE_LOG_INFO,
                   "at %.2f s, before item %zu, the limit is %s and no longer %s: %s; the rest "
                   "takes %.3f s",
                   at_s, index, sluice_resource_name(limit.load),
                   sluice_resource_name(chooser->limit), rates_text(&rates).chars, limit.rest_s);
        chooser->limit = limit.load;
    }
    if (sluice_log_is_enabled(SLUICE_LOG_DEBUG)) {
        struct text text = {0};
        for (unsigned c = 0; c < chooser->choices.num; c++) {
            if (chooser->asked[c])
                append(&text, " %s %llu", sluice_choice_name(chooser->choices.at[c]),
                       (unsigned long long)chooser->asked[c]);
        }
        const struct sluice_rates rates = sluice_auto_plan_rates(chooser->plan);
        const struct sluice_auto_bounds bounds = sluice_auto_plan_bounds(chooser->plan, 0);
        sluice_log(SLUICE_LOG_DEBUG,
                   "plan at %.3f s, item %zu: %s; done %zu, away %u, unfinished %u; asked%s", at_s,
                   index, rates_text(&rates).chars, num_rows, bounds.max_away,
                   bounds.max_unfinished, text.chars);
        sluice_log(SLUICE_LOG_DEBUG, "costs at %.3f s: price of storage CPU %.4g; model%s", at_s,
                   sluice_auto_plan_storage_price(chooser->plan), corrections_text(chooser).chars);
    }
    memset(chooser->asked, 0, sizeof(chooser->asked));
}

/* Until the first look, after which nobody asks. */
static size_t rows_in(struct sluice_auto_chooser *chooser)
{
    if (chooser->stats.looks > 0)
        return 0;
    pthread_mutex_lock(&chooser->lock);
    const size_t num_rows = chooser->num_rows;
    pthread_mutex_unlock(&chooser->lock);
    return num_rows;
}

static struct sluice_ask choose(void *ctx, size_t index, const struct sluice_sampler_item *item,
                                const struct sluice_expected *under_way)
{
    (void)item;
    struct sluice_auto_chooser *chooser = ctx;
    const uint64_t now = sluice_clock_ns();
    if (now - chooser->last_tick_ns >= TICK_NS) {
        const uint64_t start_ns = sluice_thread_cpu_ns();
        look(chooser, index, now);
        chooser->stats.looks_s += (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    }
    const bool is_timed = chooser->num_choices++ % TIMED_CHOICES == 0;
    const uint64_t start_ns = is_timed ? sluice_thread_cpu_ns() : 0;
    struct sluice_expected expected;
    const unsigned choice = sluice_auto_plan_choose(chooser->plan, index, under_way, &expected);
    if (is_timed)
        chooser->stats.choices_s +=
            TIMED_CHOICES * (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    chooser->asked[choice]++;
    const struct sluice_auto_bounds bounds =
        sluice_auto_plan_bounds(chooser->plan, rows_in(chooser));
    return (struct sluice_ask){
        .choice = chooser->choices.at[choice],
        .max_away = bounds.max_away,
        .max_unfinished = bounds.max_unfinished,
        .storage_worth = sluice_auto_plan_storage_worth(chooser->plan),
        .expected = expected,
    };
}

static void on_row(void *ctx, const struct sluice_row_seen *row)
{
    struct sluice_auto_chooser *chooser = ctx;
    pthread_mutex_lock(&chooser->lock);
    if (chooser->num_rows < MAX_ROWS)
        chooser->rows[chooser->num_rows++] = *row;
    else
        chooser->has_overflowed = true;
    pthread_mutex_unlock(&chooser->lock);
}

/* The time between two batches, without the wait for the second, was spent on the first. */
static void on_batch(void *ctx, unsigned n, uint64_t waited_ns, uint64_t now_ns)
{
    struct sluice_auto_chooser *chooser = ctx;
    pthread_mutex_lock(&chooser->lock);
    if (chooser->last_batch_ns) {
        chooser->trainer.samples += chooser->last_batch_n;
        const uint64_t busy_ns = now_ns - chooser->last_batch_ns - waited_ns;
        chooser->trainer.busy_ns += busy_ns;
        chooser->trained_ns += busy_ns;
    }
    chooser->last_batch_ns = now_ns;
    chooser->last_batch_n = n;
    pthread_mutex_unlock(&chooser->lock);
}

/* --- from outside --- */

sluice_status sluice_auto_chooser_begin(struct sluice_auto_chooser *chooser,
                                        const struct sluice_auto_epoch *epoch,
                                        struct sluice_chooser *face, struct sluice_err *err)
{
    struct sluice_auto_forecast forecast;
    const uint64_t now = sluice_clock_ns(), cpu_start_ns = sluice_thread_cpu_ns();
    if (chooser->trained_ns > 0) /* most of a short epoch comes after the last look */
        sluice_auto_plan_see_rest(chooser->plan, &chooser->trainer,
                                  (double)chooser->trainer.busy_ns / (double)chooser->trained_ns);
    const sluice_status status = sluice_auto_plan_begin(chooser->plan, epoch, now, &forecast, err);
    if (status != SLUICE_OK)
        return status;
    sluice_log(SLUICE_LOG_INFO,
               "the plan takes %.3f s and %.1f MB, with %s the limit; no plan takes less than "
               "%.3f s (gap %.3f%%); %s; prices %s",
               forecast.rest_s, forecast.wire_bytes * 1e-6, sluice_resource_name(forecast.slowest),
               forecast.bound_s, 100 * forecast.gap, rates_text(&forecast.rates).chars,
               prices_text(forecast.price).chars);
    chooser->num_rows = 0;
    chooser->has_overflowed = false;
    chooser->trainer = (struct sluice_trainer_seen){0};
    chooser->trained_ns = 0;
    chooser->last_batch_ns = 0;
    chooser->begin_ns = chooser->last_tick_ns = now;
    chooser->stats = (struct sluice_plan_stats){
        .first_s = (double)(sluice_thread_cpu_ns() - cpu_start_ns) * 1e-9,
    };
    chooser->num_choices = 0;
    chooser->limit = forecast.slowest;
    memset(chooser->asked, 0, sizeof(chooser->asked));
    *face = (struct sluice_chooser){
        .choose = choose,
        .on_row = on_row,
        .on_batch = on_batch,
        .ctx = chooser,
    };
    return SLUICE_OK;
}

struct sluice_plan_stats sluice_auto_chooser_stats(const struct sluice_auto_chooser *chooser)
{
    struct sluice_plan_stats stats = chooser->stats;
    stats.solves = sluice_auto_plan_solves(chooser->plan);
    stats.rates = sluice_auto_plan_rates(chooser->plan);
    return stats;
}

sluice_status sluice_auto_chooser_create(const struct sluice_auto_plan_options *options,
                                         struct sluice_auto_chooser **out, struct sluice_err *err)
{
    struct sluice_auto_chooser *chooser = calloc(1, sizeof(*chooser));
    if (!chooser)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a chooser");
    pthread_mutex_init(&chooser->lock, NULL);
    chooser->rows = calloc(MAX_ROWS, sizeof(*chooser->rows));
    chooser->looked_at = calloc(MAX_ROWS, sizeof(*chooser->looked_at));
    sluice_status status = SLUICE_OK;
    if (!chooser->rows || !chooser->looked_at)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a chooser");
    chooser->choices = options->model.choices;
    if (status == SLUICE_OK)
        status = sluice_auto_plan_create(options, &chooser->plan, err);
    if (status != SLUICE_OK) {
        sluice_auto_chooser_destroy(chooser);
        return status;
    }
    *out = chooser;
    return SLUICE_OK;
}

void sluice_auto_chooser_destroy(struct sluice_auto_chooser *chooser)
{
    if (!chooser)
        return;
    sluice_auto_plan_destroy(chooser->plan);
    free(chooser->rows);
    free(chooser->looked_at);
    pthread_mutex_destroy(&chooser->lock);
    free(chooser);
}
