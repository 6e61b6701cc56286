#ifndef SLUICE_DATASETS_MANIFEST_STAT_POOL_H
#define SLUICE_DATASETS_MANIFEST_STAT_POOL_H

#include "base/error.h"

#include <stddef.h>
#include <sys/stat.h>

/* The states of many files of one folder at once: on a disk that is not in memory, or over a
 * network file system, each takes its time, and many take hardly more.
 *
 * Threads: run from one at a time. */

struct sluice_stat_pool;

/* The threads beside the caller's: num_threads - 1, or as many as there are to be had. */
SLUICE_MUST_USE sluice_status sluice_stat_pool_create(unsigned num_threads,
                                                      struct sluice_stat_pool **pool,
                                                      struct sluice_err *err);
void sluice_stat_pool_destroy(struct sluice_stat_pool *pool); /* NULL is allowed */

struct sluice_stat {
    const char *name; /* in the folder; a link is not followed */
    struct stat st;
    int error; /* errno; 0: st is its state */
};

/* Fills all of them.  `pool` NULL: one after the other. */
void sluice_stat_pool_run(struct sluice_stat_pool *pool, int folder_fd, struct sluice_stat *files,
                          size_t num_files);

#endif
