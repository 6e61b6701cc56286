#include "datasets/list/field_values.h"

#include "base/array.h"
#include "base/c_locale.h"
#include "datasets/list/shapes.h"

#include <jansson.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ALL_BYTES "; --target-type bytes takes all as they are"

void sluice_field_values_clear(struct sluice_field_values *values)
{
    free(values->bytes);
    *values = (struct sluice_field_values){0};
}

static bool are_vectors(const struct sluice_field_values *values)
{
    return values->wanted == SLUICE_FIELD_VECTOR || values->type.kind == SLUICE_FIELD_VECTOR;
}

/* Room for one more, behind the last. */
static sluice_status make_room(struct sluice_field_values *values, size_t bytes,
                               struct sluice_err *err)
{
    const size_t wanted = values->len + bytes + 1; /* memory also for targets of no bytes */
    return sluice_array_reserve(&values->bytes, &values->capacity, wanted, 1)
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes of targets", wanted);
}

static sluice_status add(struct sluice_field_values *values, struct sluice_field_type type,
                         const void *from, size_t bytes, struct sluice_field_place *place,
                         struct sluice_err *err)
{
    const char *flaw = sluice_field_flaw(type, from, bytes);
    if (flaw)
        return sluice_fail(err, SLUICE_E_INVALID, "is %s", flaw);
    const sluice_status status = make_room(values, bytes, err);
    if (status != SLUICE_OK)
        return status;
    values->type = type;
    memcpy(values->bytes + values->len, from, bytes);
    *place = (struct sluice_field_place){.at = values->len, .bytes = (uint32_t)bytes};
    values->len += bytes;
    return SLUICE_OK;
}

sluice_status sluice_field_values_add_numbers(struct sluice_field_values *values,
                                              const float *numbers, size_t num,
                                              struct sluice_field_place *place,
                                              struct sluice_err *err)
{
    const uint32_t dim = values->type.dim;
    if (dim && num != dim)
        return sluice_fail(err, SLUICE_E_INVALID, "has %zu number%s, but the ones before have %u%s",
                           num, num == 1 ? "" : "s", dim,
                           values->wanted == SLUICE_FIELD_NONE ? ALL_BYTES : "");
    if (num > SLUICE_MAX_FIELD_DIM)
        return sluice_fail(err, SLUICE_E_INVALID, "has more than %zu numbers",
                           SLUICE_MAX_FIELD_DIM);
    const struct sluice_field_type type = {SLUICE_FIELD_VECTOR, (uint32_t)num};
    return add(values, type, numbers, num * sizeof(*numbers), place, err);
}

/* Boxes or keypoints of a JSON value. */
static sluice_status add_shapes(struct sluice_field_values *values, const json_t *json,
                                struct sluice_field_place *place, struct sluice_err *err)
{
    struct sluice_shapes shapes = {0};
    struct sluice_field_type type = {values->wanted, values->type.dim};
    size_t bytes = 0;
    void *boxes = NULL;
    sluice_status status = type.kind == SLUICE_FIELD_BOXES
                               ? sluice_shapes_add_json_boxes(&shapes, json, err)
                               : sluice_shapes_add_json_points(&shapes, json, &type.dim, err);
    if (status == SLUICE_OK && type.kind == SLUICE_FIELD_BOXES) {
        boxes = sluice_shapes_boxes(&shapes, &bytes);
        status = boxes ? add(values, type, boxes, bytes, place, err)
                       : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for boxes");
    } else if (status == SLUICE_OK && shapes.num_numbers == 0) { /* dim may be unknown yet */
        *place = (struct sluice_field_place){.at = values->len};
        status = make_room(values, 0, err);
    } else if (status == SLUICE_OK) {
        status = add(values, type, shapes.numbers, shapes.num_numbers * sizeof(float), place, err);
    }
    free(boxes);
    sluice_shapes_clear(&shapes);
    return status;
}

static bool is_shape(enum sluice_field_kind kind)
{
    return kind == SLUICE_FIELD_BOXES || kind == SLUICE_FIELD_KEYPOINTS;
}

/* JSON as a text: of a field of kind json it stays as it is. */
static sluice_status add_json_text(struct sluice_field_values *values, const char *text, size_t len,
                                   struct sluice_field_place *place, struct sluice_err *err)
{
    const struct sluice_field_type type = {values->wanted, 0};
    json_error_t why;
    json_t *json =
        SLUICE_IN_C_LOCALE(json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why));
    const sluice_status status =
        !json                      ? sluice_fail(err, SLUICE_E_INVALID, "is not JSON: %s", why.text)
        : is_shape(values->wanted) ? add_shapes(values, json, place, err)
                                   : add(values, type, text, len, place, err);
    json_decref(json);
    return status;
}

sluice_status sluice_field_values_add_bytes(struct sluice_field_values *values, const void *bytes,
                                            size_t len, struct sluice_field_place *place,
                                            struct sluice_err *err)
{
    if (values->wanted == SLUICE_FIELD_VECTOR)
        return sluice_fail(err, SLUICE_E_INVALID, "is no number, and no list of numbers");
    if (are_vectors(values))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "is no list of numbers, as the ones before are" ALL_BYTES);
    if (values->wanted == SLUICE_FIELD_JSON || is_shape(values->wanted))
        return add_json_text(values, bytes, len, place, err);
    const struct sluice_field_type type = {values->wanted ? values->wanted : SLUICE_FIELD_BYTES, 0};
    return add(values, type, bytes, len, place, err);
}

/* Whether a text of numbers alone is a vector. */
static bool may_be_vector(const struct sluice_field_values *values)
{
    return values->wanted == SLUICE_FIELD_VECTOR ||
           (values->wanted == SLUICE_FIELD_NONE && values->type.kind != SLUICE_FIELD_BYTES);
}

sluice_status sluice_field_values_add_text(struct sluice_field_values *values, const char *text,
                                           struct sluice_field_place *place, struct sluice_err *err)
{
    bool is_finite = true;
    const size_t num =
        may_be_vector(values) ? sluice_field_parse_vector(text, NULL, 0, &is_finite) : 0;
    if (num == 0)
        return sluice_field_values_add_bytes(values, text, strlen(text), place, err);
    float *numbers = calloc(num, sizeof(*numbers));
    if (!numbers)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu numbers", num);
    (void)sluice_field_parse_vector(text, numbers, num, &is_finite);
    const sluice_status status = sluice_field_values_add_numbers(values, numbers, num, place, err);
    free(numbers);
    return status;
}

/* Adds numbers; *num: how many, 0 if the value is something else, and nothing was added. */
static sluice_status add_json_numbers(struct sluice_field_values *values, const json_t *value,
                                      size_t *num, struct sluice_field_place *place,
                                      struct sluice_err *err)
{
    const bool is_list = json_is_array(value);
    *num = is_list ? json_array_size(value) : json_is_number(value);
    for (size_t i = 0; is_list && i < json_array_size(value); i++) {
        if (!json_is_number(json_array_get(value, i)))
            *num = 0;
    }
    if (*num == 0)
        return SLUICE_OK;
    float *numbers = calloc(*num, sizeof(*numbers));
    if (!numbers)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu numbers", *num);
    for (size_t i = 0; i < *num; i++)
        numbers[i] = (float)json_number_value(is_list ? json_array_get(value, i) : value);
    const sluice_status status = sluice_field_values_add_numbers(values, numbers, *num, place, err);
    free(numbers);
    return status;
}

sluice_status sluice_field_values_add_json(struct sluice_field_values *values, const json_t *value,
                                           struct sluice_field_place *place, struct sluice_err *err)
{
    const bool is_text = json_is_string(value);
    if (is_text && values->wanted == SLUICE_FIELD_VECTOR)
        return sluice_field_values_add_text(values, json_string_value(value), place, err);
    if (is_text && values->wanted != SLUICE_FIELD_JSON)
        return sluice_field_values_add_bytes(values, json_string_value(value),
                                             json_string_length(value), place, err);
    if (is_shape(values->wanted))
        return add_shapes(values, value, place, err);
    size_t num = 0;
    if (may_be_vector(values)) {
        const sluice_status status = add_json_numbers(values, value, &num, place, err);
        if (status != SLUICE_OK || num)
            return status;
    }
    char *text = SLUICE_IN_C_LOCALE(json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY));
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a target");
    const struct sluice_field_type json = {SLUICE_FIELD_JSON, 0};
    const sluice_status status =
        values->wanted == SLUICE_FIELD_JSON
            ? add(values, json, text, strlen(text), place, err)
            : sluice_field_values_add_bytes(values, text, strlen(text), place, err);
    free(text);
    return status;
}
