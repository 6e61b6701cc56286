#ifndef SLUICE_OP_RUN_STAGE_H
#define SLUICE_OP_RUN_STAGE_H

#include "op/run_region.h"

/* Running a sample is walking its stages.  A stage is a run of ops fused into one, so that bytes
 * are touched once where the result allows it: decode makes only the box that the resample after it
 * needs, a crop is joined to the resize before it, a mirror rides on the resample before it, and
 * the tensor ops (and a mirror that is left alone before them) are one table.  Stages decide where
 * bytes are written, not their values: fusion never changes the ops' results.
 *
 *     decode random_resized_crop hflip | to_tensor normalize
 *     decode resize center_crop hflip | to_tensor normalize
 *     decode views([random_resized_crop hflip],[random_resized_crop]) | to_tensor normalize
 *
 * Here are the stages that make pixels of one image; run.c walks them all, run_views.c those of
 * each view. */

/* The next stage of the sample, up to `end`.  With is_apart ops are fused only where they must be.
 */
struct sluice_stage sluice_next_stage(const struct sluice_pipeline *pipeline,
                                      const struct sluice_sample *sample, unsigned end,
                                      bool is_apart);

/* Whether no op in [split, end) still changes pixels. */
bool sluice_is_last_change(const struct sluice_pipeline *pipeline,
                           const struct sluice_draw_key *key, unsigned split, unsigned end);

/* Runs a stage that makes the pixels of one image.  The result goes into the sample, or to `out` if
 * that is not NULL (the sample then keeps its input), but not that of decode alone. */
SLUICE_MUST_USE sluice_status sluice_run_stage(const struct sluice_pipeline *pipeline,
                                               struct sluice_scratch *scratch,
                                               struct sluice_sample *sample,
                                               const struct sluice_stage *stage, uint8_t *out,
                                               struct sluice_err *err);

#endif
