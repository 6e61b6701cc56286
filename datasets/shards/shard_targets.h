#ifndef SLUICE_DATASETS_SHARDS_SHARD_TARGETS_H
#define SLUICE_DATASETS_SHARDS_SHARD_TARGETS_H

#include "base/error.h"
#include "datasets/list/target_values.h"
#include "datasets/manifest/builder.h"

/* Targets that are members of tars: of "x.tar/a/1.jpg" what "a/1.txt" in x.tar holds, by the key
 * that both have (shard_list.h).  Of two of the same name the later one counts.
 *
 * Threads: none of its own. */

/* Gives all rows their targets; the rows are in the order of their paths.  column.name is the
 * suffix, in any case of its letters; the targets are bytes unless column.kind says vectors.
 * SLUICE_E_INVALID: an image without one, or one that is no target; err names it.  SLUICE_E_IO,
 * SLUICE_E_NO_MEMORY.  Behind the damage of a tar nothing is found. */
SLUICE_MUST_USE sluice_status sluice_shard_targets_read(const char *root,
                                                        struct sluice_target_column column,
                                                        struct sluice_manifest_builder *builder,
                                                        struct sluice_err *err);

#endif
