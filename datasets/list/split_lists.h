#ifndef SLUICE_DATASETS_LIST_SPLIT_LISTS_H
#define SLUICE_DATASETS_LIST_SPLIT_LISTS_H

#include "base/error.h"
#include "datasets/manifest/builder.h"

#include <stdbool.h>
#include <stddef.h>

/* Split lists: files that say which samples are train and which are val.  Each line has the path of
 * an image, relative to the root, and optionally a blank or tab and its label.
 *
 *     cat/1.jpg            cat/a 1.jpg 17
 *     ./cat/2.jpg          dog/2.jpg 3
 *
 * A last word of digits is a label if the text before it ends like the name of an image.  Either all
 * lines have labels or none has.  Empty lines are skipped.
 *
 * Threads: a list may be used by one at a time. */

struct sluice_split_lists;

SLUICE_MUST_USE sluice_status sluice_split_lists_create(struct sluice_split_lists **lists,
                                                        struct sluice_err *err);
void sluice_split_lists_destroy(struct sluice_split_lists *lists); /* NULL is allowed */

/* Adds the lines of a file; `name` is the file's in messages.  SLUICE_E_INVALID: err names file and
 * line. */
SLUICE_MUST_USE sluice_status sluice_split_lists_parse(struct sluice_split_lists *lists,
                                                       const char *name, const char *text,
                                                       size_t len, enum sluice_subset subset,
                                                       struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_split_lists_read(struct sluice_split_lists *lists,
                                                      const char *path, enum sluice_subset subset,
                                                      struct sluice_err *err);

/* Removes every entry that no line names, logs their number, and sets the labels of the others if
 * the lines have labels.  SLUICE_E_INVALID: a path comes twice, or is not an entry; err names file
 * and line. */
SLUICE_MUST_USE sluice_status sluice_split_lists_select(struct sluice_split_lists *lists,
                                                        struct sluice_manifest *manifest,
                                                        const char *root, struct sluice_err *err);
bool sluice_split_lists_have_labels(const struct sluice_split_lists *lists);

/* Sets the subsets of the entries that were selected. */
void sluice_split_lists_assign(const struct sluice_split_lists *lists,
                               struct sluice_manifest *manifest);

#endif
