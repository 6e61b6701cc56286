#ifndef SLUICE_DATASETS_MANIFEST_JOIN_H
#define SLUICE_DATASETS_MANIFEST_JOIN_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stddef.h>
#include <stdint.h>

/* Joins the lists of a dataset whose files are in several places: rows are ordered by path, classes
 * by name, each name once; subsets, sizes and hashes stay.
 *
 *     servers that each have a part of the    the list of one server with all files, so its id is
 *     files                                   that of the undivided dataset
 *     roots with names (base/roots.h)         paths get NAME/; each root has its own layout
 *
 * Threads: a function of its arguments. */

struct sluice_manifest_part {
    const struct sluice_manifest *manifest;
    const char *root; /* its name; "": paths stay as they are */
    const char *name; /* for errors, as its host */
};

/* Where a row of the whole is. */
struct sluice_manifest_place {
    uint32_t part, row;
};

/* The caller frees *places (may be NULL: not wanted).  Either all parts have root names, ordered by
 * sluice_root_compare(), or none has.  SLUICE_E_INVALID: two parts without root names have the same
 * path, or the folders of one are classes and those of the other subsets; the error names both.
 * SLUICE_E_UNSUPPORTED: a path becomes too long, or there are too many.  num_parts >= 1. */
SLUICE_MUST_USE sluice_status sluice_manifest_join(const struct sluice_manifest_part *parts,
                                                   size_t num_parts,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_manifest_place **places,
                                                   struct sluice_err *err);

/* The reverse: a new manifest of the rows from this root, without its name in their paths, and with
 * all classes.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_manifest_of_root(const struct sluice_manifest *whole,
                                                      const char *root,
                                                      struct sluice_manifest **manifest,
                                                      struct sluice_err *err);

#endif
