#ifndef SLUICE_COMPUTE_CLIENT_RUN_RUN_STATE_H
#define SLUICE_COMPUTE_CLIENT_RUN_RUN_STATE_H

#include "base/line_writer.h"
#include "compute_client/run/batch_log.h"
#include "compute_client/run/live_line.h"
#include "compute_client/run/run.h"
#include "metrics/metrics_server.h"
#include "sluice/lend.h"
#include "sluice/sluice.h"
#include "train/lockstep.h"
#include "train/train.h"

#include <pthread.h>

/* Private to the files behind sluice_run().
 *
 *     run.c             the steps of a run, in order
 *     launch.c          the ranks of --gpus, each a process with a run of its own
 *     run_watch.c       the thread that waits for signals
 *     run_ranks.c       what joined ranks do together
 *     run_trainer.c     the trainer, and its memory for batches
 *     run_lend.c        lends the GPU
 *     lend_probe.c      whether that works, in a process of its own
 *     run_checkpoint.c  writes and reads checkpoints
 *     run_epoch.c       the batches of an epoch, and its report
 *     run_show.c        the thread that shows how an epoch goes
 *     run_metrics.c     what --metrics serves
 *
 * Threads: the main one, except where noted. */

/* The steps after which a hang ends the process (run_watch.c). */
enum stage { STARTING, TRAINING, CLOSING };

/* How far a run is, as stored in its checkpoint. */
struct place {
    uint64_t epoch, batch;        /* the next to train */
    char state[SLUICE_MAX_STATE]; /* the loader's; "": a new run's beginning */
};

struct run_show {
    pthread_mutex_t lock;
    char what[96], what_brief[32]; /* "evaluation of epoch 0"; for narrow terminals */
    uint64_t number;               /* of the loader's pass that the meter measures */
    struct sluice_live_meter meter;
    bool is_over;
    pthread_cond_t changed; /* is_over */

    pthread_t thread; /* the main thread's */
    bool has_thread;
};

/* Values that --metrics serves in addition to the loader's counters. */
struct run_times {
    pthread_mutex_t lock;               /* a leaf; taken once for each batch */
    struct sluice_histogram wait, step; /* of a batch: the trainer's wait for it, and its work */
};

struct run {
    const struct sluice_options *options;
    struct sluice_options own; /* what options points to */
    bool is_follower;          /* another rank writes the checkpoint, and reports */
    const struct sluice_loader_settings *settings;
    struct sluice_loader *loader;              /* the watcher looks at it under the lock below */
    const struct sluice_dataset_info *dataset; /* the loader's */
    struct sluice_trainer *trainer;
    bool learns;
    struct sluice_lend *_Atomic lend; /* NULL: not lent, or not yet; other threads look on */
    int lend_device;                  /* -1: none, and steps wait in their place */
    sluice_status lend_tried;
    struct sluice_err lend_cannot;      /* why it failed */
    struct sluice_lockstep lockstep;    /* set up under the lock below, if ranks are joined */
    struct sluice_batch_log *batch_log; /* NULL: not asked for */
    struct sluice_line_writer *out;     /* the standard output */
    struct run_show show;
    struct run_times times;
    uint64_t started_ns;
    struct sluice_metrics_server *metrics; /* NULL: not asked for */

    pthread_t watcher;
    bool has_watcher;
    /* For other threads that look on; of the epoch so far, NaN: nothing was learned yet. */
    _Atomic uint64_t epoch_now, batch_now;
    _Atomic double loss_now, top1_now;
    pthread_mutex_t lock; /* what follows, for the watcher */
    enum stage stage;
    int exit_code;         /* in stage CLOSING */
    bool is_over;          /* the watcher has to end */
    pthread_cond_t staged; /* stage or is_over changed */

    /* The state of --checkpoint's file; the main thread's. */
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

/* Leaves the checkpoint, the batch log, the reports and the live line to rank 0.  Before they
 * begin. */
void run_follow(struct run *run);
/* After the trainer, which averages gradients over the ranks: they stop after the same step, and
 * the others follow rank 0. */
SLUICE_MUST_USE sluice_status run_join_ranks(struct run *run, struct sluice_err *err);
/* Whether a stop ends the run here: at once, or with joined ranks after the last step that one of
 * them has begun.  Any thread. */
bool run_should_stop(struct run *run);

/* --lend: tries whether the GPU can be lent, while its memory is free. */
void run_try_lend(struct run *run);
/* After all that measures the GPU or fills it.  Points pass until then. */
SLUICE_MUST_USE sluice_status run_open_lend(struct run *run, struct sluice_err *err);
/* A point of the trainer (train.h); data: the run. */
SLUICE_MUST_USE sluice_status run_lend_point(void *data, void *stream, struct sluice_err *err);
/* The GPU is lent no more, and nothing waits for a borrower.  Any number of times; another thread
 * than the main one holds the lock. */
void run_stop_lend(struct run *run);
void run_close_lend(struct run *run); /* after the trainer and the loader */

/* When the dataset is known; joins the ranks. */
SLUICE_MUST_USE sluice_status run_make_trainer(struct run *run, struct sluice_err *err);
/* Batches live in the trainer's memory. */
SLUICE_MUST_USE sluice_status run_set_memory(struct run *run, struct sluice_err *err);

/* Before a server is waited for: whether the file of --resume or --init can be read, and
 * --checkpoint's be written where it is. */
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
/* Adds the time that the trainer waited for a batch, and that it worked on it. */
void run_note_batch(struct run *run, uint64_t wait_ns, uint64_t step_ns);

/* Shows the progress of the loader's passes from now on, as one live line on a terminal, as a line
 * every few seconds elsewhere; nothing if nobody wants it (--print-freq, --log-level).  `what` is
 * for passes without a name of their own. */
void run_show_init(struct run *run);
void run_show(struct run *run, const char *what, const char *what_brief);
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
