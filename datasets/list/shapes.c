#include "datasets/list/shapes.h"

#include "base/array.h"
#include "base/c_locale.h"

#include <jansson.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE 2.0 /* COCO's v of a keypoint that is labeled and visible */

void sluice_shapes_clear(struct sluice_shapes *shapes)
{
    free(shapes->numbers);
    free(shapes->labels);
    *shapes = (struct sluice_shapes){0};
}

void sluice_shapes_empty(struct sluice_shapes *shapes)
{
    shapes->num_numbers = shapes->num_boxes = 0;
}

static sluice_status add_numbers(struct sluice_shapes *shapes, const float *numbers, size_t num,
                                 struct sluice_err *err)
{
    const size_t wanted = shapes->num_numbers + num;
    if (wanted * sizeof(*numbers) > SLUICE_MAX_FIELD_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "has more than 1 MiB of boxes or keypoints");
    if (!sluice_array_reserve(&shapes->numbers, &shapes->number_capacity, wanted, sizeof(*numbers)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu numbers", wanted);
    memcpy(shapes->numbers + shapes->num_numbers, numbers, num * sizeof(*numbers));
    shapes->num_numbers = wanted;
    return SLUICE_OK;
}

sluice_status sluice_shapes_add_box(struct sluice_shapes *shapes, double left, double top,
                                    double right, double bottom, double label,
                                    struct sluice_err *err)
{
    const float corners[] = {(float)left, (float)top, (float)right, (float)bottom};
    for (int i = 0; i < 4; i++) {
        if (!isfinite(corners[i]))
            return sluice_fail(err, SLUICE_E_INVALID, "has a box with a number that is not finite");
    }
    if (right < left || bottom < top)
        return sluice_fail(err, SLUICE_E_INVALID, "has a box of negative size");
    if (!(label >= 0 && label < SLUICE_MAX_BOX_CLASSES && label == floor(label)))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "has a box whose class is not an integer from 0 to 9,999,999");
    if (shapes->num_boxes == SLUICE_MAX_BOXES)
        return sluice_fail(err, SLUICE_E_INVALID, "has more than %zu boxes", SLUICE_MAX_BOXES);
    if (!sluice_array_reserve(&shapes->labels, &shapes->label_capacity, shapes->num_boxes + 1,
                              sizeof(*shapes->labels)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu boxes",
                           shapes->num_boxes + 1);
    const sluice_status status = add_numbers(shapes, corners, 4, err);
    if (status == SLUICE_OK)
        shapes->labels[shapes->num_boxes++] = (uint32_t)label;
    return status;
}

sluice_status sluice_shapes_add_point(struct sluice_shapes *shapes, double x, double y,
                                      double visibility, struct sluice_err *err)
{
    const float numbers[] = {(float)x, (float)y, (float)visibility};
    for (int i = 0; i < 3; i++) {
        if (!isfinite(numbers[i]))
            return sluice_fail(err, SLUICE_E_INVALID, "has a keypoint that is not finite");
    }
    return add_numbers(shapes, numbers, 3, err);
}

/* --- JSON --- */

/* An array of `num` numbers. */
static bool are_numbers(const json_t *value, size_t num)
{
    bool are = json_is_array(value) && json_array_size(value) == num;
    for (size_t i = 0; i < num && are; i++)
        are = json_is_number(json_array_get(value, i));
    return are;
}

static double number_of(const json_t *array, size_t i)
{
    return json_number_value(json_array_get(array, i));
}

static sluice_status no_boxes(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID,
                       "is no list of boxes: [[x1, y1, x2, y2, class], ...], {\"boxes\": [[x1, y1, "
                       "x2, y2], ...], \"labels\": [...]} or {\"bbox\": [[x, y, width, height], "
                       "...], \"categories\": [...]}");
}

sluice_status sluice_shapes_add_json_boxes(struct sluice_shapes *shapes, const json_t *value,
                                           struct sluice_err *err)
{
    const bool is_object = json_is_object(value);
    const json_t *sized = json_object_get(value, "bbox");
    const json_t *boxes = sized ? sized : is_object ? json_object_get(value, "boxes") : value;
    const json_t *labels = json_object_get(value, sized ? "categories" : "labels");
    if (sized && !labels)
        labels = json_object_get(value, "category");
    if (!json_is_array(boxes))
        return no_boxes(err);
    const size_t num = json_array_size(boxes);
    if (is_object && !are_numbers(labels, num))
        return sluice_fail(err, SLUICE_E_INVALID, "has %zu boxes, and not as many classes", num);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < num && status == SLUICE_OK; i++) {
        const json_t *box = json_array_get(boxes, i);
        const bool has_label = !is_object && are_numbers(box, 5);
        if (!has_label && !are_numbers(box, 4))
            return no_boxes(err);
        const double x = number_of(box, 0), y = number_of(box, 1);
        const double label = has_label ? number_of(box, 4) : is_object ? number_of(labels, i) : 0;
        status = sluice_shapes_add_box(shapes, x, y, number_of(box, 2) + (sized ? x : 0),
                                       number_of(box, 3) + (sized ? y : 0), label, err);
    }
    return status;
}

static sluice_status no_points(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID,
                       "is no list of keypoints: [[[x, y, visibility], ...], ...] or [[x, y, "
                       "visibility, x, ...], ...]");
}

static sluice_status add_object(struct sluice_shapes *shapes, const json_t *object,
                                uint32_t *points, struct sluice_err *err)
{
    const size_t len = json_is_array(object) ? json_array_size(object) : 0;
    const bool is_flat = len > 0 && json_is_number(json_array_get(object, 0));
    const size_t num = is_flat ? len / 3 : len;
    if (num == 0 || num > SLUICE_MAX_KEYPOINTS || (is_flat && !are_numbers(object, 3 * num)))
        return no_points(err);
    if (*points && num != *points)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "has an object of %zu keypoints, but the ones before have %u", num,
                           *points);
    *points = (uint32_t)num;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < num && status == SLUICE_OK; i++) {
        const json_t *point = is_flat ? object : json_array_get(object, i);
        const size_t at = is_flat ? 3 * i : 0;
        const bool has_visibility = is_flat || are_numbers(point, 3);
        if (!has_visibility && !are_numbers(point, 2))
            return no_points(err);
        status = sluice_shapes_add_point(shapes, number_of(point, at), number_of(point, at + 1),
                                         has_visibility ? number_of(point, at + 2) : VISIBLE, err);
    }
    return status;
}

sluice_status sluice_shapes_add_json_points(struct sluice_shapes *shapes, const json_t *value,
                                            uint32_t *points, struct sluice_err *err)
{
    const json_t *objects = json_is_object(value) ? json_object_get(value, "keypoints") : value;
    sluice_status status = json_is_array(objects) ? SLUICE_OK : no_points(err);
    for (size_t i = 0; status == SLUICE_OK && i < json_array_size(objects); i++)
        status = add_object(shapes, json_array_get(objects, i), points, err);
    return status;
}

/* Numbers of a value with commas between; 9 digits name one float32. */
static void write_numbers(FILE *file, const void *value, size_t first, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        float number;
        memcpy(&number, (const char *)value + (first + i) * sizeof(number), sizeof(number));
        sluice_fprintf(file, "%s%.9g", i ? "," : "[", (double)number);
    }
    fputs("]", file);
}

void sluice_shapes_write_json(FILE *file, struct sluice_field_type type, const void *value,
                              size_t bytes)
{
    if (type.kind == SLUICE_FIELD_BOXES) {
        const size_t num = bytes / SLUICE_BOX_BYTES;
        fputs("{\"boxes\":[", file);
        for (size_t i = 0; i < num; i++) {
            fputs(i ? "," : "", file);
            write_numbers(file, value, 4 * i, 4);
        }
        fputs("],\"labels\":[", file);
        for (size_t i = 0; i < num; i++) {
            uint32_t label;
            memcpy(&label, (const char *)value + (4 * num + i) * sizeof(label), sizeof(label));
            fprintf(file, "%s%u", i ? "," : "", label);
        }
        fputs("]}", file);
        return;
    }
    const size_t num = bytes / SLUICE_KEYPOINT_BYTES;
    fputs("[", file);
    for (size_t i = 0; i < num; i++) {
        fputs(i % type.dim ? "," : i ? "],[" : "[", file);
        write_numbers(file, value, 3 * i, 3);
    }
    fputs(num ? "]]" : "]", file);
}

void *sluice_shapes_boxes(const struct sluice_shapes *shapes, size_t *bytes)
{
    const size_t corner_bytes = shapes->num_numbers * sizeof(float);
    const size_t label_bytes = shapes->num_boxes * sizeof(uint32_t);
    char *made = malloc(corner_bytes + label_bytes + 1);
    if (made && shapes->num_boxes > 0) {
        memcpy(made, shapes->numbers, corner_bytes);
        memcpy(made + corner_bytes, shapes->labels, label_bytes);
    }
    *bytes = corner_bytes + label_bytes;
    return made;
}
