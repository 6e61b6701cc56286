#ifndef SLUICE_COMPUTE_CLIENT_LOAD_BATCH_H
#define SLUICE_COMPUTE_CLIENT_LOAD_BATCH_H

#include "base/error.h"
#include "base/hash.h"
#include "compute_client/load/stall.h"

#include <stddef.h>
#include <stdint.h>

/* What a trainer takes at once: rows of u8 pixels (height x width x 3) and labels,
 * sample n of the epoch in row n % batch size, and what became of every row.
 *
 * Threads: workers fill different rows at the same time; settling needs all of
 * them to be done. */

enum sluice_on_error {
    SLUICE_ON_ERROR_FAIL,       /* the first bad sample in delivery order ends the run */
    SLUICE_ON_ERROR_SKIP,       /* it is left out and its batch is shorter */
    SLUICE_ON_ERROR_SUBSTITUTE, /* the nearest good row before it in its batch stands in, with its
                                   label; at the batch's start the nearest good row after it */
};

struct sluice_batch {
    uint8_t *pixels; /* borrowed memory: capacity x row_bytes */
    size_t row_bytes;
    unsigned capacity, n;
    /* What the trainer waited for it, by what the slowest of its samples waited for.
     * SLUICE_GPU is nothing. */
    uint64_t stall_ns[SLUICE_NUM_RESOURCES];

    /* Per row; owned. */
    uint32_t *labels;
    sluice_status *status;
    struct sluice_hash128 *hashes; /* by digest.h */
};

SLUICE_MUST_USE sluice_status sluice_batch_init(struct sluice_batch *batch, unsigned capacity,
                                                size_t row_bytes, uint8_t *pixels,
                                                struct sluice_err *err);
void sluice_batch_clear(struct sluice_batch *batch); /* idempotent; fine on {0} */

/* Applies `on_error` (not FAIL) to the rows whose status is not SLUICE_OK.  Afterwards rows
 * [0, n) are good; n is 0 if no row was.  The result depends on the statuses alone, so it is the
 * same in every mode. */
void sluice_batch_settle(struct sluice_batch *batch, enum sluice_on_error on_error);

#endif
