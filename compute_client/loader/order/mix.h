#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_MIX_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_MIX_H

#include "base/error.h"
#include "base/roots.h"
#include "compute_client/loader/order/sampler.h"
#include "datasets/manifest/manifest.h"

#include <stddef.h>
#include <stdint.h>

/* The mix: how often a training epoch takes the samples of each root, such as "a=1,b=0.5".
 *
 * A weight is the number of times that each sample of the root comes in an epoch, in the mean over
 * epochs (sampler.h).  A root is named by the first part of its samples' paths, so a mix also works
 * for the folders of a dataset.  Roots that are not named have weight 1.
 *
 * Threads: pure functions. */

/* Size with the NUL of the mix's canonical text: sorted by name, without weights of 1. */
#define SLUICE_MIX_TEXT 256
/* Each named root, and the samples before, between and after them. */
#define SLUICE_MAX_MIX_RANGES (2 * SLUICE_MAX_ROOTS + 1)

struct sluice_mix {
    size_t num; /* 0: all samples once */
    struct {
        char name[SLUICE_ROOT_NAME_BYTES];
        double weight;
    } of[SLUICE_MAX_ROOTS]; /* by sluice_root_compare() */
    char text[SLUICE_MIX_TEXT];
};

/* SLUICE_E_INVALID says what is wrong: a syntax error, a name twice, a weight below 0 or above
 * 1000000, or a text that is too long. */
SLUICE_MUST_USE sluice_status sluice_mix_parse(const char *text, struct sluice_mix *mix,
                                               struct sluice_err *err);
/* The same, for a table of options. */
SLUICE_MUST_USE sluice_status sluice_mix_check(const char *text, struct sluice_err *err);

/* The ranges of a subset's positions for the sampler.  ids[position] is a row of the manifest, in
 * rising order.  *num_ranges is 0 without a mix.  SLUICE_E_INVALID: the manifest has no path of a
 * named root. */
SLUICE_MUST_USE sluice_status sluice_mix_ranges(
    const struct sluice_mix *mix, const struct sluice_manifest *manifest, const uint32_t *ids,
    size_t num_ids, struct sluice_sampler_range ranges[SLUICE_MAX_MIX_RANGES], size_t *num_ranges,
    struct sluice_err *err);

#endif
