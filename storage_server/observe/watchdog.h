#ifndef SLUICE_STORAGE_SERVER_OBSERVE_WATCHDOG_H
#define SLUICE_STORAGE_SERVER_OBSERVE_WATCHDOG_H

#include "base/error.h"
#include "storage_server/work/workers.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Detects workers that hang, for example in a read of a disk that never answers, and answers for
 * them.
 *
 *     after half of the timeout  a line in the log; health is NOT_SERVING; another thread stands
 *                                in for the worker (WATCHDOG_MAX_STAND_INS for each group)
 *     after the timeout          the request is answered with SLUICE_E_IO
 *     when the worker is back    a line in the log; its result is dropped if it is late; health is
 *                                SERVING, and the stand-in ends
 *
 * Until a read that timed out returns, other requests for its file are refused, so a file that hangs
 * costs one worker, however often it is requested.  If all workers of a group and their stand-ins
 * hang for the timeout, the jobs in its queue are answered with SLUICE_E_IO, too.
 *
 * The promise: each request is answered once, by the worker or by the watchdog; the memory that the
 * worker uses lives until it returns.
 *
 * The watchdog's thread reads no file and waits for no worker.
 *
 * Threads: any. */

struct sluice_health;
struct sluice_root_watch;
struct sluice_watchdog;

/* An answer in place of a worker's. */
struct sluice_late_answer {
    struct sluice_late_answer *next; /* for the watchdog */
    /* Sends the answer and frees it.  Called on the watchdog's thread, without a lock. */
    void (*give)(struct sluice_late_answer *answer);
};

/* A job that a worker has; embedded in it. */
struct sluice_watched {
    const char *path; /* of the sample; must live while the job is watched */
    enum sluice_worker_group group;
    /* Makes an answer of SLUICE_E_IO with this text (without a path); NULL: no memory, and the
     * watchdog tries again.  Called under the watchdog's lock: must not lock or wait. */
    struct sluice_late_answer *(*answer)(struct sluice_watched *watched, const char *text);

    /* Private. */
    atomic_bool is_reading; /* relaxed: for the log */
    uint64_t since_ns;
    bool is_told, is_late; /* told: half of the timeout is over; late: all of it, and answered */
    struct sluice_watched *next, **link;
};

struct sluice_watchdog_options {
    uint64_t timeout_ns;
    struct sluice_workers *workers; /* borrowed */
    struct sluice_health *health;   /* borrowed */
    struct sluice_root_watch *root; /* borrowed; NULL: none */
};

SLUICE_MUST_USE sluice_status sluice_watchdog_create(const struct sluice_watchdog_options *options,
                                                     struct sluice_watchdog **watchdog,
                                                     struct sluice_err *err);
/* Stops the watchdog's thread: it answers no more jobs, but jobs may still begin and end. */
void sluice_watchdog_stop(struct sluice_watchdog *watchdog);
void sluice_watchdog_destroy(struct sluice_watchdog *watchdog); /* NULL is allowed */

/* Call it on the worker, before it reads.  SLUICE_E_IO: another worker hangs at this file, and the
 * job is not watched. */
SLUICE_MUST_USE sluice_status sluice_watchdog_begin(struct sluice_watchdog *watchdog,
                                                    struct sluice_watched *watched,
                                                    struct sluice_err *err);
/* The worker now reads (true) or computes (false). */
void sluice_watchdog_note(struct sluice_watched *watched, bool is_reading);
/* The worker is done.  False: the watchdog has answered the request, so drop the result. */
SLUICE_MUST_USE bool sluice_watchdog_end(struct sluice_watchdog *watchdog,
                                         struct sluice_watched *watched);

/* Workers that hang now. */
unsigned sluice_watchdog_num_stuck(struct sluice_watchdog *watchdog);
/* The number of requests that the watchdog has answered. */
uint64_t sluice_watchdog_num_timeouts(struct sluice_watchdog *watchdog);

#endif
