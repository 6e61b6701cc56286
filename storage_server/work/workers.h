#ifndef SLUICE_STORAGE_SERVER_WORK_WORKERS_H
#define SLUICE_STORAGE_SERVER_WORK_WORKERS_H

#include "base/error.h"
#include "base/worker_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The server's two groups of worker threads, each with a bounded queue.
 *
 *     PREP   reads a file and preprocesses it; as many threads as cores may be used
 *     IO     reads a file; sends files as they are, also when PREP is full
 *
 * A queue is fair by the CPU time of jobs (fair_queue.h): first among sessions, the addresses of
 * clients (session/session.h), then among the connections of a session.  So a client with many
 * requests waits for its own jobs, and a client with many connections divides its own part.
 * Clients behind one address (NAT) share one part.  PREP's time has a price (cpu_market.h), which
 * each client follows by itself.
 *
 * Nothing here blocks the submitter.  A client that finds no room leaves a waiter, which is called
 * when there may be room; sluice_workers_moment() makes sure that no room is missed in between.
 *
 * Threads: any. */

struct sluice_workers;
struct sluice_prep_limits;
struct sluice_preparer_options;
struct sluice_session;

enum sluice_worker_group { SLUICE_GROUP_PREP, SLUICE_GROUP_IO };

struct sluice_workers_options {
    unsigned prep_workers; /* 0: one for each core that they may use */
    unsigned io_workers;
    size_t queue;                                   /* jobs that may wait for each group */
    struct sluice_prep_limits *limits;              /* of all workers; borrowed; NULL: none */
    const struct sluice_preparer_options *preparer; /* of each of PREP's; copied; NULL: {0} */
};

/* Warns if prep_workers is above the number of usable cores, and says what limits them.  PREP's
 * jobs get their thread's struct sluice_preparer as `worker`, IO's jobs get NULL. */
SLUICE_MUST_USE sluice_status sluice_workers_create(const struct sluice_workers_options *options,
                                                    struct sluice_workers **workers,
                                                    struct sluice_err *err);

/* Runs the queued jobs, then joins the threads.  Remaining waiters are called once more and find
 * the queues closed.  NULL is allowed. */
void sluice_workers_destroy(struct sluice_workers *workers);

/* Joins a connection of a session by its name; calls with the same name return the same client
 * while somebody holds it.  NULL: no memory.  Give it back with sluice_workers_leave(). */
struct sluice_work_client;
SLUICE_MUST_USE struct sluice_work_client *sluice_workers_join(struct sluice_workers *workers,
                                                               struct sluice_session *session,
                                                               const char *name);
/* From a job too.  NULL is allowed. */
void sluice_workers_leave(struct sluice_workers *workers, struct sluice_work_client *client);

/* From now on the client follows the price (cpu_price.h). */
void sluice_workers_follow(struct sluice_workers *workers, struct sluice_work_client *client);

/* The client reports the worth of one more core (cpu_price.h); 0: nothing. */
void sluice_workers_hear_worth(struct sluice_workers *workers, struct sluice_work_client *client,
                               double worth);

/* As sluice_worker_pool_try_submit(); SLUICE_E_AGAIN also if the client holds its full part of the
 * places.  The job holds a reference to the client. */
SLUICE_MUST_USE sluice_status sluice_workers_try(struct sluice_workers *workers,
                                                 struct sluice_work_client *client,
                                                 enum sluice_worker_group group,
                                                 struct sluice_job *job);

/* Removes the client's jobs for which is_meant() returns true from the group's queue and calls them
 * with SLUICE_JOB_CANCEL, on this thread and without a lock; returns their number.  Does not find
 * jobs that have started.  is_meant() is called under the lock. */
size_t sluice_workers_cancel(struct sluice_workers *workers, struct sluice_work_client *client,
                             enum sluice_worker_group which,
                             bool (*is_meant)(const struct sluice_job *job, const void *ctx),
                             const void *ctx);

/* num_stuck workers of the group hang: starts threads that stand in for them (worker_pool.h), at
 * most WATCHDOG_MAX_STAND_INS. */
SLUICE_MUST_USE sluice_status sluice_workers_stand_in(struct sluice_workers *workers,
                                                      enum sluice_worker_group group,
                                                      unsigned num_stuck, struct sluice_err *err);

/* Cancels every job that waits for the group, of all clients.  Returns their number. */
size_t sluice_workers_expire(struct sluice_workers *workers, enum sluice_worker_group which);

/* Every job calls this first when it runs, because the queue has room then. */
void sluice_workers_started(struct sluice_workers *workers);

/* Every job that did work calls this when it is done.  Returns the CPU ns that this worker's thread
 * has used since its last job called it, so a job's time includes the hand-over to it.
 *
 * A job costs four reads of the thread's CPU clock (a system call each): the pool reads it before
 * and after the job (worker_pool.c), this function reads it once, and so does the queue, which
 * counts the reply's sending too (run_ticket() in workers.c). */
uint64_t sluice_workers_job_cpu_ns(void);

struct sluice_waiter {
    /* Called once per successful wait, from a worker, without a lock.  False: there was no room
     * after all and it waits again; other waiters of its client are not called then. */
    bool (*fn)(struct sluice_waiter *waiter);
    struct sluice_waiter *next; /* private */
};

/* Take the moment before a try, and pass it to wait after SLUICE_E_AGAIN.  False: a job has started
 * since that moment, so there may be room: try again at once. */
uint64_t sluice_workers_moment(struct sluice_workers *workers);
SLUICE_MUST_USE bool sluice_workers_wait(struct sluice_workers *workers,
                                         struct sluice_work_client *client,
                                         struct sluice_waiter *waiter, uint64_t moment);

/* The number of cores that PREP may use: the CPUs of its threads within limits and control groups,
 * and no more than its threads.  A thread of the workers reads it at least once a second, so the
 * caller opens no files (core_watch.h). */
double sluice_workers_prep_cores(const struct sluice_workers *workers);
unsigned sluice_workers_num_prep(const struct sluice_workers *workers); /* threads */
struct sluice_worker_pool_stats sluice_workers_stats(struct sluice_workers *workers,
                                                     enum sluice_worker_group group);

/* The price and number of PREP's cores, which every message reports.  Cheap: a call updates the
 * price at most every 50 ms. */
struct sluice_workers_offer {
    double cpu_price; /* cpu_price.h */
    double prep_cores;
};
struct sluice_workers_offer sluice_workers_offer(struct sluice_workers *workers);

#endif
