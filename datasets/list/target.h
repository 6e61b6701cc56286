#ifndef SLUICE_DATASETS_LIST_TARGET_H
#define SLUICE_DATASETS_LIST_TARGET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Targets: data of each sample in addition to its class.  In a dataset all targets are vectors of
 * float32 of one dimension, or all are bytes of any length up to SLUICE_MAX_TARGET_BYTES.
 *
 * Threads: pure functions. */

#define SLUICE_MAX_TARGET_BYTES ((size_t)1 << 20)
#define SLUICE_MAX_TARGET_DIM (SLUICE_MAX_TARGET_BYTES / sizeof(float))

struct sluice_target_type {
    enum sluice_target_kind kind;
    uint32_t dim; /* of vectors, 1 and more; else 0 */
};

/* The reason why the type, or the target of that type, is invalid (bytes in memory; a vector is
 * little-endian float32); NULL: it is valid. */
const char *sluice_target_type_flaw(struct sluice_target_type type);
const char *sluice_target_flaw(struct sluice_target_type type, const void *target, size_t bytes);

/* Whether two targets of one type are equal. */
bool sluice_target_is_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

/* "no targets", "vectors of 3 float32" or "bytes". */
#define SLUICE_TARGET_WORDS 40
const char *sluice_target_type_words(struct sluice_target_type type,
                                     char room[SLUICE_TARGET_WORDS]);

/* Parses numbers separated by blanks or single commas, optionally in [ ]: "0.5", "1, 2e-3",
 * "[1 2]".  Writes the first `room` of them to `to`, rounded to float32, and returns their number;
 * 0: other text.  *is_finite: no number is nan, inf or beyond float32. */
size_t sluice_target_parse_vector(const char *text, float *to, size_t room, bool *is_finite);

/* Writes a target as a field of a line: numbers with blanks between them, which read back bit for
 * bit, or text in which control characters and invalid UTF-8 become \t, \n, \x1b and backslashes
 * \\. */
void sluice_target_write_field(FILE *file, struct sluice_target_type type, const void *target,
                               size_t bytes);

/* The way back, in place: *target is in `field`, or in `room` of dim float32s for vectors. False:
 * the field is invalid. */
bool sluice_target_read_field(struct sluice_target_type type, char *field, float *room,
                              const void **target, size_t *bytes);

#endif
