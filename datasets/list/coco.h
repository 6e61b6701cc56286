#ifndef SLUICE_DATASETS_LIST_COCO_H
#define SLUICE_DATASETS_LIST_COCO_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* COCO's annotations (https://cocodataset.org/#format-data), of detection and of keypoints: one
 * JSON object with `images` (id, file_name), `annotations` (image_id, category_id, bbox as x y
 * width height, maybe keypoints and iscrowd) and maybe `categories` (id).  Boxes of crowds (iscrowd
 * 1) are left out, as training does.  The file is parsed element by element.
 *
 * Threads: none of its own. */

struct sluice_coco_image {
    char *file_name; /* owned */
    int64_t id;
    const char *of;    /* the file's name, borrowed */
    size_t first, num; /* of its objects, once they are sorted */
};

struct sluice_coco_object {
    size_t image, order; /* order: as they are read */
    double corners[4];   /* x1 y1 x2 y2 */
    double label;        /* an integer */
    size_t point;        /* the first number of its keypoints; SIZE_MAX: it has none */
};

/* The annotations of several files. */
struct sluice_coco {
    struct sluice_coco_image *images;
    size_t num_images, image_capacity;
    struct sluice_coco_object *objects;
    size_t num_objects, object_capacity;
    double *points; /* x y visibility, num_points of each object */
    size_t num_numbers, number_capacity;
    uint32_t num_points; /* 0: no object has keypoints */
    size_t num_crowds;   /* left out */
};
void sluice_coco_clear(struct sluice_coco *coco);

/* Adds a file; text[0 .. len) is its content.  SLUICE_E_INVALID: err names file and entry, and what
 * is wrong: JSON, an id that comes twice or is not in the file, a box that is not finite or of
 * negative size, another number of keypoints than before. */
SLUICE_MUST_USE sluice_status sluice_coco_add(struct sluice_coco *coco, const char *name,
                                              const char *text, size_t len, struct sluice_err *err);

/* Sorts the objects by image, in the order of their file; call it once all files are added. */
void sluice_coco_sort(struct sluice_coco *coco);

#endif
