#include "compute_client/api/loader_state.h"

#include "base/clock.h"
#include "lib/base/process.h"

#include <stdio.h>

/* --- an epoch --- */

/* Outside of locks. */
static struct sluice_lend_counters lend_counters(const struct sluice_loader *loader)
{
    struct sluice_lend_counters counters = {0};
    if (loader->lend)
        sluice_lend_counters(loader->lend, &counters);
    return counters;
}

void loader_stats_begin(struct sluice_loader *loader)
{
    loader->started_ns = sluice_clock_ns();
    loader->lost_streams = sluice_live_get(&loader->live.lost_streams);
    loader->hash_errors = sluice_live_get(&loader->live.hash_errors);
}

/* Counts what was lent since the last report, so that an epoch's report also has what was lent just
 * before the epoch.  Call it under the lock. */
static void count_lent(struct sluice_loader *loader, const struct sluice_lend_counters *now,
                       struct ended *ended)
{
    if (!loader->lend)
        return;
    struct sluice_lend_counters *lent = &ended->lent;
    const struct sluice_lend_counters *from = &ended->lend_from;
    *lent = loader->lend_told = *now;
    lent->requests -= from->requests;
    lent->lent_ns -= from->lent_ns;
    lent->cost_ns -= from->cost_ns;
    lent->taken_back -= from->taken_back;
    for (size_t i = 0; i < SLUICE_LEND_WAIT_BUCKETS; i++)
        lent->waits[i] -= from->waits[i];
    lent->waited_ns -= from->waited_ns;
    ended->report.lent = lent;
}

void loader_stats_end(struct sluice_loader *loader, const struct sluice_epoch_stats *stats,
                      bool is_whole)
{
    const uint64_t now = sluice_clock_ns();
    const bool is_training = loader->start.part == SLUICE_TRAIN;
    const bool has_plan = loader->replan && is_training;
    const struct sluice_lend_counters lent = lend_counters(loader);
    struct ended *ended = &loader->ended[loader->start.part];
    const struct sluice_plan_stats plan =
        has_plan ? sluice_replan_stats(loader->replan) : (struct sluice_plan_stats){0};
    pthread_mutex_lock(&loader->lock);
    *ended = (struct ended){
        .has = true,
        .is_whole = is_whole,
        .stats = *stats,
        .plan = plan,
        .ended_ns = now,
        .lend_from = loader->lend_told,
        .report =
            {
                .epoch = loader->start.epoch,
                .first_sample = loader->start.cursor,
                .mode = loader->options.mode,
                .mode_name = loader->options.mode_name,
                .is_evaluation = !is_training,
                .seconds = (double)(now - loader->started_ns) * 1e-9,
                .stats = &ended->stats,
                .manifest = loader->manifest,
                .plan = has_plan ? &ended->plan : NULL,
                .cpu_s = (double)(sluice_process_cpu_ns() - loader->started_cpu_ns) * 1e-9,
                .retries = sluice_live_get(&loader->live.lost_streams) - loader->lost_streams,
                .hash_errors = sluice_live_get(&loader->live.hash_errors) - loader->hash_errors,
            },
    };
    count_lent(loader, &lent, ended);
    pthread_mutex_unlock(&loader->lock);
}

/* Under the lock. */
static void take_learned(struct sluice_loader *loader, enum sluice_part part,
                         const struct sluice_learned *learned,
                         const struct sluice_lend_counters *lent)
{
    struct ended *ended = &loader->ended[part == SLUICE_VAL];
    if (!ended->has)
        return;
    const uint64_t now = sluice_clock_ns();
    ended->stats.stall_ns[SLUICE_GPU] += now - ended->ended_ns;
    ended->report.seconds += (double)(now - ended->ended_ns) * 1e-9;
    ended->ended_ns = now;
    count_lent(loader, lent, ended);
    ended->report.has_loss = learned->samples > 0;
    ended->report.totals = *learned;
    struct ended *train = &loader->ended[SLUICE_TRAIN];
    if (part != SLUICE_VAL || !train->has || train->report.epoch != ended->report.epoch)
        return;
    train->report.has_val = true;
    train->report.val = *learned;
    train->report.val_seconds = ended->report.seconds;
    train->report.val_errors = ended->stats.errors;
    count_lent(loader, lent, train);
}

void sluice_loader_learned(struct sluice_loader *loader, enum sluice_part part,
                           const struct sluice_learned *learned)
{
    const struct sluice_lend_counters lent = lend_counters(loader);
    pthread_mutex_lock(&loader->lock);
    take_learned(loader, part, learned, &lent);
    pthread_mutex_unlock(&loader->lock);
}

/* Under the lock. */
static sluice_status find_ended(const struct sluice_loader *loader, enum sluice_part part,
                                const struct ended **ended, struct sluice_err *err)
{
    if (part != SLUICE_TRAIN && part != SLUICE_VAL)
        return sluice_fail(err, SLUICE_E_INVALID, "%d is no part of a dataset", (int)part);
    if (!loader->ended[part].has)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "no epoch of %s has ended: there is nothing to tell",
                           part == SLUICE_VAL ? "val" : "train");
    *ended = &loader->ended[part];
    return SLUICE_OK;
}

sluice_status sluice_loader_stats(struct sluice_loader *loader, enum sluice_part part, char **json,
                                  struct sluice_err *err)
{
    sluice_status status = sluice_process_check(loader->owner, "loader", err);
    if (status != SLUICE_OK)
        return status;
    const struct ended *ended = NULL;
    pthread_mutex_lock(&loader->lock);
    status = find_ended(loader, part, &ended, err);
    if (status == SLUICE_OK)
        status = sluice_report_json(&ended->report, json, err);
    pthread_mutex_unlock(&loader->lock);
    return status;
}

sluice_status sluice_loader_summary(struct sluice_loader *loader, enum sluice_part part,
                                    bool is_long, char text[SLUICE_MAX_SUMMARY],
                                    struct sluice_err *err)
{
    sluice_status status = sluice_process_check(loader->owner, "loader", err);
    if (status != SLUICE_OK)
        return status;
    const struct ended *ended = NULL;
    pthread_mutex_lock(&loader->lock);
    status = find_ended(loader, part, &ended, err);
    if (status == SLUICE_OK && is_long)
        sluice_report_text(&ended->report, text, SLUICE_MAX_SUMMARY);
    if (status == SLUICE_OK && !is_long) {
        const struct sluice_report_summary summary = sluice_report_summary(&ended->report);
        snprintf(text, SLUICE_MAX_SUMMARY, "%s\n%s\n", summary.line[0], summary.line[1]);
    }
    pthread_mutex_unlock(&loader->lock);
    return status;
}

/* --- while it runs --- */

void sluice_loader_counters(const struct sluice_loader *loader, struct sluice_counters *counters)
{
    const struct sluice_live *live = &loader->live;
    const uint64_t now = sluice_clock_ns();
    const uint64_t taken = sluice_live_get(&live->taken), rows = sluice_live_get(&live->rows);
    *counters = (struct sluice_counters){
        .samples = sluice_live_get(&live->samples),
        .batches = sluice_live_get(&live->batches),
        .prefetched = rows > taken ? rows - taken : 0,
        .wire_bytes = sluice_live_get(&live->wire_bytes),
        .outages = sluice_live_get(&live->outages),
        .lost_streams = sluice_live_get(&live->lost_streams),
        .repeated_requests = sluice_live_get(&live->repeated),
        .hash_errors = sluice_live_get(&live->hash_errors),
        .failed_over = sluice_live_get(&live->failed_over),
        .hedged = sluice_live_get(&live->hedged),
        .waits_s = sluice_live_seconds_since(sluice_live_get(&live->waits_since_ns), now),
        .lost_s = sluice_live_seconds_since(sluice_live_get(&live->lost_since_ns), now),
    };
    for (int status = 0; status < SLUICE_NUM_STATUS; status++)
        counters->failed[status] = sluice_live_get(&live->failed[status]);
    for (int i = 0; i < SLUICE_NUM_RESOURCES; i++)
        counters->wait_ns[i] = sluice_live_get(&live->stall_ns[i]);
    for (int form = 0; form < SLUICE_NUM_FORMS; form++)
        counters->on_gpu[form] = sluice_live_get(&live->on_gpu[form]);
    for (int split = 0; split <= SLUICE_PIPELINE_MAX_OPS; split++) {
        const int row = split < SLUICE_MAX_OPS ? split : SLUICE_MAX_OPS;
        for (int form = 0; form < SLUICE_NUM_FORMS; form++)
            counters->choices[row][form] += sluice_live_get(&live->choices[split][form]);
    }
}

size_t sluice_loader_choices(const struct sluice_loader *loader, struct sluice_choice_count *counts,
                             size_t room)
{
    const struct sluice_live *live = &loader->live;
    size_t num = 0;
    for (uint32_t split = 0; split <= SLUICE_PIPELINE_MAX_OPS; split++) {
        for (int form = 0; form < SLUICE_MAX_FORMS; form++) {
            const uint64_t samples = sluice_live_get(&live->choices[split][form]);
            if (samples > 0 && num < room)
                counts[num] = (struct sluice_choice_count){
                    .split = split,
                    .form = sluice_form_name((enum sluice_form)form),
                    .samples = samples,
                    .on_gpu = split == 0 ? sluice_live_get(&live->on_gpu[form]) : 0,
                };
            num += samples > 0;
        }
    }
    return num;
}

void loader_show(struct sluice_loader *loader, const struct sluice_loader_pass *pass)
{
    pthread_mutex_lock(&loader->lock);
    const uint64_t number = loader->shown.number + 1;
    loader->shown = *pass;
    loader->shown.number = number;
    loader->shown.part = (enum sluice_part)loader->start.part;
    loader->shown.epoch = loader->start.epoch;
    pthread_mutex_unlock(&loader->lock);
}

void sluice_loader_pass(struct sluice_loader *loader, struct sluice_loader_pass *pass)
{
    pthread_mutex_lock(&loader->lock);
    *pass = loader->shown;
    pthread_mutex_unlock(&loader->lock);
}
