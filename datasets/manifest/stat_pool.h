#ifndef SLUICE_DATASETS_MANIFEST_STAT_POOL_H
#define SLUICE_DATASETS_MANIFEST_STAT_POOL_H

#include "base/error.h"

#include <stddef.h>
#include <sys/stat.h>

/* Stats many files of one folder in parallel: on an uncached disk or a network file system each stat
 * waits, and many at once take hardly longer than one.
 *
 * Threads: run from one at a time. */

struct sluice_stat_pool;

/* Starts num_threads - 1 threads in addition to the caller's, or as many as can be started. */
SLUICE_MUST_USE sluice_status sluice_stat_pool_create(unsigned num_threads,
                                                      struct sluice_stat_pool **pool,
                                                      struct sluice_err *err);
void sluice_stat_pool_destroy(struct sluice_stat_pool *pool); /* NULL is allowed */

struct sluice_stat {
    const char *name; /* in the folder; a link is not followed */
    struct stat st;
    int error; /* errno; 0: st is valid */
};

/* Fills all of `files`.  `pool` NULL: one after the other. */
void sluice_stat_pool_run(struct sluice_stat_pool *pool, int folder_fd, struct sluice_stat *files,
                          size_t num_files);

#endif
