#include "datasets/list/python_json.h"

#include <string.h>

struct walk {
    char *text;
    size_t len, at;
    unsigned depth;
    /* The place of the outermost object's last key, without quotes. */
    size_t key, key_len;
    bool is_key; /* the next string at depth 1 is a key */
    sluice_python_json_fn *told;
    void *ctx;
};

static void tell(const struct walk *w)
{
    char key[SLUICE_PYTHON_JSON_KEY];
    const size_t len = w->key_len < sizeof(key) - 1 ? w->key_len : sizeof(key) - 1;
    memcpy(key, w->text + w->key, len);
    key[len] = '\0';
    w->told(w->ctx, key);
}

/* The four digits of a \u at `at`; -1: there are none. */
static int code_at(const struct walk *w, size_t at)
{
    int code = 0;
    if (at + 6 > w->len || w->text[at] != '\\' || w->text[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        const char c = w->text[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        code = 16 * code + digit;
    }
    return code;
}

static bool is_high(int code)
{
    return code >= 0xd800 && code < 0xdc00;
}

static bool is_low(int code)
{
    return code >= 0xdc00 && code < 0xe000;
}

/* The string that begins at w->at. */
static void walk_string(struct walk *w)
{
    const size_t begin = ++w->at;
    bool is_changed = false;
    while (w->at < w->len && w->text[w->at] != '"') {
        const int code = code_at(w, w->at);
        if (is_high(code) && is_low(code_at(w, w->at + 6))) {
            w->at += 12;
        } else if (code == 0 || is_high(code) || is_low(code)) {
            memcpy(w->text + w->at, "\\ufffd", 6);
            w->at += 6;
            is_changed = true;
        } else {
            w->at += w->text[w->at] == '\\' ? 2 : 1;
        }
    }
    if (w->depth == 1 && w->is_key) {
        w->key = begin;
        w->key_len = (w->at < w->len ? w->at : w->len) - begin;
    }
    if (is_changed)
        tell(w);
    w->at++;
}

static void replace_by_zero(struct walk *w, size_t len)
{
    memset(w->text + w->at, ' ', len);
    w->text[w->at] = '0';
    tell(w);
    w->at += len;
}

/* The number or word that begins here and ends before a delimiter. */
static void walk_word(struct walk *w)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    static const char most[] = "9223372036854775807"; /* also for a negative number */
    const char *text = w->text + w->at;
    size_t len = 0;
    while (w->at + len < w->len && !strchr(" \t\r\n,:[]{}\"", text[len]))
        len++;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i]) == len && memcmp(text, words[i], len) == 0) {
            replace_by_zero(w, len);
            return;
        }
    }
    const size_t sign = len > 0 && text[0] == '-', digits = len - sign;
    bool is_integer = digits > 0 && text[sign] != '0';
    for (size_t i = sign; i < len && is_integer; i++)
        is_integer = text[i] >= '0' && text[i] <= '9';
    const size_t most_len = sizeof(most) - 1;
    if (is_integer &&
        (digits > most_len || (digits == most_len && memcmp(text + sign, most, most_len) > 0)))
        replace_by_zero(w, len);
    else
        w->at += len > 0 ? len : 1;
}

static void walk(struct walk *w)
{
    while (w->at < w->len) {
        const char c = w->text[w->at];
        if (c == '"') {
            walk_string(w);
            continue;
        }
        if (!c || !strchr(" \t\r\n,:[]{}", c)) {
            walk_word(w);
            continue;
        }
        w->depth += c == '{' || c == '[';
        w->depth -= (c == '}' || c == ']') && w->depth > 0;
        if (w->depth == 1 && (c == '{' || c == ','))
            w->is_key = true;
        else if (w->depth == 1 && c == ':')
            w->is_key = false;
        w->at++;
    }
}

void sluice_python_json_replace(char *text, size_t len, sluice_python_json_fn *told, void *ctx)
{
    struct walk w = {.text = text, .len = len, .told = told, .ctx = ctx};
    walk(&w);
}
