#ifndef SLUICE_DATASETS_SHARDS_SHARD_SET_H
#define SLUICE_DATASETS_SHARDS_SHARD_SET_H

#include "datasets/shards/records_index.h"
#include "datasets/shards/shard_list.h"

struct sluice_buf;

/* The set of shards in a folder or bucket, for sluice_shards_list().
 *
 * Tars are found by their names, MDS shards and LitData's chunks by the index.json next to them.
 *
 * Threads: one at a time. */
struct sluice_shard_set {
    struct sluice_shard_file *files;
    size_t num, capacity;
    struct sluice_shard_columns *columns; /* of chunks, one for each index.json; private */
};

/* The place in which shards are found. */
struct sluice_shard_place {
    const char *root; /* for messages */
    void *ctx;
    /* Length and time (or version) of a regular file.  SLUICE_E_NOT_FOUND; SLUICE_E_INVALID: it is
     * none; SLUICE_E_IO; err does not name it. */
    sluice_status (*find)(void *ctx, const char *path, uint64_t *bytes, int64_t *mtime_ns,
                          struct sluice_err *err);
    /* Reads a file; err names it. */
    sluice_status (*read)(void *ctx, const char *path, size_t max_bytes, struct sluice_buf **file,
                          struct sluice_err *err);
};

/* Files beneath a folder; `folder` is borrowed as long as the place is used. */
struct sluice_shard_folder {
    const char *root;
    int root_fd;
};
struct sluice_shard_place sluice_shard_place_of_folder(struct sluice_shard_folder *folder);

SLUICE_MUST_USE sluice_status sluice_shard_set_add(struct sluice_shard_set *set,
                                                   const struct sluice_shard_file *file,
                                                   struct sluice_err *err); /* copies the path */

/* Adds the shards that the index.json at `path` names.  *is_index: it is an index of shards; if not,
 * nothing is added.  SLUICE_E_UNSUPPORTED: a shard is compressed, or of a kind that is not read;
 * SLUICE_E_NOT_FOUND: a shard is not there; SLUICE_E_INVALID, SLUICE_E_IO; err names the file. */
SLUICE_MUST_USE sluice_status sluice_shard_set_add_index(struct sluice_shard_set *set,
                                                         const struct sluice_shard_place *place,
                                                         const char *path, bool *is_index,
                                                         struct sluice_err *err);

/* Adds the shards that these patterns name, "a-{000..127}.tar::b.tar", and no others: tars and MDS
 * shards beneath the root (brace.h).  SLUICE_E_NOT_FOUND: a shard does not exist; SLUICE_E_INVALID:
 * a pattern is wrong, or a name is not a shard's or comes twice; err names it. */
SLUICE_MUST_USE sluice_status sluice_shard_set_add_patterns(struct sluice_shard_set *set,
                                                            const struct sluice_shard_place *place,
                                                            const char *patterns,
                                                            struct sluice_err *err);

/* Sorts by path and removes duplicates, since two index.json may name one shard.  Returns the number
 * of duplicates. */
size_t sluice_shard_set_sort(struct sluice_shard_set *set);

/* Sorts, and adds the samples as sluice_shards_list() does; leaves summary untouched if the set is
 * empty.  `num_mds`: the number of MDS shards that a walk found; a line in the log counts those that
 * are not in the set. */
SLUICE_MUST_USE sluice_status sluice_shard_set_list(struct sluice_shard_set *set,
                                                    const struct sluice_shard_options *how,
                                                    size_t num_mds,
                                                    struct sluice_manifest_builder *builder,
                                                    struct sluice_shard_summary *summary,
                                                    struct sluice_err *err);
void sluice_shard_set_clear(struct sluice_shard_set *set);

#endif
