#ifndef SLUICE_DATASETS_JPEG_INDEXER_H
#define SLUICE_DATASETS_JPEG_INDEXER_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Makes, and checks, the index of a dataset's JPEGs (jpeg_index_file.h) while its files go by.
 *
 * A file whose length and time are those of its entry in the index that is there keeps that
 * entry.
 *
 * Threads: add and check from any thread, the rest from one. */

struct sluice_buf;
struct sluice_jpeg_index_file;
struct sluice_jpeg_indexer;

/* `step`: MCUs from point to point; 0: as sluice_jpeg_index_build() chooses. */
SLUICE_MUST_USE sluice_status sluice_jpeg_indexer_create(const char *path, uint32_t step,
                                                         size_t max_entries,
                                                         struct sluice_jpeg_indexer **indexer,
                                                         struct sluice_err *err);
void sluice_jpeg_indexer_destroy(struct sluice_jpeg_indexer *indexer); /* NULL is allowed */

/* Once a path.  `st` was taken before the file was read, so that a change in between makes the
 * entry stale.  A file that cannot be indexed is counted. */
SLUICE_MUST_USE sluice_status sluice_jpeg_indexer_add(struct sluice_jpeg_indexer *indexer,
                                                      const char *path, const struct stat *st,
                                                      const struct sluice_buf *file,
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

/* SLUICE_E_CORRUPT: the entry of a file is stale, or not what an index of the file is.  A file
 * without an entry is fine. */
SLUICE_MUST_USE sluice_status sluice_jpeg_indexer_check(
    const struct sluice_jpeg_index_file *indexes, const char *path, const struct stat *st,
    const struct sluice_buf *file, struct sluice_err *err);

#endif
