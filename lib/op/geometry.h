#ifndef SLUICE_OP_GEOMETRY_H
#define SLUICE_OP_GEOMETRY_H

#include "base/error.h"
#include "op/pipeline.h"
#include "sluice/sluice.h"

#include <stdint.h>

/* Where the pixels of a sample's result come from: struct sluice_geometry of sluice.h, from the
 * draws and the size of the file's image alone.  Every machine computes the same bits.
 *
 * Threads: pure functions. */

/* Reads the image's size and orientation from a sample at split 0: a file, a JPEG crop, or a file
 * whose rows are opened (sluice_sample_open()).  SLUICE_E_CORRUPT or SLUICE_E_UNSUPPORTED: the
 * header is bad. */
SLUICE_MUST_USE sluice_status sluice_file_image_read(const struct sluice_pipeline *pipeline,
                                                     const struct sluice_sample *sample,
                                                     struct sluice_file_image *image,
                                                     struct sluice_err *err);

/* Whether numbers from outside are an image that a file may have. */
bool sluice_file_image_is_possible(const struct sluice_file_image *image);

/* SLUICE_E_INVALID: no single matrix describes the result, because the pipeline mixes images whose
 * pixels were moved apart; err names the op. */
SLUICE_MUST_USE sluice_status sluice_pipeline_check_geometry(const struct sluice_pipeline *pipeline,
                                                             struct sluice_err *err);

/* The geometry of a view of the sample of `key`; sluice_pipeline_check_geometry() has succeeded,
 * the image is possible, and view < sluice_pipeline_num_views(). */
void sluice_pipeline_geometry(const struct sluice_pipeline *pipeline,
                              const struct sluice_draw_key *key,
                              const struct sluice_file_image *image, unsigned view,
                              struct sluice_geometry *geometry);

/* Whether the pipeline has iou_crop, whose box depends on the boxes of the sample's objects. */
bool sluice_pipeline_draws_by_boxes(const struct sluice_pipeline *pipeline);
/* Draws that box: *crop is what key->crop has to be.  `boxes` are num_boxes x 4 floats, x1 y1 x2 y2
 * in pixels of the file's image, which is upright; without boxes the crop is all of it.  The image
 * is possible, and sluice_pipeline_check_geometry() has succeeded. */
SLUICE_MUST_USE sluice_status sluice_pipeline_draw_crop(const struct sluice_pipeline *pipeline,
                                                        const struct sluice_draw_key *key,
                                                        const struct sluice_file_image *image,
                                                        const float *boxes, size_t num_boxes,
                                                        struct sluice_box *crop,
                                                        struct sluice_err *err);

/* Moves a point by a matrix.  False: the matrix shows the point nowhere. */
bool sluice_matrix_move_point(const double matrix[9], double x, double y, double *u, double *v);
/* The box around the moved corners of a box (x1 y1 x2 y2), clipped to an image of this size; `moved`
 * may be `box`.  False: it is not a box, or it is shown nowhere. */
bool sluice_matrix_move_box(const double matrix[9], double height, double width, const float box[4],
                            float moved[4]);

/* For map() of an op (op.h): the inverse of a 3 x 3 matrix; all 0 if it is singular. */
void sluice_matrix_invert(const double matrix[9], double inverse[9]);

#endif
