#ifndef SLUICE_PROFILER_COMMANDS_H
#define SLUICE_PROFILER_COMMANDS_H

#include "base/cli.h"
#include "base/error.h"
#include "profiler/form_menu.h"
#include "profiler/planner.h"
#include "profiler/sample_cost.h"

#include <stdbool.h>
#include <stdint.h>

/* The commands of offload_profile, and what they share.  Each returns the exit code. */

int sluice_profile_cmd_run(int argc, char **argv);
int sluice_profile_cmd_plan(int argc, char **argv);
int sluice_profile_cmd_whatif(int argc, char **argv);
int sluice_profile_cmd_fit(int argc, char **argv);
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

/* Runs the planner of that name ("lp" is the plan over all resources, "greedy" SOPHON's rule);
 * *choice is malloc'ed. */
SLUICE_MUST_USE sluice_status sluice_profile_make_plan(const char *planner,
                                                       const struct sluice_form_menu *menu,
                                                       const struct sluice_rates *rates,
                                                       uint8_t **choice, struct sluice_err *err);

#endif
