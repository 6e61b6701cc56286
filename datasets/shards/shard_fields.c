#include "datasets/shards/shard_members.h"

#include "base/c_locale.h"
#include "base/text.h"
#include "datasets/shards/records.h"
#include "datasets/shards/tar.h"

#include <stdlib.h>
#include <string.h>

static const struct sluice_field_sources *sources_of(const struct sluice_shard *shard)
{
    static const struct sluice_field_sources none;
    return shard->options->fields ? shard->options->fields : &none;
}

sluice_status sluice_shard_fields_init(struct sluice_shard *shard, struct sluice_err *err)
{
    const struct sluice_field_sources *sources = sources_of(shard);
    sluice_status status = sluice_field_sources_name(sources, &shard->images.manifest->fields, err);
    for (unsigned i = 0; i < sources->num && status == SLUICE_OK; i++) {
        shard->values[i].wanted = sources->of[i].kind;
        if (sluice_field_source_is_suffix(&sources->of[i])) {
            if (!sources->of[i].kind)
                shard->values[i].wanted = SLUICE_FIELD_BYTES;
            status = sluice_manifest_builder_init(&shard->members[i], err);
        }
    }
    return status;
}

void sluice_shard_fields_clear(struct sluice_shard *shard)
{
    for (unsigned i = 0; i < SLUICE_MAX_FIELDS; i++) {
        sluice_manifest_destroy(shard->members[i].manifest);
        sluice_field_values_clear(&shard->values[i]);
    }
}

/* --- members of tars --- */

/* Reads `bytes` at an offset of the shard to a new text, which is terminated. */
static sluice_status read_text(struct sluice_shard *shard, enum sluice_field_kind kind,
                               uint64_t offset, uint64_t bytes, char **text, struct sluice_err *why)
{
    const size_t most = sluice_field_most_bytes(kind);
    if (bytes > most)
        return sluice_fail(why, SLUICE_E_INVALID, "has more than %zu MiB", most >> 20);
    char *made = malloc((size_t)bytes + 1);
    if (!made)
        return sluice_fail(why, SLUICE_E_NO_MEMORY, "no memory for a target");
    const sluice_status status = sluice_shard_read_at(shard, offset, made, (size_t)bytes, why);
    if (status != SLUICE_OK) {
        free(made);
        return status;
    }
    made[bytes] = '\0';
    *text = made;
    return SLUICE_OK;
}

/* Adds the content of a file or column. */
static sluice_status add_content(struct sluice_shard *shard, unsigned source, uint64_t offset,
                                 uint64_t bytes, struct sluice_field_place *place,
                                 struct sluice_err *why)
{
    struct sluice_field_values *values = &shard->values[source];
    char *text = NULL;
    sluice_status status = read_text(shard, values->wanted, offset, bytes, &text, why);
    if (status != SLUICE_OK)
        return status;
    if (values->wanted != SLUICE_FIELD_VECTOR)
        status = sluice_field_values_add_bytes(values, text, (size_t)bytes, place, why);
    else if (memchr(text, '\0', (size_t)bytes))
        status = sluice_fail(why, SLUICE_E_INVALID, "has a NUL byte");
    else
        status = sluice_field_values_add_text(values, text, place, why);
    free(text);
    return status;
}

sluice_status sluice_shard_note_value(struct sluice_shard *shard,
                                      const struct sluice_tar_member *member, bool *is_value,
                                      struct sluice_err *err)
{
    const struct sluice_field_sources *sources = sources_of(shard);
    const size_t key = sluice_shard_key_len(member->name);
    sluice_status status = SLUICE_OK;
    *is_value = false;
    for (unsigned i = 0; i < sources->num && status == SLUICE_OK; i++) {
        const struct sluice_field_source *source = &sources->of[i];
        if (!sluice_field_source_is_suffix(source) ||
            sluice_strcasecmp(member->name + key, source->from) != 0)
            continue;
        struct sluice_field_place place = {0};
        struct sluice_err why = {0};
        *is_value = true;
        status = add_content(shard, i, member->offset, member->bytes, &place, &why);
        if (status == SLUICE_E_INVALID)
            return sluice_fail(err, status, "%s/%s/%s %s", shard->root, shard->file->path,
                               member->name, why.text);
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "%s", why.text);
        /* `bytes` and `width` say where the value is. */
        const struct sluice_manifest_entry row = {
            .offset = member->offset, .bytes = place.at, .width = place.bytes};
        status = sluice_shard_add_row(&shard->members[i], shard, member->name, key, &row, err);
    }
    return status;
}

sluice_status sluice_shard_join_values(struct sluice_shard *shard, struct sluice_err *err)
{
    const struct sluice_field_sources *sources = sources_of(shard);
    const struct sluice_manifest *images = shard->images.manifest;
    sluice_status status = SLUICE_OK;
    for (unsigned k = 0; k < sources->num; k++) {
        const struct sluice_manifest *members = shard->members[k].manifest;
        for (size_t i = 0; members && i < images->num_entries && status == SLUICE_OK; i++) {
            char key[SLUICE_MAX_PATH_BYTES];
            const size_t len = sluice_shard_key_len(images->rows[i].path);
            memcpy(key, images->rows[i].path, len);
            key[len] = '\0';
            const size_t at = sluice_manifest_find_first(members, key);
            const struct sluice_manifest_entry *row = &members->rows[at];
            if (at < members->num_entries && strcmp(row->path, key) == 0)
                status = sluice_manifest_set_field(
                    &shard->images, i, k, shard->values[k].bytes + row->bytes, row->width, err);
        }
    }
    return status;
}

/* --- columns of records --- */

static bool is_of_source(const struct sluice_field_source *source,
                         const struct sluice_column *column)
{
    return !sluice_field_source_is_suffix(source) && strcmp(source->from, column->name) == 0;
}

bool sluice_shard_is_field(const struct sluice_shard *shard, const struct sluice_column *column)
{
    const struct sluice_field_sources *sources = sources_of(shard);
    for (unsigned i = 0; i < sources->num; i++) {
        if (is_of_source(&sources->of[i], column))
            return true;
    }
    return false;
}

/* A column of numbers; *is_number: it is one. */
static sluice_status read_number(struct sluice_shard *shard, struct sluice_records *records,
                                 const struct sluice_column *column,
                                 const struct sluice_value *value, double *number, bool *is_number,
                                 struct sluice_err *err)
{
    const bool is_double =
        strcmp(column->encoding, "float64") == 0 || strcmp(column->encoding, "float") == 0;
    const bool is_single = strcmp(column->encoding, "float32") == 0;
    sluice_status status = SLUICE_OK;
    *is_number = true;
    if (column->kind == SLUICE_COLUMN_INT) {
        int64_t integer;
        status = sluice_records_integer(records, column, value, &integer, err);
        *number = (double)integer;
    } else if (is_double && value->bytes == sizeof(*number)) {
        status = sluice_shard_read_at(shard, value->offset, number, sizeof(*number), err);
    } else if (is_single && value->bytes == sizeof(float)) {
        float single;
        status = sluice_shard_read_at(shard, value->offset, &single, sizeof(single), err);
        *number = single;
    } else {
        *is_number = false;
    }
    return status;
}

static bool is_in_place(const struct sluice_column *column)
{
    return column->kind == SLUICE_COLUMN_TEXT || column->kind == SLUICE_COLUMN_BYTES ||
           column->kind == SLUICE_COLUMN_IMAGE || strcmp(column->encoding, "json") == 0;
}

/* A number as a vector of one, or in the kind that is asked for as text. */
static sluice_status add_number(struct sluice_field_values *values, double number,
                                struct sluice_field_place *place, struct sluice_err *why)
{
    const float single = (float)number;
    char text[40];
    if (!values->wanted || values->wanted == SLUICE_FIELD_VECTOR)
        return sluice_field_values_add_numbers(values, &single, 1, place, why);
    sluice_snprintf(text, sizeof(text), "%.17g", number);
    return sluice_field_values_add_bytes(values, text, strlen(text), place, why);
}

sluice_status sluice_shard_set_record(struct sluice_shard *shard, struct sluice_records *records,
                                      const struct sluice_value *values, size_t row,
                                      struct sluice_err *err)
{
    const struct sluice_field_sources *sources = sources_of(shard);
    for (unsigned k = 0; k < sources->num; k++) {
        for (unsigned c = 0; c < records->columns.num; c++) {
            const struct sluice_column *column = &records->columns.all[c];
            struct sluice_field_place place = {0};
            struct sluice_err why = {0};
            double number = 0;
            bool is_number = false;
            if (!is_of_source(&sources->of[k], column))
                continue;
            sluice_status status =
                read_number(shard, records, column, &values[c], &number, &is_number, err);
            if (status != SLUICE_OK)
                return status;
            shard->values[k].len = 0; /* values are copied by row */
            if (is_number)
                status = add_number(&shard->values[k], number, &place, &why);
            else if (is_in_place(column))
                status = add_content(shard, k, values[c].offset, values[c].bytes, &place, &why);
            else
                status = sluice_fail(&why, SLUICE_E_UNSUPPORTED,
                                     "is of encoding %s, which is not read", column->encoding);
            if (status == SLUICE_E_INVALID || status == SLUICE_E_UNSUPPORTED)
                return sluice_fail(err, status, "%s/%s: byte %llu: column '%s' %s", shard->root,
                                   shard->file->path, (unsigned long long)values[c].offset,
                                   column->name, why.text);
            if (status == SLUICE_OK)
                status = sluice_manifest_set_field(
                    &shard->images, row, k, shard->values[k].bytes + place.at, place.bytes, err);
            else
                (void)sluice_fail(err, status, "%s", why.text);
            if (status != SLUICE_OK)
                return status;
        }
    }
    return SLUICE_OK;
}
