#ifndef SLUICE_DATASETS_SHARD_SET_H
#define SLUICE_DATASETS_SHARD_SET_H

#include "datasets/records_index.h"
#include "datasets/shard_list.h"

#include <sys/stat.h>

/* Which shards a folder has, for sluice_shards_list().
 *
 * Tars are known by their names, MDS shards and LitData's chunks by the index.json beside them.
 *
 * Threads: one at a time. */
struct sluice_shard_set {
    struct sluice_shard_file *files;
    size_t num, capacity;
    struct sluice_shard_columns *columns; /* of chunks, one for each index.json; private */
};

SLUICE_MUST_USE sluice_status sluice_shard_set_add(struct sluice_shard_set *set, const char *path,
                                                   const struct stat *st,
                                                   const struct sluice_columns *columns,
                                                   struct sluice_err *err);

/* Adds the shards that the index.json at `path` names.  *is_index: it is one of shards; if not,
 * nothing is added.  SLUICE_E_UNSUPPORTED: a shard is compressed, or of a kind that is not read;
 * SLUICE_E_NOT_FOUND: a shard is not there; SLUICE_E_INVALID, SLUICE_E_IO; err names the file. */
SLUICE_MUST_USE sluice_status sluice_shard_set_add_index(struct sluice_shard_set *set,
                                                         const char *root, int root_fd,
                                                         const char *path, bool *is_index,
                                                         struct sluice_err *err);

/* Adds the shards that these patterns name, "a-{000..127}.tar::b.tar", and no others: tars and MDS
 * shards beneath the root (brace.h).  SLUICE_E_NOT_FOUND: one is not there; SLUICE_E_INVALID: a
 * pattern is wrong, or a name is no shard's, or comes twice; err names it. */
SLUICE_MUST_USE sluice_status sluice_shard_set_add_patterns(struct sluice_shard_set *set,
                                                            const char *root, int root_fd,
                                                            const char *patterns,
                                                            struct sluice_err *err);

/* Sorts by path, and keeps one of each: two index.json may name one shard.  Returns how many it
 * left out. */
size_t sluice_shard_set_sort(struct sluice_shard_set *set);
void sluice_shard_set_clear(struct sluice_shard_set *set);

#endif
