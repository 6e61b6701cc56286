#ifndef SLUICE_DATASETS_MANIFEST_DRIFT_H
#define SLUICE_DATASETS_MANIFEST_DRIFT_H

#include "base/error.h"
#include "base/file.h"
#include "datasets/manifest/manifest.h"

#include <stdatomic.h>
#include <stdint.h>

/* Checks at a bounded cost whether a manifest file still describes its folder, since changes after
 * the manifest was made are not in it.
 *
 *     every folder of the manifest      one stat
 *     folders newer than the manifest   listed; all names are compared with the rows
 *     DRIFT_FOLDERS of the others       the same, because a copied manifest looks newer than it is
 *     DRIFT_FILES files, evenly spread  one stat: length and time of change
 *     up to DRIFT_HASHES of these       if only the time differs, the content is hashed
 *
 * So a copied or touched dataset gives no false alarm.  The check may miss replaced files that are
 * not sampled (freshness.h finds them when they are read), and new links and folders of links.
 *
 * Threads: any. */

/* On ImageNet this lists about 80,000 names, in a tenth of a second. */
#define DRIFT_FOLDERS 64
#define DRIFT_FILES 256
#define DRIFT_HASHES 16

struct sluice_manifest_drift {
    uint64_t num_added, num_gone; /* files */
    uint64_t num_changed;         /* of the checked files */
    /* The first of each, relative to the root. */
    char added[SLUICE_MAX_PATH_BYTES], gone[SLUICE_MAX_PATH_BYTES], changed[SLUICE_MAX_PATH_BYTES];
    uint64_t num_folders, num_listed, num_files; /* checked */
};

/* Compares the manifest, which was read from `path`, with the folder.  `is_cancelled` (may be NULL)
 * ends it early with what was found.  SLUICE_E_IO: the root or a folder cannot be read;
 * SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_manifest_find_drift(const struct sluice_manifest *manifest,
                                                         const char *root, const char *path,
                                                         const atomic_bool *is_cancelled,
                                                         struct sluice_manifest_drift *drift,
                                                         struct sluice_err *err);

/* Logs the same in one line: a warning that says what differs, which command mends it and what to do
 * `then` ("start again"), or a debug line if nothing differs.  `path` NULL: the root's own manifest.
 * A scanned manifest is not checked. */
void sluice_manifest_tell_drift(const struct sluice_manifest *manifest, const char *root,
                                const char *path, const char *then,
                                const atomic_bool *is_cancelled);

#endif
