#ifndef SLUICE_COMPUTE_CLIENT_LOAD_BATCH_LOG_H
#define SLUICE_COMPUTE_CLIENT_LOAD_BATCH_LOG_H

#include "base/error.h"
#include "compute_client/load/stall.h"

#include <stdbool.h>
#include <stdint.h>

/* A CSV file with a line for each batch: what the trainer waited for before it, and how long the
 * trainer had it.  docs/OPERATIONS.md has its columns.
 *
 * Threads: one thread at a time. */

struct sluice_batch_log;

/* Makes or empties the file.  SLUICE_E_IO names it. */
SLUICE_MUST_USE sluice_status sluice_batch_log_open(const char *path, struct sluice_batch_log **log,
                                                    struct sluice_err *err);

struct sluice_batch_entry {
    uint64_t epoch, batch; /* the batch's number in its epoch, from 0 */
    bool is_evaluation;
    unsigned samples;
    uint64_t stall_ns[SLUICE_NUM_RESOURCES]; /* of the trainer: its work on this batch */
};
SLUICE_MUST_USE sluice_status sluice_batch_log_add(struct sluice_batch_log *log,
                                                   const struct sluice_batch_entry *entry,
                                                   struct sluice_err *err);

/* NULL is allowed, for both.  A line that did not reach the disk is the error of close. */
SLUICE_MUST_USE sluice_status sluice_batch_log_close(struct sluice_batch_log *log,
                                                     struct sluice_err *err);

#endif
