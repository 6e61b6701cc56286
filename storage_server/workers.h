#ifndef SLUICE_STORAGE_SERVER_WORKERS_H
#define SLUICE_STORAGE_SERVER_WORKERS_H

#include "base/error.h"
#include "base/worker_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The server's two groups of threads, and the lines in front of them.
 *
 *     PREP   reads a file and preprocesses it; as many threads as cores may be spent
 *     IO     reads a file; where raw files come from, and where PREP's overflow goes
 *
 * Each connection has a line of its own in front of each group, and all get their turn
 * by what their jobs cost (fair_queue.h): one that asks for much makes itself wait.
 *
 * Nothing here ever blocks the submitter.  Who finds no room leaves a waiter and is
 * called back when there may be room; no call is lost between the two.
 *
 * Threads: any. */

struct sluice_workers;
struct sluice_buf_pool;
struct sluice_prep_limits;

enum sluice_worker_group { SLUICE_GROUP_PREP, SLUICE_GROUP_IO };

struct sluice_workers_options {
    unsigned prep_workers; /* 0: one for each core that they may use */
    unsigned io_workers;
    size_t queue; /* jobs that wait, in each group */
    uint64_t max_image_pixels;
    struct sluice_buf_pool *buffers;   /* borrowed */
    struct sluice_prep_limits *limits; /* of all workers; borrowed; NULL: none */
};

/* PREP's jobs get their thread's struct sluice_scratch as `worker`, IO's get NULL. */
SLUICE_MUST_USE sluice_status sluice_workers_create(const struct sluice_workers_options *options,
                                                    struct sluice_workers **workers,
                                                    struct sluice_err *err);

/* Runs what is queued, then joins.  Waiters that are left are called once more and find the
 * groups closed.  NULL is allowed. */
void sluice_workers_destroy(struct sluice_workers *workers);

/* A client's place in the lines: the same one for the same name (of a connection) as long as
 * somebody holds it.  NULL: no memory.  Give it back with sluice_workers_leave(). */
struct sluice_work_client;
SLUICE_MUST_USE struct sluice_work_client *sluice_workers_join(struct sluice_workers *workers,
                                                               const char *name);
/* From a job too.  NULL is allowed. */
void sluice_workers_leave(struct sluice_workers *workers, struct sluice_work_client *client);

/* From now on the client counts among those who follow the price (cpu_price.h). */
void sluice_workers_follow(struct sluice_workers *workers, struct sluice_work_client *client);

/* What a core more is worth to the client, as cpu_price.h has it; 0: nothing. */
void sluice_workers_hear_worth(struct sluice_workers *workers, struct sluice_work_client *client,
                               double worth);

/* As sluice_worker_pool_try_submit(); SLUICE_E_AGAIN also where this client has its part of the
 * places.  A job that was taken holds the client by itself. */
SLUICE_MUST_USE sluice_status sluice_workers_try(struct sluice_workers *workers,
                                                 struct sluice_work_client *client,
                                                 enum sluice_worker_group group,
                                                 struct sluice_job *job);

/* Every job calls this first, whatever its fate: a place in the queue is free. */
void sluice_workers_started(struct sluice_workers *workers);

/* Every job calls this once its work is done, if any was: the CPU ns of this worker's thread since
 * its last job called it, so the hand-over in between counts as the job's.  (One read of the CPU
 * clock, which is a call of the kernel, instead of two.) */
uint64_t sluice_workers_job_cpu_ns(void);

struct sluice_waiter {
    /* Called once per successful wait, from a worker, without a lock.  False: there was no
     * room after all and it waits again; others of its client are then not tried in vain. */
    bool (*fn)(struct sluice_waiter *waiter);
    struct sluice_waiter *next; /* private */
};

/* Take `moment` before a try; after SLUICE_E_AGAIN, wait with it.  False: a place became
 * free meanwhile, so try again at once. */
uint64_t sluice_workers_moment(struct sluice_workers *workers);
SLUICE_MUST_USE bool sluice_workers_wait(struct sluice_workers *workers,
                                         struct sluice_work_client *client,
                                         struct sluice_waiter *waiter, uint64_t moment);

/* The cores that PREP may use: what its threads may run on and what limits and control groups leave
 * them, and no more than there are threads.  Read by a thread of the workers' own, at most a second
 * ago: who asks opens no files (core_watch.h). */
double sluice_workers_prep_cores(const struct sluice_workers *workers);
struct sluice_worker_pool_stats sluice_workers_stats(struct sluice_workers *workers,
                                                     enum sluice_worker_group group);

/* What every message tells of PREP's cores.  Cheap: the price is updated every 50 ms at most, by
 * whoever asks for it. */
struct sluice_workers_offer {
    double cpu_price; /* cpu_price.h */
    double prep_cores;
};
struct sluice_workers_offer sluice_workers_offer(struct sluice_workers *workers);

#endif
