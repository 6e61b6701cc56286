#ifndef SLUICE_DATASETS_TOOLS_SYNTH_H
#define SLUICE_DATASETS_TOOLS_SYNTH_H

#include "base/error.h"

#include <stdint.h>

/* Makes a labelled set of synthetic, photo-like pictures.
 *
 * Each class has colours, a texture direction and a texture scale of its own, which survive
 * cropping and flipping, so a small network learns it in a few epochs.  File sizes follow
 * ImageNet's (mean near 110 kB, a quarter above 150 kB), picture sizes and chroma subsampling its
 * mix; 1 in 32 is a PNG, 1 in 43 gray, 1 in 24 progressive.
 *
 * Sample i of (seed, num_classes) is the same bytes on every machine with the same libjpeg: its
 * draws are Philox keyed by (seed, i), its arithmetic is plain IEEE +, -, *, /.
 *
 * Threads: pure functions. */

struct sluice_buf;

struct sluice_synth_options {
    uint64_t seed;
    uint32_t num_classes; /* >= 1 */
};

/* Makes one file.  *suffix is "jpg" or "png" (static); *file a new buffer. */
SLUICE_MUST_USE sluice_status sluice_synth_image(const struct sluice_synth_options *options,
                                                 uint64_t index, struct sluice_buf **file,
                                                 const char **suffix, struct sluice_err *err);

/* The class of sample `index`: classes take turns. */
uint32_t sluice_synth_label(const struct sluice_synth_options *options, uint64_t index);

/* The target file size of sample `index`, in bytes. */
uint32_t sluice_synth_target_bytes(const struct sluice_synth_options *options, uint64_t index);

#endif
