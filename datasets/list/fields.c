#include "datasets/list/fields.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

const char *sluice_field_name_flaw(const char *name)
{
    const size_t len = strlen(name);
    if (len == 0 || len >= SLUICE_FIELD_NAME)
        return "a field's name has 1 to 63 bytes";
    if (!sluice_is_utf8(name) || sluice_has_control(name, len))
        return "a field's name is UTF-8 without control characters";
    return NULL;
}

const char *sluice_fields_flaw(const struct sluice_fields *fields)
{
    if (fields->num > SLUICE_MAX_FIELDS)
        return "more than 16 fields";
    for (unsigned i = 0; i < fields->num; i++) {
        const struct sluice_named_field *field = &fields->of[i];
        const char *flaw = sluice_field_name_flaw(field->name);
        if (!flaw)
            flaw = sluice_field_type_flaw(field->type);
        if (!flaw && field->type.kind == SLUICE_FIELD_NONE)
            flaw = "a field without a kind";
        for (unsigned k = 0; k < i && !flaw; k++) {
            if (strcmp(fields->of[k].name, field->name) == 0)
                flaw = "two fields of one name";
        }
        if (flaw)
            return flaw;
    }
    return NULL;
}

bool sluice_fields_are_same(const struct sluice_fields *a, const struct sluice_fields *b)
{
    bool is_same = a->num == b->num;
    for (unsigned i = 0; i < a->num && is_same; i++) {
        is_same = a->of[i].type.kind == b->of[i].type.kind &&
                  a->of[i].type.dim == b->of[i].type.dim &&
                  strcmp(a->of[i].name, b->of[i].name) == 0;
    }
    return is_same;
}

bool sluice_fields_are_alike(const struct sluice_fields *a, const struct sluice_fields *b)
{
    const struct sluice_field_type x = a->of[0].type, y = b->of[0].type;
    const bool has_unnamed = sluice_fields_have_known_name(a) || sluice_fields_have_known_name(b);
    return sluice_fields_are_same(a, b) ||
           (has_unnamed && sluice_fields_are_plain(a) && sluice_fields_are_plain(b) &&
            x.kind == y.kind && x.dim == y.dim);
}

bool sluice_fields_are_plain(const struct sluice_fields *fields)
{
    return fields->num == 0 ||
           (fields->num == 1 && (fields->of[0].type.kind == SLUICE_FIELD_VECTOR ||
                                 fields->of[0].type.kind == SLUICE_FIELD_BYTES));
}

bool sluice_fields_have_known_name(const struct sluice_fields *fields)
{
    return fields->num == 0 ||
           (fields->num == 1 && strcmp(fields->of[0].name, SLUICE_TARGET_FIELD) == 0);
}

void sluice_fields_print(const struct sluice_fields *fields, char text[SLUICE_FIELDS_TEXT])
{
    size_t len = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < fields->num; i++) {
        const struct sluice_named_field *field = &fields->of[i];
        (void)sluice_print(text + len, SLUICE_FIELDS_TEXT - len, "%s\t%s\t%u\n", field->name,
                           sluice_field_kind_name(field->type.kind), field->type.dim);
        len += strlen(text + len);
    }
}

/* The part up to the separator, which it passes; NULL: missing, or too long. */
static const char *take_part(const char **at, char separator, char *to, size_t room)
{
    const char *end = strchr(*at, separator);
    const size_t len = end ? (size_t)(end - *at) : room;
    if (len >= room)
        return NULL;
    memcpy(to, *at, len);
    to[len] = '\0';
    *at = end + 1;
    return to;
}

bool sluice_fields_parse(const char *text, struct sluice_fields *fields)
{
    struct sluice_fields parsed = {.num = 0};
    while (*text) {
        char kind[16], dim[12];
        if (parsed.num == SLUICE_MAX_FIELDS)
            return false;
        struct sluice_named_field *field = &parsed.of[parsed.num++];
        if (!take_part(&text, '\t', field->name, sizeof(field->name)) ||
            !take_part(&text, '\t', kind, sizeof(kind)) ||
            !take_part(&text, '\n', dim, sizeof(dim)))
            return false;
        char *end = dim;
        const unsigned long number = strtoul(dim, &end, 10);
        if (dim[0] < '0' || dim[0] > '9' || *end || number > SLUICE_MAX_FIELD_DIM)
            return false;
        field->type.kind = sluice_field_kind_parse(kind, strlen(kind));
        field->type.dim = (uint32_t)number;
    }
    if (sluice_fields_flaw(&parsed))
        return false;
    *fields = parsed;
    return true;
}

const char *sluice_fields_words(const struct sluice_fields *fields, char room[SLUICE_FIELDS_WORDS])
{
    size_t len = 0;
    if (sluice_fields_are_plain(fields))
        return sluice_field_type_words(fields->of[0].type, room);
    for (unsigned i = 0; i < fields->num; i++) {
        const struct sluice_named_field *field = &fields->of[i];
        char words[SLUICE_FIELD_WORDS];
        (void)sluice_print(room + len, SLUICE_FIELDS_WORDS - len, "%s%s (%s)", i ? ", " : "",
                           field->name, sluice_field_type_words(field->type, words));
        len += strlen(room + len);
    }
    return room;
}

/* --- values --- */

static uint32_t bytes_at(const void *values, unsigned i)
{
    uint32_t bytes;
    memcpy(&bytes, (const char *)values + i * sizeof(bytes), sizeof(bytes));
    return bytes;
}

const char *sluice_fields_values_flaw(const struct sluice_fields *fields, const void *values,
                                      size_t bytes)
{
    if (fields->num <= 1)
        return sluice_field_flaw(fields->of[0].type, values, bytes);
    size_t at = fields->num * sizeof(uint32_t);
    if (!values)
        return "no values where others have some";
    if (bytes > SLUICE_MAX_VALUES_BYTES)
        return "values of more than 16 MiB in all";
    if (bytes < at)
        return "values that end too early";
    for (unsigned i = 0; i < fields->num; i++) {
        const uint32_t len = bytes_at(values, i);
        if (len > bytes - at || aligned(len) > bytes - at)
            return "values that end too early";
        const char *flaw = sluice_field_flaw(fields->of[i].type, (const char *)values + at, len);
        if (flaw)
            return flaw;
        at += aligned(len);
    }
    return at == bytes ? NULL : "values that are longer than they say";
}

struct sluice_field_value sluice_fields_value(const struct sluice_fields *fields, unsigned i,
                                              const void *values, size_t bytes)
{
    if (!values || i >= fields->num)
        return (struct sluice_field_value){NULL, 0};
    if (fields->num == 1)
        return (struct sluice_field_value){values, (uint32_t)bytes};
    size_t at = fields->num * sizeof(uint32_t);
    for (unsigned k = 0; k < i; k++)
        at += aligned(bytes_at(values, k));
    return (struct sluice_field_value){(const char *)values + at, bytes_at(values, i)};
}

size_t sluice_fields_pack(unsigned num, const struct sluice_field_value *values, void *to)
{
    size_t at = num > 1 ? num * sizeof(uint32_t) : 0;
    for (unsigned i = 0; i < num; i++) {
        const size_t bytes = values[i].bytes, room = num > 1 ? aligned(bytes) : bytes;
        if (to && num > 1)
            memcpy((char *)to + i * sizeof(uint32_t), &values[i].bytes, sizeof(uint32_t));
        if (to && room > 0) {
            memset((char *)to + at, 0, room);
            memcpy((char *)to + at, values[i].at, bytes);
        }
        at += room;
    }
    return at;
}
