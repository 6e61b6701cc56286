#ifndef SLUICE_BASE_SUGGEST_H
#define SLUICE_BASE_SUGGEST_H

#include <stddef.h>

/* "Did you mean ...?": the known words that are nearest to an unknown one.
 *
 * Ranks, nearest first: words that differ only in case or in - and _; by Damerau-Levenshtein
 * distance (insert, delete, replace, swap neighbours), up to a third of the word; words that begin
 * with it; words that contain it as a part between - or _ ("bw": "net-bw").  Names all words of the
 * nearest rank, unless there are more than five.
 *
 * Threads: an object belongs to one thread. */

struct sluice_suggestion {
    const char *word;
    size_t len;
    const char *best[5];
    size_t num_best; /* may exceed best[]: then no word is named */
    unsigned rank;   /* of best[] */
};

/* Borrows `word`, which need not be NUL-terminated. */
struct sluice_suggestion sluice_suggest_begin(const char *word, size_t len);
/* Borrows `known`. */
void sluice_suggest_try(struct sluice_suggestion *suggestion, const char *known);

/* "; did you mean --a or --b?" with `before` ("--") in front of each; "" if nothing is near. */
void sluice_suggest_print(const struct sluice_suggestion *suggestion, const char *before, char *out,
                          size_t room);

/* Writes the suggestion for a NULL-terminated list of words. */
void sluice_suggest(const char *word, const char *const *known, char *out, size_t room);

/* Writes "a, b, c", cut to the room.  The list is NULL-terminated. */
void sluice_join_words(const char *const *words, char *out, size_t room);

#endif
