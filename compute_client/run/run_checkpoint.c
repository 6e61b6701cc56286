#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/noted_alloc.h"

#include <jansson.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nanoseconds after which a checkpoint that could not be written is tried again in mid-epoch. */
#define RETRY_NS 30000000000u

/* Counts by status, those that are not 0. */
static json_t *errors_json(const struct place *place)
{
    json_t *errors = json_object();
    for (size_t i = 0; i < SLUICE_NUM_STATUS; i++) {
        if (place->errors[i])
            json_object_set_new(errors, sluice_status_name((sluice_status)i),
                                json_integer((json_int_t)place->errors[i]));
    }
    return errors;
}

/* A checkpoint of an earlier version has none. */
static void read_errors(const json_t *extra, struct place *place)
{
    const json_t *errors = json_object_get(extra, "errors");
    for (size_t i = 0; i < SLUICE_NUM_STATUS; i++) {
        const json_int_t count =
            json_integer_value(json_object_get(errors, sluice_status_name((sluice_status)i)));
        place->errors[i] = count > 0 ? (uint64_t)count : 0;
    }
}

static sluice_status write_checkpoint(struct run *run, const struct place *place,
                                      struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    /* Weights that are lost to a loss of NaN must not replace good ones. */
    struct sluice_train_totals totals;
    sluice_status status = sluice_trainer_progress(run->trainer, &totals, err);
    if (status != SLUICE_OK)
        return status;
    char fingerprint[20];
    snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64,
             sluice_pipeline_fingerprint(run->loader->train.pipeline));
    sluice_noted_begin();
    json_t *extra = json_pack(
        "{s:I, s:I, s:s, s:I, s:I, s:I, s:s, s:s}", "epoch", (json_int_t)place->epoch, "batch",
        (json_int_t)place->batch, "arch", o->arch, "batch_size", (json_int_t)o->batch_size,
        "repeat", (json_int_t)o->repeat, "samples", (json_int_t)run->loader->train.num_ids,
        "dataset", run->loader->dataset_id, "pipeline", fingerprint);
    char seed[24];
    snprintf(seed, sizeof(seed), "%" PRIu64, o->seed); /* 64 bits do not fit a JSON integer */
    if (extra)
        json_object_set_new(extra, "seed", json_string(seed));
    if (extra)
        json_object_set_new(extra, "errors", errors_json(place));
    char *text = extra ? json_dumps(extra, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(extra);
    if (!text || sluice_noted_is_short()) {
        free(text);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a checkpoint");
    }
    status = sluice_trainer_save(run->trainer, o->checkpoint, text, err);
    free(text);
    return status;
}

sluice_status run_try_checkpoints(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct sluice_err cause = {0};
    if (o->resume && access(o->resume, R_OK) != 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO,
                           "--resume %s: %s", o->resume, strerror(errno));
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

static sluice_status check_same(const char *path, const char *what, const char *then,
                                const char *now, struct sluice_err *err)
{
    if (then && strcmp(then, now) == 0)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s was made with %s %s, and this is %s", path, what,
                       then ? then : "unknown", now);
}

static sluice_status check_same_number(const char *path, const char *what, const json_t *extra,
                                       uint64_t now, struct sluice_err *err)
{
    const json_int_t then = json_integer_value(json_object_get(extra, what));
    if (then == (json_int_t)now)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s was made with %s %lld, and this is %llu", path,
                       what, (long long)then, (unsigned long long)now);
}

/* Checks that this run delivers the same batches as the run that wrote the checkpoint. */
static sluice_status check_extra(const struct run *run, const json_t *extra, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    char seed[24], fingerprint[20];
    snprintf(seed, sizeof(seed), "%" PRIu64, o->seed);
    snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64,
             sluice_pipeline_fingerprint(run->loader->train.pipeline));
    sluice_status status =
        check_same(o->resume, "seed", json_string_value(json_object_get(extra, "seed")), seed, err);
    if (status == SLUICE_OK)
        status =
            check_same(o->resume, "dataset", json_string_value(json_object_get(extra, "dataset")),
                       run->loader->dataset_id, err);
    if (status == SLUICE_OK)
        status =
            check_same(o->resume, "pipeline", json_string_value(json_object_get(extra, "pipeline")),
                       fingerprint, err);
    if (status == SLUICE_OK)
        status = check_same_number(o->resume, "batch_size", extra, o->batch_size, err);
    if (status == SLUICE_OK)
        status = check_same_number(o->resume, "repeat", extra, o->repeat, err);
    if (status == SLUICE_OK)
        status = check_same_number(o->resume, "samples", extra, run->loader->train.num_ids, err);
    return status;
}

sluice_status run_resume(struct run *run, struct place *place, struct sluice_err *err)
{
    const char *path = run->options->resume;
    char *text = NULL;
    sluice_status status = sluice_trainer_load(run->trainer, path, &text, err);
    if (status != SLUICE_OK)
        return status;
    sluice_noted_begin();
    json_t *extra = json_loads(text ? text : "", 0, NULL);
    free(text);
    if (sluice_noted_is_short()) {
        json_decref(extra);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory to read it", path);
    }
    const json_t *epoch = json_object_get(extra, "epoch");
    const json_t *batch = json_object_get(extra, "batch");
    if (!json_is_integer(epoch) || !json_is_integer(batch) || json_integer_value(epoch) < 0 ||
        json_integer_value(batch) < 0) {
        json_decref(extra);
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s does not say where its run stood", path);
    }
    *place = (struct place){
        .epoch = (uint64_t)json_integer_value(epoch),
        .batch = (uint64_t)json_integer_value(batch),
    };
    read_errors(extra, place);
    run->saved = *place;
    /* Another file lacks everything. */
    if (!run->options->checkpoint || strcmp(path, run->options->checkpoint) != 0)
        run->saved.epoch = UINT64_MAX;
    /* An evaluation needs only the weights. */
    if (!run->options->is_evaluate)
        status = check_extra(run, extra, err);
    json_decref(extra);
    if (status == SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "%s: going on at epoch %llu, batch %llu", path,
                   (unsigned long long)place->epoch, (unsigned long long)place->batch);
    return status;
}
