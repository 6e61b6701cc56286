#include "profiler/cost_model.h"

#define F SLUICE_NUM_FEATURES

struct sluice_cost_features sluice_cost_features(uint64_t file_bytes, uint32_t width,
                                                 uint32_t height, uint32_t bottom,
                                                 uint64_t crop_pixels)
{
    const double to_crop = height > 0 ? (double)bottom / height : 1;
    return (struct sluice_cost_features){{
        [SLUICE_FEATURE_ONE] = 1,
        [SLUICE_FEATURE_FILE_BYTES] = (double)file_bytes,
        [SLUICE_FEATURE_PIXELS] = (double)width * height,
        [SLUICE_FEATURE_BYTES_TO_CROP] = (double)file_bytes * to_crop,
        [SLUICE_FEATURE_CROP_PIXELS] = (double)crop_pixels,
    }};
}

/* Solves a w = b for a symmetric, positive definite a, by elimination; both are spent. */
static void solve(double a[F][F], double b[F], double w[F])
{
    for (int i = 0; i < F; i++) {
        for (int j = i + 1; j < F; j++) {
            const double factor = a[j][i] / a[i][i];
            for (int k = i; k < F; k++)
                a[j][k] -= factor * a[i][k];
            b[j] -= factor * b[i];
        }
    }
    for (int i = F - 1; i >= 0; i--) {
        w[i] = b[i];
        for (int k = i + 1; k < F; k++)
            w[i] -= a[i][k] * w[k];
        w[i] /= a[i][i];
    }
}

sluice_status sluice_cost_model_fit(const struct sluice_cost_features *features, const double *cost,
                                    size_t num_samples, struct sluice_cost_model *model,
                                    struct sluice_err *err)
{
    /* In units of each feature's mean, so that the ridge below means the same to all. */
    double mean[F] = {0};
    size_t num_used = 0;
    for (size_t i = 0; i < num_samples; i++) {
        if (!(cost[i] > 0))
            continue;
        num_used++;
        for (int f = 0; f < F; f++)
            mean[f] += features[i].value[f];
    }
    if (num_used < F)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%zu samples with a cost are too few to fit %d weights", num_used, F);
    for (int f = 0; f < F; f++)
        mean[f] = mean[f] > 0 ? mean[f] / (double)num_used : 1;

    double a[F][F] = {{0}}, b[F] = {0};
    for (size_t i = 0; i < num_samples; i++) {
        if (!(cost[i] > 0))
            continue;
        double x[F];
        for (int f = 0; f < F; f++)
            x[f] = features[i].value[f] / mean[f] / cost[i];
        for (int f = 0; f < F; f++) {
            for (int g = 0; g < F; g++)
                a[f][g] += x[f] * x[g];
            b[f] += x[f];
        }
    }
    /* Features that say the same (a crop that is the whole image) would leave it singular. */
    double trace = 0;
    for (int f = 0; f < F; f++)
        trace += a[f][f];
    for (int f = 0; f < F; f++)
        a[f][f] += 1e-9 * trace;
    solve(a, b, model->weight);
    for (int f = 0; f < F; f++)
        model->weight[f] /= mean[f];
    return SLUICE_OK;
}

double sluice_cost_model_predict(const struct sluice_cost_model *model,
                                 const struct sluice_cost_features *features)
{
    double cost = 0;
    for (int f = 0; f < F; f++)
        cost += model->weight[f] * features->value[f];
    return cost > 0 ? cost : 0;
}
