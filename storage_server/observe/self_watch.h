#ifndef SLUICE_STORAGE_SERVER_OBSERVE_SELF_WATCH_H
#define SLUICE_STORAGE_SERVER_OBSERVE_SELF_WATCH_H

#include "base/error.h"

/* The self-check: a thread connects to the server's own address at intervals, to see that it still
 * answers.
 *
 * Threads: open and close on one. */

struct sluice_self_watch;

struct sluice_self_watch_options {
    /* One check, which may take timeout_ms. */
    sluice_status (*check)(void *ctx, unsigned timeout_ms, struct sluice_err *err);
    /* Called once, on the thread, when six checks in a row have failed: after a minute with an
     * interval of 10 s. */
    void (*on_deaf)(void *ctx);
    void *ctx;
    unsigned interval_ms; /* from one check to the next; also the timeout of each */
};

SLUICE_MUST_USE sluice_status
sluice_self_watch_open(const struct sluice_self_watch_options *options,
                       struct sluice_self_watch **watch, struct sluice_err *err);
/* Waits for a check in progress.  NULL is allowed. */
void sluice_self_watch_close(struct sluice_self_watch *watch);

#endif
