#ifndef SLUICE_OP_RUN_REGION_H
#define SLUICE_OP_RUN_REGION_H

#include "op/pipeline_private.h"

/* Runs decode and the stages that resample a box of their input; run.c walks all stages. */

/* Pixels of a box of an image. */
struct sluice_region {
    struct sluice_size image;
    struct sluice_box box;
    struct sluice_rgb rgb; /* of the box; owned */
};

/* Ops that run as one, from where the sample stands to `next`. */
struct sluice_stage {
    enum sluice_op_kind kind; /* SLUICE_OP_RESAMPLE also where decode comes first */
    unsigned next;
    unsigned first, resample_end; /* of a resample: its ops, without decode and mirror */
    bool is_mirrored;             /* its result is mirrored */
    bool is_nothing;              /* its result is its input */
    /* The input of a resample; NULL: the sample's data. */
    const struct sluice_region *region;
};

/* Sets the sample's state and data, and drops the old buffer. */
void sluice_sample_advance(struct sluice_sample *sample, unsigned ops_done, enum sluice_kind kind,
                           struct sluice_size size, struct sluice_buf *data);

/* Memory for an image op's result: `out` if that is not NULL, else a new buffer *data. */
SLUICE_MUST_USE sluice_status sluice_make_result(const struct sluice_op *op,
                                                 struct sluice_scratch *scratch,
                                                 struct sluice_size size, uint8_t **out,
                                                 struct sluice_buf **data, struct sluice_err *err);

/* The file's orientation (image/orientation.h) if the pipeline turns images upright; else 1. */
uint32_t sluice_file_orientation(const struct sluice_pipeline *pipeline, const uint8_t *bytes,
                                 size_t len);

SLUICE_MUST_USE sluice_status sluice_run_decode(const struct sluice_pipeline *pipeline,
                                                struct sluice_scratch *scratch,
                                                struct sluice_sample *sample,
                                                struct sluice_err *err);

/* The box that the ops right after decode need of an image of this size: a resample, or the first
 * resample of each view; stage_end[0] must not be 0.  False: a result would exceed the limits of an
 * image's size. */
bool sluice_file_crop_box(const struct sluice_pipeline *pipeline, const struct sluice_draw_key *key,
                          struct sluice_size size, struct sluice_box *box);

/* The size of the image in a sample's file, or of the image that its crop is of. */
SLUICE_MUST_USE sluice_status sluice_file_image_size(const struct sluice_pipeline *pipeline,
                                                     const struct sluice_scratch *scratch,
                                                     const struct sluice_sample *sample,
                                                     struct sluice_size *size,
                                                     struct sluice_err *err);

/* Whether the results of the resample right after decode keep within the limits; the error names
 * the op that does not.  For a pipeline without views, whose stage_end[0] is not 0. */
SLUICE_MUST_USE sluice_status sluice_check_crop(const struct sluice_pipeline *pipeline,
                                                const struct sluice_scratch *scratch,
                                                const struct sluice_draw_key *key,
                                                struct sluice_size size, struct sluice_err *err);

/* Reads that box's pixels from a sample's file. */
SLUICE_MUST_USE sluice_status sluice_read_file_region(const struct sluice_pipeline *pipeline,
                                                      struct sluice_scratch *scratch,
                                                      const struct sluice_sample *sample,
                                                      struct sluice_region *region,
                                                      struct sluice_err *err);

/* Runs a stage of kind SLUICE_OP_RESAMPLE.  The result goes to `out` if that is not NULL (the
 * sample then keeps its input), else to a new buffer. */
SLUICE_MUST_USE sluice_status sluice_run_resample(const struct sluice_pipeline *pipeline,
                                                  struct sluice_scratch *scratch,
                                                  struct sluice_sample *sample,
                                                  const struct sluice_stage *stage, uint8_t *out,
                                                  struct sluice_err *err);

/* Copies width x height pixels, mirrored left to right if `flip`. */
void sluice_copy_rgb(const struct sluice_image_view *in, bool flip, uint8_t *out,
                     size_t out_stride);

#endif
