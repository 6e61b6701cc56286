#ifndef SLUICE_PROFILER_REPORT_H
#define SLUICE_PROFILER_REPORT_H

#include "profiler/commands.h"

#include <stdio.h>

/* The data of the page of `offload_profile report`, computed here and drawn by
 * python/sluice/report.py:
 *
 *     num_samples, storage_cores, compute_cores
 *     plans   of each mode: mode, seconds, limits (words), wire_bytes, choices (samples by name)
 *     twice   plans of remote_auto with twice the bandwidth, storage cores and compute cores
 *     over    bandwidth (Mbit/s) and storage_cores: low, high, here (null: no limit), and points of
 *             a value and every mode's plan there
 *     map     plans of remote_auto, map_columns of bandwidths for each number of storage cores
 *     sizes   for each stage the kB of samples, sorted
 *
 * It is written to `out` as one JSON object.  All rates except those of the link and the cores are
 * too large to be a bottleneck.
 *
 * Threads: one. */
SLUICE_MUST_USE sluice_status sluice_report_plans(const struct sluice_profile *profile,
                                                  const struct sluice_profile_costs *costs,
                                                  const struct sluice_form_table *forms,
                                                  const struct sluice_rates *rates, FILE *out,
                                                  struct sluice_err *err);

#endif
