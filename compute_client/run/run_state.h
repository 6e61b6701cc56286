#ifndef SLUICE_COMPUTE_CLIENT_RUN_RUN_STATE_H
#define SLUICE_COMPUTE_CLIENT_RUN_RUN_STATE_H

#include "compute_client/run/run.h"

#include "base/buf.h"
#include "compute_client/load/batch_log.h"
#include "compute_client/load/client.h"
#include "compute_client/load/loader.h"
#include "compute_client/replan/replan.h"
#include "train/train.h"

#include <pthread.h>

/* What the files behind sluice_run() share; nobody else includes this.
 *
 *     run.c             the order of everything
 *     run_watch.c       the watcher of signals
 *     run_open.c        pipelines, data, trainer, loader, sources
 *     run_choose.c      what each sample is asked for
 *     run_checkpoint.c  where a run stands, written and read
 *     run_epoch.c       the batches of an epoch, and its report
 *     run_profile.c     what --profiling writes
 *     run_profile_forms.c  what it measures beside its epoch
 *
 * Threads: the main one, except where noted. */

/* One subset of the dataset, and the way its samples come. */
struct part {
    const char *name;
    struct sluice_pipeline *pipeline;
    uint32_t *ids;
    size_t num_ids, num_total; /* after and before --limit-samples */
    struct sluice_choice *choices;
    struct sluice_source *source;
};

struct run {
    const struct sluice_options *options;
    struct sluice_client *client; /* NULL: local */
    struct sluice_server_info info;
    struct sluice_manifest *manifest;
    char dataset_id[33];
    struct part train, val;
    struct sluice_buf_pool *pool;
    struct sluice_trainer *trainer;
    bool learns;
    struct sluice_loader *loader;
    struct sluice_replan *replan;       /* NULL: the parts' choices are for all epochs */
    struct sluice_batch_log *batch_log; /* NULL: none is wanted */
    struct sluice_cost_table profile;

    pthread_t watcher;
    bool has_watcher;
    _Atomic uint64_t epoch_now, batches_now, samples_now; /* for SIGUSR1; each by itself */
    pthread_mutex_t lock;                                 /* client and loader, for the watcher */
    bool is_stopping;
};

/* Where a run stands, as its checkpoint says. */
struct place {
    uint64_t epoch, batch; /* the next */
};

/* The watcher ends a run at a signal, or tells how far it is. */
SLUICE_MUST_USE sluice_status run_start_watcher(struct run *run, struct sluice_err *err);
void run_stop_watcher(struct run *run);

/* Known to the watcher, so that a stop reaches them. */
void run_set_client(struct run *run, struct sluice_client *client);
void run_set_loader(struct run *run, struct sluice_loader *loader);

/* In this order, before the first epoch. */
SLUICE_MUST_USE sluice_status run_make_pipelines(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_open_data(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_make_trainer(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_choose(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_make_loader(struct run *run, struct sluice_err *err);

/* The part's source; made by the first call. */
SLUICE_MUST_USE sluice_status run_make_source(struct run *run, struct part *part,
                                              struct sluice_err *err);

SLUICE_MUST_USE sluice_status run_save(struct run *run, struct place place, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_resume(struct run *run, struct place *place,
                                         struct sluice_err *err);

/* Of an epoch's items those that are to be profiled: how many are left. */
size_t run_profile_pick(const struct run *run, struct sluice_sampler_item *items, size_t count);
/* After the epoch that filled run->profile: asks for its samples in every form, and writes all. */
SLUICE_MUST_USE sluice_status run_profile_write(struct run *run, bool *is_stopped,
                                                struct sluice_err *err);

/* The val subset alone, and its report. */
SLUICE_MUST_USE sluice_status run_evaluation(struct run *run, uint64_t epoch,
                                             struct sluice_err *err);
/* One epoch, its evaluation, its report and its checkpoint.  *place moves on. */
SLUICE_MUST_USE sluice_status run_one_epoch(struct run *run, struct place *place, bool *is_stopped,
                                            struct sluice_err *err);

#endif
