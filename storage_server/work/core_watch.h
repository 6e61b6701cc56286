#ifndef SLUICE_STORAGE_SERVER_WORK_CORE_WATCH_H
#define SLUICE_STORAGE_SERVER_WORK_CORE_WATCH_H

#include "base/error.h"

#include <stdint.h>

/* The number of usable cores, which changes with quotas and affinity.  It is read from files of
 * /proc and of control groups, so a thread of its own reads it, and callers do not wait for files.
 *
 * Threads: open and close on one, before the first and after the last get; get from any. */

struct sluice_core_watch;

/* Calls read(ctx) once before it returns.  Its thread then calls it max_age_ns after the last time,
 * or sooner if somebody asks for the number, until close() returns. */
SLUICE_MUST_USE sluice_status sluice_core_watch_open(double (*read)(void *ctx), void *ctx,
                                                     uint64_t max_age_ns,
                                                     struct sluice_core_watch **watch,
                                                     struct sluice_err *err);
void sluice_core_watch_close(struct sluice_core_watch *watch); /* NULL is allowed */

/* The number that was read last.  If it is older than CORE_WATCH_FRESH_NS (tuning.h), the thread
 * reads it anew, for the next caller. */
double sluice_core_watch_get(struct sluice_core_watch *watch);

#endif
