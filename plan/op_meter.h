#ifndef SLUICE_PLAN_OP_METER_H
#define SLUICE_PLAN_OP_METER_H

#include "base/error.h"
#include "op/pipeline.h"
#include "plan/sample_cost.h"

#include <stddef.h>
#include <stdint.h>

/* Measures the bytes and the time of each op of a pipeline for a sample, as a row of the tables of
 * sample_cost.h.
 *
 * Every op runs by itself once, for its bytes and its time.  Then all run as in production, where
 * ops are fused into groups: a decoder that knows the crop does less, and to_tensor and normalize
 * are one.  The first op of each group is charged with the group's time less the separate times of
 * the group's other ops.
 *
 * Threads: a meter belongs to one thread at a time. */

struct sluice_op_meter {
    struct sluice_scratch *by_op, *whole;
};

SLUICE_MUST_USE sluice_status sluice_op_meter_init(struct sluice_op_meter *meter,
                                                   struct sluice_buf_pool *pool,
                                                   uint64_t max_image_pixels,
                                                   struct sluice_err *err);
void sluice_op_meter_clear(struct sluice_op_meter *meter); /* idempotent; fine on {0} */

/* Fills all of *row except op_s[0] from `file`, a sample at split 0, which stays unchanged, and
 * writes its u8 pixels, pixels_len bytes, to the places of their views
 * (sluice_pipeline_finish_views()), unless that is NULL.  On failure the row is one that never
 * saves bytes: the file's bytes at every stage, and no time.  SLUICE_E_INVALID: the pixels have
 * another size. */
SLUICE_MUST_USE sluice_status sluice_op_meter_measure(struct sluice_op_meter *meter,
                                                      const struct sluice_pipeline *pipeline,
                                                      const struct sluice_sample *file,
                                                      uint8_t *const *places, size_t pixels_len,
                                                      struct sluice_sample_cost *row,
                                                      struct sluice_err *err);

#endif
