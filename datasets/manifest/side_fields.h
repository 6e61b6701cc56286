#ifndef SLUICE_DATASETS_MANIFEST_SIDE_FIELDS_H
#define SLUICE_DATASETS_MANIFEST_SIDE_FIELDS_H

#include "datasets/list/field_source.h"
#include "datasets/manifest/builder.h"

#include <stdbool.h>

/* Values of fields from files next to the images: that of "a/1.jpg" is the content of "a/1.txt".
 *
 * Threads: called from one. */

/* Whether a file of this name has the value of a field, and is not a sample. */
bool sluice_is_side_file(const struct sluice_field_sources *sources, const char *name);

/* Reads the fields whose values are files next to the images of a folder, for images that have no
 * value yet, and sets the fields' types in the manifest.  SLUICE_E_INVALID: err names the file;
 * SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_side_fields_read(const char *root,
                                                      const struct sluice_field_sources *sources,
                                                      struct sluice_manifest_builder *builder,
                                                      struct sluice_err *err);

#endif
