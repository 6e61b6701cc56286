#include "datasets/tools/pack_fields.h"

#include "base/c_locale.h"
#include "base/text.h"
#include "datasets/list/shapes.h"

#include <stdlib.h>
#include <string.h>

const char *sluice_packed_suffix(const struct sluice_fields *fields, unsigned i)
{
    return sluice_fields_are_plain(fields) ? "txt" : fields->of[i].name;
}

const char *sluice_packed_column(const struct sluice_fields *fields, unsigned i)
{
    return sluice_fields_are_plain(fields) ? SLUICE_TARGET_FIELD : fields->of[i].name;
}

sluice_status sluice_packed_check_suffixes(const struct sluice_fields *fields,
                                           struct sluice_err *err)
{
    for (unsigned i = 0; i < fields->num; i++) {
        const char *suffix = sluice_packed_suffix(fields, i);
        if (strchr(suffix, '/') || suffix[0] == '.' || sluice_strcasecmp(suffix, "cls") == 0)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "field '%s' cannot be the suffix of members: index with --target "
                               "NAME=FROM",
                               suffix);
    }
    return SLUICE_OK;
}

bool sluice_packed_is_file(const struct sluice_fields *fields, unsigned i)
{
    return fields->of[i].type.kind == SLUICE_FIELD_MASK;
}

static struct sluice_field_value value_at(const struct sluice_fields *fields, unsigned i,
                                          const struct sluice_manifest_entry *entry)
{
    return sluice_fields_value(fields, i, entry->values, entry->values_bytes);
}

/* Whether a value is written as it is. */
static bool is_raw(struct sluice_field_type type)
{
    return type.kind != SLUICE_FIELD_VECTOR && type.kind != SLUICE_FIELD_BOXES &&
           type.kind != SLUICE_FIELD_KEYPOINTS;
}

static sluice_status check_column(const struct sluice_manifest *manifest, unsigned i,
                                  struct sluice_err *err)
{
    static const char *const others[] = {"file_name", "path", "label", "split"};
    const struct sluice_named_field *field = &manifest->fields.of[i];
    const char *column = sluice_packed_column(&manifest->fields, i);
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(others); k++) {
        if (strcmp(column, others[k]) == 0)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "field '%s' cannot be a column of labels.csv, which has one of this "
                               "name; give --target NAME=FROM",
                               column);
    }
    const bool has_text = is_raw(field->type) && !sluice_packed_is_file(&manifest->fields, i);
    for (size_t row = 0; has_text && row < manifest->num_entries; row++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, row);
        const struct sluice_field_value value = value_at(&manifest->fields, i, &entry);
        if (value.at && memchr(value.at, '\0', value.bytes))
            return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                               "%.200s: its %s has a NUL byte, which no table can hold", entry.path,
                               column);
    }
    return SLUICE_OK;
}

sluice_status sluice_packed_check_columns(const struct sluice_manifest *manifest,
                                          struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; i < manifest->fields.num && status == SLUICE_OK; i++)
        status = check_column(manifest, i, err);
    return status;
}

sluice_status sluice_packed_value(const struct sluice_fields *fields, unsigned i,
                                  const struct sluice_manifest_entry *entry, char **text,
                                  size_t *len, struct sluice_err *err)
{
    const struct sluice_field_type type = fields->of[i].type;
    const struct sluice_field_value value = value_at(fields, i, entry);
    FILE *memory = open_memstream(text, len);
    if (memory && is_raw(type))
        fwrite(value.at, 1, value.bytes, memory);
    else if (memory && type.kind == SLUICE_FIELD_VECTOR)
        sluice_field_write(memory, type, value.at, value.bytes);
    else if (memory)
        sluice_shapes_write_json(memory, type, value.at, value.bytes);
    const bool is_whole = memory && !ferror(memory);
    return memory && fclose(memory) == 0 && is_whole
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the value of a field");
}

void sluice_packed_quote(FILE *out, const char *text, size_t len)
{
    fputc('"', out);
    for (const char *end = text + len; text < end; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void sluice_packed_columns(FILE *out, const struct sluice_fields *fields,
                           const struct sluice_manifest_entry *entry)
{
    for (unsigned i = 0; i < fields->num; i++) {
        const struct sluice_field_type type = fields->of[i].type;
        const char *column = sluice_packed_column(fields, i);
        char *text = NULL;
        size_t len = 0;
        if (sluice_packed_is_file(fields, i))
            continue;
        fputc(',', out);
        if (!entry && strpbrk(column, ",\""))
            sluice_packed_quote(out, column, strlen(column));
        else if (!entry)
            fputs(column, out);
        else if (sluice_packed_value(fields, i, entry, &text, &len, NULL) != SLUICE_OK)
            continue;
        else if (type.kind == SLUICE_FIELD_VECTOR)
            fwrite(text, 1, len, out);
        else
            sluice_packed_quote(out, text, len);
        free(text);
    }
}

void sluice_packed_options(const struct sluice_fields *fields, bool is_pack,
                           char text[SLUICE_PACKED_OPTIONS])
{
    const bool are_plain = sluice_fields_are_plain(fields);
    size_t len = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < fields->num; i++) {
        (void)sluice_print(text + len, SLUICE_PACKED_OPTIONS - len,
                           are_plain ? " --target %s%s --target-type %s" : " --target '%s%s:%s'",
                           is_pack || sluice_packed_is_file(fields, i) ? "." : "",
                           is_pack ? sluice_packed_suffix(fields, i)
                                   : sluice_packed_column(fields, i),
                           sluice_field_kind_name(fields->of[i].type.kind));
        len += strlen(text + len);
    }
}
