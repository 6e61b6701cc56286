#ifndef SLUICE_COMPUTE_CLIENT_LOAD_BATCH_MEMORY_H
#define SLUICE_COMPUTE_CLIENT_LOAD_BATCH_MEMORY_H

#include "base/error.h"

#include <stddef.h>

/* Memories of batches: what was given back last is taken first, as it is the likeliest to be in a
 * cache and in the TLB.  However many batches may be ahead, only as many memories are written to as
 * are filled at once.
 *
 * Threads: one at a time. */

struct sluice_batch_memory_options {
    unsigned count;
    size_t bytes;       /* of each */
    size_t bytes_ahead; /* of all: so many pages are brought in beforehand, in the order of use */
    sluice_status (*alloc)(void *ctx, size_t bytes, void **memory, struct sluice_err *err);
    void (*free)(void *ctx, void *memory);
    void *ctx; /* borrowed */
};

struct sluice_batch_memory {
    struct sluice_batch_memory_options options;
    void **free; /* a stack */
    unsigned num_free;
};

SLUICE_MUST_USE sluice_status
sluice_batch_memory_init(struct sluice_batch_memory *memory,
                         const struct sluice_batch_memory_options *options, struct sluice_err *err);
/* All that was taken must have been given back.  Idempotent; fine on {0}. */
void sluice_batch_memory_clear(struct sluice_batch_memory *memory);

/* There must be one left. */
void *sluice_batch_memory_take(struct sluice_batch_memory *memory);
void sluice_batch_memory_give(struct sluice_batch_memory *memory, void *taken);

#endif
