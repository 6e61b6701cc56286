#include "compute_client/loader/tuning.h"

#include "base/compiler.h"

static const struct sluice_tuning defaults = {
    .interval_s = 0.25,
    .min_rows = 16,
    .max_intervals = 8,
    .ewma_weight = 0.5,
    .max_factor = 4,
    .wait_margin_s = 0.005,
    .limited_share = 0.9,
    .growth = 0.2,
    .disk_rows = 128,
    .disk_kept = 0.4,
    .memory_bytes_per_s = 1e11,
    .correction_rows = 1000,
    .correction_kept = 0.875,
    .prior_rows = 24,
    .max_row_factor = 16,
    .least_work_s = 20e-6,
    .first_samples = 8192,
    .samples = 2048,
    .solve_change = 0.1,
    .limit_dual = 0.01,
    .thrift = 1e-3,
    .gain_per_s = 1.5,
    .ahead_s = 0.05,
    .free_link_ahead_s = 0.2,
    .here_s = 0.1,
    .max_in_hand_s = 0.2,
    .follow_per_s = 1,
    .max_share_step = 0.3,
    .least_share = 0.01,
    .prefetch_s = 0.25,
    .prefetch_memory_s = 0.5,
};

static const char *const names[] = {
    "interval_s",
    "min_rows",
    "max_intervals",
    "ewma_weight",
    "max_factor",
    "wait_margin_s",
    "limited_share",
    "growth",
    "disk_rows",
    "disk_kept",
    "memory_bytes_per_s",
    "correction_rows",
    "correction_kept",
    "prior_rows",
    "max_row_factor",
    "least_work_s",
    "first_samples",
    "samples",
    "solve_change",
    "limit_dual",
    "thrift",
    "gain_per_s",
    "ahead_s",
    "free_link_ahead_s",
    "here_s",
    "max_in_hand_s",
    "follow_per_s",
    "max_share_step",
    "least_share",
    "prefetch_s",
    "prefetch_memory_s",
};

_Static_assert(sizeof(names) / sizeof(names[0]) == sizeof(defaults) / sizeof(double),
               "every constant has a name");

const struct sluice_tuning *sluice_tuning_default(void)
{
    return &defaults;
}

const char *sluice_tuning_name(size_t index)
{
    return index < SLUICE_ARRAY_LEN(names) ? names[index] : NULL;
}

double *sluice_tuning_field(struct sluice_tuning *tuning, size_t index)
{
    return (double *)tuning + index;
}
