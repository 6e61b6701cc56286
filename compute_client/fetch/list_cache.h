#ifndef SLUICE_COMPUTE_CLIENT_FETCH_LIST_CACHE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_LIST_CACHE_H

#include "base/error.h"
#include "base/file.h"
#include "datasets/manifest/binary.h"

#include <stdint.h>

/* Lists of servers that were fetched before: $XDG_CACHE_HOME/sluice/ID.bin (or ~/.cache/sluice),
 * binary manifests by dataset id.  A list is used only if it also has the server's list_hash, which
 * covers fields that the id does not.  Damaged lists are fetched again.  The few that were used
 * last are kept (LRU).
 *
 * Threads: any. */

/* The list, mapped; NULL: not cached, or list_hash is 0. */
struct sluice_manifest *sluice_list_cache_find(const char *dataset_id, uint64_t list_hash);

/* The path to write a list to; creates its folder.  False: there is no folder for the cache. */
bool sluice_list_cache_path(const char *dataset_id, char path[SLUICE_MAX_PATH_BYTES]);

/* Removes all except the TUNING_LIST_CACHE_FILES lists that were used last, and partial files that
 * killed processes left more than an hour ago. */
void sluice_list_cache_trim(void);

/* As a binary manifest's source. */
struct sluice_hash128 sluice_list_cache_source(uint64_t list_hash);

#endif
