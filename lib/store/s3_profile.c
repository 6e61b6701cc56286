#include "store/s3_profile.h"

#include "base/c_locale.h"
#include "base/compiler.h"
#include "base/text.h"

#include <string.h>

/* A part of the text. */
struct span {
    const char *at;
    size_t len;
};

static struct span trim(struct span span)
{
    while (span.len && sluice_is_space(span.at[0]))
        span.at++, span.len--;
    while (span.len && sluice_is_space(span.at[span.len - 1]))
        span.len--;
    return span;
}

static bool is_text(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.at, text, span.len) == 0;
}

/* The name within a section's brackets; empty: another kind of section. */
static struct span section_name(struct span line, bool is_config)
{
    static const char word[] = "profile";
    const char *end = memchr(line.at, ']', line.len);
    struct span name = trim((struct span){line.at + 1, (size_t)(end - line.at) - 1});
    if (!is_config || is_text(name, "default"))
        return name;
    if (name.len <= sizeof(word) || memcmp(name.at, word, sizeof(word) - 1) != 0 ||
        !sluice_is_space(name.at[sizeof(word) - 1]))
        return (struct span){line.at, 0};
    return trim((struct span){name.at + sizeof(word) - 1, name.len - (sizeof(word) - 1)});
}

struct place {
    const char *key;
    char *value;
    size_t room;
};

/* False: the value is longer than any. */
static bool set(struct sluice_s3_profile *profile, struct span key, struct span value)
{
    const struct place places[] = {
        {"aws_access_key_id", profile->key_id, sizeof(profile->key_id)},
        {"aws_secret_access_key", profile->secret, sizeof(profile->secret)},
        {"aws_session_token", profile->token, sizeof(profile->token)},
        {"region", profile->region, sizeof(profile->region)},
        {"endpoint_url", profile->endpoint, sizeof(profile->endpoint)},
        {"web_identity_token_file", profile->web_identity_token_file,
         sizeof(profile->web_identity_token_file)},
        {"role_arn", profile->role_arn, sizeof(profile->role_arn)},
        {"role_session_name", profile->role_session_name, sizeof(profile->role_session_name)},
    };
    static const char *const others[] = {"sso_session", "sso_start_url", "credential_process",
                                         "source_profile", "credential_source"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(places); i++) {
        if (!is_text(key, places[i].key))
            continue;
        if (value.len >= places[i].room)
            return false;
        if (!places[i].value[0]) {
            memcpy(places[i].value, value.at, value.len);
            places[i].value[value.len] = '\0';
        }
        return true;
    }
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        if (is_text(key, others[i]) && !profile->other[0])
            (void)sluice_print(profile->other, sizeof(profile->other), "%s", others[i]);
    }
    return true;
}

sluice_status sluice_s3_profile_parse(const char *text, size_t len, const char *name,
                                      bool is_config, struct sluice_s3_profile *profile,
                                      struct sluice_err *err)
{
    bool is_ours = false;
    unsigned number = 0;
    for (const char *at = text, *end = text + len; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const struct span raw = {at, (size_t)((newline ? newline : end) - at)};
        const struct span line = trim(raw);
        at = newline ? newline + 1 : end;
        number++;
        if (memchr(raw.at, '\0', raw.len))
            return sluice_fail(err, SLUICE_E_INVALID, "line %u: no text", number);
        /* Indented lines belong to the setting above them ("s3 ="). */
        if (!line.len || line.at[0] == '#' || line.at[0] == ';' ||
            (sluice_is_space(raw.at[0]) && line.at[0] != '['))
            continue;
        if (line.at[0] == '[') {
            if (!memchr(line.at, ']', line.len))
                return sluice_fail(err, SLUICE_E_INVALID, "line %u: a '[' without a ']'", number);
            is_ours = is_text(section_name(line, is_config), name);
            profile->is_found |= is_ours;
            continue;
        }
        const char *equals = memchr(line.at, '=', line.len);
        if (!equals)
            return sluice_fail(err, SLUICE_E_INVALID, "line %u: no '='", number);
        const struct span key = trim((struct span){line.at, (size_t)(equals - line.at)});
        const struct span value =
            trim((struct span){equals + 1, line.len - (size_t)(equals - line.at) - 1});
        if (is_ours && !set(profile, key, value))
            return sluice_fail(err, SLUICE_E_INVALID, "line %u: the value is too long", number);
    }
    return SLUICE_OK;
}
