#ifndef SLUICE_DATASETS_TOOLS_FETCH_H
#define SLUICE_DATASETS_TOOLS_FETCH_H

#include "base/error.h"

#include <stdint.h>

/* Downloads the images of a list file over HTTP, many at a time (libcurl's multi interface).
 *
 * A line of the list is "<split>/<image id>", as OpenImages lists its images, and means
 * BASE_URL/<split>/<image id>.jpg, kept as ROOT/<split>/<image id>.jpg.  Or it is a whole URL, kept
 * as ROOT/<last part of its path>: a name without the suffix of an image gets that of its content,
 * and a name that several URLs of the list end in gets a hash of the URL (fetch_names.h).  A line
 * that comes again is counted, and asked for once.  Empty lines and lines
 * that begin with '#' are passed over.
 *
 * A file is downloaded as NAME.part, which a later run continues; it is renamed to NAME only once
 * it is complete and can be decoded.  Lost connections, timeouts, 408, 429 and 5xx are retried with
 * exponential backoff, no sooner than the server's Retry-After says; other errors of the server are
 * final.  A failure is logged with URL and reason, and the other files go on.
 *
 * Threads: one call at a time in a process. */

struct sluice_fetch_options {
    const char *list_path;
    const char *root;      /* made if it is missing */
    const char *base_url;  /* without a slash at the end; NULL: only whole URLs are taken */
    unsigned num_parallel; /* transfers at a time; >= 1 */
    unsigned num_retries;  /* of one file, after the first try */
    unsigned retry_ms;     /* pause before the second try; it doubles with each try */
    unsigned stall_s;      /* a transfer fails if no byte comes for this long */
    uint64_t max_file_bytes;
    uint64_t max_image_pixels; /* 0: the codec's default */
    uint64_t limit;            /* number of lines to take; 0: all */
};

struct sluice_fetch_totals {
    uint64_t listed, already_there, downloaded, failed, bad_lines; /* the first: of these, and */
    uint64_t repeated; /* lines whose file another line asked for */
    uint64_t resumed;  /* of those downloaded: from a part */
    uint64_t bytes;    /* received in this run */
    uint64_t retries;
};

/* Returns an error only for the list or the root; failures of single files are counted in the
 * totals and logged. */
SLUICE_MUST_USE sluice_status sluice_fetch(const struct sluice_fetch_options *options,
                                           struct sluice_fetch_totals *totals,
                                           struct sluice_err *err);

#endif
