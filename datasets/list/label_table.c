#include "datasets/list/label_table.h"

#include "base/array.h"
#include "base/c_locale.h"
#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/list/python_json.h"
#include "datasets/list/split_name.h"
#include "datasets/manifest/passed_over.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns to look for in a table; FIELD + i is the one of source i. */
enum column { PATH, LABEL, SPLIT, FIELD, NUM_COLUMNS = FIELD + SLUICE_MAX_FIELDS };

/* Names of a column of labels; the first one that is there is taken. */
static const char *const label_names[] = {"label", "class", "cls", "target"};

const char *sluice_label_name(unsigned rank)
{
    return rank < SLUICE_ARRAY_LEN(label_names) ? label_names[rank] : NULL;
}

/* The column of a source; NULL: the source is not a column. */
static const char *name_of_source(const struct sluice_label_table *table, unsigned source)
{
    const struct sluice_field_source *of = &table->sources->of[source];
    return source < table->sources->num && !sluice_field_source_is_suffix(of) ? of->from : NULL;
}

static const char *name_of(const struct sluice_label_table *table, enum column column)
{
    switch (column) {
    case PATH:
        return "file_name";
    case SPLIT:
        return "split";
    case LABEL:
        return table->label_name ? table->label_name : label_names[0];
    default:
        return name_of_source(table, column - FIELD);
    }
}

/* Whether a column holds the values of this source. */
static bool is_of_source(const struct sluice_label_table *table, unsigned source, const char *name)
{
    const char *wanted = name_of_source(table, source);
    return wanted && strcmp(wanted, name) == 0;
}

static bool is_of_any_source(const struct sluice_label_table *table, const char *name)
{
    for (unsigned i = 0; i < table->sources->num; i++) {
        if (is_of_source(table, i, name))
            return true;
    }
    return false;
}

/* The use of a column that holds no values of fields; -1: it is not used. */
static int column_of(const struct sluice_label_table *table, const char *name)
{
    if (is_of_any_source(table, name))
        return -1;
    if (table->label_name && strcmp(name, table->label_name) == 0)
        return LABEL;
    if (strcmp(name, "path") == 0 || strcmp(name, "file_name") == 0)
        return PATH;
    return strcmp(name, "split") == 0 ? SPLIT : -1;
}

/* Sets the name of the column of labels, unless it was given: the first of the usual names that
 * `has` finds, except columns of fields. */
static void choose_label(struct sluice_label_table *table,
                         bool (*has)(const void *columns, const char *name), const void *columns)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(label_names) && !table->label_name; i++) {
        if (!is_of_any_source(table, label_names[i]) && has(columns, label_names[i]))
            table->label_name = label_names[i];
    }
}

static sluice_status wrong(const struct sluice_label_table *table, size_t line, const char *what,
                           struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: %s", table->name, line, what);
}

static sluice_status wrong_field(const struct sluice_label_table *table, size_t line,
                                 enum column column, const char *value, const char *what,
                                 struct sluice_err *err)
{
    char shown[100];
    sluice_escape_line(shown, sizeof(shown), value);
    return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: field '%s': '%s' %s", table->name, line,
                       name_of(table, column), shown, what);
}

/* --- rows --- */

static bool is_integer(const char *text)
{
    return text[0] && strspn(text, "0123456789") == strlen(text);
}

static sluice_status check_label(struct sluice_label_table *table, const char *label, bool is_name,
                                 size_t line, struct sluice_err *err)
{
    if (table->num_rows == 0)
        table->are_names = is_name;
    else if (table->are_names != is_name)
        return wrong_field(table, line, LABEL, label,
                           is_name ? "is a name, but the rows before have integers"
                                   : "is an integer, but the rows before have names",
                           err);
    if (!is_name && (strlen(label) > 9 || strtoul(label, NULL, 10) >= SLUICE_MAX_CLASSES))
        return wrong_field(table, line, LABEL, label, "is not " SLUICE_LABEL_RANGE, err);
    return SLUICE_OK;
}

/* `is_name`: the label is one for sure, whatever it looks like. */
static sluice_status add_row(struct sluice_label_table *table, char *const values[FIELD],
                             const struct sluice_field_place places[SLUICE_MAX_FIELDS],
                             bool is_name, size_t line, struct sluice_err *err)
{
    const char *path = values[PATH], *label = values[LABEL];
    for (int i = 0; i < FIELD; i++) {
        if (!values[i])
            continue;
        if (!values[i][0])
            return wrong_field(table, line, (enum column)i, "", "is empty", err);
        if (!sluice_is_utf8(values[i]))
            return wrong_field(table, line, (enum column)i, values[i], "is not UTF-8", err);
    }
    const size_t num_places = table->sources->num;
    struct sluice_label_row row = {.label = label, .line = line, .subset = -1};
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    row.path = path;
    if (values[SPLIT])
        row.subset = sluice_split_of_name(values[SPLIT], strlen(values[SPLIT]));
    if (values[SPLIT] && row.subset < 0)
        return wrong_field(table, line, SPLIT, values[SPLIT],
                           "is none of train, val, validation and test", err);
    if (label) {
        const sluice_status status =
            check_label(table, label, is_name || !is_integer(label), line, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (!sluice_array_reserve(&table->rows, &table->capacity, table->num_rows + 1,
                              sizeof(*table->rows)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu labels",
                           table->num_rows + 1);
    row.first_place = table->num_rows * num_places;
    if (num_places > 0) {
        if (!sluice_array_reserve(&table->places, &table->place_capacity,
                                  row.first_place + num_places, sizeof(*table->places)))
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu rows",
                               table->num_rows + 1);
        memcpy(table->places + row.first_place, places, num_places * sizeof(*places));
    }
    table->rows[table->num_rows++] = row;
    return SLUICE_OK;
}

/* The result of adding the value of a field, with its line and column. */
static sluice_status wrong_value(const struct sluice_label_table *table, sluice_status status,
                                 unsigned source, size_t line, const char *value,
                                 const struct sluice_err *why, struct sluice_err *err)
{
    return status == SLUICE_E_INVALID
               ? wrong_field(table, line, FIELD + source, value, why->text, err)
               : sluice_fail(err, status, "%s", why->text);
}

/* --- CSV (RFC 4180) --- */

struct csv {
    const struct sluice_label_table *table;
    char *at, *end;
    size_t line; /* of `at` */
};

/* Reads a quoted text in place; leaves `at` after the closing quote. */
static sluice_status take_quoted(struct csv *csv, char **out, struct sluice_err *err)
{
    const size_t first_line = csv->line;
    for (csv->at++; csv->at < csv->end; csv->at++) {
        if (*csv->at == '"' && (csv->at + 1 == csv->end || csv->at[1] != '"')) {
            csv->at++;
            return SLUICE_OK;
        }
        csv->at += *csv->at == '"'; /* of two quotes, the second */
        csv->line += *csv->at == '\n';
        *(*out)++ = *csv->at;
    }
    return wrong(csv->table, first_line, "a quote that is not closed", err);
}

/* The next field, in place and terminated.  *is_last: of its row. */
static sluice_status take_field(struct csv *csv, char **field, bool *is_last,
                                struct sluice_err *err)
{
    char *out = csv->at;
    *field = out;
    if (csv->at < csv->end && *csv->at == '"') {
        const sluice_status status = take_quoted(csv, &out, err);
        if (status != SLUICE_OK)
            return status;
    } else {
        while (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n' && *csv->at != '"')
            csv->at++;
        out = csv->at;
        if (out > *field && out[-1] == '\r' && (csv->at == csv->end || *csv->at == '\n'))
            out--;
    }
    if (csv->end - csv->at >= 2 && csv->at[0] == '\r' && csv->at[1] == '\n')
        csv->at++;
    *is_last = csv->at == csv->end || *csv->at == '\n';
    if (!*is_last && *csv->at != ',')
        return wrong(csv->table, csv->line,
                     *csv->at == '"' ? "a quote within a field" : "text behind a quoted field",
                     err);
    if (csv->at < csv->end) {
        csv->line += *csv->at == '\n';
        csv->at++;
    }
    *out = '\0';
    return SLUICE_OK;
}

/* The names in the first line, each terminated. */
struct header {
    char **names;
    int num;
};

static bool header_has(const void *columns, const char *name)
{
    const struct header *header = columns;
    for (int i = 0; i < header->num; i++) {
        if (strcmp(header->names[i], name) == 0)
            return true;
    }
    return false;
}

static sluice_status take_names(struct csv *csv, struct header *header, struct sluice_err *err)
{
    size_t capacity = 0;
    for (bool is_last = csv->at == csv->end; !is_last; header->num++) {
        if (!sluice_array_reserve(&header->names, &capacity, (size_t)header->num + 1,
                                  sizeof(char *)))
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of columns");
        const sluice_status status = take_field(csv, &header->names[header->num], &is_last, err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}

/* The places of the columns, -1: none; those before what is wrong are found. */
static sluice_status take_header(struct sluice_label_table *table, struct csv *csv,
                                 int columns[NUM_COLUMNS], int *num_columns, struct sluice_err *err)
{
    struct header header = {0};
    for (int i = 0; i < NUM_COLUMNS; i++)
        columns[i] = -1;
    sluice_status status = take_names(csv, &header, err);
    choose_label(table, header_has, &header);
    for (int i = 0; i < header.num; i++) {
        const int known = column_of(table, header.names[i]);
        for (int column = 0; column < NUM_COLUMNS; column++) {
            if (column < FIELD ? column != known
                               : !is_of_source(table, (unsigned)(column - FIELD), header.names[i]))
                continue;
            if (columns[column] >= 0 && status == SLUICE_OK)
                status = wrong_field(table, 1, (enum column)column, header.names[i],
                                     "is a column twice", err);
            else if (columns[column] < 0)
                columns[column] = i;
        }
    }
    *num_columns = header.num;
    free(header.names);
    return status;
}

static sluice_status take_row(struct sluice_label_table *table, struct csv *csv,
                              const int columns[NUM_COLUMNS], int num_columns,
                              struct sluice_err *err)
{
    char *values[NUM_COLUMNS] = {NULL};
    const size_t line = csv->line;
    int column = 0;
    for (bool is_last = false; !is_last; column++) {
        char *text;
        const sluice_status status = take_field(csv, &text, &is_last, err);
        if (status != SLUICE_OK)
            return status;
        for (int i = 0; i < NUM_COLUMNS; i++) {
            if (columns[i] == column)
                values[i] = text;
        }
        if (column == 0 && is_last && num_columns > 1 && !text[0])
            return SLUICE_OK; /* an empty line */
    }
    if (column != num_columns)
        return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: %d fields, but line 1 names %d",
                           table->name, line, column, num_columns);
    struct sluice_field_place places[SLUICE_MAX_FIELDS] = {{0}};
    for (unsigned i = 0; i < table->sources->num; i++) {
        struct sluice_err why = {0};
        if (!values[FIELD + i])
            continue;
        const sluice_status status =
            sluice_field_values_add_text(&table->fields[i], values[FIELD + i], &places[i], &why);
        if (status != SLUICE_OK)
            return wrong_value(table, status, i, line, values[FIELD + i], &why, err);
    }
    return add_row(table, values, places, false, line, err);
}

/* Whether they make a table; notes which there are. */
static bool note_columns(struct sluice_label_table *table, const int columns[NUM_COLUMNS])
{
    table->has_labels = columns[LABEL] >= 0;
    for (unsigned i = 0; i < SLUICE_MAX_FIELDS; i++)
        table->has_field[i] = columns[FIELD + i] >= 0;
    return columns[PATH] >= 0 && (table->has_labels || sluice_label_table_has_fields(table));
}

static sluice_status parse_csv(struct sluice_label_table *table, char *text, size_t len,
                               bool *is_table, struct sluice_err *err)
{
    struct csv csv = {.table = table, .at = text, .end = text + len, .line = 1};
    int columns[NUM_COLUMNS], num_columns;
    const char *newline = memchr(text, '\n', len);
    const char *stop = newline ? newline : text + len;
    *is_table = false;
    if (memchr(text, '\0', (size_t)(stop - text)))
        return SLUICE_OK;
    struct sluice_err why = {0};
    if (take_header(table, &csv, columns, &num_columns, &why) != SLUICE_OK)
        return note_columns(table, columns) ? sluice_fail(err, SLUICE_E_INVALID, "%s", why.text)
                                            : SLUICE_OK;
    *is_table = note_columns(table, columns);
    sluice_status status = SLUICE_OK;
    if (*is_table && memchr(csv.at, '\0', (size_t)(csv.end - csv.at)))
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: a NUL byte", table->name);
    while (*is_table && status == SLUICE_OK && csv.at < csv.end)
        status = take_row(table, &csv, columns, num_columns, err);
    return status;
}

/* --- JSON lines --- */

/* A value's text where the line was, which is longer than what it says. */
static char *keep(char **room, const char *text)
{
    const size_t len = strlen(text);
    char *kept = *room;
    memcpy(kept, text, len + 1);
    *room += len + 1;
    return kept;
}

/* The value of a column in an object; NULL: it is missing. */
static const json_t *value_of(const struct sluice_label_table *table, const json_t *object,
                              enum column column)
{
    const char *name = name_of(table, column);
    if (!name || (column < FIELD && column_of(table, name) != (int)column))
        return NULL;
    const json_t *value = json_object_get(object, name);
    return value || column != PATH ? value : json_object_get(object, "path");
}

static sluice_status take_fields(struct sluice_label_table *table, const json_t *object,
                                 size_t line, struct sluice_field_place places[SLUICE_MAX_FIELDS],
                                 struct sluice_err *err)
{
    for (unsigned i = 0; i < table->sources->num; i++) {
        if (!table->has_field[i])
            continue;
        const json_t *value = value_of(table, object, FIELD + i);
        struct sluice_err why = {0};
        if (!value)
            return wrong_field(table, line, FIELD + i, "", "is missing", err);
        const sluice_status status =
            sluice_field_values_add_json(&table->fields[i], value, &places[i], &why);
        if (status != SLUICE_OK)
            return wrong_value(table, status, i, line, "its value", &why, err);
    }
    return SLUICE_OK;
}

static sluice_status take_object(struct sluice_label_table *table, const json_t *object, char *room,
                                 size_t line, struct sluice_err *err)
{
    char *values[FIELD] = {NULL};
    struct sluice_field_place places[SLUICE_MAX_FIELDS] = {{0}};
    const sluice_status status = take_fields(table, object, line, places, err);
    if (status != SLUICE_OK)
        return status;
    for (int i = 0; i < FIELD; i++) {
        const json_t *value = value_of(table, object, (enum column)i);
        char number[24];
        if ((!value && i == SPLIT) || (i == LABEL && !table->has_labels))
            continue;
        if (!value)
            return wrong_field(table, line, (enum column)i, "", "is missing", err);
        if (json_is_string(value)) {
            values[i] = keep(&room, json_string_value(value));
        } else if (i == LABEL && json_is_integer(value) && json_integer_value(value) >= 0) {
            snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
            values[i] = keep(&room, number);
        } else {
            return wrong_field(
                table, line, (enum column)i, "its value",
                i == LABEL ? "is neither a name nor an integer from 0" : "is no text", err);
        }
    }
    return add_row(table, values, places, json_is_string(value_of(table, object, LABEL)), line,
                   err);
}

static bool object_has(const void *columns, const char *name)
{
    return json_object_get(columns, name) != NULL;
}

/* Keys of a line whose values Python's json has written and JSON does not have. */
struct replaced {
    char keys[8][SLUICE_PYTHON_JSON_KEY];
    size_t num; /* also of those that have no room */
};

static void note_replaced(void *ctx, const char *key)
{
    struct replaced *replaced = ctx;
    if (replaced->num < SLUICE_ARRAY_LEN(replaced->keys))
        memcpy(replaced->keys[replaced->num], key, strlen(key) + 1);
    replaced->num++;
}

/* A field that is asked for must be what the line says. */
static sluice_status check_replaced(const struct sluice_label_table *table,
                                    const struct replaced *replaced, size_t line,
                                    struct sluice_err *err)
{
    const size_t room = SLUICE_ARRAY_LEN(replaced->keys);
    for (size_t i = 0; i < replaced->num && i < room; i++) {
        int column = column_of(table, replaced->keys[i]);
        for (unsigned k = 0; k < table->sources->num && column < 0; k++)
            column = is_of_source(table, k, replaced->keys[i]) ? (int)(FIELD + k) : -1;
        if (column >= 0)
            return wrong_field(table, line, (enum column)column, "its value",
                               "holds NaN, Infinity, \\u0000, half of a surrogate pair or an "
                               "integer beyond 64 bits",
                               err);
    }
    if (replaced->num > room)
        return wrong(table, line, "too many values that are not JSON", err);
    return SLUICE_OK;
}

/* Tells by the first line whether this is a table of labels. */
static bool is_table_of(struct sluice_label_table *table, const json_t *object)
{
    choose_label(table, object_has, object);
    table->has_labels = table->label_name && value_of(table, object, LABEL);
    for (unsigned i = 0; i < table->sources->num; i++)
        table->has_field[i] = value_of(table, object, FIELD + i) != NULL;
    return value_of(table, object, PATH) &&
           (table->has_labels || sluice_label_table_has_fields(table));
}

static sluice_status parse_lines(struct sluice_label_table *table, char *text, size_t len,
                                 bool *is_table, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    size_t line = 0;
    *is_table = false;
    for (char *at = text, *end = text + len; at < end && status == SLUICE_OK;) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        char *stop = newline ? newline : end;
        const size_t bytes = (size_t)(stop - at);
        line++;
        json_error_t why;
        json_t *object = NULL;
        bool is_empty = true;
        for (size_t i = 0; i < bytes && is_empty; i++)
            is_empty = at[i] == ' ' || at[i] == '\t' || at[i] == '\r';
        if (!is_empty) {
            struct replaced replaced = {.num = 0};
            sluice_python_json_replace(at, bytes, note_replaced, &replaced);
            object = SLUICE_IN_C_LOCALE(json_loadb(at, bytes, JSON_REJECT_DUPLICATES, &why));
            if (object && !*is_table && !is_table_of(table, object)) {
                json_decref(object);
                return SLUICE_OK;
            }
            *is_table = true;
            if (!json_is_object(object))
                status = wrong(table, line, object ? "no JSON object" : why.text, err);
            else
                status = check_replaced(table, &replaced, line, err);
            if (status == SLUICE_OK)
                status = take_object(table, object, at, line, err);
            json_decref(object);
        }
        at = newline ? newline + 1 : end;
    }
    return status;
}

/* --- */

bool sluice_label_table_has_fields(const struct sluice_label_table *table)
{
    for (unsigned i = 0; i < SLUICE_MAX_FIELDS; i++) {
        if (table->has_field[i])
            return true;
    }
    return false;
}

struct sluice_field_value sluice_label_table_value(const struct sluice_label_table *table,
                                                   const struct sluice_label_row *row,
                                                   unsigned source)
{
    const struct sluice_field_place *place = &table->places[row->first_place + source];
    return (struct sluice_field_value){table->fields[source].bytes + place->at, place->bytes};
}

void sluice_label_table_clear(struct sluice_label_table *table)
{
    for (unsigned i = 0; i < SLUICE_MAX_FIELDS; i++)
        sluice_field_values_clear(&table->fields[i]);
    free(table->places);
    free(table->rows);
    free(table->text);
    *table = (struct sluice_label_table){0};
}

sluice_status sluice_label_table_parse(struct sluice_label_table *table, const char *name,
                                       char *text, size_t len, const char *label_key,
                                       const struct sluice_field_sources *sources, bool *is_table,
                                       struct sluice_err *err)
{
    *table = (struct sluice_label_table){
        .name = name, .text = text, .label_name = label_key, .sources = sources};
    for (unsigned i = 0; i < sources->num; i++)
        table->fields[i].wanted = sources->of[i].kind;
    const size_t mark = sluice_byte_order_mark(text, len);
    return sluice_has_suffix(name, ".jsonl")
               ? parse_lines(table, text + mark, len - mark, is_table, err)
               : parse_csv(table, text + mark, len - mark, is_table, err);
}
