#ifndef SLUICE_BASE_ROOTS_H
#define SLUICE_BASE_ROOTS_H

#include "base/error.h"

#include <stddef.h>

/* The roots of a dataset's files: one root, or several, each with a name.
 *
 *     /data/cats                        one root; a sample's path is relative to it
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

/* Sorted like the paths in them: by NAME/. */
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

/* Finds the root of a sample's path; *rest is the path within the root.  NULL: no root matches. */
const struct sluice_root *sluice_roots_find(const struct sluice_roots *roots, const char *path,
                                            const char **rest);

/* The rest of `path` after NAME/, or all of it if `name` is ""; NULL: it does not begin with NAME/.
 */
const char *sluice_root_rest(const char *name, const char *path);

/* Compares the order of paths in two roots: by NAME/, bytewise. */
int sluice_root_compare(const char *name_a, const char *name_b);

/* Writes "NAME=PLACE NAME=PLACE", truncated with "..." if it is too long; for a root without a
 * name, its place. */
#define SLUICE_ROOTS_TEXT 320
void sluice_roots_format(const struct sluice_roots *roots, char text[SLUICE_ROOTS_TEXT]);

/* The characters of a root's name. */
#define SLUICE_ROOT_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

#endif
