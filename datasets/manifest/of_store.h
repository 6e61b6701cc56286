#ifndef SLUICE_DATASETS_MANIFEST_OF_STORE_H
#define SLUICE_DATASETS_MANIFEST_OF_STORE_H

#include "datasets/manifest/manifest.h"

struct sluice_store;

/* Makes the manifest of a store's objects, by the rules of manifest.h; sluice_manifest_scan() does
 * the same for a folder.  Objects are files, and the parts of their keys are folders.  So there are
 * no empty folders and no links.  An entry's mtime_ns is its object's version.
 *
 * SLUICE_E_NOT_FOUND: the store lists no image that is read; SLUICE_E_CORRUPT: it lists a key twice;
 * and the statuses of store->list.  `root` is for messages. */
SLUICE_MUST_USE sluice_status sluice_manifest_of_store(struct sluice_store *store, const char *root,
                                                       struct sluice_manifest **manifest,
                                                       struct sluice_err *err);

/* The same, with options.  Shards are read by ranges, in the listed version.  Tables, class lists
 * and split lists are files of this machine, never of the store.  Further statuses as of
 * sluice_manifest_list(); `summary` may be NULL. */
SLUICE_MUST_USE sluice_status sluice_manifest_list_store(
    struct sluice_store *store, const char *root, const struct sluice_manifest_options *options,
    struct sluice_manifest **manifest, struct sluice_manifest_summary *summary,
    struct sluice_err *err);

#endif
