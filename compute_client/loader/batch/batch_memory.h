#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_BATCH_MEMORY_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_BATCH_MEMORY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A stack (LIFO) of blocks of memory for batches.  The block that was given back last is taken
 * first, because it is the likeliest to be in a cache and in the TLB.  So the number of blocks that
 * are ever written to is the number of batches that are filled at once, not `count`.
 *
 * A taken block can be lent: then another block replaces it, and `count` blocks can be taken again.
 * When lent blocks are returned, TUNING_SPARE_BATCHES (tuning.h) of the additional blocks are kept.
 *
 * Threads: one at a time. */

struct sluice_batch_memory_options {
    unsigned count; /* blocks that can be taken, without lent ones */
    size_t bytes;   /* of each block */
    /* Bytes of all blocks together whose pages are touched by init, in the order of use. */
    size_t bytes_ahead;
    sluice_status (*alloc)(void *ctx, size_t bytes, void **memory, struct sluice_err *err);
    void (*free)(void *ctx, void *memory, size_t bytes);
    void *ctx; /* borrowed */
};

struct sluice_batch_memory {
    struct sluice_batch_memory_options options;
    void **free; /* a stack with room for num_blocks */
    unsigned num_free;
    unsigned num_blocks; /* all: free, taken and lent */
    unsigned num_lent;
};

SLUICE_MUST_USE sluice_status
sluice_batch_memory_init(struct sluice_batch_memory *memory,
                         const struct sluice_batch_memory_options *options, struct sluice_err *err);
/* Frees the free blocks; the holder of another block frees it.  Idempotent; fine on {0}. */
void sluice_batch_memory_clear(struct sluice_batch_memory *memory);

/* A free block must be left. */
void *sluice_batch_memory_take(struct sluice_batch_memory *memory);
void sluice_batch_memory_give(struct sluice_batch_memory *memory, void *taken);

/* Lends a block that was taken.  False: another block has to be added first. */
bool sluice_batch_memory_lend(struct sluice_batch_memory *memory);
/* Takes ownership of a block from options.alloc, unless it fails. */
SLUICE_MUST_USE sluice_status sluice_batch_memory_add(struct sluice_batch_memory *memory,
                                                      void *made, struct sluice_err *err);
/* Gives a lent block back.  False: the block is not needed; the caller frees it. */
bool sluice_batch_memory_return(struct sluice_batch_memory *memory, void *lent);

#endif
