#ifndef SLUICE_DATASETS_LIST_FIELD_SOURCE_H
#define SLUICE_DATASETS_LIST_FIELD_SOURCE_H

#include "base/error.h"
#include "datasets/list/fields.h"

#include <stdbool.h>

/* Where the values of a field come from.
 *
 * Threads: pure functions. */

#define SLUICE_FIELD_FROM 200 /* bytes, with the NUL */

struct sluice_field_source {
    char from[SLUICE_FIELD_FROM]; /* a column of tables, or ".txt": a suffix of members of tars */
    enum sluice_field_kind kind;  /* NONE: vectors or bytes, as the first value is */
    char name[SLUICE_FIELD_NAME]; /* "": `from` without a dot in front */
};

struct sluice_field_sources {
    unsigned num;
    struct sluice_field_source of[SLUICE_MAX_FIELDS];
};

/* Parses "[NAME=]FROM[:KIND]", and sets the name.  SLUICE_E_INVALID: a name or column is too long,
 * or a name is empty or has control characters. */
SLUICE_MUST_USE sluice_status sluice_field_source_parse(const char *text,
                                                        struct sluice_field_source *source,
                                                        struct sluice_err *err);

/* Whether the values are members of tars, and not a column. */
bool sluice_field_source_is_suffix(const struct sluice_field_source *source);

/* The fields of these sources, whose types are set as far as they are known without a value.
 * SLUICE_E_INVALID: two have one name. */
SLUICE_MUST_USE sluice_status sluice_field_sources_name(const struct sluice_field_sources *sources,
                                                        struct sluice_fields *fields,
                                                        struct sluice_err *err);

#endif
