#ifndef SLUICE_DATASETS_LIST_CLASS_LIST_H
#define SLUICE_DATASETS_LIST_CLASS_LIST_H

#include "base/error.h"
#include "datasets/manifest/builder.h"

#include <stddef.h>

/* The names of a dataset's classes by label, from a file: one name a line, the first is label 0.
 * Tab, newline and backslash in a name are written \t, \n and \\, as in a manifest.  A file of one
 * empty line is a dataset of one class without a name.
 *
 * Threads: any; a list is the caller's. */

/* The file in a root that fixes the labels; `offload_dataset pack` writes it. */
#define SLUICE_CLASS_LIST_FILE "sluice-classes.txt"

/* Each class has a name, so a label is bounded by what their names take: these, some 200 MB. */
#define SLUICE_MAX_CLASSES 10000000
#define SLUICE_LABEL_RANGE "a label from 0 to 9999999"

struct sluice_class_list {
    char **names;
    size_t num;
};

/* SLUICE_E_NOT_FOUND, SLUICE_E_IO; SLUICE_E_INVALID: err names the line. */
SLUICE_MUST_USE sluice_status sluice_class_list_read(const char *path,
                                                     struct sluice_class_list *list,
                                                     struct sluice_err *err);
void sluice_class_list_clear(struct sluice_class_list *list);

SLUICE_MUST_USE sluice_status sluice_class_list_write(const struct sluice_manifest *manifest,
                                                      const char *path, struct sluice_err *err);

/* Sets the labels of the entries from the names of their classes; the list's classes become the
 * manifest's.  SLUICE_E_INVALID: a class with a sample is not in the list. */
SLUICE_MUST_USE sluice_status sluice_class_list_apply(const struct sluice_class_list *list,
                                                      struct sluice_manifest_builder *builder,
                                                      struct sluice_err *err);

/* Takes the name of each sample's class, in any order.  Sorts them as Python sorts text, removes
 * duplicates (*num), and adds the rest to the manifest, which must not have classes yet. */
SLUICE_MUST_USE sluice_status sluice_class_names_add(const char **names, size_t *num,
                                                     struct sluice_manifest_builder *builder,
                                                     struct sluice_err *err);
/* The label of a name in that sorted list. */
uint32_t sluice_class_names_find(const char *const *names, size_t num, const char *name);

/* For entries whose labels are numbers, without classes yet: the list's classes become the
 * manifest's, or without a list (NULL) "0", "1", ... up to the largest label.  SLUICE_E_INVALID: a
 * label that the list has no name for, or of SLUICE_MAX_CLASSES and more. */
SLUICE_MUST_USE sluice_status sluice_class_list_number(const struct sluice_class_list *list,
                                                       struct sluice_manifest_builder *builder,
                                                       struct sluice_err *err);

#endif
