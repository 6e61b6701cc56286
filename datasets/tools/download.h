#ifndef SLUICE_DATASETS_TOOLS_DOWNLOAD_H
#define SLUICE_DATASETS_TOOLS_DOWNLOAD_H

#include "base/error.h"

#include <stdint.h>

/* Downloads of the images that a list names: many at a time, resumed, checked.
 *
 * Threads: one at a time. */

struct sluice_download_options {
    const char *base_url; /* for lines that are image ids; NULL: not given */
    uint64_t num_parallel, num_retries, max_file_bytes;
    uint64_t max_pixels; /* 0: the codec's limit */
    uint64_t limit;      /* lines of the list; 0: all */
    double retry_ms;     /* before the second try; doubles with each */
    double stall_s;      /* without a byte, after which a transfer is tried again */
};

enum sluice_download_total {
    SLUICE_DOWNLOAD_LISTED,
    SLUICE_DOWNLOAD_DOWNLOADED,
    SLUICE_DOWNLOAD_RESUMED,
    SLUICE_DOWNLOAD_RETRIES,
    SLUICE_DOWNLOAD_BYTES,
    SLUICE_DOWNLOAD_THERE,
    SLUICE_DOWNLOAD_REPEATED,
    SLUICE_DOWNLOAD_FAILED,
    SLUICE_DOWNLOAD_BAD_LINES,
    SLUICE_DOWNLOAD_NUM_TOTALS,
};

/* Downloads the images of `list` to the folder `root`, which it makes.  Call sluice_quit_init()
 * before.  A repeated call continues where the last one stopped.  Logs and counts files that cannot
 * be downloaded.  SLUICE_E_CLOSED: a signal has ended it. */
SLUICE_MUST_USE sluice_status sluice_download(const struct sluice_download_options *options,
                                              const char *list, const char *root,
                                              uint64_t totals[SLUICE_DOWNLOAD_NUM_TOTALS],
                                              struct sluice_err *err);

#endif
