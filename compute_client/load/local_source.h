#ifndef SLUICE_COMPUTE_CLIENT_LOAD_LOCAL_SOURCE_H
#define SLUICE_COMPUTE_CLIENT_LOAD_LOCAL_SOURCE_H

#include "base/buf.h"
#include "base/error.h"
#include "compute_client/load/source.h"

#include <stddef.h>
#include <stdint.h>

/* The source that reads files of this machine, on its own threads, so that a slow disk never blocks
 * the workers.  It ignores split and form: every sample arrives as the whole file, with its JPEG
 * index if there is one. */

struct sluice_local_source_options {
    const char *root;             /* the items' paths are relative to it */
    struct sluice_buf_pool *pool; /* borrowed; where the bytes live */
    unsigned num_threads;         /* >= 1 */
    size_t max_items;             /* unanswered at once */
    const char *jpeg_index;       /* "auto", "off" (also NULL) or a file: jpeg_index_file.h */
    size_t max_file_bytes;        /* 0: 512 MiB; a larger file is that sample's error */
    struct sluice_source_events events;
};

SLUICE_MUST_USE sluice_status
sluice_local_source_create(const struct sluice_local_source_options *options,
                           struct sluice_source **source, struct sluice_err *err);

#endif
