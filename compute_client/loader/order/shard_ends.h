#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_SHARD_ENDS_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_SHARD_ENDS_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stddef.h>
#include <stdint.h>

/* Where the shards of a subset end, for an order that keeps them together (sampler.h): samples that
 * follow each other in one shard (datasets/shards/shard.h), or as files in one folder.  Paths alone
 * say it, as a list from a server has no offsets: so a folder called x.tar is one shard, too.
 *
 * ids[position] is a row of the manifest, and rises.  ends[0 .. *num) is the caller's to free; the
 * last is num_ids, which is at least 1.  SLUICE_E_NO_MEMORY.
 *
 * Threads: a pure function. */
SLUICE_MUST_USE sluice_status sluice_shard_ends(const struct sluice_manifest *manifest,
                                                const uint32_t *ids, size_t num_ids,
                                                uint32_t **ends, size_t *num,
                                                struct sluice_err *err);

#endif
