#ifndef SLUICE_DATASETS_LIST_SPLIT_NAME_H
#define SLUICE_DATASETS_LIST_SPLIT_NAME_H

#include <stddef.h>

/* The words that name a split of a dataset, the same in tables and for folders, in any case of
 * their letters: train and training; val, valid, validation and dev; test and testing.
 *
 * Threads: pure functions. */

/* In addition to enum sluice_subset (manifest.h).  Samples of split test are left out. */
#define SLUICE_SPLIT_TEST 2
#define SLUICE_NUM_SPLITS 3

/* Room for the longest of these words with a '/' and a NUL. */
#define SLUICE_SPLIT_FOLDER_BYTES sizeof("validation/")

/* The split that name[0 .. len) names: SLUICE_SUBSET_TRAIN, SLUICE_SUBSET_VAL or SLUICE_SPLIT_TEST;
 * -1: none. */
int sluice_split_of_name(const char *name, size_t len);

/* The split that the first folder of a path names; -1: none.  *rest (may be NULL) is then the path
 * in that folder. */
int sluice_split_of_path(const char *path, const char **rest);

#endif
