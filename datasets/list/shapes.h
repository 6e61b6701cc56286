#ifndef SLUICE_DATASETS_LIST_SHAPES_H
#define SLUICE_DATASETS_LIST_SHAPES_H

#include "base/error.h"
#include "datasets/list/field.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_t;

/* Boxes and keypoints of one image as they are read, in the layout of their kind (sluice.h).
 *
 * Threads: none of its own. */

#define SLUICE_MAX_BOXES (SLUICE_MAX_FIELD_BYTES / SLUICE_BOX_BYTES)

struct sluice_shapes {
    float *numbers; /* of boxes 4 each; of keypoints 3 each */
    size_t num_numbers, number_capacity;
    uint32_t *labels; /* of boxes */
    size_t num_boxes, label_capacity;
};
void sluice_shapes_clear(struct sluice_shapes *shapes);
/* Takes out all shapes, and keeps the memory. */
void sluice_shapes_empty(struct sluice_shapes *shapes);

/* Adds a box; label: its class.  SLUICE_E_INVALID: err goes on after the name of what it is in, for
 * example "has a box of negative size". */
SLUICE_MUST_USE sluice_status sluice_shapes_add_box(struct sluice_shapes *shapes, double left,
                                                    double top, double right, double bottom,
                                                    double label, struct sluice_err *err);
/* Adds a keypoint.  The caller adds as many for each object. */
SLUICE_MUST_USE sluice_status sluice_shapes_add_point(struct sluice_shapes *shapes, double x,
                                                      double y, double visibility,
                                                      struct sluice_err *err);

/* Adds what a JSON value says.  Boxes are [[x1, y1, x2, y2], ...] of class 0,
 * [[x1, y1, x2, y2, class], ...], {"boxes": [[x1, y1, x2, y2], ...], "labels": [class, ...]}, or as
 * Hugging Face has them {"bbox": [[x, y, width, height], ...], "categories": [class, ...]}.
 * Keypoints are [[[x, y, visibility], ...], ...], an array for each object, or COCO's
 * [[x, y, visibility, x, y, visibility, ...], ...], or {"keypoints": one of these}; without a
 * visibility it is 2 (visible).  *points: keypoints of each object, unchanged without objects; if
 * it is not 0, each object must have as many.  Errors as above. */
SLUICE_MUST_USE sluice_status sluice_shapes_add_json_boxes(struct sluice_shapes *shapes,
                                                           const struct json_t *value,
                                                           struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_shapes_add_json_points(struct sluice_shapes *shapes,
                                                            const struct json_t *value,
                                                            uint32_t *points,
                                                            struct sluice_err *err);

/* Writes the value of a field of boxes or keypoints as JSON that is read back: {"boxes": [...],
 * "labels": [...]} or [[[x, y, visibility], ...], ...]. */
void sluice_shapes_write_json(FILE *file, struct sluice_field_type type, const void *value,
                              size_t bytes);

/* The value of a field with these boxes: a new block that the caller frees.  NULL: no memory. */
void *sluice_shapes_boxes(const struct sluice_shapes *shapes, size_t *bytes);

#endif
