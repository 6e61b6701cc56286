#ifndef SLUICE_OP_RUN_REGION_H
#define SLUICE_OP_RUN_REGION_H

#include "op/pipeline_private.h"

/* Runs decode and the stages that resample a box of their input; run.c walks all stages. */

/* Ops that run as one, from where the sample stands to `next`. */
struct sluice_stage {
    enum sluice_op_kind kind; /* SLUICE_OP_RESAMPLE also where decode comes first */
    unsigned next;
    unsigned first, resample_end; /* of a resample: its ops, without decode and mirror */
    bool is_mirrored;             /* its result is mirrored */
    bool is_nothing;              /* its result is its input */
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

/* The box that the resample right after decode needs of an image of this size; stage_end[0] must
 * not be 0.  False: the result would exceed the limits of an image's size. */
bool sluice_file_crop_box(const struct sluice_pipeline *pipeline, const struct sluice_draw_key *key,
                          struct sluice_size size, struct sluice_box *box);

/* Reads that box's pixels from a sample's file. */
SLUICE_MUST_USE sluice_status sluice_read_file_box(const struct sluice_pipeline *pipeline,
                                                   struct sluice_scratch *scratch,
                                                   const struct sluice_sample *sample,
                                                   struct sluice_rgb *rgb, struct sluice_err *err);

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
