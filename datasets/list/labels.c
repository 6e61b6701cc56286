#include "datasets/list/labels.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/list/label_table.h"
#include "datasets/list/split_name.h"
#include "datasets/manifest/layout.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)8 << 30)

static const char *const file_names[] = {"metadata.jsonl", "metadata.csv", "labels.csv"};

struct table {
    char path[SLUICE_MAX_PATH_BYTES];       /* relative to the root; "" if it lies elsewhere */
    char name[SLUICE_MAX_PATH_BYTES];       /* in messages */
    char prefix[SLUICE_SPLIT_FOLDER_BYTES]; /* of the images that it is about */
    struct sluice_label_table rows;
    size_t num_used;
};

struct sluice_labels {
    struct table *tables;
    size_t num_tables;
    const char *label_key;                      /* the column of labels; NULL: by its usual names */
    const struct sluice_field_sources *sources; /* of fields that are asked for */
};

bool sluice_labels_have_labels(const struct sluice_labels *labels)
{
    return labels->tables[0].rows.has_labels;
}

bool sluice_labels_have_fields(const struct sluice_labels *labels)
{
    return sluice_label_table_has_fields(&labels->tables[0].rows);
}

void sluice_labels_destroy(struct sluice_labels *labels)
{
    if (!labels)
        return;
    for (size_t i = 0; i < labels->num_tables; i++)
        sluice_label_table_clear(&labels->tables[i].rows);
    free(labels->tables);
    free(labels);
}

bool sluice_labels_have_splits(const struct sluice_labels *labels)
{
    for (size_t i = 0; i < labels->num_tables; i++) {
        const struct sluice_label_table *rows = &labels->tables[i].rows;
        for (size_t row = 0; row < rows->num_rows; row++) {
            if (rows->rows[row].subset < 0)
                return false;
        }
    }
    return true;
}

bool sluice_labels_has_file(const struct sluice_labels *labels, const char *path)
{
    for (size_t i = 0; labels && i < labels->num_tables; i++) {
        if (strcmp(labels->tables[i].path, path) == 0)
            return true;
    }
    return false;
}

/* --- reading --- */

static int compare_rows(const void *a, const void *b)
{
    const struct sluice_label_row *x = a, *y = b;
    const int order = strcmp(x->path, y->path);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static sluice_status sort_rows(struct sluice_label_table *table, struct sluice_err *err)
{
    if (table->num_rows > 1)
        qsort(table->rows, table->num_rows, sizeof(*table->rows), compare_rows);
    for (size_t i = 1; i < table->num_rows; i++) {
        const struct sluice_label_row *row = &table->rows[i];
        if (strcmp(row[-1].path, row->path) == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "%s:%zu: field 'file_name': '%.200s' is in line %zu, too",
                               table->name, row->line, row->path, row[-1].line);
    }
    return SLUICE_OK;
}

/* Adds a table of this text.  *is_table: it is one of labels; if not, nothing is added. */
static sluice_status add_table(struct sluice_labels *labels, const struct table *named,
                               const char *text, size_t len, bool *is_table, struct sluice_err *err)
{
    struct table *tables =
        realloc(labels->tables, (labels->num_tables + 1) * sizeof(*labels->tables));
    if (tables)
        labels->tables = tables;
    for (size_t i = 0; tables && i < labels->num_tables; i++)
        tables[i].rows.name = tables[i].name;
    char *copy = tables ? malloc(len + 1) : NULL;
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %s", named->name);
    memcpy(copy, text, len);
    struct table *table = &tables[labels->num_tables];
    *table = *named;
    sluice_status status = sluice_label_table_parse(
        &table->rows, table->name, copy, len, labels->label_key, labels->sources, is_table, err);
    if (status == SLUICE_OK)
        status = sort_rows(&table->rows, err);
    if (status == SLUICE_OK && *is_table) {
        labels->num_tables++;
        if (table->rows.has_labels)
            sluice_log(SLUICE_LOG_INFO, "%s: labels are the column '%s', %s", table->name,
                       table->rows.label_name,
                       table->rows.are_names ? "names of classes" : "integers");
    } else
        sluice_label_table_clear(&table->rows);
    return status;
}

static sluice_status read_table(struct sluice_labels *labels, const struct table *named,
                                const char *path, bool *is_table, struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    sluice_status status = sluice_file_read(path, MAX_FILE_BYTES, NULL, &file, err);
    if (status != SLUICE_OK)
        return status;
    status = add_table(labels, named, (const char *)file->data, file->len, is_table, err);
    sluice_buf_unref(file);
    return status;
}

/* The columns of the fields that are asked for, in words; "": none. */
#define COLUMNS_TEXT 256
static void columns_in_words(const struct sluice_labels *labels, char room[COLUMNS_TEXT])
{
    size_t len = 0;
    room[0] = '\0';
    for (unsigned i = 0; i < labels->sources->num; i++) {
        const struct sluice_field_source *source = &labels->sources->of[i];
        if (sluice_field_source_is_suffix(source))
            continue;
        (void)sluice_print(room + len, COLUMNS_TEXT - len, "%s%s", len ? ", " : "", source->from);
        len += strlen(room + len);
    }
}

/* The table of a folder of the root; there is at most one. */
static sluice_status look_for_table(struct sluice_labels *labels, const char *root,
                                    const char *prefix, struct sluice_err *err)
{
    const size_t before = labels->num_tables;
    char columns[COLUMNS_TEXT];
    columns_in_words(labels, columns);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(file_names); i++) {
        struct table named = {0};
        bool is_table = false;
        snprintf(named.prefix, sizeof(named.prefix), "%s", prefix);
        (void)sluice_print(named.path, sizeof(named.path), "%s%s", prefix, file_names[i]);
        sluice_status status = sluice_path_in(root, named.path, named.name, err);
        if (status != SLUICE_OK)
            return status;
        if (labels->num_tables > before) { /* is there another one? */
            struct sluice_labels other = {.label_key = labels->label_key,
                                          .sources = labels->sources};
            status = read_table(&other, &named, named.name, &is_table, NULL);
            if (other.num_tables)
                sluice_label_table_clear(&other.tables[0].rows);
            free(other.tables);
            if (status == SLUICE_OK && is_table)
                return sluice_fail(err, SLUICE_E_INVALID, "%s: %s is a table of labels, too",
                                   named.name, labels->tables[before].path);
            continue;
        }
        struct sluice_err why = {0};
        status = read_table(labels, &named, named.name, &is_table, &why);
        if (status == SLUICE_E_NOT_FOUND)
            continue;
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "%s", why.text);
        if (!is_table)
            sluice_log(SLUICE_LOG_INFO,
                       "%s has not both columns file_name and %s%s%s; labels are not taken from it",
                       named.name,
                       labels->label_key ? labels->label_key : "label (class, cls, target)",
                       columns[0] ? ", or " : "", columns);
    }
    return SLUICE_OK;
}

static sluice_status read_file(struct sluice_labels *labels, const char *root, const char *file,
                               struct sluice_err *err)
{
    struct table named = {0};
    bool is_table = false;
    const size_t root_len = strlen(root);
    char columns[COLUMNS_TEXT];
    columns_in_words(labels, columns);
    if (!sluice_print(named.name, sizeof(named.name), "%s", file))
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s...: a path too long", file);
    if (strncmp(file, root, root_len) == 0 && file[root_len] == '/')
        (void)sluice_print(named.path, sizeof(named.path), "%s", file + root_len + 1);
    const sluice_status status = read_table(labels, &named, file, &is_table, err);
    if (status == SLUICE_OK && !is_table)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: no table of labels: it has not both columns file_name and %s%s%s",
                           file,
                           labels->label_key ? labels->label_key : "label (class, cls, target)",
                           columns[0] ? ", or " : "", columns);
    return status;
}

/* Whether the tables of two splits are alike. */
static sluice_status check_alike(const struct table *a, const struct table *b,
                                 struct sluice_err *err)
{
    if (a->rows.has_labels != b->rows.has_labels)
        return sluice_fail(err, SLUICE_E_INVALID, "%s and %s: one has labels, the other has none",
                           a->name, b->name);
    if (a->rows.are_names != b->rows.are_names)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s and %s: one has names of classes, the other integers", a->name,
                           b->name);
    for (unsigned i = 0; i < SLUICE_MAX_FIELDS; i++) {
        const struct sluice_field_type x = a->rows.fields[i].type, y = b->rows.fields[i].type;
        char words[2][SLUICE_FIELD_WORDS];
        if (a->rows.has_field[i] != b->rows.has_field[i] ||
            (x.kind && y.kind && (x.kind != y.kind || x.dim != y.dim)))
            return sluice_fail(err, SLUICE_E_INVALID, "%s has %s, and %s has %s", a->name,
                               sluice_field_type_words(x, words[0]), b->name,
                               sluice_field_type_words(y, words[1]));
    }
    return SLUICE_OK;
}

static int has_table(const struct dirent *entry)
{
    const int split = sluice_split_of_name(entry->d_name, strlen(entry->d_name));
    return split == SLUICE_SUBSET_TRAIN || split == SLUICE_SUBSET_VAL;
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The tables of the folders that are called as train and val are. */
static sluice_status look_in_splits(struct sluice_labels *labels, const char *root,
                                    struct sluice_err *err)
{
    struct dirent **entries = NULL;
    const int num = scandir(root, &entries, has_table, compare_entries);
    if (num < 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s", root,
                           strerror(errno));
    sluice_status status = SLUICE_OK;
    for (int i = 0; i < num; i++) {
        char prefix[SLUICE_SPLIT_FOLDER_BYTES];
        (void)sluice_print(prefix, sizeof(prefix), "%s/", entries[i]->d_name);
        if (status == SLUICE_OK)
            status = look_for_table(labels, root, prefix, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static sluice_status look_for_tables(struct sluice_labels *labels, const char *root,
                                     struct sluice_err *err)
{
    sluice_status status = look_for_table(labels, root, "", err);
    if (status == SLUICE_OK && !labels->num_tables)
        status = look_in_splits(labels, root, err);
    for (size_t i = 1; i < labels->num_tables && status == SLUICE_OK; i++)
        status = check_alike(&labels->tables[0], &labels->tables[i], err);
    return status;
}

sluice_status sluice_labels_read(const char *root, const char *file, const char *label_key,
                                 const struct sluice_field_sources *sources,
                                 struct sluice_labels **out, struct sluice_err *err)
{
    struct sluice_labels *labels = calloc(1, sizeof(*labels));
    if (!labels)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for labels");
    labels->label_key = label_key;
    labels->sources = sources;
    const sluice_status status =
        file ? read_file(labels, root, file, err) : look_for_tables(labels, root, err);
    if (status != SLUICE_OK || !labels->num_tables) {
        sluice_labels_destroy(labels);
        return status;
    }
    *out = labels;
    return SLUICE_OK;
}

sluice_status sluice_labels_parse(const char *name, const char *text, size_t len,
                                  const struct sluice_field_sources *sources,
                                  struct sluice_labels **out, struct sluice_err *err)
{
    struct sluice_labels *labels = calloc(1, sizeof(*labels));
    struct table named = {0};
    bool is_table = false;
    if (!labels)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for labels");
    snprintf(named.name, sizeof(named.name), "%s", name);
    labels->sources = sources;
    sluice_status status = add_table(labels, &named, text, len, &is_table, err);
    if (status == SLUICE_OK && !is_table)
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: no table of labels", name);
    if (status != SLUICE_OK) {
        sluice_labels_destroy(labels);
        return status;
    }
    *out = labels;
    return SLUICE_OK;
}

/* --- names of classes --- */

/* Adds the names in all tables to the manifest, sorted; *names are the same, to be freed. */
static sluice_status add_names(const struct sluice_labels *labels,
                               struct sluice_manifest_builder *builder, const char ***names,
                               size_t *num_names, struct sluice_err *err)
{
    size_t num = 0;
    for (size_t i = 0; i < labels->num_tables; i++)
        num += labels->tables[i].rows.num_rows;
    const char **all = calloc(num + 1, sizeof(*all));
    if (!all)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu names of classes", num);
    num = 0;
    for (size_t i = 0; i < labels->num_tables; i++) {
        for (size_t row = 0; row < labels->tables[i].rows.num_rows; row++)
            all[num++] = labels->tables[i].rows.rows[row].label;
    }
    *names = all;
    *num_names = num;
    return sluice_class_names_add(all, num_names, builder, err);
}

/* --- assigning --- */

static struct table *table_of(struct sluice_labels *labels, const char *path)
{
    for (size_t i = 0; i < labels->num_tables; i++) {
        if (sluice_starts_with(path, labels->tables[i].prefix))
            return &labels->tables[i];
    }
    return NULL;
}

static const struct sluice_label_row *find_row(const struct table *table, const char *path)
{
    const char *wanted = path + strlen(table->prefix);
    const struct sluice_label_row *rows = table->rows.rows;
    size_t at = 0;
    SLUICE_FIND_FIRST(at, table->rows.num_rows, i, strcmp(rows[i].path, wanted) < 0);
    return at < table->rows.num_rows && strcmp(rows[at].path, wanted) == 0 ? &rows[at] : NULL;
}

/* Sets the values of an entry that has this row. */
static sluice_status set_fields(const struct table *table, const struct sluice_label_row *row,
                                struct sluice_manifest_builder *builder, size_t i,
                                struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned k = 0; k < table->rows.sources->num && status == SLUICE_OK; k++) {
        if (!table->rows.has_field[k])
            continue;
        const struct sluice_field_value value = sluice_label_table_value(&table->rows, row, k);
        status = sluice_manifest_set_field(builder, i, k, value.at, value.bytes, err);
    }
    return status;
}

/* The types of fields that all tables have; of keypoints some may have no object. */
static void set_types(const struct sluice_labels *labels, struct sluice_manifest *manifest)
{
    for (size_t i = 0; i < labels->num_tables; i++) {
        const struct sluice_label_table *rows = &labels->tables[i].rows;
        for (unsigned k = 0; k < rows->sources->num; k++) {
            if (rows->has_field[k] && rows->fields[k].type.kind)
                manifest->fields.of[k].type = rows->fields[k].type;
            else if (rows->has_field[k] && !manifest->fields.of[k].type.kind &&
                     rows->fields[k].wanted == SLUICE_FIELD_KEYPOINTS)
                manifest->fields.of[k].type = (struct sluice_field_type){SLUICE_FIELD_KEYPOINTS, 1};
        }
    }
}

static sluice_status fail_without_row(const struct sluice_labels *labels,
                                      const struct sluice_manifest *manifest, uint64_t num_without,
                                      const char *first, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID, "%s: %llu of %zu images have no row in it (%.200s%s)",
                       labels->tables[0].name, (unsigned long long)num_without,
                       manifest->num_entries, first, num_without > 1 ? ", ..." : "");
}

static sluice_status assign_entries(struct sluice_labels *labels,
                                    struct sluice_manifest_builder *builder,
                                    const char *const *names, size_t num_names,
                                    struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    set_types(labels, manifest);
    uint64_t num_without = 0, num_kept = 0;
    const char *first = "";
    for (size_t i = 0; i < manifest->num_entries; i++) {
        struct sluice_manifest_entry *entry = &manifest->rows[num_kept];
        *entry = manifest->rows[i];
        struct table *table = table_of(labels, entry->path);
        const struct sluice_label_row *row = table ? find_row(table, entry->path) : NULL;
        if (!row && entry->subset != SLUICE_SPLIT_TEST) {
            if (num_without++ == 0)
                first = entry->path;
            continue;
        }
        if (row) {
            table->num_used++;
            if (row->subset >= 0)
                entry->subset = (enum sluice_subset)row->subset;
        }
        if (entry->subset == SLUICE_SPLIT_TEST) {
            num_kept++;
            continue;
        }
        if (names) {
            entry->label = sluice_class_names_find(names, num_names, row->label);
        } else if (row->label) {
            entry->label = (uint32_t)strtoul(row->label, NULL, 10);
        }
        const sluice_status status = set_fields(table, row, builder, num_kept, err);
        if (status != SLUICE_OK)
            return status;
        num_kept++;
    }
    if (num_without)
        return fail_without_row(labels, manifest, num_without, first, err);
    return sluice_layout_leave_out_test(manifest, labels->tables[0].name, err);
}

/* Rows whose image is not there: of another server's part, or missing. */
static void tell_unused(const struct sluice_labels *labels, const struct sluice_manifest *manifest)
{
    for (size_t i = 0; i < labels->num_tables; i++) {
        const struct table *table = &labels->tables[i];
        const size_t num_unused = table->rows.num_rows - table->num_used;
        if (num_unused)
            sluice_log(SLUICE_LOG_WARN, "%s: %zu of %zu rows name no image among the %zu here",
                       table->name, num_unused, table->rows.num_rows, manifest->num_entries);
    }
}

sluice_status sluice_labels_assign(struct sluice_labels *labels,
                                   struct sluice_manifest_builder *builder, bool *are_names,
                                   struct sluice_err *err)
{
    const char **names = NULL;
    size_t num_names = 0;
    const bool has_names = labels->tables[0].rows.are_names;
    sluice_status status =
        has_names ? add_names(labels, builder, &names, &num_names, err) : SLUICE_OK;
    for (size_t i = 0; i < labels->num_tables; i++)
        labels->tables[i].num_used = 0;
    if (status == SLUICE_OK)
        status = assign_entries(labels, builder, names, num_names, err);
    free(names);
    if (status != SLUICE_OK)
        return status;
    tell_unused(labels, builder->manifest);
    *are_names = has_names;
    return SLUICE_OK;
}

sluice_status sluice_labels_assign_fields(struct sluice_labels *labels,
                                          struct sluice_manifest_builder *builder,
                                          struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    uint64_t num_without = 0;
    const char *first = "";
    set_types(labels, manifest);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const char *path = manifest->rows[i].path;
        const struct table *table = table_of(labels, path);
        const struct sluice_label_row *row = table ? find_row(table, path) : NULL;
        if (!row) {
            if (num_without++ == 0)
                first = path;
            continue;
        }
        const sluice_status status = set_fields(table, row, builder, i, err);
        if (status != SLUICE_OK)
            return status;
    }
    return num_without ? fail_without_row(labels, manifest, num_without, first, err) : SLUICE_OK;
}
