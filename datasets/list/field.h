#ifndef SLUICE_DATASETS_LIST_FIELD_H
#define SLUICE_DATASETS_LIST_FIELD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The value that a sample has in a field of the dataset: data in addition to its class, in the
 * layout of the field's kind (enum sluice_field_kind in sluice.h).
 *
 * Threads: pure functions. */

#define SLUICE_MAX_FIELD_BYTES ((size_t)1 << 20)   /* a value, but for masks */
#define SLUICE_MAX_VALUES_BYTES ((size_t)16 << 20) /* a mask, and all values of a sample together */
#define SLUICE_MAX_FIELD_DIM (SLUICE_MAX_FIELD_BYTES / sizeof(float))
#define SLUICE_MAX_KEYPOINTS 1000       /* of an object */
#define SLUICE_MAX_BOX_CLASSES 10000000 /* classes of boxes are less */

#define SLUICE_BOX_BYTES 20      /* x1 y1 x2 y2, and the class */
#define SLUICE_KEYPOINT_BYTES 12 /* x, y, visibility */

struct sluice_field_type {
    enum sluice_field_kind kind;
    uint32_t dim; /* of vectors and keypoints, 1 and more; else 0 */
};

/* The kind with this name; NONE: unknown. */
enum sluice_field_kind sluice_field_kind_parse(const char *name, size_t len);

/* The reason why the type, or the value of that type, is invalid; NULL: it is valid.  Whether JSON
 * is well-formed is checked where it is first read (field_values.h). */
const char *sluice_field_type_flaw(struct sluice_field_type type);
const char *sluice_field_flaw(struct sluice_field_type type, const void *value, size_t bytes);

/* The most bytes of a value of the kind: one of the two above. */
size_t sluice_field_most_bytes(enum sluice_field_kind kind);

/* Whether two values of one type are equal. */
bool sluice_field_is_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

/* "no targets", "vectors of 3 float32", "keypoints, 17 of each object", or the name of the kind. */
#define SLUICE_FIELD_WORDS 40
const char *sluice_field_type_words(struct sluice_field_type type, char room[SLUICE_FIELD_WORDS]);

/* Parses numbers separated by blanks or single commas, optionally in [ ]: "0.5", "1, 2e-3",
 * "[1 2]".  Writes the first `room` of them to `to`, rounded to float32, and returns their number;
 * 0: other text.  *is_finite: no number is nan, inf or beyond float32. */
size_t sluice_field_parse_vector(const char *text, float *to, size_t room, bool *is_finite);

/* Writes a value as a column of a line: numbers with blanks between them, which read back bit for
 * bit; boxes as "x1 y1 x2 y2 class", with commas between them; keypoints as numbers; or text in
 * which control characters and invalid UTF-8 become \t, \n, \x1b and backslashes \\. */
void sluice_field_write(FILE *file, struct sluice_field_type type, const void *value, size_t bytes);

/* The way back: *value is in `text`, which changes, or in `room`, which holds
 * SLUICE_FIELD_ROOM(strlen(text), type.dim) numbers.  False: the text is invalid. */
#define SLUICE_FIELD_ROOM(len, dim) ((len) + (dim) + 1)
bool sluice_field_read(struct sluice_field_type type, char *text, float *room, const void **value,
                       size_t *bytes);

#endif
