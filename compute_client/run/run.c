#include "compute_client/run/run_state.h"

#include "base/log.h"
#include "base/quit.h"

#include <stdlib.h>

static sluice_status begin_profile(struct run *run, struct sluice_err *err)
{
    run->profile.rows = calloc(run->train.num_ids, sizeof(*run->profile.rows));
    if (!run->profile.rows)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a profile of %zu samples",
                           run->train.num_ids);
    run->profile.num_rows = run->train.num_ids;
    run->profile.num_stages = sluice_pipeline_num_ops(run->train.pipeline) + 1;
    return SLUICE_OK;
}

static sluice_status run_all(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    struct place place = {.epoch = o->start_epoch};
    sluice_status status = run_make_pipelines(run, err);
    if (status == SLUICE_OK)
        status = run_open_data(run, err);
    if (status == SLUICE_OK)
        status = run_make_trainer(run, err);
    if (status == SLUICE_OK)
        status = run_choose(run, err);
    if (status == SLUICE_OK && o->resume)
        status = run_resume(run, &place, err);
    if (status == SLUICE_OK)
        status = sluice_buf_pool_create((size_t)o->prefetch_bytes / 2, &run->pool, err);
    if (status == SLUICE_OK)
        status = run_make_loader(run, err);
    if (status == SLUICE_OK && o->batch_log)
        status = sluice_batch_log_open(o->batch_log, &run->batch_log, err);
    if (status != SLUICE_OK)
        return status;
    if (o->is_evaluate)
        return run_evaluation(run, place.epoch, err);
    if (o->is_profiling) {
        bool is_stopped = false;
        status = begin_profile(run, err);
        if (status == SLUICE_OK)
            status = run_one_epoch(run, &place, &is_stopped, err);
        if (status == SLUICE_OK && !is_stopped)
            status = run_profile_write(run, &is_stopped, err);
        return status;
    }
    if (place.epoch >= o->epochs)
        sluice_log(SLUICE_LOG_WARN, "nothing to do: %llu epochs are done, and --epochs is %llu",
                   (unsigned long long)place.epoch, (unsigned long long)o->epochs);
    bool is_stopped = false;
    while (status == SLUICE_OK && !is_stopped && place.epoch < o->epochs)
        status = run_one_epoch(run, &place, &is_stopped, err);
    return status;
}

static void part_close(struct part *part)
{
    if (part->source)
        part->source->close(part->source);
}

static void part_clear(struct part *part)
{
    if (part->source)
        part->source->destroy(part->source);
    sluice_pipeline_destroy(part->pipeline);
    free(part->ids);
    free(part->choices);
}

sluice_status sluice_run(const struct sluice_options *options, struct sluice_err *err)
{
    struct run run = {
        .options = options,
        .train.name = "train",
        .val.name = "val",
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    sluice_status status = run_start_watcher(&run, err);
    if (status == SLUICE_OK)
        status = run_all(&run, err);
    const sluice_status closed =
        sluice_batch_log_close(run.batch_log, status == SLUICE_OK ? err : NULL);
    if (status == SLUICE_OK)
        status = closed;
    /* A call that a stop interrupted has not failed. */
    if (status == SLUICE_E_CLOSED && sluice_quit_requested())
        status = SLUICE_OK;
    run_stop_watcher(&run);
    part_close(&run.train);
    part_close(&run.val);
    sluice_loader_destroy(run.loader);
    part_clear(&run.train);
    part_clear(&run.val);
    sluice_client_destroy(run.client);
    sluice_replan_destroy(run.replan);
    sluice_trainer_destroy(run.trainer);
    sluice_buf_pool_destroy(run.pool);
    sluice_cost_table_clear(&run.profile);
    sluice_manifest_destroy(run.manifest);
    pthread_mutex_destroy(&run.lock);
    return status;
}
