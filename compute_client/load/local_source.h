#ifndef SLUICE_COMPUTE_CLIENT_LOAD_LOCAL_SOURCE_H
#define SLUICE_COMPUTE_CLIENT_LOAD_LOCAL_SOURCE_H

#include "base/buf.h"
#include "base/error.h"
#include "compute_client/load/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The source that reads files of this machine, on its own threads, so that a slow disk never blocks
 * the workers.  It ignores split and form: every sample arrives as the whole file, with its JPEG
 * index if there is one.  A file that is missing is SLUICE_E_NOT_FOUND only while the root is the
 * folder that it was; else it is SLUICE_E_IO, as the data has nothing to do with it.  One that is
 * not the listed one is SLUICE_E_STALE. */

struct sluice_manifest;

struct sluice_local_source_options {
    const char *root;             /* the items' paths are relative to it */
    struct sluice_buf_pool *pool; /* borrowed; where the bytes live */
    unsigned num_threads;         /* >= 1 */
    size_t max_items;             /* unanswered at once */
    const char *jpeg_index;       /* "auto", "off" (also NULL) or a file: jpeg_index_file.h */
    size_t max_file_bytes;        /* 0: 512 MiB; a larger file is that sample's error */
    /* What the files are compared with (freshness.h); an item's sample id is an index into it.
     * Borrowed; NULL: nothing. */
    const struct sluice_manifest *manifest;
    bool should_verify; /* hash the content at every read */
    struct sluice_source_events events;
};

SLUICE_MUST_USE sluice_status
sluice_local_source_create(const struct sluice_local_source_options *options,
                           struct sluice_source **source, struct sluice_err *err);

#endif
