#ifndef SLUICE_PLAN_SAMPLE_FACTS_H
#define SLUICE_PLAN_SAMPLE_FACTS_H

#include "datasets/manifest.h"
#include "pipeline/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

/* What is known of a sample in one epoch before it is fetched: what the dataset's list says of its
 * file, and the crop, which the draw key gives.
 *
 * Threads: pure functions. */

struct sluice_sample_facts {
    uint64_t file_bytes;
    uint32_t width, height; /* at least 1; guessed from the file's bytes where not known */
    uint8_t coding;         /* image/coding.h */
    bool is_size_guessed;
    uint32_t output_size; /* side of the square that it ends as; 0: the image's own size */
    /* All that the ops read of the image: the whole of it if they do not begin with a crop. */
    struct {
        uint32_t top, left, height, width;
    } crop;
};

/* Of an entry whose id is key->sample_id. */
struct sluice_sample_facts sluice_sample_facts_of(const struct sluice_pipeline *pipeline,
                                                  const struct sluice_manifest_entry *entry,
                                                  const struct sluice_draw_key *key);

/* The same without a manifest; width and height 0: not known. */
struct sluice_sample_facts sluice_sample_facts_make(const struct sluice_pipeline *pipeline,
                                                    uint64_t file_bytes, uint32_t width,
                                                    uint32_t height, uint8_t coding,
                                                    const struct sluice_draw_key *key);

#endif
