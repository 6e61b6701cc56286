#ifndef SLUICE_STORAGE_SERVER_DATA_SUBSET_ROWS_H
#define SLUICE_STORAGE_SERVER_DATA_SUBSET_ROWS_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stddef.h>

/* The entries of a manifest that belong to a subset, without a walk over the other subset's.
 *
 * Entries are ordered by path, so the entries of a subset form runs, usually about two in all.  The
 * runs are found once; a row is found by binary search among them.
 *
 * Threads: immutable once made. */

enum sluice_rows_of { SLUICE_ROWS_ALL, SLUICE_ROWS_TRAIN, SLUICE_ROWS_VAL };

struct sluice_subset_rows;

/* O(entries). */
SLUICE_MUST_USE sluice_status sluice_subset_rows_create(const struct sluice_manifest *manifest,
                                                        struct sluice_subset_rows **rows,
                                                        struct sluice_err *err);
void sluice_subset_rows_destroy(struct sluice_subset_rows *rows); /* NULL is allowed */

size_t sluice_subset_rows_count(const struct sluice_subset_rows *rows, enum sluice_rows_of subset);

/* Writes the entry numbers of the subset's rows from `first` on, at most `max`, and returns their
 * number.  *num_visited (may be NULL): the entries and runs that it visited, at most 2 * max + 64.
 */
size_t sluice_subset_rows_get(const struct sluice_subset_rows *rows, enum sluice_rows_of subset,
                              size_t first, size_t max, size_t *entries, size_t *num_visited);

#endif
