#ifndef SLUICE_DATASETS_MANIFEST_FRESHNESS_H
#define SLUICE_DATASETS_MANIFEST_FRESHNESS_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Checks that a sample's file is still the one that the manifest describes; otherwise a replaced
 * file would be served under the label of another one.
 *
 *     its length     its time of change    its content
 *     differs                                                  stale
 *     as listed      as listed             with `verify`: the hash decides
 *     as listed      differs, not listed   with a hash: it decides; without one: fresh
 *
 * The time alone proves nothing, because a copy or touch(1) changes it and not the content.  So the
 * content is hashed once for each new time of a file, and the verdict is kept.  Without a hash the
 * manifest cannot vouch for the content: a warning names the first such file.
 *
 * Threads: look and read from any thread. */

struct sluice_freshness;

/* Borrows the manifest.  `verify`: hash the content at every read.  Warns if the manifest lacks
 * the hashes for that. */
SLUICE_MUST_USE sluice_status sluice_freshness_create(const struct sluice_manifest *manifest,
                                                      bool verify,
                                                      struct sluice_freshness **freshness,
                                                      struct sluice_err *err);
void sluice_freshness_destroy(struct sluice_freshness *freshness); /* NULL is allowed */

/* Call it before reading the file of a sample (an index into the manifest's entries), with the
 * length and time of the opened file.  *needs_content: read all of it and call
 * sluice_freshness_read().  SLUICE_E_STALE: err says what differs and what to do, without the path.
 */
SLUICE_MUST_USE sluice_status sluice_freshness_look(struct sluice_freshness *freshness,
                                                    size_t sample, uint64_t len, int64_t mtime_ns,
                                                    bool *needs_content, struct sluice_err *err);

/* Checks the content of that file.  SLUICE_E_STALE as above. */
SLUICE_MUST_USE sluice_status sluice_freshness_read(struct sluice_freshness *freshness,
                                                    size_t sample, int64_t mtime_ns,
                                                    const void *data, size_t len,
                                                    struct sluice_err *err);

#endif
