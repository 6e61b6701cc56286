#ifndef SLUICE_COMPUTE_CLIENT_RUN_RUN_STATE_H
#define SLUICE_COMPUTE_CLIENT_RUN_RUN_STATE_H

#include "compute_client/run/run.h"

#include "base/buf.h"
#include "base/line_writer.h"
#include "compute_client/load/batch_log.h"
#include "compute_client/load/client.h"
#include "compute_client/load/live.h"
#include "compute_client/load/prefetcher.h"
#include "compute_client/replan/replan.h"
#include "compute_client/run/live_line.h"
#include "metrics/metrics_server.h"
#include "train/train.h"

#include <pthread.h>

/* Private to the files behind sluice_run().
 *
 *     run.c             the steps of a run, in order
 *     run_watch.c       the thread that waits for signals
 *     run_open.c        pipelines, data, trainer, prefetcher, sources
 *     run_choose.c      the plan: each sample's choice
 *     run_checkpoint.c  writes and reads checkpoints
 *     run_epoch.c       the batches of an epoch, and its report
 *     run_show.c        the thread that shows how an epoch goes
 *     run_metrics.c     what --metrics serves
 *     run_profile.c     what --profiling writes
 *     run_profile_forms.c  what --profiling measures after its epoch
 *
 * Threads: the main one, except where noted. */

/* One subset of the dataset, with its pipeline and its source. */
struct part {
    const char *name;
    struct sluice_pipeline *pipeline;
    uint32_t *ids;
    size_t num_ids, num_total; /* after and before --limit-samples */
    struct sluice_choice *choices;
    struct sluice_source *source;
};

/* What ends with the process, if it hangs (run_watch.c). */
enum stage { STARTING, TRAINING, CLOSING };

/* How far a run is, as stored in its checkpoint. */
struct place {
    uint64_t epoch, batch;              /* the next to train */
    uint64_t errors[SLUICE_NUM_STATUS]; /* samples of this epoch that failed so far */
};

/* What the terminal, or the log, shows of a pass over samples. */
struct run_shown {
    char what[64], what_brief[32], detail[48]; /* "epoch 0"; for narrow terminals, "": the same */
    uint64_t first, total; /* samples: those before the first that comes, and all */
    uint64_t more;         /* samples that come after these; for the time that is left */
    bool continues;        /* the pass before: its rates still hold */
};

struct run_show {
    pthread_mutex_t lock;
    struct run_shown shown;
    struct sluice_live_meter meter;
    bool is_over;
    pthread_cond_t changed; /* is_over */

    pthread_t thread; /* the main thread's */
    bool has_thread;
};

/* What --metrics serves, beside sluice_live. */
struct run_times {
    pthread_mutex_t lock;               /* a leaf; taken once for each batch */
    struct sluice_histogram wait, step; /* of a batch: the trainer's wait for it, and its work */
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
    struct sluice_prefetcher *prefetcher;
    struct sluice_replan *replan;       /* NULL: the parts' choices hold for all epochs */
    struct sluice_batch_log *batch_log; /* NULL: not asked for */
    struct sluice_line_writer *out;     /* the standard output */
    struct sluice_cost_table profile;
    struct sluice_live live; /* for the terminal and the metrics */
    struct run_show show;
    struct run_times times;
    uint64_t started_ns;
    struct sluice_metrics_server *metrics; /* NULL: not asked for */

    pthread_t watcher;
    bool has_watcher;
    _Atomic uint64_t batch_now; /* of the epoch that live tells; for SIGUSR1 */
    pthread_mutex_t lock;       /* client, loader and what follows, for the watcher */
    bool is_stopping;
    enum stage stage;
    int exit_code;         /* in stage CLOSING */
    bool is_over;          /* the watcher has to end */
    pthread_cond_t staged; /* stage or is_over changed */

    /* What --checkpoint's file has and lacks; the main thread's. */
    struct place saved;        /* what it has, or what needs no saving */
    struct sluice_err unsaved; /* why the last attempt failed; empty: it did not */
    uint64_t batches_unsaved, tried_ns;
};

/* The watcher thread stops the run, or logs its progress, on a signal.  A run that does not end
 * by itself soon after it was stopped while starting, or while closing, is ended. */
SLUICE_MUST_USE sluice_status run_start_watcher(struct run *run, struct sluice_err *err);
void run_stop_watcher(struct run *run);
/* exit_code: of stage CLOSING. */
void run_enter(struct run *run, enum stage stage, int exit_code);

/* Register the client and the loader with the watcher, so that it can stop them. */
void run_set_client(struct run *run, struct sluice_client *client);
void run_set_prefetcher(struct run *run, struct sluice_prefetcher *prefetcher);

/* Call these in this order, before the first epoch. */
SLUICE_MUST_USE sluice_status run_make_pipelines(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_open_data(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_make_trainer(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_choose(struct run *run, struct sluice_err *err);
SLUICE_MUST_USE sluice_status run_make_prefetcher(struct run *run, struct sluice_err *err);

/* Creates the part's source on the first call. */
SLUICE_MUST_USE sluice_status run_make_source(struct run *run, struct part *part,
                                              struct sluice_err *err);

/* Before a server is waited for: whether --resume's file can be read, and --checkpoint's be written
 * where it is. */
SLUICE_MUST_USE sluice_status run_try_checkpoints(struct run *run, struct sluice_err *err);
/* Writes the checkpoint if there is something to save.  A failure is a warning, is tried again, and
 * is left in run->unsaved. */
void run_save(struct run *run, const struct place *place);
/* A batch was trained, and *place is after it: writes the checkpoint if it is time. */
void run_save_in_epoch(struct run *run, const struct place *place);
SLUICE_MUST_USE sluice_status run_resume(struct run *run, struct place *place,
                                         struct sluice_err *err);

/* Serves --metrics, if asked for, until run->metrics is destroyed. */
SLUICE_MUST_USE sluice_status run_serve_metrics(struct run *run, struct sluice_err *err);
/* The trainer waited for a batch so long, and worked on it so long. */
void run_note_batch(struct run *run, uint64_t wait_ns, uint64_t step_ns);

/* Keeps those of an epoch's items that are to be profiled; returns their number. */
size_t run_profile_pick(const struct run *run, struct sluice_sampler_item *items, size_t count);
/* After the epoch that filled run->profile: measures its samples in every form, and writes the
 * profile. */
SLUICE_MUST_USE sluice_status run_profile_write(struct run *run, bool *is_stopped,
                                                struct sluice_err *err);

/* Shows the epoch of a profile, as the first of its parts. */
void run_profile_show(struct run *run, uint64_t num_samples);

/* Shows the progress of what comes now, as one live line on a terminal, as a line every few seconds
 * elsewhere; nothing if nobody wants it (--print-freq, --log-level). */
void run_show_init(struct run *run);
void run_show(struct run *run, const struct run_shown *shown);
void run_show_end(struct run *run); /* before anything else goes to the terminal's stdout */
void run_show_clear(struct run *run);

/* Evaluates the val subset, and reports. */
SLUICE_MUST_USE sluice_status run_evaluation(struct run *run, uint64_t epoch, bool *is_stopped,
                                             struct sluice_err *err);
/* Trains one epoch, evaluates, writes a checkpoint and reports.  Advances *place. *has_lost_source:
 * after a failure, what was trained up to *place is good and can go on later. */
SLUICE_MUST_USE sluice_status run_one_epoch(struct run *run, struct place *place, bool *is_stopped,
                                            bool *has_lost_source, struct sluice_err *err);

#endif
