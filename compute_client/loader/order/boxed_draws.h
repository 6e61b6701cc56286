#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_BOXED_DRAWS_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_BOXED_DRAWS_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"
#include "op/pipeline.h"

/* The draws that depend on the boxes of a sample's objects (iou_crop).  The compute node has the
 * boxes, so it makes these draws and sends them with the request (sluice_draw_key.crop).
 *
 * Threads: pure functions. */

/* The number of the dataset's first field of boxes; SLUICE_MAX_FIELDS: it has none. */
unsigned sluice_boxes_field(const struct sluice_manifest *manifest);

/* Fills in key->crop for a sample whose image has `size`, at least 1 x 1, and is upright as stored;
 * does nothing if the pipeline has no such op.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_boxed_draws(const struct sluice_pipeline *pipeline,
                                                 const struct sluice_manifest *manifest,
                                                 struct sluice_size size,
                                                 struct sluice_draw_key *key,
                                                 struct sluice_err *err);

#endif
