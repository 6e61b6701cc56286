#include "datasets/list/target_values.h"

#include "base/array.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ALL_BYTES "; --target-type bytes takes all as they are"

void sluice_target_values_clear(struct sluice_target_values *values)
{
    free(values->bytes);
    *values = (struct sluice_target_values){0};
}

static bool are_bytes(const struct sluice_target_values *values)
{
    return values->wanted == SLUICE_TARGETS_BYTES || values->type.kind == SLUICE_TARGETS_BYTES;
}

static bool are_vectors(const struct sluice_target_values *values)
{
    return values->wanted == SLUICE_TARGETS_VECTOR || values->type.kind == SLUICE_TARGETS_VECTOR;
}

/* Room for one more, behind the last. */
static sluice_status make_room(struct sluice_target_values *values, size_t bytes,
                               struct sluice_err *err)
{
    const size_t wanted = values->len + bytes + 1; /* memory also for targets of no bytes */
    return sluice_array_reserve(&values->bytes, &values->capacity, wanted, 1)
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes of targets", wanted);
}

static sluice_status add(struct sluice_target_values *values, struct sluice_target_type type,
                         const void *from, size_t bytes, struct sluice_target_place *place,
                         struct sluice_err *err)
{
    const char *flaw = sluice_target_flaw(type, from, bytes);
    if (flaw)
        return sluice_fail(err, SLUICE_E_INVALID, "is %s", flaw);
    const sluice_status status = make_room(values, bytes, err);
    if (status != SLUICE_OK)
        return status;
    values->type = type;
    memcpy(values->bytes + values->len, from, bytes);
    *place = (struct sluice_target_place){.at = values->len, .bytes = (uint32_t)bytes};
    values->len += bytes;
    return SLUICE_OK;
}

sluice_status sluice_target_values_add_numbers(struct sluice_target_values *values,
                                               const float *numbers, size_t num,
                                               struct sluice_target_place *place,
                                               struct sluice_err *err)
{
    const uint32_t dim = values->type.dim;
    if (dim && num != dim)
        return sluice_fail(err, SLUICE_E_INVALID, "has %zu number%s, but the ones before have %u%s",
                           num, num == 1 ? "" : "s", dim,
                           values->wanted == SLUICE_TARGETS_NONE ? ALL_BYTES : "");
    if (num > SLUICE_MAX_TARGET_DIM)
        return sluice_fail(err, SLUICE_E_INVALID, "has more than %zu numbers",
                           SLUICE_MAX_TARGET_DIM);
    const struct sluice_target_type type = {SLUICE_TARGETS_VECTOR, (uint32_t)num};
    return add(values, type, numbers, num * sizeof(*numbers), place, err);
}

sluice_status sluice_target_values_add_bytes(struct sluice_target_values *values, const void *bytes,
                                             size_t len, struct sluice_target_place *place,
                                             struct sluice_err *err)
{
    if (values->wanted == SLUICE_TARGETS_VECTOR)
        return sluice_fail(err, SLUICE_E_INVALID, "is no number, and no list of numbers");
    if (are_vectors(values))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "is no list of numbers, as the ones before are" ALL_BYTES);
    const struct sluice_target_type type = {SLUICE_TARGETS_BYTES, 0};
    return add(values, type, bytes, len, place, err);
}

sluice_status sluice_target_values_add_text(struct sluice_target_values *values, const char *text,
                                            struct sluice_target_place *place,
                                            struct sluice_err *err)
{
    bool is_finite = true;
    const size_t num =
        are_bytes(values) ? 0 : sluice_target_parse_vector(text, NULL, 0, &is_finite);
    if (num == 0)
        return sluice_target_values_add_bytes(values, text, strlen(text), place, err);
    float *numbers = calloc(num, sizeof(*numbers));
    if (!numbers)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu numbers", num);
    (void)sluice_target_parse_vector(text, numbers, num, &is_finite);
    const sluice_status status = sluice_target_values_add_numbers(values, numbers, num, place, err);
    free(numbers);
    return status;
}
