#ifndef SLUICE_DATASETS_LIST_JSON_WALK_H
#define SLUICE_DATASETS_LIST_JSON_WALK_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the elements of an array or the members of an object in JSON text, so that a large file is
 * parsed element by element.  It matches brackets and strings alone: who uses an element parses it.
 *
 * Threads: pure functions. */

#define SLUICE_JSON_WALK_DEPTH 64 /* brackets within each other */

struct sluice_json_walk {
    const char *at, *end;
    char close; /* ']' or '}' */
    bool is_first;
};

struct sluice_json_part {
    const char *key; /* within its quotes, as it is written; of an element NULL */
    size_t key_len;
    const char *value;
    size_t len;
};

/* Begins in text[0 .. len), which is an array (open '[') or an object ('{'); false: it is not. */
bool sluice_json_walk_begin(struct sluice_json_walk *walk, const char *text, size_t len, char open);

/* The next element or member.  *is_end: that was the last, and *part is untouched.  False: the text
 * is cut or malformed at walk->at, or nested too deep. */
bool sluice_json_walk_next(struct sluice_json_walk *walk, struct sluice_json_part *part,
                           bool *is_end);

/* Whether nothing but blanks is behind the end. */
bool sluice_json_walk_is_over(struct sluice_json_walk *walk);

/* Whether a member has this key, which has no character that JSON escapes. */
bool sluice_json_part_is(const struct sluice_json_part *part, const char *key);

#endif
