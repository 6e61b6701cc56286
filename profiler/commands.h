#ifndef SLUICE_PROFILER_COMMANDS_H
#define SLUICE_PROFILER_COMMANDS_H

#include "base/error.h"
#include "cli/cli.h"
#include "plan/choice_cost.h"
#include "plan/form_menu.h"
#include "plan/form_table.h"
#include "plan/sample_cost.h"
#include "plan/sophon.h"

#include <stdbool.h>
#include <stdint.h>

/* The commands of offload_profile, and their common parts.  Each command returns the exit code. */

int sluice_profile_cmd_run(int argc, char **argv);
int sluice_profile_cmd_plan(int argc, char **argv);
int sluice_profile_cmd_whatif(int argc, char **argv);
int sluice_profile_cmd_size(int argc, char **argv);
int sluice_profile_cmd_fit(int argc, char **argv);
int sluice_profile_cmd_report(int argc, char **argv);

/* The source of costs, as the options name it. */
struct sluice_profile_source {
    const char *folder;      /* with prep_sizes.csv and prep_times.csv; NULL: not given */
    const char *sizes_path;  /* instead of the folder's; NULL: not given */
    const char *times_path;  /* likewise */
    bool has_modelled_times; /* no times file is read */
    const char *costs;       /* of sluice_profile_costs_names */
    const char *jpeg_index;  /* of sluice_profile_index_names */
    const char *gpu_decode;  /* of sluice_profile_gpu_names: whether the compute node's decodes */
    double gpu_decode_rate;  /* samples/s; 0: from the costs */
    /* Pipeline, seed and epoch that drew the crops of the rows.  NULL: the folder's pipeline, else
     * the default. */
    const char *pipeline;
    uint64_t seed, epoch;
};
struct sluice_profile_source sluice_profile_source_init(void);

/* "auto": the folder's model, else its rows; "model"; "rows"; "default": the weights that need no
 * profile.  NULL ends the list. */
extern const char *const sluice_profile_costs_names[];

/* Whether the storage node has an index of its JPEGs: "auto" is as the folder's model says. */
extern const char *const sluice_profile_index_names[];

extern const char *const sluice_profile_gpu_names[]; /* "off", "on" */

#define SLUICE_PROFILE_GPU_OPTIONS(heading, source)                                                \
    {.name = "gpu-decode",                                                                         \
     .group = (heading),                                                                           \
     SLUICE_VALUE_CHOICE((source).gpu_decode, "NAME"),                                             \
     .choices = sluice_profile_gpu_names,                                                          \
     .help = "Whether the compute node's GPU decodes cut JPEGs, beside the training."},            \
    {                                                                                              \
        .name = "gpu-decode-rate", .group = (heading),                                             \
        SLUICE_VALUE_DOUBLE((source).gpu_decode_rate, "SAMPLES/S"), SLUICE_RANGE(0, 1e12),         \
        .help = "Samples per second that the GPU decodes while it does nothing else; 0: as the "   \
                "cost model says, else as an NVIDIA H200."                                         \
    }

#define SLUICE_PROFILE_COSTS_OPTION(heading, source)                                               \
    {                                                                                              \
        .name = "costs", .group = (heading), SLUICE_VALUE_CHOICE((source).costs, "NAME"),          \
        .choices = sluice_profile_costs_names,                                                     \
        .help = "Costs to plan with. model: the weights in the folder's cost_model.json; rows: "   \
                "the times in prep_times.csv; default: weights that need no profile; auto: the "   \
                "model if there is one, else the rows."                                            \
    }

#define SLUICE_PROFILE_INDEX_OPTION(heading, source)                                               \
    {                                                                                              \
        .name = "jpeg-index", .group = (heading),                                                  \
        SLUICE_VALUE_CHOICE((source).jpeg_index, "NAME"), .choices = sluice_profile_index_names,   \
        .help = "Whether the storage node has an index of its JPEGs, so that crops and pixels "    \
                "need only a part of each file; auto: as in the cost model."                       \
    }

/* The options of the commands that take tables from elsewhere than a profile's folder. */
#define SLUICE_PROFILE_TABLE_OPTIONS(heading, source)                                              \
    {.name = "sizes",                                                                              \
     .group = (heading),                                                                           \
     SLUICE_VALUE_STRING((source).sizes_path, "FILE"),                                             \
     .help = "Sizes of the samples in the format of prep_sizes.csv, instead of the folder's."},    \
        {.name = "times",                                                                          \
         .group = (heading),                                                                       \
         SLUICE_VALUE_STRING((source).times_path, "FILE"),                                         \
         .help = "Times of the steps in the format of prep_times.csv, instead of the folder's."},  \
    {                                                                                              \
        .name = "times-model", .group = (heading), SLUICE_VALUE_FLAG((source).has_modelled_times), \
        .help = "Predict the times of the steps from the sizes instead of reading them."           \
    }

/* A pipeline and its measurements. */
struct sluice_profile {
    struct sluice_pipeline *pipeline;
    struct sluice_choices choices; /* a GPU's among them */
    struct sluice_cost_table table;
};
/* Clear the profile also after a failure. */
SLUICE_MUST_USE sluice_status sluice_profile_load(const struct sluice_profile_source *source,
                                                  struct sluice_profile *profile,
                                                  struct sluice_err *err);
void sluice_profile_clear(struct sluice_profile *profile); /* idempotent; fine on {0} */

/* Reads prep_forms.csv; without that file the table is empty. */
SLUICE_MUST_USE sluice_status sluice_profile_load_forms(const struct sluice_profile_source *source,
                                                        const struct sluice_profile *profile,
                                                        struct sluice_form_table *forms,
                                                        struct sluice_err *err);

/* The facts of every row, malloc'ed.  The coding of a file is known only if its forms were
 * measured. */
SLUICE_MUST_USE sluice_status sluice_profile_find_facts(const struct sluice_profile_source *source,
                                                        const struct sluice_profile *profile,
                                                        const struct sluice_form_table *forms,
                                                        struct sluice_sample_facts **facts,
                                                        struct sluice_err *err);

/* The costs that plans use. */
struct sluice_profile_costs {
    const char *name; /* "model", "rows", "default" */
    bool has_model;
    struct sluice_choice_model model;
    struct sluice_sample_facts *facts; /* of every row */
    struct sluice_transport_cost transport;
    bool has_jpeg_index;
    bool decodes_on_gpu;
    double gpu_decode_rate; /* 0: as the costs say */
};
SLUICE_MUST_USE sluice_status sluice_profile_load_costs(const struct sluice_profile_source *source,
                                                        const struct sluice_profile *profile,
                                                        struct sluice_profile_costs *costs,
                                                        struct sluice_err *err);
void sluice_profile_costs_clear(struct sluice_profile_costs *costs);

/* The menu of a profile at these costs, transport included: plain forms, and the other forms that
 * are named; NULL or none named: all.  With a GPU that decodes also what it decodes.  Borrows
 * profile and costs. */
struct sluice_form_menu sluice_profile_menu(const struct sluice_profile *profile,
                                            const struct sluice_profile_costs *costs,
                                            const struct sluice_option_strings *forms);

/* The available plans, by the names of their modes; NULL ends the list. */
extern const char *const sluice_profile_planners[];

/* Makes the plan of the mode of that name, or of an older name of it (plan/mode.h): remote_auto is
 * the plan over all resources, remote_sophon SOPHON's rule; *choice is malloc'ed. */
SLUICE_MUST_USE sluice_status sluice_profile_make_plan(const char *planner,
                                                       const struct sluice_form_menu *menu,
                                                       const struct sluice_rates *rates,
                                                       uint8_t **choice, struct sluice_err *err);

#endif
