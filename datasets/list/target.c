#include "datasets/list/target.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a float32 is used as it lies there");

const char *sluice_field_kind_name(enum sluice_field_kind kind)
{
    static const char *const names[SLUICE_NUM_FIELD_KINDS] = {
        [SLUICE_FIELD_NONE] = "none",           [SLUICE_FIELD_VECTOR] = "vector",
        [SLUICE_FIELD_BYTES] = "bytes",         [SLUICE_FIELD_TEXT] = "text",
        [SLUICE_FIELD_JSON] = "json",           [SLUICE_FIELD_BOXES] = "boxes",
        [SLUICE_FIELD_KEYPOINTS] = "keypoints", [SLUICE_FIELD_MASK] = "mask",
    };
    return kind < SLUICE_NUM_FIELD_KINDS ? names[kind] : "unknown";
}

const char *sluice_target_type_flaw(struct sluice_target_type type)
{
    const bool is_vector = type.kind == SLUICE_TARGETS_VECTOR;
    if (!is_vector && type.kind != SLUICE_TARGETS_NONE && type.kind != SLUICE_TARGETS_BYTES)
        return "a kind of targets that is not known";
    if (is_vector ? type.dim == 0 || type.dim > SLUICE_MAX_TARGET_DIM : type.dim != 0)
        return "targets of so many numbers";
    return NULL;
}

const char *sluice_target_type_words(struct sluice_target_type type, char room[SLUICE_TARGET_WORDS])
{
    if (type.kind != SLUICE_TARGETS_VECTOR)
        return type.kind == SLUICE_TARGETS_NONE ? "no targets" : "bytes";
    snprintf(room, SLUICE_TARGET_WORDS, "vectors of %u float32", type.dim);
    return room;
}

const char *sluice_target_flaw(struct sluice_target_type type, const void *target, size_t bytes)
{
    if (type.kind == SLUICE_TARGETS_NONE)
        return target ? "a target where there are none" : NULL;
    if (!target)
        return "no target where others have one";
    if (bytes > SLUICE_MAX_TARGET_BYTES)
        return "a target of more than 1 MiB";
    if (type.kind == SLUICE_TARGETS_BYTES)
        return NULL;
    if (bytes != type.dim * sizeof(float))
        return "a target with more or fewer numbers than others";
    for (size_t i = 0; i < type.dim; i++) {
        float number;
        memcpy(&number, (const char *)target + i * sizeof(number), sizeof(number));
        if (!isfinite(number))
            return "a target with a number that is not finite";
    }
    return NULL;
}

bool sluice_target_is_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return a && b ? a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0 : a == b;
}

/* --- numbers --- */

/* The length of a decimal number, nan or inf; 0: none. */
static size_t number_len(const char *text)
{
    static const char *const words[] = {"infinity", "inf", "nan"};
    size_t len = *text == '-' || *text == '+';
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(words); i++) {
        if (sluice_strncasecmp(text + len, words[i], strlen(words[i])) == 0)
            return len + strlen(words[i]);
    }
    size_t digits = strspn(text + len, "0123456789");
    len += digits;
    if (text[len] == '.') {
        const size_t decimals = strspn(text + len + 1, "0123456789");
        len += 1 + decimals;
        digits += decimals;
    }
    if (!digits)
        return 0;
    if (text[len] == 'e' || text[len] == 'E') {
        const size_t sign = text[len + 1] == '-' || text[len + 1] == '+';
        const size_t exponent = strspn(text + len + 1 + sign, "0123456789");
        len += exponent ? 1 + sign + exponent : 0;
    }
    return len;
}

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t\r\n");
}

size_t sluice_target_parse_vector(const char *text, float *to, size_t room, bool *is_finite)
{
    size_t num = 0;
    text = skip_blanks(text);
    const bool is_listed = *text == '[';
    text = skip_blanks(text + is_listed);
    *is_finite = true;
    for (;;) {
        const size_t len = number_len(text);
        char *end = NULL;
        const float number = len ? sluice_strtof(text, &end) : 0.0f;
        if (end != text + len || len == 0)
            return 0;
        *is_finite = *is_finite && isfinite(number);
        if (num < room)
            to[num] = number;
        num++;
        const char *behind = skip_blanks(end);
        if (*behind == (is_listed ? ']' : '\0'))
            return is_listed && *skip_blanks(behind + 1) ? 0 : num;
        text = *behind == ',' ? skip_blanks(behind + 1) : behind;
        if (text == end)
            return 0;
    }
}

/* --- fields --- */

static void write_bytes(FILE *file, const uint8_t *bytes, size_t len)
{
    bool is_text = false;
    char *copy =
        malloc(len + 1); /* without it all beyond ASCII is written as if it were no UTF-8 */
    if (copy) {
        memcpy(copy, bytes, len);
        copy[len] = '\0';
        is_text = !memchr(bytes, '\0', len) && sluice_is_utf8(copy);
        free(copy);
    }
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\t')
            fputs("\\t", file);
        else if (bytes[i] == '\n')
            fputs("\\n", file);
        else if (bytes[i] == '\\')
            fputs("\\\\", file);
        else if (bytes[i] < ' ' || bytes[i] == 0x7f || (bytes[i] > 0x7f && !is_text))
            fprintf(file, "\\x%02x", bytes[i]);
        else
            fputc(bytes[i], file);
    }
}

void sluice_target_write_field(FILE *file, struct sluice_target_type type, const void *target,
                               size_t bytes)
{
    if (type.kind == SLUICE_TARGETS_BYTES)
        write_bytes(file, target, bytes);
    for (uint32_t i = 0; i < type.dim; i++) {
        float number;
        memcpy(&number, (const char *)target + i * sizeof(number), sizeof(number));
        sluice_fprintf(file, "%s%.9g", i ? " " : "",
                       (double)number); /* 9 digits name one float32 */
    }
}

/* The value of "\x1b" from behind the x; -1: not two hexadecimal digits. */
static int byte_of(const char *digits)
{
    static const char all[] = "0123456789abcdef";
    const char *high = digits[0] ? strchr(all, digits[0]) : NULL;
    const char *low = high && digits[1] ? strchr(all, digits[1]) : NULL;
    return low ? (int)(16 * (high - all) + (low - all)) : -1;
}

static bool unescape(char *text, size_t *len)
{
    char *out = text;
    for (const char *at = text; *at; at++) {
        if (*at != '\\') {
            *out++ = *at;
            continue;
        }
        at++;
        const int byte = *at == 'x'    ? byte_of(at + 1)
                         : *at == 't'  ? '\t'
                         : *at == 'n'  ? '\n'
                         : *at == '\\' ? '\\'
                                       : -1;
        if (byte < 0)
            return false;
        *out++ = (char)byte;
        at += *at == 'x' ? 2 : 0;
    }
    *len = (size_t)(out - text);
    return true;
}

bool sluice_target_read_field(struct sluice_target_type type, char *field, float *room,
                              const void **target, size_t *bytes)
{
    bool is_finite = true;
    const bool is_vector = type.kind == SLUICE_TARGETS_VECTOR;
    if (is_vector && sluice_target_parse_vector(field, room, type.dim, &is_finite) != type.dim)
        return false;
    if (!is_vector && !unescape(field, bytes))
        return false;
    if (is_vector)
        *bytes = type.dim * sizeof(*room);
    *target = is_vector ? (const void *)room : field;
    return !sluice_target_flaw(type, *target, *bytes);
}
