#ifndef SLUICE_DATASETS_MANIFEST_DRIFT_H
#define SLUICE_DATASETS_MANIFEST_DRIFT_H

#include "base/error.h"
#include "base/file.h"
#include "datasets/manifest/manifest.h"

#include <stdatomic.h>
#include <stdint.h>

/* Whether a manifest file still describes its folder, at a bounded cost: a manifest that was made
 * before files were added, removed or replaced is used without them.
 *
 *     every folder of the manifest      one stat
 *     those changed since the manifest  listed; their names are compared with the rows, exactly
 *     DRIFT_FOLDERS of the others       the same, as a copy of the manifest hides when it was made
 *     DRIFT_FILES files, evenly spread  one stat: length and time of change
 *     up to DRIFT_HASHES of these       where the time alone differs: the content is hashed
 *
 * So there is no false alarm where all was copied, with or without its times, or touched.  What
 * may be missed: replaced files that are not among those looked at (freshness.h finds them when
 * they are read), and links and folders of links that are new.
 *
 * Threads: any. */

/* Lists some 80,000 names of ImageNet, which takes a tenth of a second. */
#define DRIFT_FOLDERS 64
#define DRIFT_FILES 256
#define DRIFT_HASHES 16

struct sluice_manifest_drift {
    uint64_t num_added, num_gone; /* files */
    uint64_t num_changed;         /* of the files looked at */
    /* The first of each, relative to the root. */
    char added[SLUICE_MAX_PATH_BYTES], gone[SLUICE_MAX_PATH_BYTES], changed[SLUICE_MAX_PATH_BYTES];
    uint64_t num_folders, num_listed, num_files; /* looked at */
};

/* Compares the manifest, which was read from `path`, with the folder.  `is_cancelled` (may be NULL)
 * ends it early with what was found.  SLUICE_E_IO: the root or a folder cannot be read;
 * SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_manifest_find_drift(const struct sluice_manifest *manifest,
                                                         const char *root, const char *path,
                                                         const atomic_bool *is_cancelled,
                                                         struct sluice_manifest_drift *drift,
                                                         struct sluice_err *err);

/* The same, in one line of the log: a warning that says what differs, which command mends it and
 * what to do `then` ("start again"); nothing but a debug line where all agrees.  `path` NULL: the
 * root's own manifest.  A manifest that was scanned is not looked at. */
void sluice_manifest_tell_drift(const struct sluice_manifest *manifest, const char *root,
                                const char *path, const char *then,
                                const atomic_bool *is_cancelled);

#endif
