#ifndef SLUICE_DATASETS_PARALLEL_H
#define SLUICE_DATASETS_PARALLEL_H

#include "base/error.h"

#include <stddef.h>

/* Work on items 0 .. n-1 by several threads, each taking the next one; for commands over a whole
 * dataset.
 *
 * Threads: called from one; `fn` runs on many at a time. */

/* Calls fn(ctx, i) once for every item, until one call does not return SLUICE_OK: then no new item
 * is begun and that status and text are returned.  num_threads 0: one for each CPU.  Shows progress
 * as `what`. */
SLUICE_MUST_USE sluice_status sluice_parallel_for(size_t n, unsigned num_threads, const char *what,
                                                  sluice_status (*fn)(void *ctx, size_t i,
                                                                      struct sluice_err *err),
                                                  void *ctx, struct sluice_err *err);

#endif
