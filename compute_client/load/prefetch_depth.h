#ifndef SLUICE_COMPUTE_CLIENT_LOAD_PREFETCH_DEPTH_H
#define SLUICE_COMPUTE_CLIENT_LOAD_PREFETCH_DEPTH_H

#include <stddef.h>
#include <stdint.h>

/* How far to read ahead: what the trainer takes in a quarter of a second, between bounds.
 *
 * Nodes and links that others share stand still for some 50 to 100 ms now and then, and what is
 * behind them lives on what is on its way.  More than that helps nothing, and data that wait for
 * longer have left every cache when their turn comes.
 *
 * The rate is an average with exponentially falling weights, over about half a second.
 *
 * Pure: the times come from outside, and never run backwards.  Threads: one at a time. */

struct sluice_prefetch_depth {
    size_t least, most; /* items; least <= most */
    double per_s;       /* items, at last_ns */
    uint64_t last_ns;   /* 0: none was taken */
};

/* So many items were taken. */
void sluice_prefetch_depth_see(struct sluice_prefetch_depth *depth, size_t num_items,
                               uint64_t now_ns);

/* Items that may be ahead. */
size_t sluice_prefetch_depth_items(const struct sluice_prefetch_depth *depth);

#endif
