#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nanoseconds after which a checkpoint that could not be written is tried again in mid-epoch. */
#define RETRY_NS 30000000000u

static sluice_status write_checkpoint(struct run *run, const struct place *place,
                                      struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    /* Weights that are lost to a loss of NaN must not replace good ones. */
    struct sluice_train_totals totals;
    sluice_status status = sluice_trainer_progress(run->trainer, &totals, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_trainer_save(run->trainer, o->checkpoint, place->state, err);
}

sluice_status run_try_checkpoints(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct sluice_err cause = {0};
    const char *weights = o->resume ? o->resume : o->init;
    if (weights && access(weights, R_OK) != 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "--%s %s: %s",
                           o->resume ? "resume" : "init", weights, strerror(errno));
    if (!o->checkpoint)
        return SLUICE_OK;
    const sluice_status status = sluice_file_try_atomic(o->checkpoint, &cause);
    return status == SLUICE_OK ? SLUICE_OK
                               : sluice_fail(err, status, "--checkpoint %s", cause.text);
}

void run_save(struct run *run, const struct place *place)
{
    const bool is_saved = place->epoch == run->saved.epoch && place->batch == run->saved.batch;
    if (!run->options->checkpoint || is_saved)
        return;
    struct sluice_err cause = {0};
    const sluice_status status = write_checkpoint(run, place, &cause);
    run->tried_ns = sluice_clock_ns();
    run->unsaved = (struct sluice_err){0};
    if (status == SLUICE_OK) {
        run->saved = *place;
        run->batches_unsaved = 0;
        return;
    }
    (void)sluice_fail(&run->unsaved, status, "the last checkpoint is missing: %s", cause.text);
    sluice_log(SLUICE_LOG_WARN, "no checkpoint of epoch %llu, batch %llu: %s; training goes on",
               (unsigned long long)place->epoch, (unsigned long long)place->batch, cause.text);
}

void run_save_in_epoch(struct run *run, const struct place *place)
{
    const struct sluice_options *o = run->options;
    run->batches_unsaved++;
    if (!o->checkpoint)
        return;
    const uint64_t now = sluice_clock_ns();
    if (run->tried_ns == 0)
        run->tried_ns = now; /* time is counted from the first batch */
    const double since_s = (double)(now - run->tried_ns) * 1e-9;
    const bool is_due = (o->checkpoint_batches && run->batches_unsaved >= o->checkpoint_batches) ||
                        (o->checkpoint_s > 0 && since_s >= o->checkpoint_s);
    const bool is_failing = run->unsaved.text[0];
    if (is_failing ? now - run->tried_ns >= RETRY_NS : is_due)
        run_save(run, place);
}

/* The text of a checkpoint as a place. */
static sluice_status read_place(const char *text, struct place *place, struct sluice_err *err)
{
    if (strlen(text) >= sizeof(place->state))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%zu bytes are too many", strlen(text));
    struct sluice_place at;
    const sluice_status status = sluice_state_place(text, &at, err);
    if (status != SLUICE_OK)
        return status;
    *place = (struct place){.epoch = at.epoch, .batch = at.batch};
    snprintf(place->state, sizeof(place->state), "%s", text);
    return SLUICE_OK;
}

sluice_status run_resume(struct run *run, struct place *place, struct sluice_err *err)
{
    const char *path = run->options->resume;
    char *text = NULL;
    sluice_status status = sluice_trainer_load(run->trainer, path, &text, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_err cause = {0};
    status = read_place(text ? text : "", place, &cause);
    free(text);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s does not say where its run stood: %s", path,
                           cause.text);
    if (!run->options->is_evaluate) /* which needs only the weights, of any dataset */
        status = sluice_loader_check_state(run->loader, place->state, &cause);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", path, cause.text);
    run->saved = *place;
    /* Another file lacks everything. */
    if (!run->options->checkpoint || strcmp(path, run->options->checkpoint) != 0)
        run->saved.epoch = UINT64_MAX;
    sluice_log(SLUICE_LOG_INFO, "%s: going on at epoch %llu, batch %llu", path,
               (unsigned long long)place->epoch, (unsigned long long)place->batch);
    return SLUICE_OK;
}
