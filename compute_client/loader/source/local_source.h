#ifndef SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_LOCAL_SOURCE_H
#define SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_LOCAL_SOURCE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/roots.h"
#include "compute_client/loader/source/source.h"

#include <stdbool.h>
#include <stddef.h>

/* The source that reads files of this machine, on its own threads, so that a slow disk never blocks
 * the workers.  It ignores split and form: every sample arrives as the whole file, with its JPEG
 * index if there is one.
 *
 * A read that fails in a way that may pass (sluice_retry_is_worth()) is done again after a wait,
 * for up to retry_for_s; meanwhile its thread reads other files.  A read that has not returned
 * after sample_timeout_s fails its sample, without a retry: another read of that disk could block
 * another thread.  The thread is abandoned and a new one replaces it; if the read returns after
 * all, the thread ends.  Once MAX_STUCK reads are stuck at the same time, the source has failed.
 * close() does not wait for reads that hang.
 *
 * A missing file is SLUICE_E_NOT_FOUND only while its root is still the same folder; else it is
 * SLUICE_E_IO, because the data is not the cause.  A file that differs from the list is
 * SLUICE_E_STALE. */

struct sluice_manifest;

struct sluice_local_source_options {
    /* Folders that the items' paths are relative to; a root's name is the first part of a path. */
    const struct sluice_roots *roots;
    struct sluice_buf_pool *pool; /* borrowed; holds the bytes of files */
    unsigned num_threads;         /* >= 1 */
    size_t max_items;             /* unanswered at once */
    double retry_for_s;           /* 0: never read again */
    double sample_timeout_s;      /* 0: no limit on the time of a read */
    const char *jpeg_index;       /* "auto", "off" (also NULL) or a file: jpeg_index_file.h */
    size_t max_file_bytes;        /* 0: 512 MiB; a larger file is that sample's error */
    /* The list that the files are compared with (freshness.h); an item's sample id is an index into
     * it. Borrowed until close; NULL: nothing. */
    const struct sluice_manifest *manifest;
    bool should_verify; /* hash the content at every read */
    struct sluice_source_events events;
};

SLUICE_MUST_USE sluice_status
sluice_local_source_create(const struct sluice_local_source_options *options,
                           struct sluice_source **source, struct sluice_err *err);

#endif
