#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_BUCKET_ORDER_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_BUCKET_ORDER_H

#include "base/error.h"
#include "compute_client/loader/order/order.h"

#include <stddef.h>
#include <stdint.h>

/* The batches of an epoch with aspect buckets: each batch has items of one bucket.
 *
 * The sampler's order is cut by bucket.  The items of a bucket, in that order, fill global batches
 * of G = world size * batch size; a full batch comes when its last item does.  The rest of a bucket
 * is a partial batch, in a place among the batches that is drawn by (seed, epoch); without a
 * shuffle partial batches come last, by bucket.
 *
 *     sampler's order    a0 b0 a1 a2 b1 a3 a4 b2 a5 a6       G = 3
 *     batches            a0 a1 a2 | b0 b1 b2 | a6 | a3 a4 a5
 *                                              `---- partial, padded from a0 on
 *
 * Ranks share a batch as they do without buckets (order.h): rank r has rows [r * B, (r + 1) * B) of
 * a full one.  A partial one is padded to a multiple of the world size with the bucket's first
 * items, or is left out with SLUICE_TAIL_DROP.  So an epoch has less than buckets * world size
 * padded rows, and its batches do not depend on the number of ranks, as long as G is the same.
 *
 * A cursor counts the items of all batches before a batch, without padding.
 *
 * Threads: pure functions. */

/* A batch of one rank. */
struct sluice_order_batch {
    uint32_t start;      /* of its rows, among the rank's items */
    uint32_t num_padded; /* its last rows that repeat others */
    uint8_t bucket;
};

struct sluice_bucket_order {
    /* From the cursor on. */
    struct sluice_sampler_item *items; /* this rank's, batch after batch */
    size_t num_items;
    struct sluice_order_batch *batches; /* num_batches + 1: the last one's start is num_items */
    uint64_t *cursors;                  /* num_batches + 1: before each batch; then the end */
    size_t num_batches;
    /* Before the cursor. */
    uint64_t batches_before, rows_before; /* of this rank */
    uint64_t num_padded;                  /* rows of all ranks and batches of the epoch */
};

struct sluice_bucket_options {
    struct sluice_order_options order;
    uint64_t seed;
    bool is_shuffled;
    unsigned num_buckets;     /* 1 to SLUICE_MAX_BUCKETS (op/op.h) */
    const uint8_t *bucket_of; /* by position */
};

/* Cuts items[0 .. count), the sampler's order of the epoch, at most UINT32_MAX.  Clear the result.
 * SLUICE_E_INVALID: no batch begins at the cursor.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_bucket_order_make(const struct sluice_bucket_options *options,
                                                       uint32_t epoch,
                                                       const struct sluice_sampler_item *items,
                                                       size_t count, uint64_t cursor,
                                                       struct sluice_bucket_order *order,
                                                       struct sluice_err *err);
void sluice_bucket_order_clear(struct sluice_bucket_order *order); /* idempotent; fine on {0} */

#endif
