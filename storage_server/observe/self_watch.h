#ifndef SLUICE_STORAGE_SERVER_OBSERVE_SELF_WATCH_H
#define SLUICE_STORAGE_SERVER_OBSERVE_SELF_WATCH_H

#include "base/error.h"

/* Does the server still answer?  A thread connects to it through its own address at intervals.
 *
 * Threads: open and close on one. */

struct sluice_self_watch;

struct sluice_self_watch_options {
    /* One check, which may take timeout_ms. */
    sluice_status (*check)(void *ctx, unsigned timeout_ms, struct sluice_err *err);
    /* Called once, on the thread: six checks in a row have failed, a minute if it is 10 s to each.
     */
    void (*on_deaf)(void *ctx);
    void *ctx;
    unsigned interval_ms; /* from one check to the next, and the time that each has */
};

SLUICE_MUST_USE sluice_status
sluice_self_watch_open(const struct sluice_self_watch_options *options,
                       struct sluice_self_watch **watch, struct sluice_err *err);
/* Waits for the check under way.  NULL is allowed. */
void sluice_self_watch_close(struct sluice_self_watch *watch);

#endif
