#include "profiler/commands.h"

#include "base/cli.h"
#include "base/log.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sluice_profile_planners[] = {"greedy", "nooff", "alloff", "piloff", NULL};

#define PILOFF_SPLIT 3
#define ALLOFF_SPLIT 5

const char *sluice_profile_choice_name(unsigned split)
{
    static const char *const names[SLUICE_PROFILE_STAGES] = {"raw@0", "u8@1",  "u8@2",
                                                             "u8@3",  "f32@4", "f32@5"};
    return names[split];
}

sluice_status sluice_profile_load(const struct sluice_profile_source *source,
                                  struct sluice_cost_table *table, struct sluice_err *err)
{
    char in_folder[4096];
    const char *sizes = source->sizes_path;
    if (!sizes && source->folder) {
        snprintf(in_folder, sizeof(in_folder), "%s/prep_sizes.csv", source->folder);
        sizes = in_folder;
    }
    if (!sizes)
        return sluice_fail(err, SLUICE_E_INVALID, "--profile-folder or --sizes is needed");
    if (!source->has_modelled_times && !source->times_path) {
        if (source->folder && !source->sizes_path)
            return sluice_cost_table_read(source->folder, table, err);
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--sizes alone has no times: give --times FILE or --times-model");
    }
    sluice_status status = sluice_cost_table_read_sizes(sizes, table, err);
    if (status != SLUICE_OK)
        return status;
    if (source->has_modelled_times)
        sluice_cost_table_model_times(table);
    else
        status = sluice_cost_table_read_times(source->times_path, table, err);
    if (status != SLUICE_OK)
        sluice_cost_table_clear(table);
    return status;
}

sluice_status sluice_profile_make_plan(const char *planner, const struct sluice_cost_table *table,
                                       const struct sluice_rates *rates, uint8_t **split,
                                       struct sluice_err *err)
{
    uint8_t *plan = malloc(table->num_rows ? table->num_rows : 1);
    if (!plan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                           table->num_rows);
    sluice_status status = SLUICE_OK;
    if (strcmp(planner, "greedy") == 0)
        status = sluice_plan_sophon(table, rates, plan, err);
    else if (strcmp(planner, "alloff") == 0)
        sluice_plan_fixed(table, ALLOFF_SPLIT, plan);
    else if (strcmp(planner, "piloff") == 0)
        sluice_plan_fixed(table, PILOFF_SPLIT, plan);
    else
        sluice_plan_fixed(table, 0, plan);
    if (status != SLUICE_OK) {
        free(plan);
        return status;
    }
    *split = plan;
    return SLUICE_OK;
}

static json_t *forecast_to_json(const char *planner, const struct sluice_cost_table *table,
                                const struct sluice_forecast *forecast)
{
    json_t *choices = json_object();
    for (unsigned k = 0; k < SLUICE_PROFILE_STAGES; k++) {
        if (forecast->choices[k])
            json_object_set_new(choices, sluice_profile_choice_name(k),
                                json_integer((json_int_t)forecast->choices[k]));
    }
    json_t *busy = json_object();
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        json_object_set_new(busy, sluice_resource_name((enum sluice_resource)r),
                            json_real(forecast->busy_s[r]));
    /* These planners give no lower bound, so there is no dual and no gap. */
    return json_pack("{s:s, s:I, s:f, s:n, s:n, s:I, s:s, s:o, s:o}", "planner", planner, "samples",
                     (json_int_t)table->num_rows, "primal_s", forecast->primal_s, "dual_s", "gap",
                     "wire_bytes", (json_int_t)forecast->wire_bytes, "slowest",
                     sluice_resource_name(forecast->slowest), "choices", choices, "busy_s", busy);
}

static void print_forecast(const char *planner, const struct sluice_forecast *forecast)
{
    printf("%-8s %10.3f s  %12.6f GB  %-12s", planner, forecast->primal_s,
           (double)forecast->wire_bytes / 1e9, sluice_resource_name(forecast->slowest));
    for (unsigned k = 0; k < SLUICE_PROFILE_STAGES; k++) {
        if (forecast->choices[k])
            printf(" %s:%llu", sluice_profile_choice_name(k),
                   (unsigned long long)forecast->choices[k]);
    }
    printf("\n");
}

/* Prints the plan asked for first, then the others to compare it with. */
static sluice_status print_plans(const char *asked, bool is_json,
                                 const struct sluice_cost_table *table,
                                 const struct sluice_rates *rates, struct sluice_err *err)
{
    if (!is_json)
        printf("%-8s %12s  %15s  %-12s choices\n", "planner", "epoch", "wire", "slowest");
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; sluice_profile_planners[i]; i++) {
            const char *planner = sluice_profile_planners[i];
            if ((strcmp(planner, asked) == 0) != (turn == 0))
                continue;
            uint8_t *split = NULL;
            const sluice_status status =
                sluice_profile_make_plan(planner, table, rates, &split, err);
            if (status != SLUICE_OK)
                return status;
            const struct sluice_forecast forecast = sluice_plan_forecast(table, rates, split);
            free(split);
            if (!is_json) {
                print_forecast(planner, &forecast);
                continue;
            }
            json_t *json = forecast_to_json(planner, table, &forecast);
            json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
            printf("\n");
            json_decref(json);
            return SLUICE_OK;
        }
    }
    return SLUICE_OK;
}

int sluice_profile_cmd_plan(int argc, char **argv)
{
    struct sluice_profile_source source = {0};
    double net_bw = 500e6 / 8;
    uint64_t remote_cpus = 4, local_cpus = 8;
    double gpu_rate = 0;
    const char *planner = "greedy";

    const struct sluice_option options[] = {
        {.name = "profile-folder",
         .type = SLUICE_OPTION_STRING,
         .value = &source.folder,
         .arg = "FOLDER",
         .help = "Folder with prep_sizes.csv and prep_times.csv."},
        {.name = "sizes",
         .type = SLUICE_OPTION_STRING,
         .value = &source.sizes_path,
         .arg = "FILE",
         .help = "A file in the format of prep_sizes.csv, instead of the folder's."},
        {.name = "times",
         .type = SLUICE_OPTION_STRING,
         .value = &source.times_path,
         .arg = "FILE",
         .help = "A file in the format of prep_times.csv, instead of the folder's."},
        {.name = "times-model",
         .type = SLUICE_OPTION_FLAG,
         .value = &source.has_modelled_times,
         .help = "Model op times from sizes instead of reading them."},
        {.name = "net-bw",
         .type = SLUICE_OPTION_RATE,
         .value = &net_bw,
         .arg = "MBIT",
         .help = "Bandwidth between storage and compute."},
        {.name = "remote-cpus",
         .type = SLUICE_OPTION_UINT,
         .value = &remote_cpus,
         .arg = "N",
         .min = 1,
         .max = 1e9,
         .help = "Cores that preprocess on the storage node."},
        {.name = "local-cpus",
         .type = SLUICE_OPTION_UINT,
         .value = &local_cpus,
         .arg = "N",
         .min = 1,
         .max = 1e9,
         .help = "Cores that preprocess on the compute node."},
        {.name = "gpu-rate",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &gpu_rate,
         .arg = "SAMPLES/S",
         .min = 0,
         .max = 1e12,
         .help = "What the GPU trains; 0: never the limit."},
        {.name = "planner",
         .type = SLUICE_OPTION_CHOICE,
         .value = &planner,
         .arg = "NAME",
         .choices = sluice_profile_planners,
         .help = "The plan to print first, or alone with --json; greedy is SOPHON's rule."},
    };
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Plan an epoch from cost tables without running anything.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    if (!source.folder && !source.sizes_path)
        return sluice_cli_usage_error(&cli, "--profile-folder or --sizes is needed");

    struct sluice_cost_table table = {0};
    struct sluice_err err = {0};
    const struct sluice_rates rates = {
        .link_bytes_per_s = net_bw > 0 ? net_bw : INFINITY,
        .storage_cores = (double)remote_cpus,
        .compute_cores = (double)local_cpus,
        .gpu_samples_per_s = gpu_rate > 0 ? gpu_rate : INFINITY,
    };
    sluice_status status = sluice_profile_load(&source, &table, &err);
    if (status == SLUICE_OK)
        status = print_plans(planner, parsed.is_json, &table, &rates, &err);
    sluice_cost_table_clear(&table);
    if (status != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
        return 1;
    }
    return 0;
}
