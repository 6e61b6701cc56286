#ifndef SLUICE_DATASETS_LIST_TARGET_VALUES_H
#define SLUICE_DATASETS_LIST_TARGET_VALUES_H

#include "datasets/list/target.h"

#include <stddef.h>
#include <stdint.h>

/* Collects targets as they are read, all of one type: the requested type, or that of the first
 * target, which is a vector if it has only numbers.
 *
 * Threads: none of its own. */

/* The request; zero: no targets. */
struct sluice_target_column {
    const char *name; /* of a table's column, or the suffix of members of tars; NULL: none */
    enum sluice_target_kind kind; /* NONE: as the first one is */
};

struct sluice_target_values {
    enum sluice_target_kind wanted;
    struct sluice_target_type type; /* NONE: no target yet */
    char *bytes;                    /* of all */
    size_t len, capacity;
};
void sluice_target_values_clear(struct sluice_target_values *values);

struct sluice_target_place {
    size_t at; /* in values->bytes */
    uint32_t bytes;
};

/* Each adds a target.  SLUICE_E_INVALID: it is of another kind or dimension than the others, too
 * long, or not finite; err goes on after "its value" and the like.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_target_values_add_numbers(struct sluice_target_values *values,
                                                               const float *numbers, size_t num,
                                                               struct sluice_target_place *place,
                                                               struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_target_values_add_bytes(struct sluice_target_values *values,
                                                             const void *bytes, size_t len,
                                                             struct sluice_target_place *place,
                                                             struct sluice_err *err);
/* Numbers, as sluice_target_parse_vector() takes them, or bytes.  `text` has no NUL but its end. */
SLUICE_MUST_USE sluice_status sluice_target_values_add_text(struct sluice_target_values *values,
                                                            const char *text,
                                                            struct sluice_target_place *place,
                                                            struct sluice_err *err);

#endif
