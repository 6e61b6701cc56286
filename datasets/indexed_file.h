#ifndef SLUICE_DATASETS_INDEXED_FILE_H
#define SLUICE_DATASETS_INDEXED_FILE_H

#include "base/error.h"
#include "base/file.h"
#include "image/jpeg_index.h"
#include "pipeline/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

/* A sample's file in the light of its index: whether there is one that is the file's, and what of
 * the file it leaves to be read.
 *
 * The promise: whatever the index file holds, ops give what they give without it, or fail on
 * a file that was read in part; then the file is read in full and they are run again.
 *
 * Threads: an index file serves any number of them; the rest is the caller's. */

struct sluice_jpeg_index_file;

enum sluice_index_use {
    SLUICE_INDEX_NONE,    /* there is no index file, or none was wanted */
    SLUICE_INDEX_HIT,     /* the file's own by length and time; its hashes are compared on use */
    SLUICE_INDEX_STALE,   /* made for another length or time, or damaged */
    SLUICE_INDEX_MISSING, /* not indexed, or not a file that can be */
};

/* For a file of this length and time.  With SLUICE_INDEX_HIT *out is a new one, to be destroyed,
 * else it is untouched.  `pool` (may be NULL) is for what is needed meanwhile. */
enum sluice_index_use sluice_indexed_file_find(const struct sluice_jpeg_index_file *indexes,
                                               const char *path, uint64_t len, int64_t mtime_ns,
                                               struct sluice_buf_pool *pool,
                                               struct sluice_jpeg_index **out);

/* What an op list is about to do with a file. */
struct sluice_indexed_want {
    const struct sluice_jpeg_index_file *indexes; /* NULL: none */
    const char *path;                             /* relative to the dataset's root */
    const struct sluice_pipeline *pipeline;
    struct sluice_draw_key key;
    unsigned end; /* ops to run, and the form to leave in */
    enum sluice_form form;
    struct sluice_buf_pool *pool; /* for what is needed meanwhile; may be NULL */
};

/* Below this share of a file it pays to read parts: more calls, and no help from reading ahead. */
#define SLUICE_INDEXED_MAX_PARTIAL_PERCENT 85

/* As sluice_indexed_file_find(), but *out is NULL without a hit.  Its is_partial says whether
 * only parts[0 .. *num_parts) are wanted; otherwise *num_parts is 1, and that is the whole. */
enum sluice_index_use
sluice_indexed_file_plan(const struct sluice_indexed_want *want, uint64_t len, int64_t mtime_ns,
                         struct sluice_jpeg_index **out,
                         struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS],
                         unsigned *num_parts);

/* Whether the sample is still a file that was read in parts: of no use but to ops. */
bool sluice_indexed_file_has_holes(const struct sluice_sample *sample);

#endif
