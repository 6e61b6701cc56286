#ifndef SLUICE_DATASETS_LIST_LABEL_TABLE_H
#define SLUICE_DATASETS_LIST_LABEL_TABLE_H

#include "base/error.h"
#include "datasets/list/field_source.h"
#include "datasets/list/field_values.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stddef.h>

/* The rows of one table of labels, as labels.h describes it: parsing alone.
 *
 * Threads: none of its own. */

struct sluice_label_row {
    const char *path;  /* in the table's text, like the next */
    const char *label; /* digits, or a name; NULL: the table has no labels */
    size_t line;
    size_t first_place; /* in the table's places */
    int subset;         /* as sluice_split_of_name() has it; -1: the table does not say */
};

struct sluice_label_table {
    const char *name; /* in messages; borrowed */
    char *text;       /* owned; the rows point into it */
    struct sluice_label_row *rows;
    size_t num_rows, capacity;
    bool are_names; /* of the labels: else all are integers */
    bool has_labels;
    const char *label_name; /* of their column; borrowed, or a constant; NULL: none */
    const struct sluice_field_sources *sources; /* fields that were asked for; borrowed */
    bool has_field[SLUICE_MAX_FIELDS];          /* by source: the table has its column */
    struct sluice_field_values fields[SLUICE_MAX_FIELDS];
    struct sluice_field_place *places; /* in `fields`: num of sources for each row */
    size_t place_capacity;
};

/* The names that a column of labels may have, by rank from 0; the first that exists is used.  NULL:
 * no more names. */
const char *sluice_label_name(unsigned rank);

/* Takes text[0 .. len) with a column of labels (label_key, borrowed, or NULL: one of the names
 * above), columns of fields that are asked for, or both. It has room for one byte more and was
 * allocated by malloc().  A name that ends in .jsonl is a table of JSON lines, any other one is
 * CSV.  *is_table: it has the columns; if not, it has no rows, and that is not an error.  Clear it
 * in any case. SLUICE_E_INVALID: err names table, line and field. */
SLUICE_MUST_USE sluice_status sluice_label_table_parse(struct sluice_label_table *table,
                                                       const char *name, char *text, size_t len,
                                                       const char *label_key,
                                                       const struct sluice_field_sources *sources,
                                                       bool *is_table, struct sluice_err *err);
/* Whether it has the column of any field. */
bool sluice_label_table_has_fields(const struct sluice_label_table *table);
/* The value of a row's field; the table must have its column. */
struct sluice_field_value sluice_label_table_value(const struct sluice_label_table *table,
                                                   const struct sluice_label_row *row,
                                                   unsigned source);
void sluice_label_table_clear(struct sluice_label_table *table);

#endif
