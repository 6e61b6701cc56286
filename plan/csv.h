#ifndef SLUICE_PLAN_CSV_H
#define SLUICE_PLAN_CSV_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Reads a table of known columns, line by line; every error names file, line and column.
 *
 * Threads: one at a time. */

#define SLUICE_CSV_MAX_COLUMNS 16

struct sluice_csv {
    const char *path; /* borrowed */
    FILE *file;
    char separator;
    const char *const *columns; /* borrowed */
    size_t num_columns;
    char *line;
    size_t capacity;
    size_t line_number;                   /* of the line read last, from 1 */
    char *fields[SLUICE_CSV_MAX_COLUMNS]; /* of that line */
};

/* Opens the file.  Its first line must be `first_line`, unless that is NULL; the next line must
 * name the columns.  SLUICE_E_NOT_FOUND, SLUICE_E_IO, SLUICE_E_CORRUPT.  Close it also after a
 * failure. */
SLUICE_MUST_USE sluice_status sluice_csv_open(struct sluice_csv *csv, const char *path,
                                              const char *first_line, char separator,
                                              const char *const *columns, size_t num_columns,
                                              struct sluice_err *err);
void sluice_csv_close(struct sluice_csv *csv);

/* Splits the next line into csv->fields; *is_end at the end of the file.  One separator at the end
 * of a line, which the original implementation writes, does not begin another field. */
SLUICE_MUST_USE sluice_status sluice_csv_next(struct sluice_csv *csv, bool *is_end,
                                              struct sluice_err *err);

/* SLUICE_E_CORRUPT: "path:line: column 'name': what". */
sluice_status sluice_csv_fail(const struct sluice_csv *csv, size_t column, const char *what,
                              struct sluice_err *err);

/* A field as a whole number of at most `most`, and as seconds. */
SLUICE_MUST_USE sluice_status sluice_csv_number(const struct sluice_csv *csv, size_t column,
                                                uint64_t most, uint64_t *value,
                                                struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_csv_seconds(const struct sluice_csv *csv, size_t column,
                                                 double *value, struct sluice_err *err);

#endif
