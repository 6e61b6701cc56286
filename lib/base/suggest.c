#include "base/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_WORD 40 /* nobody mistypes longer ones; bounds the rows below */

/* Ranks beyond every distance. */
enum { RANK_PREFIX = MAX_WORD + 1, RANK_PART, RANK_NONE };

/* Case, and which of - and _ was taken, count for nothing. */
static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '_' ? '-' : c;
}

static bool is_same(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (fold(a[i]) != fold(b[i]))
            return false;
    }
    return true;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: the Damerau-Levenshtein distance in which nothing is edited twice.
 * Boytsov, "Indexing methods for approximate dictionary searching", 2011. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][MAX_WORD + 1];
    for (size_t k = 0; k <= b_len; k++)
        rows[0][k] = (unsigned)k;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *above_that = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= b_len; k++) {
            const bool is_equal = fold(a[i - 1]) == fold(b[k - 1]);
            row[k] = least(least(above[k], row[k - 1]) + 1, above[k - 1] + !is_equal);
            if (i > 1 && k > 1 && fold(a[i - 1]) == fold(b[k - 2]) &&
                fold(a[i - 2]) == fold(b[k - 1]))
                row[k] = least(row[k], above_that[k - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

/* Whether the word stands in `known` between dashes, underscores or its ends. */
static bool is_part(const struct sluice_suggestion *s, const char *known, size_t known_len)
{
    for (size_t at = 0; at + s->len <= known_len; at++) {
        const bool is_start = at == 0 || fold(known[at - 1]) == '-';
        const bool is_end = at + s->len == known_len || fold(known[at + s->len]) == '-';
        if (is_start && is_end && is_same(s->word, known + at, s->len))
            return true;
    }
    return false;
}

static unsigned rank_of(const struct sluice_suggestion *s, const char *known)
{
    const size_t known_len = strlen(known);
    if (s->len == 0 || s->len > MAX_WORD || known_len > MAX_WORD)
        return RANK_NONE;
    const unsigned edits = distance(s->word, s->len, known, known_len);
    if (edits <= (s->len + 2) / 3 && edits < known_len && edits < s->len)
        return edits;
    if (s->len >= 3 && s->len < known_len && is_same(s->word, known, s->len))
        return RANK_PREFIX;
    return s->len >= 2 && is_part(s, known, known_len) ? RANK_PART : RANK_NONE;
}

struct sluice_suggestion sluice_suggest_begin(const char *word, size_t len)
{
    return (struct sluice_suggestion){.word = word, .len = len, .rank = RANK_NONE};
}

void sluice_suggest_try(struct sluice_suggestion *suggestion, const char *known)
{
    const unsigned rank = rank_of(suggestion, known);
    if (rank == RANK_NONE || rank > suggestion->rank)
        return;
    if (rank < suggestion->rank)
        suggestion->num_best = 0;
    suggestion->rank = rank;
    if (suggestion->num_best < sizeof(suggestion->best) / sizeof(suggestion->best[0]))
        suggestion->best[suggestion->num_best] = known;
    suggestion->num_best++;
}

void sluice_suggest_print(const struct sluice_suggestion *suggestion, const char *before, char *out,
                          size_t room)
{
    const size_t num = suggestion->num_best;
    size_t len = 0;
    out[0] = '\0';
    if (num > sizeof(suggestion->best) / sizeof(suggestion->best[0]))
        return;
    for (size_t i = 0; i < num && len < room; i++) {
        const char *link = i == 0 ? "; did you mean " : i + 1 < num ? ", " : " or ";
        len += (size_t)snprintf(out + len, room - len, "%s%s%s%s", link, before,
                                suggestion->best[i], i + 1 == num ? "?" : "");
    }
}

void sluice_suggest(const char *word, const char *const *known, char *out, size_t room)
{
    struct sluice_suggestion suggestion = sluice_suggest_begin(word, strlen(word));
    for (size_t i = 0; known[i]; i++)
        sluice_suggest_try(&suggestion, known[i]);
    sluice_suggest_print(&suggestion, "", out, room);
}

void sluice_join_words(const char *const *words, char *out, size_t room)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; words[i] && len < room; i++)
        len += (size_t)snprintf(out + len, room - len, "%s%s", i ? ", " : "", words[i]);
}
