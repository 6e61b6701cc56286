#include "datasets/list/brace.h"

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS 18                      /* of a number, which an int64 holds */
#define MAX_COPIED_BYTES ((size_t)1 << 30) /* more than the most names of a usual length take */

struct expansion {
    sluice_brace_fn *fn;
    void *ctx;
    size_t num;   /* names so far */
    size_t bytes; /* that were copied for them */
};

static sluice_status wrong(const char *list, const char *what, struct sluice_err *err)
{
    char shown[200];
    sluice_escape_line(shown, sizeof(shown), list);
    return sluice_fail(err, SLUICE_E_INVALID, "'%s': %s", shown, what);
}

/* Text[from .. to) of a name that is being made. */
struct text {
    const char *at;
    size_t len;
};

/* Length up to the brace that closes text[0] == '{'; 0: none does. */
static size_t find_close(struct text text)
{
    size_t depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        depth += text.at[i] == '{';
        depth -= text.at[i] == '}';
        if (depth == 0)
            return i;
    }
    return 0;
}

/* The length up to the first comma that is in no brace of its own, or all of it. */
static size_t find_comma(struct text text)
{
    size_t depth = 0, i = 0;
    for (; i < text.len && (depth > 0 || text.at[i] != ','); i++) {
        depth += text.at[i] == '{';
        depth -= text.at[i] == '}';
    }
    return i;
}

/* --- ranges --- */

struct range {
    int64_t from, to, step;
    int width; /* 0: no zeros in front */
    bool are_letters;
};

static bool parse_number(struct text text, int64_t *number, bool *is_padded)
{
    const bool is_negative = text.len > 0 && text.at[0] == '-';
    const size_t first = is_negative;
    *number = 0;
    if (text.len == first || text.len - first > MAX_DIGITS)
        return false;
    for (size_t i = first; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        *number = *number * 10 + (text.at[i] - '0');
    }
    if (is_negative)
        *number = -*number;
    *is_padded = text.at[first] == '0' && text.len - first > 1;
    return true;
}

static bool is_letter(struct text text)
{
    return text.len == 1 &&
           ((text.at[0] >= 'a' && text.at[0] <= 'z') || (text.at[0] >= 'A' && text.at[0] <= 'Z'));
}

/* Parses the text between braces if it is a range. */
static bool parse_range(struct text inner, struct range *range)
{
    struct text parts[3] = {{0}};
    size_t num = 0;
    for (size_t i = 0, begin = 0; i <= inner.len; i++) {
        const bool is_dots = i + 1 < inner.len && inner.at[i] == '.' && inner.at[i + 1] == '.';
        if (!is_dots && i < inner.len)
            continue;
        if (num == 3)
            return false;
        parts[num++] = (struct text){inner.at + begin, i - begin};
        begin = i + 2;
        i += is_dots;
    }
    bool is_padded[3] = {false, false, false};
    *range = (struct range){.step = 1};
    if (num < 2 || (num == 3 && !parse_number(parts[2], &range->step, &is_padded[2])))
        return false;
    range->are_letters = is_letter(parts[0]) && is_letter(parts[1]);
    if (range->are_letters) {
        range->from = (unsigned char)parts[0].at[0];
        range->to = (unsigned char)parts[1].at[0];
    } else if (!parse_number(parts[0], &range->from, &is_padded[0]) ||
               !parse_number(parts[1], &range->to, &is_padded[1])) {
        return false;
    }
    if (is_padded[0] || is_padded[1])
        range->width = (int)(parts[0].len > parts[1].len ? parts[0].len : parts[1].len);
    if (range->step < 0)
        range->step = -range->step;
    if (range->step == 0)
        range->step = 1;
    return true;
}

/* --- expansion --- */

/* A name is made of what is done, which holds no braces, and what is left. */
static sluice_status expand(struct expansion *expansion, const char *done, size_t done_len,
                            struct text left, struct sluice_err *err);

/* Goes on with done + middle, and with inner + rest as what is left. */
static sluice_status expand_with(struct expansion *expansion, struct text done, struct text middle,
                                 struct text inner, struct text rest, struct sluice_err *err)
{
    const size_t done_len = done.len + middle.len, left_len = inner.len + rest.len;
    expansion->bytes += done_len + left_len + 1;
    if (expansion->bytes > MAX_COPIED_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "braces of too many names");
    char *text = malloc(done_len + left_len + 1);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a name");
    memcpy(text, done.at, done.len);
    memcpy(text + done.len, middle.at, middle.len);
    memcpy(text + done_len, inner.at, inner.len);
    memcpy(text + done_len + inner.len, rest.at, rest.len);
    const sluice_status status =
        expand(expansion, text, done_len, (struct text){text + done_len, left_len}, err);
    free(text);
    return status;
}

static sluice_status expand_range(struct expansion *expansion, struct text done,
                                  const struct range *range, struct text rest,
                                  struct sluice_err *err)
{
    const struct text nothing = {"", 0};
    const int64_t sign = range->from <= range->to ? 1 : -1;
    sluice_status status = SLUICE_OK;
    for (int64_t at = range->from; sign * at <= sign * range->to && status == SLUICE_OK;
         at += sign * range->step) {
        char number[MAX_DIGITS + 8];
        const int len = range->are_letters ? snprintf(number, sizeof(number), "%c", (char)at)
                                           : snprintf(number, sizeof(number), "%0*lld",
                                                      range->width, (long long)at);
        status =
            expand_with(expansion, done, (struct text){number, (size_t)len}, nothing, rest, err);
    }
    return status;
}

static sluice_status finish(struct expansion *expansion, struct text done, struct text left,
                            struct sluice_err *err)
{
    char *name = malloc(done.len + left.len + 1);
    if (!name)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a name");
    memcpy(name, done.at, done.len);
    memcpy(name + done.len, left.at, left.len);
    name[done.len + left.len] = '\0';
    sluice_status status = SLUICE_OK;
    if (++expansion->num > SLUICE_BRACE_MAX_NAMES)
        status = sluice_fail(err, SLUICE_E_INVALID, "braces of more than %zu names",
                             SLUICE_BRACE_MAX_NAMES);
    else if (!name[0])
        status = sluice_fail(err, SLUICE_E_INVALID, "a name that is empty");
    else
        status = expansion->fn(expansion->ctx, name, err);
    free(name);
    return status;
}

static sluice_status expand(struct expansion *expansion, const char *done, size_t done_len,
                            struct text left, struct sluice_err *err)
{
    size_t open = 0;
    while (open < left.len && left.at[open] != '{')
        open++;
    const struct text done_text = {done, done_len};
    if (open == left.len)
        return finish(expansion, done_text, left, err);
    const size_t inner_len = find_close((struct text){left.at + open, left.len - open}) - 1;
    const struct text before = {done, done_len + open}; /* they stand one behind the other */
    const struct text inner = {left.at + open + 1, inner_len};
    const struct text rest = {left.at + open + inner_len + 2, left.len - open - inner_len - 2};
    const struct text nothing = {"", 0};
    struct range range;
    if (parse_range(inner, &range))
        return expand_range(expansion, before, &range, rest, err);
    const size_t comma = find_comma(inner);
    if (comma == inner.len) { /* as it stands; but what is in it is expanded */
        const struct text as_is = {left.at + open, 1};
        const struct text more = {left.at + open + 1, left.len - open - 1};
        return expand_with(expansion, before, as_is, nothing, more, err);
    }
    sluice_status status = SLUICE_OK;
    struct text items = inner;
    for (bool is_last = false; !is_last && status == SLUICE_OK;) {
        const size_t len = find_comma(items);
        is_last = len == items.len;
        status = expand_with(expansion, before, nothing, (struct text){items.at, len}, rest, err);
        if (!is_last)
            items = (struct text){items.at + len + 1, items.len - len - 1};
    }
    return status;
}

/* Braces match, and are no more in each other than is allowed. */
static sluice_status check_braces(const char *list, struct sluice_err *err)
{
    size_t depth = 0, num = 0;
    for (const char *at = list; *at; at++) {
        if (*at == '}' && depth == 0)
            return wrong(list, "a } without a {", err);
        depth += *at == '{';
        depth -= *at == '}';
        num += *at == '{';
        if (num > SLUICE_BRACE_MAX_BRACES)
            return wrong(list, "too many braces", err);
    }
    return depth == 0 ? SLUICE_OK : wrong(list, "a { without a }", err);
}

sluice_status sluice_brace_expand(const char *list, sluice_brace_fn *fn, void *ctx,
                                  struct sluice_err *err)
{
    struct expansion expansion = {.fn = fn, .ctx = ctx};
    if (strlen(list) > SLUICE_BRACE_MAX_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "a list of more than %zu bytes",
                           SLUICE_BRACE_MAX_BYTES);
    sluice_status status = SLUICE_OK;
    for (const char *at = list; at && status == SLUICE_OK;) {
        const char *end = strstr(at, "::");
        const size_t len = end ? (size_t)(end - at) : strlen(at);
        char *part = strndup(at, len);
        if (!part)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of names");
        status = check_braces(part, err);
        if (status == SLUICE_OK)
            status = expand(&expansion, part, 0, (struct text){part, len}, err);
        free(part);
        at = end ? end + 2 : NULL;
    }
    return status;
}
