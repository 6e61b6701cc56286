#ifndef SLUICE_DATASETS_LIST_YOLO_H
#define SLUICE_DATASETS_LIST_YOLO_H

#include "base/error.h"
#include "datasets/list/shapes.h"

#include <stddef.h>

/* YOLO's labels (https://docs.ultralytics.com/datasets/detect): a text for each image with a line
 * for each box, "class x y width height", of the center, in parts of the image's width and height,
 * as it is shown: turned upright by its EXIF orientation.
 *
 * Threads: none of its own. */

/* Adds the boxes of a text, which is terminated, in parts of the image; blank lines are passed
 * over. SLUICE_E_INVALID: err names line and fault, to go on behind the name of the file. */
SLUICE_MUST_USE sluice_status sluice_yolo_parse(const char *text, struct sluice_shapes *shapes,
                                                struct sluice_err *err);

/* Turns the value of a field of boxes from parts of the image into pixels of the file's, in place.
 * The size is that of the file's image, as stored; orientation: 1 to 8. */
void sluice_yolo_scale(void *boxes, size_t bytes, uint32_t width, uint32_t height,
                       unsigned orientation);

#endif
