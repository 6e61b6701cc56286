#ifndef SLUICE_DATASETS_MANIFEST_PARALLEL_H
#define SLUICE_DATASETS_MANIFEST_PARALLEL_H

#include "base/error.h"

#include <stddef.h>

/* A parallel loop over items 0 .. n-1: each thread takes the next item (self-scheduling).  For
 * commands over a whole dataset.
 *
 * Threads: called from one; `fn` runs on several at a time. */

/* Calls fn(ctx, i) once for every item.  After the first call that fails, starts no new item, and
 * returns its status and text.  num_threads 0: one for each CPU.  Shows progress as `what`. */
SLUICE_MUST_USE sluice_status sluice_parallel_for(size_t n, unsigned num_threads, const char *what,
                                                  sluice_status (*fn)(void *ctx, size_t i,
                                                                      struct sluice_err *err),
                                                  void *ctx, struct sluice_err *err);

#endif
