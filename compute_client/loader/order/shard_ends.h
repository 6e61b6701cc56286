#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_SHARD_ENDS_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_SHARD_ENDS_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stddef.h>
#include <stdint.h>

/* Finds where the shards of a subset end, for an order that keeps them together (sampler.h).  A
 * shard is a series of consecutive samples in one tar (datasets/shards/shard.h) or in one folder.
 * Only paths are compared, because a list from a server has no offsets; so a folder called x.tar is
 * a shard, too.
 *
 * ids[position] is a row of the manifest, in rising order.  The caller frees ends[0 .. *num); the
 * last end is num_ids, which is at least 1.  SLUICE_E_NO_MEMORY.
 *
 * Threads: a pure function. */
SLUICE_MUST_USE sluice_status sluice_shard_ends(const struct sluice_manifest *manifest,
                                                const uint32_t *ids, size_t num_ids,
                                                uint32_t **ends, size_t *num,
                                                struct sluice_err *err);

#endif
