#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCH_DEPTH_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_PREFETCH_DEPTH_H

#include <stddef.h>
#include <stdint.h>

/* Prefetch depth: as many items as the trainer takes in a quarter of a second (prefetch_s), between
 * two bounds.
 *
 * Shared nodes and links pause for some 50 to 100 ms now and then, and the trainer lives on the
 * prefetched items meanwhile.  A greater depth gains nothing: items that wait longer have left
 * every cache when the trainer takes them.
 *
 * The trainer's rate is an exponentially weighted moving average (EWMA) over about half a second
 * (prefetch_memory_s).
 *
 * Pure: the caller passes the times, which never run backwards.  Threads: one at a time. */

struct sluice_prefetch_depth {
    size_t least, most; /* items; least <= most */
    double per_s;       /* the trainer's items per second, at last_ns */
    uint64_t last_ns;   /* 0: no item was taken yet */
};

/* The trainer took num_items at now_ns. */
void sluice_prefetch_depth_see(struct sluice_prefetch_depth *depth, size_t num_items,
                               uint64_t now_ns);

/* The number of items that may be prefetched. */
size_t sluice_prefetch_depth_items(const struct sluice_prefetch_depth *depth);

#endif
