#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/quit.h"
#include "compute_client/load/fetcher.h"
#include "compute_client/load/sampler.h"
#include "libsluice/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pass {
    struct sluice_epoch_stats stats;
    struct sluice_train_totals totals;
    double seconds, cpu_s;
    uint64_t first_batch;
    struct place place; /* after the last batch; its batch counts from the epoch's start, too */
    bool is_stopped, has_lost_source;
};

static void log_progress(const struct run *run, const struct part *part, uint64_t epoch,
                         uint64_t num_batches, const struct pass *pass, uint64_t samples,
                         double seconds, const struct sluice_train_totals *totals)
{
    char loss[64] = "";
    if (run->learns && totals->samples > 0)
        snprintf(loss, sizeof(loss), ", loss %.4f, top1 %.2f%%",
                 totals->loss_sum / (double)totals->samples,
                 100.0 * (double)totals->top1 / (double)totals->samples);
    sluice_log(SLUICE_LOG_INFO, "%s epoch %llu [%llu/%llu] %.1f samples/s%s", part->name,
               (unsigned long long)epoch, (unsigned long long)pass->place.batch,
               (unsigned long long)num_batches, seconds > 0 ? (double)samples / seconds : 0, loss);
}

/* Sums without waiting for the device (train.h). */
static sluice_status show_loss(struct run *run, struct sluice_train_totals *totals,
                               struct sluice_err *err)
{
    const sluice_status status = sluice_trainer_progress(run->trainer, totals, err);
    const double n = (double)totals->samples;
    run->loader->live.loss = run->learns && n > 0 ? totals->loss_sum / n : NAN;
    run->loader->live.top1 = run->learns && n > 0 ? (double)totals->top1 / n : NAN;
    return status;
}

static void take_place(const struct run *run, struct pass *pass)
{
    pass->place.batch = pass->first_batch + sluice_prefetcher_position(run->loader->prefetcher);
    memcpy(pass->place.errors, sluice_prefetcher_errors(run->loader->prefetcher),
           sizeof(pass->place.errors));
}

static void show_pass(struct run *run, bool is_training, uint64_t epoch, uint64_t first,
                      uint64_t num_samples)
{
    struct loader_shown shown = {.first = first, .total = num_samples};
    if (run->options->is_profiling) {
        loader_profile_show(run->loader, num_samples);
        return;
    }
    snprintf(shown.what, sizeof(shown.what), "%s %llu",
             is_training                 ? "epoch"
             : run->options->is_evaluate ? "evaluation at epoch"
                                         : "evaluation of epoch",
             (unsigned long long)epoch);
    snprintf(shown.what_brief, sizeof(shown.what_brief), "%s %llu", is_training ? "epoch" : "val",
             (unsigned long long)epoch);
    run_show(run, &shown);
}

/* Passes the batches of one epoch to the trainer.  Finishes the loader's epoch in any case. */
static sluice_status consume(struct run *run, const struct part *part, uint64_t epoch,
                             uint64_t num_samples, bool is_training, struct pass *pass,
                             struct sluice_err *err)
{
    const uint64_t start = sluice_clock_ns();
    const uint64_t batch_size = run->options->batch_size;
    show_pass(run, is_training, epoch, pass->first_batch * batch_size, num_samples);
    sluice_live_set(&run->loader->live.epoch, epoch);
    run->loader->live.loss = run->loader->live.top1 = NAN;
    const uint64_t num_batches = (num_samples + batch_size - 1) / batch_size;
    uint64_t trainer_ns = 0, samples = 0;
    sluice_status status = SLUICE_OK;
    uint32_t *labels = malloc(batch_size * sizeof(*labels));
    if (!labels)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch");
    while (status == SLUICE_OK) {
        if (sluice_quit_requested()) {
            pass->is_stopped = true;
            break;
        }
        struct sluice_held *batch = NULL;
        struct sluice_err cause = {0};
        status = sluice_prefetcher_next(run->loader->prefetcher, -1, &batch, &cause);
        if (status == SLUICE_E_CLOSED && sluice_quit_requested()) {
            status = SLUICE_OK;
            pass->is_stopped = true;
            break;
        }
        if (status != SLUICE_OK) {
            pass->has_lost_source = sluice_prefetcher_has_lost_source(run->loader->prefetcher);
            status = sluice_fail(err, status, "%s epoch %llu: %s", part->name,
                                 (unsigned long long)epoch, cause.text);
            break;
        }
        if (!batch) {
            take_place(run, pass);
            break;
        }
        const uint64_t step_start = sluice_clock_ns();
        for (unsigned i = 0; i < batch->num_rows; i++)
            labels[i] = (uint32_t)batch->labels[i];
        const struct sluice_train_batch rows = {
            .pixels = batch->pixels,
            .labels = labels,
            .n = batch->num_rows,
        };
        struct sluice_batch_entry entry = {
            .epoch = epoch,
            .batch = pass->first_batch + batch->index,
            .is_evaluation = !is_training,
            .samples = batch->num_rows,
        };
        memcpy(entry.stall_ns, batch->stall_ns, sizeof(entry.stall_ns));
        samples += batch->num_rows;
        status = is_training ? sluice_trainer_step(run->trainer, &rows, err)
                             : sluice_trainer_evaluate(run->trainer, &rows, err);
        if (status != SLUICE_OK) {
            sluice_held_release(batch);
            break;
        }
        take_place(run, pass);
        run->batch_now = pass->place.batch;
        sluice_held_release(batch);
        struct sluice_train_totals totals = {0};
        status = show_loss(run, &totals, err);
        if (status != SLUICE_OK)
            break;
        if (run->options->print_freq && pass->place.batch % run->options->print_freq == 0 &&
            sluice_log_is_enabled(SLUICE_LOG_INFO)) {
            log_progress(run, part, epoch, num_batches, pass, samples,
                         (double)(sluice_clock_ns() - start) * 1e-9, &totals);
        }
        uint64_t wait_ns = 0;
        for (int i = 0; i < SLUICE_NUM_RESOURCES; i++)
            wait_ns += entry.stall_ns[i];
        entry.stall_ns[SLUICE_GPU] = sluice_clock_ns() - step_start;
        run_note_batch(run, wait_ns, entry.stall_ns[SLUICE_GPU]);
        trainer_ns += entry.stall_ns[SLUICE_GPU];
        sluice_live_add(&run->loader->live.batches, 1);
        sluice_live_add(&run->loader->live.stall_ns[SLUICE_GPU], entry.stall_ns[SLUICE_GPU]);
        sluice_batch_log_add(run->batch_log, &entry);
        if (is_training)
            run_save_in_epoch(run, &pass->place);
    }
    const uint64_t collect_start = sluice_clock_ns();
    if (status == SLUICE_OK)
        status = sluice_trainer_collect(run->trainer, &pass->totals, err);
    const uint64_t end = sluice_clock_ns();
    free(labels);
    run_show_end(run);
    pass->stats = sluice_prefetcher_finish(run->loader->prefetcher);
    pass->stats.stall_ns[SLUICE_GPU] = trainer_ns + end - collect_start;
    pass->seconds = (double)(end - start) * 1e-9;
    return status;
}

/* Fails if nothing at all was delivered: such an epoch is not done. */
static sluice_status check_delivered(const struct part *part, uint64_t epoch, size_t count,
                                     const struct pass *pass, struct sluice_err *err)
{
    if (pass->is_stopped || pass->stats.samples > 0 || pass->first_batch > 0)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_NOT_FOUND, "%s epoch %llu: none of its %zu samples came",
                       part->name, (unsigned long long)epoch, count);
}

uint64_t run_cursor(const struct run *run, const struct part *part, bool is_training,
                    uint64_t batch)
{
    const struct sluice_options *o = run->options;
    const uint64_t cursor = batch * o->batch_size * o->world_size;
    const uint64_t total = part->num_ids * (is_training ? o->repeat : 1);
    const uint64_t num_batches =
        (total + o->batch_size * o->world_size - 1) / (o->batch_size * o->world_size);
    return batch == num_batches ? total : cursor;
}

static sluice_status run_pass(struct run *run, struct part *part, struct place place,
                              bool is_training, struct pass *pass, struct sluice_err *err)
{
    const uint64_t cpu_start_ns = sluice_process_cpu_ns();
    struct loader_pass begun = {
        .part = part,
        .is_training = is_training,
        .epoch = place.epoch,
        .cursor = run_cursor(run, part, is_training, place.batch),
    };
    memcpy(begun.errors, place.errors, sizeof(begun.errors));
    pass->first_batch = place.batch;
    pass->place = place;
    sluice_status status = loader_begin(run->loader, &begun, err);
    const size_t count = (size_t)(place.batch * run->options->batch_size) + run->loader->num_items;
    if (status == SLUICE_OK)
        status = consume(run, part, place.epoch, count, is_training, pass, err);
    if (status == SLUICE_OK)
        status = check_delivered(part, place.epoch, count, pass, err);
    pass->cpu_s = (double)(sluice_process_cpu_ns() - cpu_start_ns) * 1e-9;
    return status;
}

static struct sluice_learned learned(const struct sluice_train_totals *totals)
{
    return (struct sluice_learned){
        .samples = totals->samples,
        .loss_sum = totals->loss_sum,
        .top1 = totals->top1,
        .top5 = totals->top5,
    };
}

static double lr_at(const struct sluice_options *options, uint64_t epoch)
{
    double lr = options->lr;
    for (uint64_t i = 0; i < epoch / options->lr_step; i++)
        lr *= options->lr_gamma;
    return lr;
}

static uint64_t hash_errors(const struct run *run, const struct part *part)
{
    return run->loader->client && part->source ? sluice_fetcher_stats(part->source).hash_errors : 0;
}

static uint64_t lost_streams(const struct run *run, const struct part *part)
{
    return run->loader->client && part->source ? sluice_fetcher_stats(part->source).lost_streams
                                               : 0;
}

/* What cannot be printed is kept, and tried again with the next report. */
static void print_report(struct run *run, const struct sluice_epoch_report *report)
{
    const struct sluice_report_summary summary = sluice_report_summary(report);
    char text[1024];
    sluice_report_text(report, text, sizeof(text));
    sluice_log(SLUICE_LOG_DEBUG, "%s", text);
    if (run->options->is_json) {
        sluice_log(SLUICE_LOG_INFO, "%s", summary.line[0]);
        sluice_log(SLUICE_LOG_INFO, "%s", summary.line[1] + strspn(summary.line[1], " "));
        char *line = NULL;
        size_t len = 0;
        FILE *memory = open_memstream(&line, &len);
        struct sluice_err cause = {0};
        const bool is_made = memory && sluice_report_json(report, memory, &cause) == SLUICE_OK;
        if (memory && fclose(memory) == 0 && is_made)
            sluice_line_writer_add(run->out, line);
        else
            sluice_log(SLUICE_LOG_WARN, "no memory for the report of epoch %llu",
                       (unsigned long long)report->epoch);
        free(line);
    } else {
        snprintf(text, sizeof(text), "%s\n%s\n", summary.line[0], summary.line[1]);
        sluice_line_writer_add(run->out, text);
    }
    sluice_line_writer_flush(run->out);
}

sluice_status run_evaluation(struct run *run, uint64_t epoch, bool *is_stopped,
                             struct sluice_err *err)
{
    struct pass pass = {0};
    const sluice_status status =
        run_pass(run, &run->loader->val, (struct place){.epoch = epoch}, false, &pass, err);
    *is_stopped = pass.is_stopped;
    if (status != SLUICE_OK || pass.is_stopped)
        return status;
    const struct sluice_epoch_report report = {
        .epoch = epoch,
        .mode = run->options->mode,
        .mode_name = run->options->mode_name,
        .is_evaluation = true,
        .seconds = pass.seconds,
        .stats = &pass.stats,
        .manifest = run->loader->manifest,
        .has_loss = run->learns,
        .totals = learned(&pass.totals),
        .is_deterministic = sluice_trainer_is_deterministic(run->trainer),
        .retries = lost_streams(run, &run->loader->val),
        .hash_errors = hash_errors(run, &run->loader->val),
    };
    print_report(run, &report);
    return SLUICE_OK;
}

sluice_status run_one_epoch(struct run *run, struct place *place, bool *is_stopped,
                            bool *has_lost_source, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct pass train = {0}, val = {0};
    const uint64_t lost_before = lost_streams(run, &run->loader->train);
    const uint64_t hash_errors_before = hash_errors(run, &run->loader->train);
    const uint64_t first_sample = place->batch * o->batch_size;
    const double lr = lr_at(o, place->epoch);
    sluice_trainer_set_lr(run->trainer, lr);
    sluice_status status = run_pass(run, &run->loader->train, *place, true, &train, err);
    *has_lost_source = train.has_lost_source;
    *is_stopped = train.is_stopped;
    if (status == SLUICE_OK || *has_lost_source)
        *place = train.place;
    if (status != SLUICE_OK)
        return status;
    if (train.is_stopped) {
        sluice_log(SLUICE_LOG_INFO, "stopped in epoch %llu after batch %llu",
                   (unsigned long long)place->epoch, (unsigned long long)place->batch);
        return SLUICE_OK;
    }
    const struct sluice_plan_stats plan = run->loader->replan
                                              ? sluice_replan_stats(run->loader->replan)
                                              : (struct sluice_plan_stats){0};
    struct sluice_epoch_report report = {
        .epoch = place->epoch,
        .first_sample = first_sample,
        .mode = o->mode,
        .mode_name = o->mode_name,
        .seconds = train.seconds,
        .stats = &train.stats,
        .manifest = run->loader->manifest,
        .has_loss = run->learns,
        .totals = learned(&train.totals),
        .is_deterministic = sluice_trainer_is_deterministic(run->trainer),
        .lr = lr,
        .retries = lost_streams(run, &run->loader->train) - lost_before,
        .hash_errors = hash_errors(run, &run->loader->train) - hash_errors_before,
        .plan = run->loader->replan ? &plan : NULL,
        .cpu_s = train.cpu_s,
    };
    if (o->has_val && run->learns && run->loader->val.num_ids > 0 && !o->is_profiling) {
        status = run_pass(run, &run->loader->val, (struct place){.epoch = place->epoch}, false,
                          &val, err);
        *has_lost_source = val.has_lost_source;
        report.has_val = status == SLUICE_OK && !val.is_stopped;
        report.val = learned(&val.totals);
        report.val_seconds = val.seconds;
        report.val_errors = val.stats.errors;
    }
    *is_stopped = val.is_stopped;
    if (status == SLUICE_OK && !val.is_stopped) {
        *place = (struct place){.epoch = place->epoch + 1};
        run_save(run, place);
    }
    print_report(run, &report);
    return status;
}
