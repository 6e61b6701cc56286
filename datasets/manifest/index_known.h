#ifndef SLUICE_DATASETS_MANIFEST_INDEX_KNOWN_H
#define SLUICE_DATASETS_MANIFEST_INDEX_KNOWN_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stddef.h>

/* Known rows of a dataset that is being indexed, so that unchanged files are not read again: the
 * rows of the manifest that the run replaces, and the rows of an interrupted run, from a progress
 * file next to the manifest:
 *
 *     "SLUICEPG", version (4 bytes), 0 (4); then, for each file that was read, in any order:
 *     XXH3-64 of the rest (8), length of the path (4), width, height (4 each), coding (4), bytes,
 *     mtime_ns, offset (8 each), hash (2 * 8, high word first), the path without a NUL
 *
 * All numbers are little endian.  Bytes after a truncated or damaged record are ignored.
 *
 * Threads: find and add from any, the rest from one. */

struct sluice_index_known;

/* Reads the manifest `text_path`, which need not exist, and its progress file.  Warns of files that
 * cannot be read.  is_anew: starts without known rows, and deletes the progress file.  While one run
 * writes the progress file, others do not use it. */
SLUICE_MUST_USE sluice_status sluice_index_known_open(const char *text_path, bool is_anew,
                                                      struct sluice_index_known **known,
                                                      struct sluice_err *err);
/* Keeps the progress file.  NULL is allowed. */
void sluice_index_known_close(struct sluice_index_known *known);

/* Fills in hash, width, height and coding if a row with the same path, bytes, time and offset is
 * known as an image with a hash.  False: it is not. */
bool sluice_index_known_find(const struct sluice_index_known *known,
                             struct sluice_manifest_entry *row);

/* Adds a row that was read, if it is an image with a hash.  Rows are written to the progress file
 * from time to time; rows that cannot be written are lost. */
void sluice_index_known_add(struct sluice_index_known *known,
                            const struct sluice_manifest_entry *row);

/* Deletes the progress file; call it once the manifest is written. */
void sluice_index_known_remove(struct sluice_index_known *known);

#endif
