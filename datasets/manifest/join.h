#ifndef SLUICE_DATASETS_MANIFEST_JOIN_H
#define SLUICE_DATASETS_MANIFEST_JOIN_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"

#include <stddef.h>
#include <stdint.h>

/* The list of a dataset whose files lie in several places: rows are ordered by path, classes by
 * name, each name once; subsets, sizes and hashes stay.
 *
 *     servers with a part of the files each   what one server over all of them would list; so its
 *                                             id is that of the undivided dataset
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

/* *places (NULL: they are not wanted) is the caller's to free.  Roots with names are ordered by
 * sluice_root_compare(), and all have one or none.  SLUICE_E_INVALID: of parts without roots a path
 * is in two, or the folders of one are classes and those of another subsets; the error names both.
 * SLUICE_E_UNSUPPORTED: a path becomes too long, or there are too many.  num_parts >= 1. */
SLUICE_MUST_USE sluice_status sluice_manifest_join(const struct sluice_manifest_part *parts,
                                                   size_t num_parts,
                                                   struct sluice_manifest **manifest,
                                                   struct sluice_manifest_place **places,
                                                   struct sluice_err *err);

/* The way back: a new manifest of the rows that came from this root, without its name in their
 * paths, and with all classes.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_manifest_of_root(const struct sluice_manifest *whole,
                                                      const char *root,
                                                      struct sluice_manifest **manifest,
                                                      struct sluice_err *err);

#endif
