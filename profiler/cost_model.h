#ifndef SLUICE_PROFILER_COST_MODEL_H
#define SLUICE_PROFILER_COST_MODEL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* What an op costs a sample, as a function of what is known before the sample is
 * fetched.
 *
 * A cost is a weighted sum of the features below.  The weights minimise the sum
 * of squares of (predicted - measured) / measured, since what counts is being
 * right to some per cent for small samples and large ones alike.
 *
 * Threads: pure functions. */

enum sluice_cost_feature {
    SLUICE_FEATURE_ONE,
    SLUICE_FEATURE_FILE_BYTES,
    SLUICE_FEATURE_PIXELS,        /* of the whole image */
    SLUICE_FEATURE_BYTES_TO_CROP, /* file bytes down to the last row of the crop */
    SLUICE_FEATURE_CROP_PIXELS,   /* of the crop before it is resized */
    SLUICE_NUM_FEATURES,
};

struct sluice_cost_features {
    double value[SLUICE_NUM_FEATURES];
};

/* Of an image of width x height with a crop whose last row is above `bottom`. */
struct sluice_cost_features sluice_cost_features(uint64_t file_bytes, uint32_t width,
                                                 uint32_t height, uint32_t bottom,
                                                 uint64_t crop_pixels);

struct sluice_cost_model {
    double weight[SLUICE_NUM_FEATURES];
};

/* Fits `cost` of num_samples samples; those of no cost are left out.  Features that say the same
 * share their weight.  SLUICE_E_INVALID if fewer than SLUICE_NUM_FEATURES samples are left. */
SLUICE_MUST_USE sluice_status sluice_cost_model_fit(const struct sluice_cost_features *features,
                                                    const double *cost, size_t num_samples,
                                                    struct sluice_cost_model *model,
                                                    struct sluice_err *err);

/* At least 0. */
double sluice_cost_model_predict(const struct sluice_cost_model *model,
                                 const struct sluice_cost_features *features);

#endif
