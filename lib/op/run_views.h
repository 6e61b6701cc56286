#ifndef SLUICE_OP_RUN_VIEWS_H
#define SLUICE_OP_RUN_VIEWS_H

#include "op/run_region.h"

/* Runs a stage of kind SLUICE_OP_VIEWS, with decode before it or not.  From a file it decodes the
 * union of the views' boxes once.  The pixels of view i go to places[i] if that is not NULL (the
 * sample then keeps its input), else those of all, one after the other, to a new buffer. */
SLUICE_MUST_USE sluice_status sluice_run_views(const struct sluice_pipeline *pipeline,
                                               struct sluice_scratch *scratch,
                                               struct sluice_sample *sample,
                                               const struct sluice_stage *stage,
                                               uint8_t *const *places, struct sluice_err *err);

/* The places of the views if they stand one after the other from `out` on. */
void sluice_places_in(const struct sluice_pipeline *pipeline, uint8_t *out,
                      uint8_t *places[SLUICE_MAX_VIEWS]);

#endif
