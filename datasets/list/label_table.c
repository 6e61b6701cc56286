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

/* The columns to look for in a table. */
enum field { PATH, LABEL, SPLIT, TARGET, NUM_FIELDS };

/* Names of a column of labels; the first one that is there is taken. */
static const char *const label_names[] = {"label", "class", "cls", "target"};

const char *sluice_label_name(unsigned rank)
{
    return rank < SLUICE_ARRAY_LEN(label_names) ? label_names[rank] : NULL;
}

static const char *name_of(const struct sluice_label_table *table, enum field field)
{
    switch (field) {
    case PATH:
        return "file_name";
    case SPLIT:
        return "split";
    case TARGET:
        return table->target_name;
    default:
        return table->label_name ? table->label_name : label_names[0];
    }
}

/* A column may be the targets, whatever it is called. */
static int field_of(const struct sluice_label_table *table, const char *name)
{
    if (table->target_name && strcmp(name, table->target_name) == 0)
        return TARGET;
    if (table->label_name && strcmp(name, table->label_name) == 0)
        return LABEL;
    if (strcmp(name, "path") == 0 || strcmp(name, "file_name") == 0)
        return PATH;
    return strcmp(name, "split") == 0 ? SPLIT : -1;
}

/* Sets the name of the column of labels, unless it was given: the first of the usual names that
 * `has` finds, except the column of targets. */
static void choose_label(struct sluice_label_table *table,
                         bool (*has)(const void *columns, const char *name), const void *columns)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(label_names) && !table->label_name; i++) {
        const bool is_target =
            table->target_name && strcmp(label_names[i], table->target_name) == 0;
        if (!is_target && has(columns, label_names[i]))
            table->label_name = label_names[i];
    }
}

static sluice_status wrong(const struct sluice_label_table *table, size_t line, const char *what,
                           struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: %s", table->name, line, what);
}

static sluice_status wrong_field(const struct sluice_label_table *table, size_t line,
                                 enum field field, const char *value, const char *what,
                                 struct sluice_err *err)
{
    char shown[100];
    sluice_escape_line(shown, sizeof(shown), value);
    return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: field '%s': '%s' %s", table->name, line,
                       name_of(table, field), shown, what);
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
static sluice_status add_row(struct sluice_label_table *table, char *const values[NUM_FIELDS],
                             struct sluice_target_place target, bool is_name, size_t line,
                             struct sluice_err *err)
{
    const char *path = values[PATH], *label = values[LABEL];
    for (int i = 0; i < TARGET; i++) {
        if (!values[i])
            continue;
        if (!values[i][0])
            return wrong_field(table, line, (enum field)i, "", "is empty", err);
        if (!sluice_is_utf8(values[i]))
            return wrong_field(table, line, (enum field)i, values[i], "is not UTF-8", err);
    }
    struct sluice_label_row row = {.label = label, .line = line, .target = target, .subset = -1};
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
    table->rows[table->num_rows++] = row;
    return SLUICE_OK;
}

/* The result of adding a target, with its line and field. */
static sluice_status wrong_target(const struct sluice_label_table *table, sluice_status status,
                                  size_t line, const char *value, const struct sluice_err *why,
                                  struct sluice_err *err)
{
    return status == SLUICE_E_INVALID ? wrong_field(table, line, TARGET, value, why->text, err)
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

/* Which column has which field, -1: none; those before what is wrong are found. */
static sluice_status take_header(struct sluice_label_table *table, struct csv *csv,
                                 int columns[NUM_FIELDS], int *num_columns, struct sluice_err *err)
{
    struct header header = {0};
    for (int i = 0; i < NUM_FIELDS; i++)
        columns[i] = -1;
    sluice_status status = take_names(csv, &header, err);
    choose_label(table, header_has, &header);
    for (int i = 0; i < header.num; i++) {
        const int field = field_of(table, header.names[i]);
        if (field >= 0 && columns[field] >= 0 && status == SLUICE_OK)
            status =
                wrong_field(table, 1, (enum field)field, header.names[i], "is a column twice", err);
        else if (field >= 0 && columns[field] < 0)
            columns[field] = i;
    }
    *num_columns = header.num;
    free(header.names);
    return status;
}

static sluice_status take_row(struct sluice_label_table *table, struct csv *csv,
                              const int columns[NUM_FIELDS], int num_columns,
                              struct sluice_err *err)
{
    char *values[NUM_FIELDS] = {NULL};
    const size_t line = csv->line;
    int column = 0;
    for (bool is_last = false; !is_last; column++) {
        char *text;
        const sluice_status status = take_field(csv, &text, &is_last, err);
        if (status != SLUICE_OK)
            return status;
        for (int i = 0; i < NUM_FIELDS; i++) {
            if (columns[i] == column)
                values[i] = text;
        }
        if (column == 0 && is_last && num_columns > 1 && !text[0])
            return SLUICE_OK; /* an empty line */
    }
    if (column != num_columns)
        return sluice_fail(err, SLUICE_E_INVALID, "%s:%zu: %d fields, but line 1 names %d",
                           table->name, line, column, num_columns);
    struct sluice_target_place target = {0};
    struct sluice_err why = {0};
    if (values[TARGET]) {
        const sluice_status status =
            sluice_target_values_add_text(&table->targets, values[TARGET], &target, &why);
        if (status != SLUICE_OK)
            return wrong_target(table, status, line, values[TARGET], &why, err);
    }
    return add_row(table, values, target, false, line, err);
}

static bool has_columns(const int columns[NUM_FIELDS])
{
    return columns[PATH] >= 0 && (columns[LABEL] >= 0 || columns[TARGET] >= 0);
}

static sluice_status parse_csv(struct sluice_label_table *table, char *text, size_t len,
                               bool *is_table, struct sluice_err *err)
{
    struct csv csv = {.table = table, .at = text, .end = text + len, .line = 1};
    int columns[NUM_FIELDS], num_columns;
    const char *newline = memchr(text, '\n', len);
    const char *stop = newline ? newline : text + len;
    *is_table = false;
    if (memchr(text, '\0', (size_t)(stop - text)))
        return SLUICE_OK;
    struct sluice_err why = {0};
    if (take_header(table, &csv, columns, &num_columns, &why) != SLUICE_OK)
        return has_columns(columns) ? sluice_fail(err, SLUICE_E_INVALID, "%s", why.text)
                                    : SLUICE_OK;
    *is_table = has_columns(columns);
    table->has_labels = columns[LABEL] >= 0;
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

/* The value of a field in an object; NULL: the field is missing. */
static const json_t *value_of(const struct sluice_label_table *table, const json_t *object,
                              enum field field)
{
    const char *name = name_of(table, field);
    if (!name || field_of(table, name) != (int)field)
        return NULL;
    const json_t *value = json_object_get(object, name);
    return value || field != PATH ? value : json_object_get(object, "path");
}

/* Adds numbers; *num: how many, 0 if the value is something else, and nothing was added. */
static sluice_status add_numbers(struct sluice_target_values *targets, const json_t *value,
                                 size_t *num, struct sluice_target_place *target,
                                 struct sluice_err *err)
{
    const bool is_list = json_is_array(value);
    *num = is_list ? json_array_size(value) : json_is_number(value);
    for (size_t i = 0; is_list && i < json_array_size(value); i++) {
        if (!json_is_number(json_array_get(value, i)))
            *num = 0;
    }
    if (*num == 0)
        return SLUICE_OK;
    float *numbers = calloc(*num, sizeof(*numbers));
    if (!numbers)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu numbers", *num);
    for (size_t i = 0; i < *num; i++)
        numbers[i] = (float)json_number_value(is_list ? json_array_get(value, i) : value);
    const sluice_status status =
        sluice_target_values_add_numbers(targets, numbers, *num, target, err);
    free(numbers);
    return status;
}

static sluice_status add_target(struct sluice_target_values *targets, const json_t *value,
                                struct sluice_target_place *target, struct sluice_err *err)
{
    if (json_is_string(value) && targets->wanted == SLUICE_TARGETS_VECTOR)
        return sluice_target_values_add_text(targets, json_string_value(value), target, err);
    if (json_is_string(value))
        return sluice_target_values_add_bytes(targets, json_string_value(value),
                                              json_string_length(value), target, err);
    size_t num = 0;
    if (targets->wanted != SLUICE_TARGETS_BYTES && targets->type.kind != SLUICE_TARGETS_BYTES) {
        const sluice_status status = add_numbers(targets, value, &num, target, err);
        if (status != SLUICE_OK || num)
            return status;
    }
    char *text = SLUICE_IN_C_LOCALE(json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY));
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a target");
    const sluice_status status =
        sluice_target_values_add_bytes(targets, text, strlen(text), target, err);
    free(text);
    return status;
}

static sluice_status take_target(struct sluice_label_table *table, const json_t *object,
                                 size_t line, struct sluice_target_place *target,
                                 struct sluice_err *err)
{
    const json_t *value = value_of(table, object, TARGET);
    struct sluice_err why = {0};
    if (!value)
        return wrong_field(table, line, TARGET, "", "is missing", err);
    const sluice_status status = add_target(&table->targets, value, target, &why);
    return status == SLUICE_OK ? status : wrong_target(table, status, line, "its value", &why, err);
}

static sluice_status take_object(struct sluice_label_table *table, const json_t *object, char *room,
                                 size_t line, struct sluice_err *err)
{
    char *values[NUM_FIELDS] = {NULL};
    struct sluice_target_place target = {0};
    if (table->target_name) {
        const sluice_status status = take_target(table, object, line, &target, err);
        if (status != SLUICE_OK)
            return status;
    }
    for (int i = 0; i < TARGET; i++) {
        const json_t *value = value_of(table, object, (enum field)i);
        char number[24];
        if ((!value && i == SPLIT) || (i == LABEL && !table->has_labels))
            continue;
        if (!value)
            return wrong_field(table, line, (enum field)i, "", "is missing", err);
        if (json_is_string(value)) {
            values[i] = keep(&room, json_string_value(value));
        } else if (i == LABEL && json_is_integer(value) && json_integer_value(value) >= 0) {
            snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
            values[i] = keep(&room, number);
        } else {
            return wrong_field(
                table, line, (enum field)i, "its value",
                i == LABEL ? "is neither a name nor an integer from 0" : "is no text", err);
        }
    }
    return add_row(table, values, target, json_is_string(value_of(table, object, LABEL)), line,
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
        const int field = field_of(table, replaced->keys[i]);
        if (field >= 0)
            return wrong_field(table, line, (enum field)field, "its value",
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
    if (!value_of(table, object, TARGET))
        table->target_name = NULL;
    return value_of(table, object, PATH) && (table->has_labels || table->target_name);
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

void sluice_label_table_clear(struct sluice_label_table *table)
{
    sluice_target_values_clear(&table->targets);
    free(table->rows);
    free(table->text);
    *table = (struct sluice_label_table){0};
}

sluice_status sluice_label_table_parse(struct sluice_label_table *table, const char *name,
                                       char *text, size_t len, const char *label_key,
                                       struct sluice_target_column column, bool *is_table,
                                       struct sluice_err *err)
{
    *table = (struct sluice_label_table){.name = name,
                                         .text = text,
                                         .label_name = label_key,
                                         .target_name = column.name,
                                         .targets.wanted = column.kind};
    const size_t mark = sluice_byte_order_mark(text, len);
    return sluice_has_suffix(name, ".jsonl")
               ? parse_lines(table, text + mark, len - mark, is_table, err)
               : parse_csv(table, text + mark, len - mark, is_table, err);
}
