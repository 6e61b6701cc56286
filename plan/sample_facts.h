#ifndef SLUICE_PLAN_SAMPLE_FACTS_H
#define SLUICE_PLAN_SAMPLE_FACTS_H

#include "datasets/manifest/manifest.h"
#include "op/features.h"
#include "op/pipeline.h"

#include <stdint.h>

/* The facts of a sample that are known before it is fetched: its file's entry in the dataset's
 * list, and the crop, which the draw key gives.
 *
 * Threads: pure functions. */

/* The facts of an entry whose id is key->sample_id. */
struct sluice_sample_facts sluice_sample_facts_of(const struct sluice_pipeline *pipeline,
                                                  const struct sluice_manifest_entry *entry,
                                                  const struct sluice_draw_key *key);

/* sluice_sample_facts.output_size of a pipeline's samples. */
uint32_t sluice_output_side(const struct sluice_pipeline *pipeline);

/* sluice_sample_facts_of() without a manifest; width and height 0: unknown. */
struct sluice_sample_facts sluice_sample_facts_make(const struct sluice_pipeline *pipeline,
                                                    uint64_t file_bytes, uint32_t width,
                                                    uint32_t height, uint8_t coding,
                                                    const struct sluice_draw_key *key);

#endif
