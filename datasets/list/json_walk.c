#include "datasets/list/json_walk.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(struct sluice_json_walk *walk)
{
    while (walk->at < walk->end && is_blank(*walk->at))
        walk->at++;
}

/* Whether the next character is `c`, which is passed then. */
static bool take(struct sluice_json_walk *walk, char c)
{
    const bool is_there = walk->at < walk->end && *walk->at == c;
    walk->at += is_there;
    return is_there;
}

/* A string from its opening quote on. */
static bool skip_string(struct sluice_json_walk *walk)
{
    for (walk->at++; walk->at < walk->end; walk->at++) {
        if (*walk->at == '"')
            return take(walk, '"');
        if (*walk->at == '\\' && ++walk->at == walk->end)
            return false;
    }
    return false;
}

/* A value: brackets that match, a string, or a word up to what ends it. */
static bool skip_value(struct sluice_json_walk *walk)
{
    char open[SLUICE_JSON_WALK_DEPTH];
    size_t depth = 0;
    const char *first = walk->at;
    while (walk->at < walk->end) {
        const char c = *walk->at;
        if (c == '"') {
            if (!skip_string(walk))
                return false;
        } else if (c == '[' || c == '{') {
            if (depth == SLUICE_JSON_WALK_DEPTH)
                return false;
            open[depth++] = c;
            walk->at++;
        } else if (depth > 0 && (c == ']' || c == '}')) {
            if (open[--depth] != (c == ']' ? '[' : '{'))
                return false;
            walk->at++;
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}' || is_blank(c))) {
            break;
        } else {
            walk->at++;
            continue;
        }
        if (depth == 0)
            break;
    }
    return depth == 0 && walk->at > first;
}

bool sluice_json_walk_begin(struct sluice_json_walk *walk, const char *text, size_t len, char open)
{
    *walk = (struct sluice_json_walk){
        .at = text, .end = text + len, .close = open == '[' ? ']' : '}', .is_first = true};
    skip_blanks(walk);
    return take(walk, open);
}

bool sluice_json_walk_next(struct sluice_json_walk *walk, struct sluice_json_part *part,
                           bool *is_end)
{
    struct sluice_json_part found = {.key = NULL};
    skip_blanks(walk);
    *is_end = take(walk, walk->close);
    if (*is_end)
        return true;
    if (!walk->is_first && !take(walk, ','))
        return false;
    walk->is_first = false;
    skip_blanks(walk);
    if (walk->close == '}') {
        found.key = walk->at + 1;
        if (walk->at == walk->end || *walk->at != '"' || !skip_string(walk))
            return false;
        found.key_len = (size_t)(walk->at - 1 - found.key);
        skip_blanks(walk);
        if (!take(walk, ':'))
            return false;
        skip_blanks(walk);
    }
    found.value = walk->at;
    if (!skip_value(walk))
        return false;
    found.len = (size_t)(walk->at - found.value);
    *part = found;
    return true;
}

bool sluice_json_walk_is_over(struct sluice_json_walk *walk)
{
    skip_blanks(walk);
    return walk->at == walk->end;
}

bool sluice_json_part_is(const struct sluice_json_part *part, const char *key)
{
    return part->key && part->key_len == strlen(key) && memcmp(part->key, key, part->key_len) == 0;
}
