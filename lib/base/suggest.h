#ifndef SLUICE_BASE_SUGGEST_H
#define SLUICE_BASE_SUGGEST_H

#include <stddef.h>

/* "Did you mean ...?": the known words that are nearest to an unknown one.
 *
 * Near is, first, what differs in its case or in - and _ alone; then by the Damerau-Levenshtein
 * distance (insert, delete, replace, swap neighbours), up to a third of the word; then words that
 * begin with it, and at last those of which it is a part between - or _ ("bw": "net-bw").  Words
 * that are equally near are all named, unless they are more than three.
 *
 * Threads: an object belongs to one thread. */

struct sluice_suggestion {
    const char *word;
    size_t len;
    const char *best[3];
    size_t num_best; /* may be more than best[] holds: then none is named */
    unsigned rank;   /* of best[] */
};

/* Borrows `word`, which need not end with a 0. */
struct sluice_suggestion sluice_suggest_begin(const char *word, size_t len);
/* Borrows `known`. */
void sluice_suggest_try(struct sluice_suggestion *suggestion, const char *known);

/* "; did you mean --a or --b?" with `before` ("--") in front of each; "" if nothing is near. */
void sluice_suggest_print(const struct sluice_suggestion *suggestion, const char *before, char *out,
                          size_t room);

/* The same for a list that ends with NULL. */
void sluice_suggest(const char *word, const char *const *known, char *out, size_t room);

/* "a, b, c"; what has no room is cut.  The list ends with NULL. */
void sluice_join_words(const char *const *words, char *out, size_t room);

#endif
