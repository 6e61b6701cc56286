#ifndef SLUICE_BASE_ROOTS_H
#define SLUICE_BASE_ROOTS_H

#include "base/error.h"

#include <stddef.h>

/* The places that a dataset's files lie in: one root, or several with a name each.
 *
 *     /data/cats                        one root; a sample's path is what it is in it
 *     a=/data/cats  b=s3://bucket/dogs  two; the paths in them are a/... and b/...
 *
 * A name is of letters, digits, - and _.  A folder called "a=b" is written ./a=b.
 *
 * Threads: pure functions. */

#define SLUICE_MAX_ROOTS 16
#define SLUICE_ROOT_NAME_BYTES 33

struct sluice_root {
    char name[SLUICE_ROOT_NAME_BYTES]; /* "": the only one */
    const char *place;                 /* a folder or a URL; borrows the text */
};

/* By the order of the paths in them: by NAME/. */
struct sluice_roots {
    struct sluice_root at[SLUICE_MAX_ROOTS];
    size_t num; /* >= 1 */
};

/* SLUICE_E_INVALID: an invalid name, or the same name twice; a root without a name among several.
 */
SLUICE_MUST_USE sluice_status sluice_roots_parse(const char *const *texts, size_t num_texts,
                                                 struct sluice_roots *roots,
                                                 struct sluice_err *err);

/* The one root, without a name. */
struct sluice_roots sluice_roots_one(const char *place);

/* The root that a sample's path lies in; *rest is its path there.  NULL: in none. */
const struct sluice_root *sluice_roots_find(const struct sluice_roots *roots, const char *path,
                                            const char **rest);

/* The rest of `path` after NAME/, all of it where `name` is ""; NULL: it does not begin so. */
const char *sluice_root_rest(const char *name, const char *path);

/* How the paths in two roots are ordered: by NAME/, bytewise. */
int sluice_root_compare(const char *name_a, const char *name_b);

/* "NAME=PLACE NAME=PLACE", cut with "..." where that is too long; a root without a name is its
 * place. */
#define SLUICE_ROOTS_TEXT 320
void sluice_roots_format(const struct sluice_roots *roots, char text[SLUICE_ROOTS_TEXT]);

/* The characters of a root's name. */
#define SLUICE_ROOT_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

#endif
