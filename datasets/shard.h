#ifndef SLUICE_DATASETS_SHARD_H
#define SLUICE_DATASETS_SHARD_H

#include "base/file.h"

#include <stdbool.h>

/* Samples that are members of shards: "a/x-000.tar/KEY.jpg" is KEY.jpg in the tar a/x-000.tar.  A
 * sample is one only if its row has an offset (manifest.h): a folder may be called x.tar, too.
 *
 * Threads: any. */

/* The shard's own path: up to and including the first ".tar" before a '/'.  False, with `object`
 * untouched, if there is none or it does not fit. */
bool sluice_shard_split(const char *path, char object[SLUICE_MAX_PATH_BYTES]);

#endif
