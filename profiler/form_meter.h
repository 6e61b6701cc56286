#ifndef SLUICE_PROFILER_FORM_METER_H
#define SLUICE_PROFILER_FORM_METER_H

#include "base/error.h"
#include "op/pipeline.h"
#include "plan/choices.h"
#include "plan/form_table.h"

#include <stdint.h>

/* Measures a sample in every choice of its pipeline, with both nodes' work on this thread: the
 * storage side from the file to the payload, the compute side from there to u8 pixels.
 *
 * Threads: a meter belongs to one thread at a time. */

struct sluice_form_meter {
    const struct sluice_pipeline *pipeline; /* borrowed */
    struct sluice_choices choices;
    struct sluice_scratch *storage, *compute;
    uint8_t *pixels;
};

/* Borrows pipeline and pool.  SLUICE_E_INVALID: the pipeline has no fixed output size. */
SLUICE_MUST_USE sluice_status sluice_form_meter_init(struct sluice_form_meter *meter,
                                                     const struct sluice_pipeline *pipeline,
                                                     struct sluice_buf_pool *pool,
                                                     uint64_t max_image_pixels,
                                                     struct sluice_err *err);
void sluice_form_meter_clear(struct sluice_form_meter *meter); /* idempotent; fine on {0} */

/* Adds a row for every choice in which the sample can be sent.  A sample that cannot be decoded
 * fails with the pipeline's status, and adds no row. */
SLUICE_MUST_USE sluice_status sluice_form_meter_add(struct sluice_form_meter *meter,
                                                    struct sluice_buf *file, uint64_t index,
                                                    const struct sluice_draw_key *key,
                                                    struct sluice_form_table *table,
                                                    struct sluice_err *err);

#endif
