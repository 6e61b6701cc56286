#ifndef SLUICE_DATASETS_SHARDS_SHARD_TARGETS_H
#define SLUICE_DATASETS_SHARDS_SHARD_TARGETS_H

#include "base/error.h"
#include "datasets/list/target_values.h"
#include "datasets/manifest/builder.h"

/* Targets from members of tars: the target of "x.tar/a/1.jpg" is the content of "a/1.txt" in x.tar,
 * which has the same key (shard_list.h).  Of two members with the same name the later one counts.
 *
 * Threads: none of its own. */

/* Sets the targets of all rows, which must be ordered by path.  column.name is the suffix, in upper
 * or lower case; the targets are bytes unless column.kind says vectors.  SLUICE_E_INVALID: an image
 * has no target, or an invalid one; err names it.  SLUICE_E_IO, SLUICE_E_NO_MEMORY.  Members after
 * damage in a tar are not found. */
SLUICE_MUST_USE sluice_status sluice_shard_targets_read(const char *root,
                                                        struct sluice_target_column column,
                                                        struct sluice_manifest_builder *builder,
                                                        struct sluice_err *err);

#endif
