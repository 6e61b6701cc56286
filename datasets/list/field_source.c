#include "datasets/list/field_source.h"

#include "base/text.h"

#include <string.h>

bool sluice_field_source_is_suffix(const struct sluice_field_source *source)
{
    return source->from[0] == '.';
}

static const char *name_of(const struct sluice_field_source *source)
{
    return source->name[0] ? source->name : source->from + sluice_field_source_is_suffix(source);
}

/* Whether text[0 .. len) can be the NAME of "NAME=FROM". */
static bool is_plain(const char *text, size_t len)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return len > 0 && strspn(text, plain) >= len;
}

sluice_status sluice_field_source_parse(const char *text, struct sluice_field_source *source,
                                        struct sluice_err *err)
{
    struct sluice_field_source parsed = {.kind = SLUICE_FIELD_NONE};
    const char *from = text, *colon = strrchr(text, ':'), *equals = strchr(text, '=');
    bool has_room = true;
    if (equals && is_plain(text, (size_t)(equals - text))) {
        has_room =
            sluice_print(parsed.name, sizeof(parsed.name), "%.*s", (int)(equals - text), text);
        from = equals + 1;
    }
    if (colon && colon > from)
        parsed.kind = sluice_field_kind_parse(colon + 1, strlen(colon + 1));
    const size_t len = parsed.kind ? (size_t)(colon - from) : strlen(from);
    if (!has_room || !sluice_print(parsed.from, sizeof(parsed.from), "%.*s", (int)len, from))
        return sluice_fail(err, SLUICE_E_INVALID, "--target %.100s...: too long", text);
    if (!parsed.name[0] && !sluice_print(parsed.name, sizeof(parsed.name), "%s", name_of(&parsed)))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--target %.100s: too long for a field's name; give NAME=%.100s", text,
                           text);
    const char *flaw = sluice_field_name_flaw(parsed.name);
    if (flaw)
        return sluice_fail(err, SLUICE_E_INVALID, "--target %.100s: %s", text, flaw);
    *source = parsed;
    return SLUICE_OK;
}

sluice_status sluice_field_sources_name(const struct sluice_field_sources *sources,
                                        struct sluice_fields *fields, struct sluice_err *err)
{
    struct sluice_fields made = {.num = sources->num};
    for (unsigned i = 0; i < sources->num; i++) {
        struct sluice_named_field *field = &made.of[i];
        const enum sluice_field_kind kind = sources->of[i].kind;
        (void)sluice_print(field->name, sizeof(field->name), "%s", name_of(&sources->of[i]));
        if (kind != SLUICE_FIELD_VECTOR && kind != SLUICE_FIELD_KEYPOINTS)
            field->type.kind = kind;
        for (unsigned k = 0; k < i; k++) {
            if (strcmp(made.of[k].name, field->name) == 0)
                return sluice_fail(err, SLUICE_E_INVALID,
                                   "two fields are called '%s'; name one otherwise: --target "
                                   "NAME=%s",
                                   field->name, sources->of[i].from);
        }
    }
    *fields = made;
    return SLUICE_OK;
}
