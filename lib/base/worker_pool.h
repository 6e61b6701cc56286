#ifndef SLUICE_BASE_WORKER_POOL_H
#define SLUICE_BASE_WORKER_POOL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A fixed number of threads behind a bounded queue.
 *
 * The storage server runs offloaded ops on one, the compute client runs the remaining ops on
 * another.  The queue is bounded so that overload becomes SLUICE_E_AGAIN at submission, not growing
 * memory.
 *
 * The promise: an accepted job is called exactly once, either with SLUICE_JOB_RUN or with
 * SLUICE_JOB_CANCEL.  So a job may own resources and release them in its function.
 *
 * In a process of normal priority, workers run as SCHED_BATCH, so that waking one does not preempt
 * the submitting thread.
 *
 * Threads: every function may be called from any thread, except where noted. */

struct sluice_worker_pool;
struct sluice_job;

enum sluice_job_fate {
    SLUICE_JOB_RUN,    /* on a worker: do the work */
    SLUICE_JOB_CANCEL, /* on the destroying thread: only release and report */
};

/* `worker` is this thread's state from worker_start; NULL with SLUICE_JOB_CANCEL.
 * The pool does not touch `job` after the call, so the function may free it. */
typedef void sluice_job_fn(struct sluice_job *job, enum sluice_job_fate fate, void *worker);

/* Embed one in the struct that describes the work: submitting allocates
 * nothing and so cannot run out of memory. */
struct sluice_job {
    sluice_job_fn *fn;
    struct sluice_job *next; /* the pool's, while the job is queued */
};

struct sluice_worker_pool_options {
    const char *name;      /* threads are called "<name>-<n>" in top and gdb */
    unsigned num_workers;  /* 0: one for each CPU this process may use */
    size_t queue_capacity; /* jobs that wait, running ones not counted; >= 1 */
    /* The most workers that sluice_worker_pool_stand_in() may start in addition to these. */
    unsigned max_stand_ins;

    /* Per-thread state, such as a JPEG decompressor and its scratch memory.
     * Both run on the worker itself, so the state needs no lock.  Optional. */
    sluice_status (*worker_start)(void *ctx, unsigned index, void **worker);
    void (*worker_stop)(void *ctx, void *worker);
    void *ctx; /* borrowed for the life of the pool */
};

struct sluice_worker_pool_stats {
    uint64_t submitted, rejected, run, cancelled;
    uint64_t busy_ns;   /* CPU time of finished jobs, all workers: cores used = busy_ns / elapsed */
    size_t queue_depth; /* at this moment */
    unsigned num_workers; /* at this moment, stand-ins included */
    size_t queue_peak;
};

/* Starts all workers before it returns.  If a thread or a worker_start fails,
 * those already started are stopped, *pool stays untouched and err says why. */
SLUICE_MUST_USE sluice_status
sluice_worker_pool_create(const struct sluice_worker_pool_options *options,
                          struct sluice_worker_pool **pool, struct sluice_err *err);

/* Queues `job`.  SLUICE_OK: the pool has it now.  SLUICE_E_AGAIN (full) and
 * SLUICE_E_CLOSED: it is still the caller's and its function will not be called. */
SLUICE_MUST_USE sluice_status sluice_worker_pool_try_submit(struct sluice_worker_pool *pool,
                                                            struct sluice_job *job);

/* Replaces num_stuck workers that hang in their jobs by the same number of stand-ins, at most
 * max_stand_ins.  Surplus stand-ins end once they are idle.  SLUICE_E_IO: not all could be started;
 * call it again.  One thread at a time. */
SLUICE_MUST_USE sluice_status sluice_worker_pool_stand_in(struct sluice_worker_pool *pool,
                                                          unsigned num_stuck,
                                                          struct sluice_err *err);

/* Refuses new jobs from here on.  Returns at once; may be called twice. */
void sluice_worker_pool_close(struct sluice_worker_pool *pool);

enum sluice_pool_end {
    SLUICE_POOL_DRAIN,   /* run what is queued, then stop */
    SLUICE_POOL_ABANDON, /* cancel what is queued, then let running jobs finish */
};

/* Closes the pool, settles every queued job, joins every worker and frees the
 * pool.  NULL is allowed.  Not from a job, and not concurrently with any other call. */
void sluice_worker_pool_destroy(struct sluice_worker_pool *pool, enum sluice_pool_end end);

/* Sets the calling thread to a worker's scheduling: SCHED_BATCH, in a process of normal priority.
 */
void sluice_worker_stand_back(void);

struct sluice_worker_pool_stats sluice_worker_pool_stats(struct sluice_worker_pool *pool);

#endif
