#ifndef SLUICE_COMPUTE_CLIENT_FETCH_SHARD_MERGE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_SHARD_MERGE_H

#include "base/error.h"
#include "compute_client/fetch/replicas.h"
#include "datasets/manifest.h"

#include <stddef.h>

/* The list of a dataset whose files are spread over several servers: what one server over all of
 * them would list.  Rows are ordered by path, classes by name; subsets, sizes and hashes stay.  So
 * its id is that of the undivided dataset, and ids and labels are, too.
 *
 * Threads: a function of its arguments. */

struct sluice_shard_list {
    const struct sluice_manifest *manifest;
    const char *name; /* for errors: the shard's host */
};

/* *places is the caller's to free: where each row of *manifest is.  SLUICE_E_INVALID: a path is in
 * two shards, or the folders of one are classes and those of another subsets; the error names both.
 * num_lists >= 1. */
SLUICE_MUST_USE sluice_status sluice_shard_merge(const struct sluice_shard_list *lists,
                                                 size_t num_lists,
                                                 struct sluice_manifest **manifest,
                                                 struct sluice_shard_place **places,
                                                 struct sluice_err *err);

#endif
