#ifndef SLUICE_DATASETS_MANIFEST_OF_STORE_H
#define SLUICE_DATASETS_MANIFEST_OF_STORE_H

#include "datasets/manifest/manifest.h"

struct sluice_store;

/* The manifest of what a store lists, by the rules of manifest.h; sluice_manifest_scan() is the
 * same for a folder.  Objects are files, and the parts of their keys are folders: so a folder
 * without files is not there, and neither are links.  An entry's mtime_ns is its object's version.
 *
 * SLUICE_E_NOT_FOUND: nothing is listed that is read; SLUICE_E_CORRUPT: a key is listed twice; and
 * what store->list says.  `root` is for words. */
SLUICE_MUST_USE sluice_status sluice_manifest_of_store(struct sluice_store *store, const char *root,
                                                       struct sluice_manifest **manifest,
                                                       struct sluice_err *err);

/* The same, with what the options ask for: shards are read by ranges, of the version that is
 * listed. Tables and lists of classes and of splits are files of this machine, and none lies in the
 * store. Further statuses as of sluice_manifest_list(); `summary` may be NULL. */
SLUICE_MUST_USE sluice_status sluice_manifest_list_store(
    struct sluice_store *store, const char *root, const struct sluice_manifest_options *options,
    struct sluice_manifest **manifest, struct sluice_manifest_summary *summary,
    struct sluice_err *err);

#endif
