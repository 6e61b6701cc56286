#ifndef SLUICE_DATASETS_JPEG_INDEX_INDEXED_FILE_H
#define SLUICE_DATASETS_JPEG_INDEX_INDEXED_FILE_H

#include "base/error.h"
#include "base/file.h"
#include "image/jpeg/index.h"
#include "op/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

/* Partial reads: finds the index of a sample's file, and which parts of the file an op list needs.
 *
 * The promise: whatever the index holds, ops give the same result as without it, or they fail on a
 * file that was read in part.  The caller then reads the whole file and runs them again.  That is
 * also the case for a file that exif_transpose turns: the parts are chosen for an upright image, as
 * most are.
 *
 * Threads: an index file may be used by any number of threads; the rest is the caller's. */

struct sluice_jpeg_index_file;

enum sluice_index_use {
    SLUICE_INDEX_NONE,    /* no index file, or it is not used */
    SLUICE_INDEX_HIT,     /* length and time are the file's; hashes are compared when used */
    SLUICE_INDEX_STALE,   /* made for another length or time, or damaged */
    SLUICE_INDEX_MISSING, /* the file is not indexed, or cannot be */
};

/* Finds the index of a file of this length and time.  A time below 0 is the version of a remote
 * object (store/store.h), which no index contains: the hashes decide when it is used.  On
 * SLUICE_INDEX_HIT *out is a new index, to be destroyed; else it is untouched.  `pool` (may be
 * NULL) gives temporary memory. */
enum sluice_index_use sluice_indexed_file_find(const struct sluice_jpeg_index_file *indexes,
                                               const char *path, uint64_t len, int64_t mtime_ns,
                                               struct sluice_buf_pool *pool,
                                               struct sluice_jpeg_index **out);

/* The ops that will run on a file. */
struct sluice_indexed_want {
    const struct sluice_jpeg_index_file *indexes; /* NULL: none */
    const char *path;                             /* relative to the dataset's root */
    const struct sluice_pipeline *pipeline;
    struct sluice_draw_key key;
    unsigned end; /* the split to run to, and the form to leave in */
    enum sluice_form form;
    struct sluice_buf_pool *pool; /* for temporary memory; may be NULL */
};

/* A file is read in parts only if they are less than this share of it: parts take more system calls
 * and defeat readahead. */
#define SLUICE_INDEXED_MAX_PARTIAL_PERCENT 85

/* Like sluice_indexed_file_find(), but *out is NULL without a hit.  parts[0 .. *num_parts) are to
 * be read: some parts if (*out)->is_partial, else one that is the whole file. */
enum sluice_index_use
sluice_indexed_file_plan(const struct sluice_indexed_want *want, uint64_t len, int64_t mtime_ns,
                         struct sluice_jpeg_index **out,
                         struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS],
                         unsigned *num_parts);

/* Whether the sample is still a file that was read in parts, so that only ops can use it. */
bool sluice_indexed_file_has_holes(const struct sluice_sample *sample);

#endif
