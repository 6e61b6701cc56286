#ifndef SLUICE_DATASETS_SHARDS_SHARD_H
#define SLUICE_DATASETS_SHARDS_SHARD_H

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Samples that are members of shards: "a/x-000.tar/KEY.jpg" is KEY.jpg in the tar a/x-000.tar, and
 * "a/x.mds/17.jpg" is record 17 of a/x.mds (shard_list.h).  A sample is a member only if its row has
 * an offset (manifest.h), because a folder may also be called x.tar.
 *
 * Threads: any. */

/* The shard's own path: up to and including the first ".tar", ".mds" or ".bin" before a '/'. False,
 * with `object` untouched: the path has no shard, or it does not fit. */
bool sluice_shard_split(const char *path, char object[SLUICE_MAX_PATH_BYTES]);

/* Whether a file of this name is a shard: a .tar or .mds.  LitData's chunks are known by their
 * index.json alone (shard_set.h). */
bool sluice_is_shard_name(const char *name);

/* The path that the sample would have if its shard were unpacked where it lies: without "x.tar/".
 * `path` itself if the offset is 0, else written to `room`. */
const char *sluice_shard_unpacked(const char *path, uint64_t offset,
                                  char room[SLUICE_MAX_PATH_BYTES]);

/* Reads a sample's file, whole or as a range of its shard, as sluice_file_read_stat() and
 * sluice_file_read_range() do.  *st is the state of the file or of the shard. */
SLUICE_MUST_USE sluice_status sluice_shard_read(const char *root, const char *path, uint64_t offset,
                                                uint64_t bytes, size_t max_bytes,
                                                struct sluice_buf_pool *pool,
                                                struct sluice_buf **file, struct stat *st,
                                                struct sluice_err *err);

#endif
