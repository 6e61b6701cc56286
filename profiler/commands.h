#ifndef SLUICE_PROFILER_COMMANDS_H
#define SLUICE_PROFILER_COMMANDS_H

#include "base/error.h"
#include "profiler/planner.h"
#include "profiler/sample_cost.h"

#include <stdbool.h>
#include <stdint.h>

/* The commands of offload_profile, and what they share.  Each returns the exit code. */

int sluice_profile_cmd_run(int argc, char **argv);
int sluice_profile_cmd_plan(int argc, char **argv);
int sluice_profile_cmd_report(int argc, char **argv);

/* Where a cost table comes from, as the options name it. */
struct sluice_profile_source {
    const char *folder;      /* with prep_sizes.csv and prep_times.csv; NULL: not given */
    const char *sizes_path;  /* instead of the folder's; NULL: not given */
    const char *times_path;  /* likewise */
    bool has_modelled_times; /* no times file is read */
};

SLUICE_MUST_USE sluice_status sluice_profile_load(const struct sluice_profile_source *source,
                                                  struct sluice_cost_table *table,
                                                  struct sluice_err *err);

/* The plans that can be asked for by name; NULL ends the list. */
extern const char *const sluice_profile_planners[];

/* Runs the planner of that name ("greedy" is SOPHON's rule); *split is malloc'ed. */
SLUICE_MUST_USE sluice_status sluice_profile_make_plan(const char *planner,
                                                       const struct sluice_cost_table *table,
                                                       const struct sluice_rates *rates,
                                                       uint8_t **split, struct sluice_err *err);

/* The form that a stage of the cost table has on the wire, as "form@split". */
const char *sluice_profile_choice_name(unsigned split);

#endif
