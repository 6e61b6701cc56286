#ifndef SLUICE_DATASETS_LIST_FIELDS_H
#define SLUICE_DATASETS_LIST_FIELDS_H

#include "datasets/list/field.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The fields of a dataset, and all values of a sample as one block of memory:
 *
 *     one field       the value itself
 *     several         of each value its bytes (uint32), then the values, each at a multiple of 4
 *
 * Numbers are little-endian.  In a block at a multiple of 4 vectors, boxes and keypoints are
 * aligned to 4 bytes, and several fields take a multiple of 4 bytes.
 *
 * Threads: pure functions. */

#define SLUICE_FIELD_NAME 64 /* bytes of a name, with its NUL */

struct sluice_named_field {
    struct sluice_field_type type;
    char name[SLUICE_FIELD_NAME]; /* UTF-8 without control characters */
};

struct sluice_fields {
    unsigned num; /* of[0] has kind NONE if it is 0 */
    struct sluice_named_field of[SLUICE_MAX_FIELDS];
};

/* The name of the field of datasets that were made when there was only one. */
#define SLUICE_TARGET_FIELD "target"

/* The reason why a name or the fields are invalid; NULL: they are valid. */
const char *sluice_field_name_flaw(const char *name);
const char *sluice_fields_flaw(const struct sluice_fields *fields);

bool sluice_fields_are_same(const struct sluice_fields *a, const struct sluice_fields *b);
/* The same, where one may be a target of a program that knew no names. */
bool sluice_fields_are_alike(const struct sluice_fields *a, const struct sluice_fields *b);

/* Whether programs that know one target alone, a vector or bytes, can use them: at most one, of
 * these kinds.  has_known_name: its name, which they do not ask for, is "target". */
bool sluice_fields_are_plain(const struct sluice_fields *fields);
bool sluice_fields_have_known_name(const struct sluice_fields *fields);

/* A line for each field: name, kind and dim with tabs between. */
#define SLUICE_FIELDS_TEXT (SLUICE_MAX_FIELDS * (SLUICE_FIELD_NAME + 24) + 1)
void sluice_fields_print(const struct sluice_fields *fields, char text[SLUICE_FIELDS_TEXT]);
/* False: the text is not of that form, or what it says is invalid. */
bool sluice_fields_parse(const char *text, struct sluice_fields *fields);

/* "caption (text), boxes (boxes)", cut at the end of the room; of one field that is a vector or
 * bytes its type in words; "no targets". */
#define SLUICE_FIELDS_WORDS 512
const char *sluice_fields_words(const struct sluice_fields *fields, char room[SLUICE_FIELDS_WORDS]);

struct sluice_field_value {
    const void *at; /* NULL: no value */
    uint32_t bytes;
};

/* The reason why a block of values is invalid; NULL: it is valid. */
const char *sluice_fields_values_flaw(const struct sluice_fields *fields, const void *values,
                                      size_t bytes);

/* Value i of a valid block; NULL: `values` is NULL, or i is not a field. */
struct sluice_field_value sluice_fields_value(const struct sluice_fields *fields, unsigned i,
                                              const void *values, size_t bytes);

/* Writes the block of all values (num, at least 1) to `to`, and returns its bytes; NULL: returns
 * the bytes alone. */
size_t sluice_fields_pack(unsigned num, const struct sluice_field_value *values, void *to);

#endif
