#ifndef SLUICE_DATASETS_JPEG_INDEX_JPEG_INDEXER_H
#define SLUICE_DATASETS_JPEG_INDEX_JPEG_INDEXER_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Makes and checks the index of a dataset's JPEGs (jpeg_index_file.h), file by file.
 *
 * Where an older index has an entry of the same length and time, the entry is copied.
 *
 * Threads: add and check from any thread, the rest from one. */

struct sluice_buf;
struct sluice_jpeg_index_file;
struct sluice_jpeg_indexer;

/* `step`: MCUs from one point of an index to the next; 0: sluice_jpeg_index_build() chooses. */
SLUICE_MUST_USE sluice_status sluice_jpeg_indexer_create(const char *path, uint32_t step,
                                                         size_t max_entries,
                                                         struct sluice_jpeg_indexer **indexer,
                                                         struct sluice_err *err);
void sluice_jpeg_indexer_destroy(struct sluice_jpeg_indexer *indexer); /* NULL is allowed */

/* Call it once for each path.  `st` must be taken before the file is read, so that a change in
 * between makes the entry stale.  Files that cannot be indexed are counted. */
SLUICE_MUST_USE sluice_status sluice_jpeg_indexer_add(struct sluice_jpeg_indexer *indexer,
                                                      const char *path, const struct stat *st,
                                                      const struct sluice_buf *file,
                                                      struct sluice_err *err);

/* The same without the file, which is known not to have changed: true if an older entry was copied,
 * or a file with this `coding` (image/codecs/coding.h) cannot have an entry. */
SLUICE_MUST_USE sluice_status sluice_jpeg_indexer_keep(struct sluice_jpeg_indexer *indexer,
                                                       const char *path, const struct stat *st,
                                                       uint8_t coding, bool *is_kept,
                                                       struct sluice_err *err);

struct sluice_jpeg_indexer_summary {
    uint64_t made, kept;
    uint64_t without; /* files that cannot be indexed: progressive, PNG, damaged */
    uint64_t bytes;   /* of the index */
};

/* Puts the index in its place. */
SLUICE_MUST_USE sluice_status
sluice_jpeg_indexer_commit(struct sluice_jpeg_indexer *indexer,
                           struct sluice_jpeg_indexer_summary *summary, struct sluice_err *err);

/* SLUICE_E_CORRUPT: the file's entry is stale, or differs from a new index of the file.  A file
 * without an entry is fine. */
SLUICE_MUST_USE sluice_status sluice_jpeg_indexer_check(
    const struct sluice_jpeg_index_file *indexes, const char *path, const struct stat *st,
    const struct sluice_buf *file, struct sluice_err *err);

#endif
