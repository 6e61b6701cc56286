#ifndef SLUICE_STORE_KNOWN_VERSIONS_H
#define SLUICE_STORE_KNOWN_VERSIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Lengths and versions of remote objects by key, so that an object is asked for its headers once
 * and not before each read.  A hash table with linear probing, of 24 bytes a place; two keys of one
 * hash of 64 bits share one, which a read notices, as the version is not its object's.
 *
 * Threads: any. */

struct sluice_known_versions;

SLUICE_MUST_USE sluice_status sluice_known_versions_create(struct sluice_known_versions **known,
                                                           struct sluice_err *err);
void sluice_known_versions_destroy(struct sluice_known_versions *known); /* NULL is allowed */

/* Without memory nothing is kept.  version 0: forgets the key. */
void sluice_known_versions_put(struct sluice_known_versions *known, const char *key, uint64_t bytes,
                               int64_t version);
bool sluice_known_versions_get(struct sluice_known_versions *known, const char *key,
                               uint64_t *bytes, int64_t *version);

#endif
