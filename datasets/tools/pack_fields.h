#ifndef SLUICE_DATASETS_TOOLS_PACK_FIELDS_H
#define SLUICE_DATASETS_TOOLS_PACK_FIELDS_H

#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stdio.h>

/* Values of fields as members of tars and columns of tables, from which index reads them again.
 *
 * Threads: pure functions. */

/* The suffix of a field's members without its dot: "txt" for one vector or bytes, else its name;
 * and the name of its column: "target", else the same. */
const char *sluice_packed_suffix(const struct sluice_fields *fields, unsigned i);
const char *sluice_packed_column(const struct sluice_fields *fields, unsigned i);

/* SLUICE_E_UNSUPPORTED: a name cannot be such a suffix; err names it. */
SLUICE_MUST_USE sluice_status sluice_packed_check_suffixes(const struct sluice_fields *fields,
                                                           struct sluice_err *err);
/* SLUICE_E_UNSUPPORTED: a name is that of another column of labels.csv, or a value but a mask's has
 * a NUL byte, which no table can hold. */
SLUICE_MUST_USE sluice_status sluice_packed_check_columns(const struct sluice_manifest *manifest,
                                                          struct sluice_err *err);

/* The value of a sample's field as the content of a member: a new text. */
SLUICE_MUST_USE sluice_status sluice_packed_value(const struct sluice_fields *fields, unsigned i,
                                                  const struct sluice_manifest_entry *entry,
                                                  char **text, size_t *len, struct sluice_err *err);

/* Writes a text as RFC 4180 quotes it. */
void sluice_packed_quote(FILE *out, const char *text, size_t len);

/* Whether a field is written as files next to the images, and not as a column. */
bool sluice_packed_is_file(const struct sluice_fields *fields, unsigned i);

/* Writes the values of a sample as columns of CSV, each with its comma in front; entry NULL: the
 * names of the columns. */
void sluice_packed_columns(FILE *out, const struct sluice_fields *fields,
                           const struct sluice_manifest_entry *entry);

/* Writes " --target ..." for each field: the options with which index reads what was packed or
 * unpacked. */
#define SLUICE_PACKED_OPTIONS 4096
void sluice_packed_options(const struct sluice_fields *fields, bool is_pack,
                           char text[SLUICE_PACKED_OPTIONS]);

#endif
