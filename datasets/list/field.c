#include "datasets/list/field.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a float32 is used as it lies there");

static const char *const kind_names[SLUICE_NUM_FIELD_KINDS] = {
    [SLUICE_FIELD_NONE] = "none",           [SLUICE_FIELD_VECTOR] = "vector",
    [SLUICE_FIELD_BYTES] = "bytes",         [SLUICE_FIELD_TEXT] = "text",
    [SLUICE_FIELD_JSON] = "json",           [SLUICE_FIELD_BOXES] = "boxes",
    [SLUICE_FIELD_KEYPOINTS] = "keypoints", [SLUICE_FIELD_MASK] = "mask",
};

const char *sluice_field_kind_name(enum sluice_field_kind kind)
{
    return kind < SLUICE_NUM_FIELD_KINDS ? kind_names[kind] : "unknown";
}

enum sluice_field_kind sluice_field_kind_parse(const char *name, size_t len)
{
    for (int kind = SLUICE_FIELD_VECTOR; kind < SLUICE_NUM_FIELD_KINDS; kind++) {
        if (strlen(kind_names[kind]) == len && strncmp(kind_names[kind], name, len) == 0)
            return (enum sluice_field_kind)kind;
    }
    return SLUICE_FIELD_NONE;
}

const char *sluice_field_type_flaw(struct sluice_field_type type)
{
    const uint32_t most = type.kind == SLUICE_FIELD_VECTOR      ? SLUICE_MAX_FIELD_DIM
                          : type.kind == SLUICE_FIELD_KEYPOINTS ? SLUICE_MAX_KEYPOINTS
                                                                : 0;
    if (type.kind >= SLUICE_NUM_FIELD_KINDS)
        return "a kind of targets that is not known";
    if (most ? type.dim == 0 || type.dim > most : type.dim != 0)
        return "targets of so many numbers";
    return NULL;
}

const char *sluice_field_type_words(struct sluice_field_type type, char room[SLUICE_FIELD_WORDS])
{
    if (type.kind == SLUICE_FIELD_VECTOR)
        snprintf(room, SLUICE_FIELD_WORDS, "vectors of %u float32", type.dim);
    else if (type.kind == SLUICE_FIELD_KEYPOINTS)
        snprintf(room, SLUICE_FIELD_WORDS, "keypoints, %u of each object", type.dim);
    else
        return type.kind == SLUICE_FIELD_NONE ? "no targets" : sluice_field_kind_name(type.kind);
    return room;
}

/* --- flaws --- */

static float number_at(const void *numbers, size_t i)
{
    float number;
    memcpy(&number, (const char *)numbers + i * sizeof(number), sizeof(number));
    return number;
}

static bool are_finite(const void *numbers, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        if (!isfinite(number_at(numbers, i)))
            return false;
    }
    return true;
}

static const char *flaw_of_text(const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        char part[5] = "";
        memcpy(part, text + at, bytes - at < 4 ? bytes - at : 4);
        const size_t len = sluice_utf8_len(part);
        if (len == 0 || !part[0])
            return len ? "a text with a NUL byte" : "a text that is not UTF-8";
        at += len;
    }
    return NULL;
}

static const char *flaw_of_boxes(const void *boxes, size_t bytes)
{
    const size_t num = bytes / SLUICE_BOX_BYTES;
    if (bytes % SLUICE_BOX_BYTES)
        return "a list of boxes of another length than theirs";
    if (!are_finite(boxes, 4 * num))
        return "a box with a number that is not finite";
    for (size_t i = 0; i < num; i++) {
        uint32_t label;
        memcpy(&label, (const char *)boxes + (4 * num + i) * sizeof(label), sizeof(label));
        if (number_at(boxes, 4 * i) > number_at(boxes, 4 * i + 2) ||
            number_at(boxes, 4 * i + 1) > number_at(boxes, 4 * i + 3))
            return "a box of negative size";
        if (label >= SLUICE_MAX_BOX_CLASSES)
            return "a box of a class that is not 0 to 9,999,999";
    }
    return NULL;
}

size_t sluice_field_most_bytes(enum sluice_field_kind kind)
{
    return kind == SLUICE_FIELD_MASK ? SLUICE_MAX_VALUES_BYTES : SLUICE_MAX_FIELD_BYTES;
}

const char *sluice_field_flaw(struct sluice_field_type type, const void *value, size_t bytes)
{
    if (type.kind == SLUICE_FIELD_NONE)
        return value ? "a target where there are none" : NULL;
    if (!value)
        return "no target where others have one";
    if (bytes > sluice_field_most_bytes(type.kind))
        return type.kind == SLUICE_FIELD_MASK ? "a mask of more than 16 MiB"
                                              : "a target of more than 1 MiB";
    switch (type.kind) {
    case SLUICE_FIELD_VECTOR:
        if (bytes != type.dim * sizeof(float))
            return "a target with more or fewer numbers than others";
        return are_finite(value, type.dim) ? NULL : "a target with a number that is not finite";
    case SLUICE_FIELD_TEXT:
    case SLUICE_FIELD_JSON:
        return flaw_of_text(value, bytes);
    case SLUICE_FIELD_BOXES:
        return flaw_of_boxes(value, bytes);
    case SLUICE_FIELD_KEYPOINTS:
        if (bytes % ((size_t)type.dim * SLUICE_KEYPOINT_BYTES))
            return "an object with more or fewer keypoints than others";
        return are_finite(value, bytes / sizeof(float)) ? NULL : "a keypoint that is not finite";
    default:
        return NULL;
    }
}

bool sluice_field_is_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
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

size_t sluice_field_parse_vector(const char *text, float *to, size_t room, bool *is_finite)
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

static void write_number(FILE *file, const void *numbers, size_t i)
{
    sluice_fprintf(file, "%.9g", (double)number_at(numbers, i)); /* 9 digits name one float32 */
}

static void write_boxes(FILE *file, const void *boxes, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        uint32_t label;
        memcpy(&label, (const char *)boxes + (4 * num + i) * sizeof(label), sizeof(label));
        for (size_t k = 0; k < 4; k++) {
            fputs(k ? " " : i ? "," : "", file);
            write_number(file, boxes, 4 * i + k);
        }
        fprintf(file, " %u", label);
    }
}

void sluice_field_write(FILE *file, struct sluice_field_type type, const void *value, size_t bytes)
{
    if (type.kind == SLUICE_FIELD_BOXES) {
        write_boxes(file, value, bytes / SLUICE_BOX_BYTES);
    } else if (type.kind == SLUICE_FIELD_VECTOR || type.kind == SLUICE_FIELD_KEYPOINTS) {
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            fputs(i ? " " : "", file);
            write_number(file, value, i);
        }
    } else if (type.kind != SLUICE_FIELD_NONE) {
        write_bytes(file, value, bytes);
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

/* Boxes from numbers[0 .. 5 num), in place: corners, then classes. */
static bool boxes_of(float *numbers, size_t num)
{
    uint32_t *labels = malloc((num + 1) * sizeof(*labels));
    bool is_valid = labels != NULL;
    for (size_t i = 0; i < num && is_valid; i++) {
        const float label = numbers[5 * i + 4];
        is_valid = label >= 0 && label < SLUICE_MAX_BOX_CLASSES && label == floorf(label);
        labels[i] = is_valid ? (uint32_t)label : 0;
        memmove(numbers + 4 * i, numbers + 5 * i, 4 * sizeof(*numbers));
    }
    if (is_valid && num > 0)
        memcpy(numbers + 4 * num, labels, num * sizeof(*labels));
    free(labels);
    return is_valid;
}

/* *bytes: of what the numbers in the text make in `room`. */
static bool read_numbers(struct sluice_field_type type, const char *text, float *room,
                         size_t *bytes)
{
    bool is_finite = true;
    const bool may_be_empty = type.kind != SLUICE_FIELD_VECTOR;
    const size_t most =
        type.kind == SLUICE_FIELD_VECTOR ? type.dim : SLUICE_FIELD_ROOM(strlen(text), type.dim);
    const size_t num =
        may_be_empty && !*text ? 0 : sluice_field_parse_vector(text, room, most, &is_finite);
    if ((num == 0 && *text) || !is_finite)
        return false;
    *bytes = num * sizeof(*room);
    if (type.kind != SLUICE_FIELD_BOXES)
        return true;
    return num % 5 == 0 && boxes_of(room, num / 5);
}

bool sluice_field_read(struct sluice_field_type type, char *text, float *room, const void **value,
                       size_t *bytes)
{
    const bool has_numbers = type.kind == SLUICE_FIELD_VECTOR || type.kind == SLUICE_FIELD_BOXES ||
                             type.kind == SLUICE_FIELD_KEYPOINTS;
    if (has_numbers ? !read_numbers(type, text, room, bytes) : !unescape(text, bytes))
        return false;
    *value = has_numbers ? (const void *)room : text;
    return !sluice_field_flaw(type, *value, *bytes);
}
