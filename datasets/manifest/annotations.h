#ifndef SLUICE_DATASETS_MANIFEST_ANNOTATIONS_H
#define SLUICE_DATASETS_MANIFEST_ANNOTATIONS_H

#include "datasets/manifest/builder.h"

#include <stdbool.h>
#include <stddef.h>

/* Boxes and keypoints of images as fields "boxes" and "keypoints": from files of COCO (coco.h),
 * which name images by file_name, the end of their paths, or from a folder of YOLO's texts
 * (yolo.h), in which "a/1.txt" is that of "a/1.jpg" or "images/a/1.jpg", and of "x.tar/a/1.jpg"
 * unless there is "x.tar/a/1.txt".
 *
 * Threads: called from one. */

struct sluice_annotations;
struct sluice_image_sizes;

/* Reads files of COCO, or notes one folder of YOLO's.  *annotations stays NULL for no paths.
 * SLUICE_E_INVALID: err names file and entry; SLUICE_E_NOT_FOUND, SLUICE_E_IO. */
SLUICE_MUST_USE sluice_status sluice_annotations_read(const char *const *paths, size_t num_paths,
                                                      struct sluice_annotations **annotations,
                                                      struct sluice_err *err);
void sluice_annotations_destroy(struct sluice_annotations *annotations); /* NULL is allowed */

/* Adds the fields.  SLUICE_E_INVALID: there are too many, or one has the name. */
SLUICE_MUST_USE sluice_status
sluice_annotations_add_fields(const struct sluice_annotations *annotations,
                              struct sluice_fields *fields, struct sluice_err *err);

/* Sets the values of all rows; `first` is the number of the field of boxes.  SLUICE_E_INVALID: an
 * image is in no file of COCO, a file_name is that of several images, or a text of YOLO is wrong;
 * err names it.  Images that have no text of YOLO have no boxes, and entries of COCO without an
 * image are a warning that counts them. */
SLUICE_MUST_USE sluice_status sluice_annotations_assign(
    const struct sluice_annotations *annotations, const char *root, unsigned first,
    struct sluice_manifest_builder *builder, struct sluice_err *err);

/* Whether the boxes are in parts of the images' sizes (YOLO's), and to be scaled once these are
 * known. */
bool sluice_annotations_are_relative(const struct sluice_annotations *annotations);

/* Turns such boxes, of field `field`, of all rows into pixels.  `sizes` has all of them, with
 * orientations; the boxes of an image without a size are all 0. */
void sluice_annotations_scale(struct sluice_manifest *manifest, unsigned field,
                              const struct sluice_image_sizes *sizes);

#endif
