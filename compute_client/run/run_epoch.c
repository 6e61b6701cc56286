#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/quit.h"
#include "train/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pass {
    enum sluice_part part;
    struct place place; /* after the last batch */
    uint64_t num_batches, samples, start_ns;
    uint64_t end; /* batches of the epoch that are trained, also before a resume */
    double lr;    /* of the last batch */
    bool is_stopped, has_lost_source;
};

static const char *part_name(enum sluice_part part)
{
    return part == SLUICE_VAL ? "val" : "train";
}

static void log_progress(const struct run *run, const struct pass *pass,
                         const struct sluice_train_totals *totals)
{
    const double seconds = (double)(sluice_clock_ns() - pass->start_ns) * 1e-9;
    char loss[64] = "";
    if (run->learns && totals->samples > 0)
        snprintf(loss, sizeof(loss), ", loss %.4f, top1 %.2f%%",
                 totals->loss_sum / (double)totals->samples,
                 100.0 * (double)totals->top1 / (double)totals->samples);
    sluice_log(SLUICE_LOG_INFO, "%s epoch %llu [%llu/%llu] %.1f samples/s%s", part_name(pass->part),
               (unsigned long long)pass->place.epoch, (unsigned long long)pass->place.batch,
               (unsigned long long)pass->num_batches,
               seconds > 0 ? (double)pass->samples / seconds : 0, loss);
}

/* Sums without waiting for the device (train.h). */
static sluice_status show_loss(struct run *run, struct sluice_train_totals *totals,
                               struct sluice_err *err)
{
    const sluice_status status = sluice_trainer_progress(run->trainer, totals, err);
    const double n = (double)totals->samples;
    run->loss_now = run->learns && n > 0 ? totals->loss_sum / n : NAN;
    run->top1_now = run->learns && n > 0 ? (double)totals->top1 / n : NAN;
    return status;
}

static void show_pass(struct run *run, const struct pass *pass)
{
    const unsigned long long epoch = pass->place.epoch;
    char what[64], brief[32];
    snprintf(what, sizeof(what), "%s %llu",
             pass->part == SLUICE_TRAIN  ? "epoch"
             : run->options->is_evaluate ? "evaluation at epoch"
                                         : "evaluation of epoch",
             epoch);
    snprintf(brief, sizeof(brief), "%s %llu", pass->part == SLUICE_TRAIN ? "epoch" : "val", epoch);
    run_show(run, what, brief);
}

static double lr_of(const struct sluice_options *o, const struct pass *pass, uint64_t batch)
{
    struct sluice_schedule schedule = {
        .lr = o->lr,
        .warmup_epochs = o->warmup_epochs,
        .warmup_lr = o->warmup_lr,
        .epochs = o->epochs,
        .min_lr = o->min_lr,
        .step_epochs = o->lr_step,
        .gamma = o->lr_gamma,
    };
    sluice_schedule_parse(o->lr_schedule, &schedule.kind);
    return sluice_schedule_lr(&schedule, pass->place.epoch, batch, pass->num_batches);
}

/* Joined ranks: whether this step is one that all of them take. */
static bool begin(struct run *run, struct pass *pass)
{
    pass->is_stopped = run->lockstep.word && !sluice_lockstep_begin(&run->lockstep);
    return !pass->is_stopped;
}

/* With several ranks: a batch without a good row is a step without rows, so that all ranks take the
 * same steps.  Those up to batch number `until`. */
static sluice_status step_without_rows(struct run *run, struct pass *pass, uint64_t until,
                                       struct sluice_err *err)
{
    if (pass->part != SLUICE_TRAIN || run->options->world_size <= 1)
        return SLUICE_OK;
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK && pass->place.batch < until && begin(run, pass)) {
        const struct sluice_train_batch none = {0};
        const struct sluice_batch_entry entry = {
            .epoch = pass->place.epoch,
            .batch = pass->place.batch,
        };
        pass->lr = lr_of(run->options, pass, pass->place.batch);
        sluice_trainer_set_lr(run->trainer, pass->lr);
        status = sluice_trainer_step(run->trainer, &none, err);
        sluice_batch_log_add(run->batch_log, &entry);
        pass->place.batch++;
    }
    return status;
}

/* After a loss of the source: the other ranks stop, too, and need this one for the steps that they
 * have begun, or rank 0 could not write its checkpoint. */
static void let_ranks_stop(struct run *run)
{
    const struct sluice_train_batch none = {0};
    if (!run->lockstep.word)
        return;
    sluice_lockstep_stop(&run->lockstep);
    while (sluice_lockstep_begin(&run->lockstep)) {
        if (sluice_trainer_step(run->trainer, &none, NULL) != SLUICE_OK)
            break;
    }
}

/* Trains on a batch, or evaluates it. */
static sluice_status step(struct run *run, struct pass *pass, const struct sluice_batch *batch,
                          uint32_t *labels, struct sluice_err *err)
{
    for (unsigned i = 0; i < batch->num_rows; i++)
        labels[i] = (uint32_t)batch->labels[i];
    const struct sluice_train_key key = {
        .epoch = (uint32_t)batch->epoch,
        .rank = run->dataset->rank,
        .index = batch->index,
        .ids = batch->ids,
        .draw_epochs = batch->draw_epochs,
    };
    const struct sluice_train_batch rows = {
        .pixels = batch->pixels,
        .labels = labels,
        .n = batch->num_rows,
        .is_on_device = sluice_loader_device(run->loader) >= 0,
        .key = &key,
    };
    if (pass->part == SLUICE_TRAIN) {
        pass->lr = lr_of(run->options, pass, batch->index);
        sluice_trainer_set_lr(run->trainer, pass->lr);
    }
    const sluice_status status = pass->part == SLUICE_TRAIN
                                     ? sluice_trainer_step(run->trainer, &rows, err)
                                     : sluice_trainer_evaluate(run->trainer, &rows, err);
    if (status != SLUICE_OK)
        return status;
    pass->samples += batch->num_rows;
    pass->place.batch = batch->index + 1;
    sluice_loader_state(run->loader, pass->place.state);
    run->batch_now = pass->place.batch;
    return SLUICE_OK;
}

/* The trainer may still read rows that are on its device. */
static void release(struct run *run, const struct sluice_batch *batch)
{
    void *stream = sluice_trainer_stream(run->trainer);
    if (sluice_loader_device(run->loader) >= 0 && stream)
        sluice_batch_release_after(batch, stream);
    else
        sluice_batch_release(batch);
}

static sluice_status take_batch(struct run *run, struct pass *pass,
                                const struct sluice_batch *batch, uint32_t *labels,
                                struct sluice_err *err)
{
    const uint64_t start_ns = sluice_clock_ns();
    struct sluice_batch_entry entry = {
        .epoch = batch->epoch,
        .batch = batch->index,
        .is_evaluation = pass->part != SLUICE_TRAIN,
        .samples = batch->num_rows,
    };
    uint64_t wait_ns = 0;
    for (int i = 0; i < SLUICE_NUM_RESOURCES; i++) {
        entry.stall_ns[i] = batch->wait_ns[i];
        wait_ns += batch->wait_ns[i];
    }
    sluice_status status = step_without_rows(run, pass, batch->index, err);
    if (status == SLUICE_OK && !pass->is_stopped &&
        (pass->part != SLUICE_TRAIN || begin(run, pass)))
        status = step(run, pass, batch, labels, err);
    release(run, batch);
    if (pass->is_stopped)
        return status;
    struct sluice_train_totals totals = {0};
    if (status == SLUICE_OK)
        status = show_loss(run, &totals, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t print_freq = run->options->print_freq;
    if (print_freq && pass->place.batch % print_freq == 0 && sluice_log_is_enabled(SLUICE_LOG_INFO))
        log_progress(run, pass, &totals);
    entry.stall_ns[SLUICE_GPU] = sluice_clock_ns() - start_ns;
    run_note_batch(run, wait_ns, entry.stall_ns[SLUICE_GPU]);
    sluice_batch_log_add(run->batch_log, &entry);
    if (pass->part == SLUICE_TRAIN)
        run_save_in_epoch(run, &pass->place);
    return SLUICE_OK;
}

/* Passes the batches of the epoch that was started to the trainer. */
static sluice_status consume(struct run *run, struct pass *pass, struct sluice_err *err)
{
    uint32_t *labels = malloc(run->options->batch_size * sizeof(*labels));
    if (!labels)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a batch");
    sluice_status status = SLUICE_OK;
    const struct sluice_batch *batch = NULL;
    do {
        pass->is_stopped = run_should_stop(run);
        if (pass->is_stopped)
            break;
        struct sluice_err cause = {0};
        status = sluice_loader_next(run->loader, -1, &batch, &cause);
        if (status == SLUICE_E_CLOSED && sluice_quit_requested()) {
            status = SLUICE_OK;
            pass->is_stopped = true;
            break;
        }
        pass->has_lost_source = sluice_loader_has_lost_source(run->loader);
        if (status != SLUICE_OK)
            (void)sluice_fail(err, status, "%s", cause.text);
        else if (batch)
            status = take_batch(run, pass, batch, labels, err);
        else
            status = step_without_rows(run, pass, pass->end, err);
    } while (status == SLUICE_OK && batch && !pass->is_stopped);
    free(labels);
    return status;
}

static sluice_status start(struct run *run, const struct pass *pass, struct sluice_err *err)
{
    const struct place *place = &pass->place;
    const bool has_state = pass->part == SLUICE_TRAIN && place->state[0];
    const struct sluice_epoch_start epoch = {
        .part = pass->part,
        .epoch = place->epoch,
        .state = has_state ? place->state : NULL,
    };
    return sluice_loader_start(run->loader, &epoch, err);
}

/* One epoch of a part, from pass->place on.  Ends the loader's epoch in any case. */
static sluice_status run_pass(struct run *run, struct pass *pass, struct sluice_err *err)
{
    sluice_status status = start(run, pass, err);
    if (status != SLUICE_OK)
        return status;
    run_enter(run, TRAINING, 0);
    pass->start_ns = sluice_clock_ns();
    pass->num_batches = sluice_loader_num_batches(run->loader, pass->part);
    struct sluice_loader_pass at;
    sluice_loader_pass(run->loader, &at);
    /* A state at an epoch's end may be of another batch size. */
    pass->end = at.first < at.total ? pass->num_batches : pass->place.batch;
    if (pass->part == SLUICE_TRAIN) /* of the batch before, if none is left to train */
        pass->lr = lr_of(run->options, pass, pass->place.batch ? pass->place.batch - 1 : 0);
    run->epoch_now = pass->place.epoch;
    run->loss_now = run->top1_now = NAN;
    show_pass(run, pass);
    status = consume(run, pass, err);
    if (status != SLUICE_OK && pass->has_lost_source)
        let_ranks_stop(run);
    struct sluice_train_totals totals = {0};
    if (status == SLUICE_OK)
        status = sluice_trainer_collect(run->trainer, &totals, err);
    run_show_end(run);
    sluice_loader_finish(run->loader);
    if (status != SLUICE_OK || pass->is_stopped)
        return status;
    const struct sluice_learned learned = {
        .samples = run->learns ? totals.samples : 0,
        .loss_sum = totals.loss_sum,
        .top1 = totals.top1,
        .top5 = totals.top5,
        .lr = pass->lr,
        .is_deterministic = true,
    };
    sluice_loader_learned(run->loader, pass->part, &learned);
    return SLUICE_OK;
}

/* A report that cannot be printed is kept, and tried again with the next one. */
static sluice_status print_report(struct run *run, enum sluice_part part, struct sluice_err *err)
{
    if (run->is_follower)
        return SLUICE_OK;
    char text[SLUICE_MAX_SUMMARY];
    sluice_status status = sluice_loader_summary(run->loader, part, true, text, err);
    if (status != SLUICE_OK)
        return status;
    sluice_log(SLUICE_LOG_DEBUG, "%s", text);
    status = sluice_loader_summary(run->loader, part, false, text, err);
    if (status != SLUICE_OK)
        return status;
    if (run->options->is_json) {
        const size_t first = strcspn(text, "\n");
        const char *second = text + first + 1;
        sluice_log(SLUICE_LOG_INFO, "%.*s", (int)first, text);
        second += strspn(second, " ");
        sluice_log(SLUICE_LOG_INFO, "%.*s", (int)strcspn(second, "\n"), second);
        char *line = NULL;
        struct sluice_err cause = {0};
        if (sluice_loader_stats(run->loader, part, &line, &cause) == SLUICE_OK) {
            sluice_line_writer_add(run->out, line);
            sluice_line_writer_add(run->out, "\n");
        } else {
            sluice_log(SLUICE_LOG_WARN, "%s", cause.text);
        }
        sluice_free(line);
    } else {
        sluice_line_writer_add(run->out, text);
    }
    sluice_line_writer_flush(run->out);
    return SLUICE_OK;
}

sluice_status run_evaluation(struct run *run, uint64_t epoch, bool *is_stopped,
                             struct sluice_err *err)
{
    struct pass pass = {.part = SLUICE_VAL, .place = {.epoch = epoch}};
    const sluice_status status = run_pass(run, &pass, err);
    *is_stopped = pass.is_stopped;
    return status == SLUICE_OK && !pass.is_stopped ? print_report(run, SLUICE_VAL, err) : status;
}

sluice_status run_one_epoch(struct run *run, struct place *place, bool *is_stopped,
                            bool *has_lost_source, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct pass train = {.part = SLUICE_TRAIN, .place = *place};
    struct pass val = {.part = SLUICE_VAL, .place = {.epoch = place->epoch}};
    sluice_status status = run_pass(run, &train, err);
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
    struct place after = {.epoch = place->epoch + 1};
    sluice_loader_state(run->loader, after.state);
    if (o->has_val && run->learns && run->dataset->num_samples[SLUICE_VAL] > 0 &&
        !o->is_profiling) {
        val.lr = train.lr;
        status = run_pass(run, &val, err);
        *has_lost_source = val.has_lost_source;
    }
    *is_stopped = val.is_stopped;
    if (status == SLUICE_OK && !val.is_stopped) {
        *place = after;
        run_save(run, place);
    }
    const sluice_status printed = print_report(run, SLUICE_TRAIN, err);
    return status == SLUICE_OK ? printed : status;
}
