#ifndef SLUICE_PLAN_OP_METER_H
#define SLUICE_PLAN_OP_METER_H

#include "base/error.h"
#include "op/pipeline.h"
#include "plan/sample_cost.h"

#include <stddef.h>
#include <stdint.h>

/* Measures what each op of a pipeline makes of a sample and what it takes, as a row of the
 * tables of sample_cost.h.
 *
 * Every op runs by itself once, for its bytes and its time; then all run as they do when nobody
 * measures, where a decoder that knows the crop does less, and to_tensor and normalize are one. The
 * first op of each group is charged with what the others, as they were by themselves, leave of
 * that.
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

/* Fills all of *row but op_s[0] from a file, a sample at split 0, which stays as it is, and writes
 * its u8 pixels to pixels[0 .. pixels_len) (NULL: does not).  On failure the row is one that never
 * pays: the file's bytes at every stage, and no time.  SLUICE_E_INVALID: its pixels have
 * another size. */
SLUICE_MUST_USE sluice_status sluice_op_meter_measure(struct sluice_op_meter *meter,
                                                      const struct sluice_pipeline *pipeline,
                                                      const struct sluice_sample *file,
                                                      uint8_t *pixels, size_t pixels_len,
                                                      struct sluice_sample_cost *row,
                                                      struct sluice_err *err);

#endif
