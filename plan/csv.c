#include "plan/csv.h"

#include "base/c_locale.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

sluice_status sluice_csv_fail(const struct sluice_csv *csv, size_t column, const char *what,
                              struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "%s:%zu: column '%s': %s", csv->path,
                       csv->line_number, csv->columns[column], what);
}

/* The next line without its end. */
static sluice_status read_line(struct sluice_csv *csv, bool *is_end, struct sluice_err *err)
{
    errno = 0;
    ssize_t len = getline(&csv->line, &csv->capacity, csv->file);
    csv->line_number++;
    if (len < 0) {
        if (ferror(csv->file))
            return sluice_fail(err, SLUICE_E_IO, "%s: %s", csv->path, strerror(errno));
        *is_end = true;
        return SLUICE_OK;
    }
    while (len > 0 && (csv->line[len - 1] == '\n' || csv->line[len - 1] == '\r'))
        csv->line[--len] = '\0';
    if (len > 0 && csv->line[len - 1] == csv->separator)
        csv->line[--len] = '\0';
    if (strlen(csv->line) != (size_t)len)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s:%zu: a NUL byte", csv->path,
                           csv->line_number);
    *is_end = false;
    return SLUICE_OK;
}

sluice_status sluice_csv_next(struct sluice_csv *csv, bool *is_end, struct sluice_err *err)
{
    const sluice_status status = read_line(csv, is_end, err);
    if (status != SLUICE_OK || *is_end)
        return status;
    char *at = csv->line;
    for (size_t i = 0; i < csv->num_columns; i++) {
        if (!at)
            return sluice_csv_fail(csv, i, "missing", err);
        csv->fields[i] = at;
        at = strchr(at, csv->separator);
        if (at)
            *at++ = '\0';
    }
    if (at)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s:%zu: more than %zu columns", csv->path,
                           csv->line_number, csv->num_columns);
    return SLUICE_OK;
}

sluice_status sluice_csv_open(struct sluice_csv *csv, const char *path, const char *first_line,
                              char separator, const char *const *columns, size_t num_columns,
                              struct sluice_err *err)
{
    assert(num_columns <= SLUICE_CSV_MAX_COLUMNS);
    *csv = (struct sluice_csv){
        .path = path, .separator = separator, .columns = columns, .num_columns = num_columns};
    csv->file = fopen(path, "re");
    if (!csv->file)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s", path,
                           strerror(errno));
    bool is_end = false;
    sluice_status status = first_line ? read_line(csv, &is_end, err) : SLUICE_OK;
    if (status == SLUICE_OK && first_line && !is_end && strcmp(csv->line, first_line) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: the first line is not \"%s\"", path,
                           first_line);
    if (status == SLUICE_OK && !is_end)
        status = sluice_csv_next(csv, &is_end, err);
    if (status != SLUICE_OK)
        return status;
    if (is_end)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: empty", path);
    for (size_t i = 0; i < num_columns; i++) {
        if (strcmp(csv->fields[i], columns[i]) != 0)
            return sluice_csv_fail(csv, i, "the header names another column here", err);
    }
    return SLUICE_OK;
}

void sluice_csv_close(struct sluice_csv *csv)
{
    if (csv->file)
        fclose(csv->file);
    free(csv->line);
}

sluice_status sluice_csv_number(const struct sluice_csv *csv, size_t column, uint64_t most,
                                uint64_t *value, struct sluice_err *err)
{
    const char *text = csv->fields[column];
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number > most)
        return sluice_csv_fail(csv, column, "not a whole number, or too large", err);
    *value = number;
    return SLUICE_OK;
}

sluice_status sluice_csv_seconds(const struct sluice_csv *csv, size_t column, double *value,
                                 struct sluice_err *err)
{
    char *end;
    const double number = sluice_strtod(csv->fields[column], &end);
    if (end == csv->fields[column] || *end || !isfinite(number) || number < 0)
        return sluice_csv_fail(csv, column, "not a time in seconds", err);
    *value = number;
    return SLUICE_OK;
}
