#ifndef SLUICE_DATASETS_LIST_FIELD_VALUES_H
#define SLUICE_DATASETS_LIST_FIELD_VALUES_H

#include "datasets/list/field.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;

/* Collects the values of one field as they are read, all of one type: the requested kind, or
 * vectors or bytes as the first value is, which is a vector if it has only numbers.
 *
 * Threads: none of its own. */

struct sluice_field_values {
    enum sluice_field_kind wanted;
    struct sluice_field_type type; /* NONE: no value yet */
    char *bytes;                   /* of all */
    size_t len, capacity;
};
void sluice_field_values_clear(struct sluice_field_values *values);

struct sluice_field_place {
    size_t at; /* in values->bytes */
    uint32_t bytes;
};

/* Each adds a value.  SLUICE_E_INVALID: it is of another kind or dimension than the others or than
 * requested, too long, or not finite; err goes on after "its value" and the like.
 * SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_field_values_add_numbers(struct sluice_field_values *values,
                                                              const float *numbers, size_t num,
                                                              struct sluice_field_place *place,
                                                              struct sluice_err *err);
/* The content of a file; boxes and keypoints: JSON. */
SLUICE_MUST_USE sluice_status sluice_field_values_add_bytes(struct sluice_field_values *values,
                                                            const void *bytes, size_t len,
                                                            struct sluice_field_place *place,
                                                            struct sluice_err *err);
/* Numbers, as sluice_field_parse_vector() takes them, or bytes.  `text` has no NUL but its end. */
SLUICE_MUST_USE sluice_status sluice_field_values_add_text(struct sluice_field_values *values,
                                                           const char *text,
                                                           struct sluice_field_place *place,
                                                           struct sluice_err *err);
/* A number, an array of numbers, text, or anything else as compact JSON. */
SLUICE_MUST_USE sluice_status sluice_field_values_add_json(struct sluice_field_values *values,
                                                           const struct json_t *value,
                                                           struct sluice_field_place *place,
                                                           struct sluice_err *err);

#endif
