#ifndef SLUICE_DATASETS_MANIFEST_INDEX_KNOWN_H
#define SLUICE_DATASETS_MANIFEST_INDEX_KNOWN_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stddef.h>

/* What an index of a dataset knows before it reads a file: the rows of the manifest that it is to
 * replace, and those of a run that was ended before it wrote one, which lie in a file beside it:
 *
 *     "SLUICEPG", version (4 bytes), 0 (4); then, for each file that was read, in any order:
 *     XXH3-64 of the rest (8), length of the path (4), width, height (4 each), coding (4), bytes,
 *     mtime_ns, offset (8 each), hash (2 * 8, high word first), the path without a NUL
 *
 * All numbers are little endian.  What follows a record that is cut or damaged does not count.
 *
 * Threads: find and add from any, the rest from one. */

struct sluice_index_known;

/* Beside the manifest `text_path`, which need not be there.  What cannot be read is not known, with
 * a warning.  is_anew: nothing is known, and what was is forgotten.  While one run writes the file
 * beside it, others do without. */
SLUICE_MUST_USE sluice_status sluice_index_known_open(const char *text_path, bool is_anew,
                                                      struct sluice_index_known **known,
                                                      struct sluice_err *err);
/* The file beside it stays.  NULL is allowed. */
void sluice_index_known_close(struct sluice_index_known *known);

/* Fills in hash, width, height and coding of a row that is known with the same path, bytes, time
 * and offset, as an image with a hash. */
bool sluice_index_known_find(const struct sluice_index_known *known,
                             struct sluice_manifest_entry *row);

/* Notes a row that was read, if it is an image with a hash; now and then they are written, and what
 * cannot be written is lost. */
void sluice_index_known_add(struct sluice_index_known *known,
                            const struct sluice_manifest_entry *row);

/* The manifest is written: the file beside it is not needed any more. */
void sluice_index_known_remove(struct sluice_index_known *known);

#endif
