#ifndef SLUICE_PIPELINE_RUN_REGION_H
#define SLUICE_PIPELINE_RUN_REGION_H

#include "pipeline/pipeline_private.h"

/* Decode, and groups of ops that need only a box of their image; for run.c, which runs all ops. */

/* Ops [op, next) run as one; `flip` is what the hflip among them does. */
struct sluice_group {
    unsigned next;
    bool flip;
    bool is_nothing; /* the result is the input */
    bool is_region;  /* decode and the crop right after it, or the crop of a packed box */
    bool is_part;    /* resize and center_crop, with decode if that is where the sample stands */
};

/* The sample's new state; drops the buffer it replaces. */
void sluice_sample_advance(struct sluice_sample *sample, unsigned ops_done, enum sluice_kind kind,
                           struct sluice_size size, struct sluice_buf *data);

/* Memory for an image op's result: `out` if that is not NULL, else a new buffer *data. */
SLUICE_MUST_USE sluice_status sluice_make_result(const struct sluice_op *op,
                                                 struct sluice_scratch *scratch,
                                                 struct sluice_size size, uint8_t **out,
                                                 struct sluice_buf **data, struct sluice_err *err);

/* How a file has to be turned (image/orientation.h) if the pipeline makes images upright; else 1.
 */
uint32_t sluice_file_orientation(const struct sluice_pipeline *pipeline, const uint8_t *bytes,
                                 size_t len);

SLUICE_MUST_USE sluice_status sluice_run_decode(const struct sluice_pipeline *pipeline,
                                                struct sluice_scratch *scratch,
                                                struct sluice_sample *sample,
                                                struct sluice_err *err);

/* The split after the crop with which the ops after decode begin; 0: they do not. */
unsigned sluice_file_crop_end(const struct sluice_pipeline *pipeline);
/* What that crop needs of an image.  False: it is over the limits of an image's size. */
bool sluice_file_crop_box(const struct sluice_pipeline *pipeline, const struct sluice_draw_key *key,
                          struct sluice_size size, struct sluice_box *box);

/* The box's pixels, from a file or from a packed box. */
SLUICE_MUST_USE sluice_status sluice_read_box(const struct sluice_pipeline *pipeline,
                                              struct sluice_scratch *scratch,
                                              const struct sluice_sample *sample,
                                              struct sluice_rgb *rgb, struct sluice_err *err);

/* Runs a group that is a region or a part.  The result goes to `out` if that is not NULL (the
 * sample then keeps its input), else to a new buffer. */
SLUICE_MUST_USE sluice_status sluice_run_region(const struct sluice_pipeline *pipeline,
                                                struct sluice_scratch *scratch,
                                                struct sluice_sample *sample,
                                                const struct sluice_group *group, uint8_t *out,
                                                struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_run_part(const struct sluice_pipeline *pipeline,
                                              struct sluice_scratch *scratch,
                                              struct sluice_sample *sample,
                                              const struct sluice_group *group, uint8_t *out,
                                              struct sluice_err *err);

/* Whether ops `op` and `op` + 1 are before `end`, and are a resize and a center_crop that lies
 * within the resize's result; and the part of that result which the crop keeps, for an image of
 * this size.
 */
bool sluice_has_part(const struct sluice_pipeline *pipeline, unsigned op, unsigned end);
struct sluice_resize_part sluice_find_part(const struct sluice_pipeline *pipeline, unsigned op,
                                           struct sluice_size size);

#endif
