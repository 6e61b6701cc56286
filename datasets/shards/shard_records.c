#include "datasets/shards/shard_members.h"

#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/list/label_table.h"
#include "datasets/manifest/layout.h"
#include "datasets/shards/records.h"
#include "image/image.h"

#include <stdio.h>
#include <string.h>

/* The samples in a shard of records, by the rule of shard_list.h. */

#define SNIFFED_BYTES 16 /* that tell how an image is coded */

/* Which columns are what. */
struct roles {
    unsigned images[SLUICE_RECORDS_MAX_COLUMNS];
    unsigned num_images;
    int label; /* -1: there is none */
};

static sluice_status no_images(const struct sluice_shard *shard,
                               const struct sluice_columns *columns, struct sluice_err *err)
{
    char text[200] = "";
    size_t len = 0;
    for (unsigned i = 0; i < columns->num && len < sizeof(text); i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s (%s)", i ? ", " : "",
                                columns->all[i].name, columns->all[i].encoding);
    return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                       "%s/%s: no column is an image that can be read in place (jpeg, png or "
                       "bytes) among %s",
                       shard->root, shard->file->path, text);
}

/* As a part of a name: letters of ASCII, digits, '_' and '-'. */
static bool is_plain(const char *name)
{
    return name[0] && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_-") == strlen(name);
}

static sluice_status find_images(const struct sluice_shard *shard,
                                 const struct sluice_columns *columns, struct roles *roles,
                                 struct sluice_err *err)
{
    static const enum sluice_column_kind kinds[] = {SLUICE_COLUMN_IMAGE, SLUICE_COLUMN_BYTES};
    for (size_t kind = 0; kind < 2 && roles->num_images == 0; kind++) {
        for (unsigned i = 0; i < columns->num; i++) {
            if (columns->all[i].kind == kinds[kind] &&
                !sluice_shard_is_field(shard, &columns->all[i]))
                roles->images[roles->num_images++] = i;
        }
    }
    if (roles->num_images == 0)
        return no_images(shard, columns, err);
    for (unsigned k = 0; k < roles->num_images && roles->num_images > 1; k++) {
        const char *name = columns->all[roles->images[k]].name;
        char shown[2 * SLUICE_RECORDS_MAX_NAME];
        sluice_escape_line(shown, sizeof(shown), name);
        if (!is_plain(name))
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "%s/%s: one of several columns of images is called '%s': no part "
                               "of a file's name",
                               shard->root, shard->file->path, shown);
    }
    return SLUICE_OK;
}

static bool may_be_label(const struct sluice_column *column)
{
    return column->kind == SLUICE_COLUMN_INT || column->kind == SLUICE_COLUMN_TEXT;
}

static int find_column(const struct sluice_columns *columns, const char *name)
{
    for (unsigned i = 0; i < columns->num; i++) {
        if (may_be_label(&columns->all[i]) && strcmp(columns->all[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

/* Whether the column may hold labels that nobody asked for by name. */
static bool may_be_found(const struct sluice_shard *shard, const struct sluice_column *column)
{
    return may_be_label(column) && !sluice_shard_is_field(shard, column);
}

/* No column is called as one of labels is: a shard of images alone has no labels; in another one
 * the user has to say which column it is. */
static sluice_status ask_for_key(const struct sluice_shard *shard,
                                 const struct sluice_columns *columns, struct sluice_err *err)
{
    char names[300] = "";
    size_t len = 0;
    for (unsigned i = 0; i < columns->num && len < sizeof(names); i++) {
        char name[2 * SLUICE_RECORDS_MAX_NAME];
        sluice_escape_line(name, sizeof(name), columns->all[i].name);
        if (may_be_found(shard, &columns->all[i]))
            len +=
                (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", name);
    }
    if (!names[0])
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "%s/%s: no column is called label, class, cls or target: --label-key NAME "
                       "says which of %s has the labels, and --label-key '' that none has",
                       shard->root, shard->file->path, names);
}

static sluice_status find_label(struct sluice_shard *shard, const struct sluice_columns *columns,
                                struct roles *roles, struct sluice_err *err)
{
    const char *key = shard->label_key;
    if (key && !key[0])
        return SLUICE_OK;
    roles->label = key ? find_column(columns, key) : -1;
    if (key && roles->label < 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s/%s: no column of integers or texts is called '%.100s'", shard->root,
                           shard->file->path, key);
    for (unsigned rank = 0; roles->label < 0 && sluice_label_name(rank); rank++) {
        const int found = find_column(columns, sluice_label_name(rank));
        if (found >= 0 && may_be_found(shard, &columns->all[found]))
            roles->label = found;
    }
    if (roles->label < 0)
        return ask_for_key(shard, columns, err);
    const struct sluice_column *column = &columns->all[roles->label];
    char name[2 * SLUICE_RECORDS_MAX_NAME], source[SLUICE_LABEL_SOURCE];
    sluice_escape_line(name, sizeof(name), column->name);
    snprintf(source, sizeof(source), "the column '%.70s'", name);
    return sluice_shard_note_labels(
        shard, column->kind == SLUICE_COLUMN_INT ? SLUICE_LABELS_INTEGERS : SLUICE_LABELS_NAMES,
        source, err);
}

static sluice_status read_label(struct sluice_shard *shard, struct sluice_records *records,
                                const struct roles *roles, const struct sluice_value *values,
                                uint32_t *label, struct sluice_err *err)
{
    *label = SLUICE_NO_LABEL;
    if (roles->label < 0)
        return SLUICE_OK;
    const struct sluice_column *column = &records->columns.all[roles->label];
    const struct sluice_value *value = &values[roles->label];
    if (column->kind == SLUICE_COLUMN_TEXT) {
        char text[SLUICE_RECORDS_MAX_TEXT + 1];
        struct sluice_err why = {0};
        const sluice_status status = sluice_records_text(records, value, text, &why);
        if (status == SLUICE_OK)
            return sluice_shard_add_text(shard, text, label, err);
        if (status != SLUICE_E_INVALID)
            return sluice_fail(err, status, "%s", why.text);
        return sluice_fail(err, status, "%s/%s: byte %llu: %s: %s is no name of a class",
                           shard->root, shard->file->path, (unsigned long long)value->offset,
                           column->name, why.text);
    }
    int64_t number;
    const sluice_status status = sluice_records_integer(records, column, value, &number, err);
    if (status != SLUICE_OK)
        return status;
    if (number < 0 || number >= SLUICE_MAX_CLASSES)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s/%s: byte %llu: %s: %lld is not " SLUICE_LABEL_RANGE, shard->root,
                           shard->file->path, (unsigned long long)value->offset, column->name,
                           (long long)number);
    *label = (uint32_t)number;
    return SLUICE_OK;
}

/* The suffix of what a value begins as; NULL: nothing that is read. */
static sluice_status find_suffix(struct sluice_shard *shard, const struct sluice_column *column,
                                 const struct sluice_value *value, const char **suffix,
                                 struct sluice_err *err)
{
    uint8_t begin[SNIFFED_BYTES];
    const size_t len = value->bytes < sizeof(begin) ? (size_t)value->bytes : sizeof(begin);
    const sluice_status status =
        len > 0 ? sluice_shard_read_at(shard, value->offset, begin, len, err) : SLUICE_OK;
    if (status != SLUICE_OK)
        return status;
    *suffix = sluice_image_suffix(begin, len);
    if (!*suffix && column->kind == SLUICE_COLUMN_IMAGE) /* a damaged one: it stays a sample */
        *suffix = strcmp(column->encoding, "jpeg") == 0 ? ".jpg" : ".png";
    return SLUICE_OK;
}

static sluice_status add_record(struct sluice_shard *shard, struct sluice_records *records,
                                const struct roles *roles, uint32_t i, int width,
                                struct sluice_err *err)
{
    struct sluice_value values[SLUICE_RECORDS_MAX_COLUMNS];
    uint32_t label = SLUICE_NO_LABEL;
    sluice_status status = sluice_records_find(records, i, values, err);
    for (unsigned k = 0; k < roles->num_images && status == SLUICE_OK; k++) {
        const struct sluice_column *column = &records->columns.all[roles->images[k]];
        const struct sluice_value *value = &values[roles->images[k]];
        const bool is_one = roles->num_images == 1;
        const char *suffix = NULL;
        char name[SLUICE_RECORDS_MAX_NAME + 32];
        status = find_suffix(shard, column, value, &suffix, err);
        if (status == SLUICE_OK && k == 0)
            status = read_label(shard, records, roles, values, &label, err);
        if (status != SLUICE_OK)
            break;
        const int len = snprintf(name, sizeof(name), "%0*u%s%s%s", width, i, is_one ? "" : ".",
                                 is_one ? "" : column->name, suffix ? suffix : "");
        if (!suffix) {
            sluice_shard_pass_over(shard, name, "does not begin as an image that is read");
            continue;
        }
        const struct sluice_manifest_entry row = {
            .offset = value->offset,
            .bytes = value->bytes,
            .mtime_ns = shard->file->mtime_ns,
            .label = label,
            .coding = sluice_layout_coding(name),
        };
        shard->num_labelled += label != SLUICE_NO_LABEL;
        status = sluice_shard_add_row(&shard->images, shard, name, (size_t)len, &row, err);
        if (status == SLUICE_OK)
            status = sluice_shard_set_record(shard, records, values,
                                             shard->images.manifest->num_entries - 1, err);
    }
    return status;
}

sluice_status sluice_shard_list_records(struct sluice_shard *shard, struct sluice_err *err)
{
    struct sluice_records records = {
        .read_at = sluice_shard_read_at,
        .ctx = shard,
        .size = shard->file->bytes,
    };
    struct roles roles = {.label = -1};
    if (shard->file->columns)
        records.columns = *shard->file->columns;
    if (strlen(shard->file->path) + SLUICE_RECORDS_MAX_NAME + 32 >= SLUICE_MAX_PATH_BYTES)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/%.100s...: a path too long", shard->root,
                           shard->file->path);
    struct sluice_err why = {0};
    sluice_status status = sluice_records_open(&records, &why);
    if (status == SLUICE_E_UNSUPPORTED)
        return sluice_fail(err, status, "%s/%s: %s", shard->root, shard->file->path, why.text);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s", why.text);
    status = find_images(shard, &records.columns, &roles, err);
    if (status == SLUICE_OK)
        status = find_label(shard, &records.columns, &roles, err);
    if (status != SLUICE_OK)
        return status;
    const int width = snprintf(NULL, 0, "%u", records.num ? records.num - 1 : 0);
    for (uint32_t i = 0; i < records.num && status == SLUICE_OK; i++)
        status = add_record(shard, &records, &roles, i, width, err);
    return status;
}
