#ifndef SLUICE_STORE_KNOWN_VERSIONS_H
#define SLUICE_STORE_KNOWN_VERSIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Lengths and versions of remote objects by key, so that an object's headers are requested once,
 * not before each read.  A hash table with linear probing, 24 bytes a slot.  Keys with the same
 * 64-bit hash share a slot; a read detects that because the version differs.
 *
 * Threads: any. */

struct sluice_known_versions;

SLUICE_MUST_USE sluice_status sluice_known_versions_create(struct sluice_known_versions **known,
                                                           struct sluice_err *err);
void sluice_known_versions_destroy(struct sluice_known_versions *known); /* NULL is allowed */

/* Stores nothing if memory is short.  version 0: removes the key. */
void sluice_known_versions_put(struct sluice_known_versions *known, const char *key, uint64_t bytes,
                               int64_t version);
bool sluice_known_versions_get(struct sluice_known_versions *known, const char *key,
                               uint64_t *bytes, int64_t *version);

#endif
