#ifndef SLUICE_COMPUTE_CLIENT_LOAD_BATCH_MEMORY_H
#define SLUICE_COMPUTE_CLIENT_LOAD_BATCH_MEMORY_H

#include "base/error.h"

#include <stddef.h>

/* A stack (LIFO) of blocks of memory for batches.  The block that was given back last is taken
 * first, because it is the likeliest to be in a cache and in the TLB.  So only as many blocks are
 * ever written to as batches are filled at once, however many may be ahead.
 *
 * Threads: one at a time. */

struct sluice_batch_memory_options {
    unsigned count; /* of blocks */
    size_t bytes;   /* of each block */
    /* Bytes of all blocks together whose pages are touched by init, in the order of use. */
    size_t bytes_ahead;
    sluice_status (*alloc)(void *ctx, size_t bytes, void **memory, struct sluice_err *err);
    void (*free)(void *ctx, void *memory, size_t bytes);
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
/* Every block must have been given back.  Idempotent; fine on {0}. */
void sluice_batch_memory_clear(struct sluice_batch_memory *memory);

/* A block must be left. */
void *sluice_batch_memory_take(struct sluice_batch_memory *memory);
void sluice_batch_memory_give(struct sluice_batch_memory *memory, void *taken);

#endif
