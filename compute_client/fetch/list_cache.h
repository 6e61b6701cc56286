#ifndef SLUICE_COMPUTE_CLIENT_FETCH_LIST_CACHE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_LIST_CACHE_H

#include "base/error.h"
#include "base/file.h"
#include "datasets/manifest/binary.h"

#include <stdint.h>

/* Lists of servers that were fetched before: $XDG_CACHE_HOME/sluice/ID.bin (or ~/.cache/sluice),
 * binary manifests by dataset id.  A list is one only if it also has the list_hash that the server
 * says, which covers what the id does not.  What is damaged is fetched anew.  The newest few by
 * last use are kept.
 *
 * Threads: any. */

/* The list, mapped; NULL: not cached, or list_hash is 0. */
struct sluice_manifest *sluice_list_cache_find(const char *dataset_id, uint64_t list_hash);

/* Where it is to be written, with its folder made; false: no folder to keep it in. */
bool sluice_list_cache_path(const char *dataset_id, char path[SLUICE_MAX_PATH_BYTES]);

/* Removes all but the TUNING_LIST_CACHE_FILES that were used last, and what killed processes left
 * behind more than an hour ago. */
void sluice_list_cache_trim(void);

/* As a binary manifest's source. */
struct sluice_hash128 sluice_list_cache_source(uint64_t list_hash);

#endif
