#ifndef SLUICE_STORAGE_SERVER_WORK_CORE_WATCH_H
#define SLUICE_STORAGE_SERVER_WORK_CORE_WATCH_H

#include "base/error.h"

#include <stdint.h>

/* How many cores there are to use, as they come and go: a number that takes files of /proc and of
 * control groups to find out, so a thread of its own reads it, and nobody who asks waits for that.
 *
 * Threads: open and close on one, before the first and after the last get; get from any. */

struct sluice_core_watch;

/* Calls read(ctx) once before it returns, and then from its own thread until close() returns:
 * max_age_ns after the last time, or sooner if somebody asks for the number. */
SLUICE_MUST_USE sluice_status sluice_core_watch_open(double (*read)(void *ctx), void *ctx,
                                                     uint64_t max_age_ns,
                                                     struct sluice_core_watch **watch,
                                                     struct sluice_err *err);
void sluice_core_watch_close(struct sluice_core_watch *watch); /* NULL is allowed */

/* The number as it was read last.  If that is CORE_WATCH_FRESH_NS ago (tuning.h), it will be read
 * anew, for whoever asks next. */
double sluice_core_watch_get(struct sluice_core_watch *watch);

#endif
