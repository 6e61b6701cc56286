#ifndef SLUICE_COMPUTE_CLIENT_RUN_BATCH_LOG_H
#define SLUICE_COMPUTE_CLIENT_RUN_BATCH_LOG_H

#include "base/error.h"
#include "plan/resource.h"

#include <stdbool.h>
#include <stdint.h>

/* A CSV file with one line for each batch: how long the trainer waited for the batch, by resource,
 * and how long it trained on it.  docs/operations/trainer.md has the columns.
 *
 * Threads: one thread at a time. */

struct sluice_batch_log;

/* Creates the file, or truncates it.  The text of SLUICE_E_IO names the file. */
SLUICE_MUST_USE sluice_status sluice_batch_log_open(const char *path, struct sluice_batch_log **log,
                                                    struct sluice_err *err);

struct sluice_batch_entry {
    uint64_t epoch, batch; /* the batch's number in its epoch, from 0 */
    bool is_evaluation;
    unsigned samples;
    /* How long the trainer waited for each resource; SLUICE_GPU: how long it worked on the batch.
     */
    uint64_t stall_ns[SLUICE_NUM_RESOURCES];
};
/* A line that cannot be written is kept and tried again (base/line_writer.h).  A NULL log is
 * allowed and does nothing. */
void sluice_batch_log_add(struct sluice_batch_log *log, const struct sluice_batch_entry *entry);

/* Fails if lines are missing in the file.  NULL is allowed. */
SLUICE_MUST_USE sluice_status sluice_batch_log_close(struct sluice_batch_log *log,
                                                     struct sluice_err *err);

#endif
