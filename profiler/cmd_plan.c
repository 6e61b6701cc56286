#include "profiler/commands.h"

#include "base/cli.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sluice_profile_planners[] = {"lp", "greedy", "nooff", "alloff", "piloff", NULL};

sluice_status sluice_profile_make_plan(const char *planner, const struct sluice_form_menu *menu,
                                       const struct sluice_rates *rates, uint8_t **choice,
                                       struct sluice_err *err)
{
    const struct sluice_cost_table *table = menu->table;
    const struct sluice_choices *choices = &menu->choices;
    uint8_t *plan = malloc(table->num_rows ? table->num_rows : 1);
    if (!plan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                           table->num_rows);
    sluice_status status = SLUICE_OK;
    double bound_s;
    if (strcmp(planner, "lp") == 0) {
        status = sluice_form_menu_plan(menu, rates, plan, &bound_s, err);
    } else if (strcmp(planner, "greedy") == 0) {
        status = sluice_plan_sophon(table, rates, plan, err);
        for (size_t i = 0; status == SLUICE_OK && i < table->num_rows; i++)
            plan[i] = (uint8_t)sluice_choices_find_split(choices, plan[i]);
    } else {
        const unsigned split = strcmp(planner, "alloff") == 0   ? choices->num_ops
                               : strcmp(planner, "piloff") == 0 ? choices->u8_split
                                                                : 0;
        memset(plan, (int)sluice_choices_find_split(choices, split), table->num_rows);
    }
    if (status != SLUICE_OK) {
        free(plan);
        return status;
    }
    *choice = plan;
    return SLUICE_OK;
}

/* --- what is asked --- */

struct request {
    struct sluice_profile_source source;
    double net_bw, remote_cpus, local_cpus, gpu_rate, pcie_bw;
    uint64_t batch_size;
    struct sluice_option_strings forms;
    const char *planner;
    bool is_json;
};

/* What every plan is compared on. */
struct result {
    const char *planner;
    struct sluice_choice_forecast forecast;
    double fill_s;
};

struct results {
    struct result items[8];
    size_t num_items;
    double bound_s; /* no plan among the same choices is faster */
    const char *costs;
    struct sluice_choices choices;
};

/* Of the epoch. */
static double seconds_of(const struct result *result)
{
    return result->forecast.primal_s + result->fill_s;
}

static double gap_of(const struct results *results, const struct result *result)
{
    return results->bound_s > 0 ? result->forecast.primal_s / results->bound_s - 1 : 0;
}

static json_t *busy_to_json(const struct sluice_choice_forecast *forecast)
{
    json_t *busy = json_object();
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        json_object_set_new(busy, sluice_resource_name((enum sluice_resource)r),
                            json_real(forecast->busy_s[r]));
    return busy;
}

static void print_json(const struct results *results, const struct result *result,
                       uint64_t num_samples)
{
    const struct sluice_choice_forecast *forecast = &result->forecast;
    json_t *choices = json_object();
    for (unsigned c = 0; c < results->choices.num; c++) {
        if (forecast->choices[c])
            json_object_set_new(choices, sluice_choice_name(results->choices.at[c]),
                                json_integer((json_int_t)forecast->choices[c]));
    }
    json_t *json = json_pack(
        "{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:s, s:o, s:o, s:s}", "planner", result->planner,
        "samples", (json_int_t)num_samples, "primal_s", forecast->primal_s, "fill_s",
        result->fill_s, "dual_s", results->bound_s, "gap", gap_of(results, result), "wire_bytes",
        (json_int_t)forecast->wire_bytes, "slowest", sluice_resource_name(forecast->slowest),
        "choices", choices, "busy_s", busy_to_json(forecast), "costs", results->costs);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
    printf("\n");
    json_decref(json);
}

static void print_plans(const struct results *results)
{
    printf("%-8s %12s  %9s  %15s  %-12s choices\n", "planner", "epoch", "gap", "wire", "slowest");
    for (size_t i = 0; i < results->num_items; i++) {
        const struct sluice_choice_forecast *forecast = &results->items[i].forecast;
        printf("%-8s %10.3f s  %8.3f%%  %12.6f GB  %-12s", results->items[i].planner,
               seconds_of(&results->items[i]), 100 * gap_of(results, &results->items[i]),
               (double)forecast->wire_bytes / 1e9, sluice_resource_name(forecast->slowest));
        for (unsigned c = 0; c < results->choices.num; c++) {
            if (forecast->choices[c])
                printf(" %s:%llu", sluice_choice_name(results->choices.at[c]),
                       (unsigned long long)forecast->choices[c]);
        }
        printf("\n");
    }
    printf("no plan of these choices takes less than %.3f s; costs: %s\n", results->bound_s,
           results->costs);
}

static void print_whatif(const struct results *results)
{
    printf("%-8s %10s", "planner", "epoch");
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        printf(" %12s", sluice_resource_name((enum sluice_resource)r));
    printf("  limited by\n");
    for (size_t i = 0; i < results->num_items; i++) {
        const struct sluice_choice_forecast *forecast = &results->items[i].forecast;
        printf("%-8s %8.3f s", results->items[i].planner, seconds_of(&results->items[i]));
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            printf(" %10.3f s", forecast->busy_s[r]);
        printf("  %s\n", sluice_resource_name(forecast->slowest));
    }
}

/* Every form is offered unless some are named. */
static bool offers(const struct request *request, const char *form)
{
    for (size_t i = 0; i < request->forms.num_items; i++) {
        if (strcmp(request->forms.items[i], form) == 0)
            return true;
    }
    return request->forms.num_items == 0;
}

/* The plan asked for first, then the others to compare it with. */
static sluice_status make_results(const struct request *request,
                                  const struct sluice_profile *profile,
                                  const struct sluice_profile_costs *costs, struct results *results,
                                  struct sluice_err *err)
{
    const struct sluice_rates rates = {
        .link_bytes_per_s = request->net_bw > 0 ? request->net_bw : INFINITY,
        .storage_cores = request->remote_cpus,
        .compute_cores = request->local_cpus,
        .gpu_samples_per_s = request->gpu_rate > 0 ? request->gpu_rate : INFINITY,
        .pcie_bytes_per_s = request->pcie_bw > 0 ? request->pcie_bw : INFINITY,
    };
    const struct sluice_cost_table *table = &profile->table;
    results->costs = costs->name;
    results->choices = profile->choices;
    struct sluice_form_menu menu = sluice_profile_menu(profile, costs);
    for (unsigned c = 0; c < menu.choices.num; c++)
        menu.has_choice[c] |=
            offers(request, sluice_form_name((enum sluice_form)menu.choices.at[c].form));
    uint8_t *choice = malloc(table->num_rows ? table->num_rows : 1);
    if (!choice)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                           table->num_rows);
    sluice_status status = sluice_form_menu_plan(&menu, &rates, choice, &results->bound_s, err);
    const struct sluice_choice_forecast best =
        status == SLUICE_OK ? sluice_form_menu_forecast(&menu, &rates, choice)
                            : (struct sluice_choice_forecast){0};
    free(choice);
    for (int turn = 0; status == SLUICE_OK && turn < 2; turn++) {
        for (size_t i = 0; status == SLUICE_OK && sluice_profile_planners[i]; i++) {
            const char *planner = sluice_profile_planners[i];
            if ((strcmp(planner, request->planner) == 0) != (turn == 0))
                continue;
            struct result *result = &results->items[results->num_items++];
            *result = (struct result){.planner = planner, .forecast = best};
            if (strcmp(planner, "lp") != 0) {
                status = sluice_profile_make_plan(planner, &menu, &rates, &choice, err);
                if (status != SLUICE_OK)
                    return status;
                result->forecast = sluice_form_menu_forecast(&menu, &rates, choice);
                free(choice);
            }
            result->fill_s = sluice_choice_forecast_fill_s(&result->forecast, table->num_rows,
                                                           request->batch_size);
        }
    }
    return status;
}

/* --- the command line --- */

/* What the table writes to; of use only within parse_request(). */
static struct request given;

enum { DATA, MACHINES, CHOICES };
static const char *const groups[] = {
    [DATA] = "data", [MACHINES] = "machines to plan for", [CHOICES] = "what may be chosen", NULL};

static const struct sluice_option options[] = {
    {.name = "profile-folder",
     .group = DATA,
     .type = SLUICE_OPTION_STRING,
     .value = &given.source.folder,
     .arg = "FOLDER",
     .help = "Folder of the profile: prep_sizes.csv, prep_times.csv and, for --costs model, "
             "cost_model.json."},
    SLUICE_PROFILE_TABLE_OPTIONS(DATA, given.source),
    {.name = "net-bw",
     .group = MACHINES,
     .type = SLUICE_OPTION_RATE,
     .value = &given.net_bw,
     .arg = "MBIT",
     .help = "Bandwidth between storage and compute node, in Mbit/s or with a unit (1gbit); none: "
             "never the limit."},
    {.name = "remote-cpus",
     .group = MACHINES,
     .type = SLUICE_OPTION_DOUBLE,
     .value = &given.remote_cpus,
     .arg = "N",
     .min = 1e-6,
     .max = 1e9,
     .help = "Cores of the storage node that preprocess; 0.5 is a quota of half a core."},
    {.name = "local-cpus",
     .group = MACHINES,
     .type = SLUICE_OPTION_DOUBLE,
     .value = &given.local_cpus,
     .arg = "N",
     .min = 1e-6,
     .max = 1e9,
     .help = "Cores of the compute node that preprocess."},
    {.name = "gpu-rate",
     .group = MACHINES,
     .type = SLUICE_OPTION_DOUBLE,
     .value = &given.gpu_rate,
     .arg = "SAMPLES/S",
     .min = 0,
     .max = 1e12,
     .help = "Samples per second that the GPU trains; 0: never the limit."},
    {.name = "batch-size",
     .short_name = 'b',
     .group = MACHINES,
     .type = SLUICE_OPTION_UINT,
     .value = &given.batch_size,
     .arg = "N",
     .min = 1,
     .max = UINT32_MAX,
     .help = "Samples in a batch. The forecast adds the time in which the GPU waits for the first "
             "batch and everything else for the last."},
    {.name = "pcie-bw",
     .group = MACHINES,
     .type = SLUICE_OPTION_RATE,
     .value = &given.pcie_bw,
     .arg = "MBIT",
     .help = "Bandwidth from memory to the GPU, in Mbit/s or with a unit; none: never the limit."},
    {.name = "costs",
     .group = DATA,
     .type = SLUICE_OPTION_CHOICE,
     .value = &given.source.costs,
     .arg = "NAME",
     .choices = sluice_profile_costs_names,
     .help = SLUICE_PROFILE_COSTS_HELP},
    {.name = "jpeg-index",
     .group = MACHINES,
     .type = SLUICE_OPTION_CHOICE,
     .value = &given.source.jpeg_index,
     .arg = "NAME",
     .choices = sluice_profile_index_names,
     .help = "Whether the storage node has an index of its JPEGs, so that crops and pixels need "
             "only a part of each file; auto: as in the cost model."},
    {.name = "pipeline",
     .group = DATA,
     .type = SLUICE_OPTION_STRING,
     .value = &given.source.pipeline,
     .arg = "SPEC",
     .check = sluice_pipeline_check,
     .help =
         "Preprocessing steps that were profiled, from which the crops follow; offload_profile run "
         "--help lists the ops.",
     .default_text = "the folder's, else the default pipeline"},
    {.name = "seed",
     .group = DATA,
     .type = SLUICE_OPTION_UINT,
     .value = &given.source.seed,
     .arg = "N",
     .help = "Seed of the crops."},
    {.name = "epoch",
     .group = DATA,
     .type = SLUICE_OPTION_UINT,
     .value = &given.source.epoch,
     .arg = "N",
     .max = UINT32_MAX,
     .help = "Epoch of the crops."},
    {.name = "form",
     .group = CHOICES,
     .type = SLUICE_OPTION_STRINGS,
     .value = &given.forms,
     .arg = "FORM",
     .help = "A form that the server offers beside raw, u8 and f32: jpeg_crop or u8_packed. May be "
             "given twice; none: only those three.",
     .default_text = "both"},
    /* The last: `whatif` prints all planners and takes none. */
    {.name = "planner",
     .group = CHOICES,
     .type = SLUICE_OPTION_CHOICE,
     .value = &given.planner,
     .arg = "NAME",
     .choices = sluice_profile_planners,
     .help = "The plan to print first, or alone with --json. lp: the shortest epoch over all "
             "resources, a linear program; greedy: SOPHON's rule; nooff, alloff, piloff: the same "
             "split for every sample."},
};

/* 0, or the exit code of a usage error. */
static int check_request(const struct sluice_cli *cli, const struct request *request)
{
    if (!request->source.folder && !request->source.sizes_path)
        return sluice_cli_usage_error(cli, "--profile-folder or --sizes is needed");
    for (size_t i = 0; i < request->forms.num_items; i++) {
        const char *form = request->forms.items[i];
        if (strcmp(form, "none") == 0 && request->forms.num_items > 1)
            return sluice_cli_usage_error(cli, "--form: none and other forms exclude each other");
        if (strcmp(form, "jpeg_crop") != 0 && strcmp(form, "u8_packed") != 0 &&
            strcmp(form, "none") != 0)
            return sluice_cli_usage_error(cli, "--form: '%s' is none of jpeg_crop, u8_packed, none",
                                          form);
    }
    return 0;
}

/* True: *request is what was asked for.  False: end with *exit_code; everything is printed. */
static bool parse_request(int argc, char **argv, const char *summary, bool has_planner,
                          struct request *request, int *exit_code)
{
    given = (struct request){.source = sluice_profile_source_init(),
                             .net_bw = 500e6 / 8,
                             .remote_cpus = 4,
                             .local_cpus = 8,
                             .batch_size = 256,
                             .planner = "lp"};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = summary,
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options) - !has_planner,
        .groups = groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    *exit_code = parsed.should_exit ? parsed.exit_code : check_request(&cli, &given);
    if (parsed.should_exit || *exit_code != 0)
        return false;
    given.is_json = parsed.is_json;
    *request = given;
    return true;
}

static int answer(const struct request *request, bool is_whatif)
{
    struct sluice_profile profile = {0};
    struct sluice_profile_costs costs = {0};
    struct results results = {0};
    struct sluice_err err = {0};
    sluice_status status = sluice_profile_load(&request->source, &profile, &err);
    if (status == SLUICE_OK)
        status = sluice_profile_load_costs(&request->source, &profile, &costs, &err);
    if (status == SLUICE_OK)
        status = make_results(request, &profile, &costs, &results, &err);
    if (status == SLUICE_OK && request->is_json) {
        for (size_t i = 0; i < (is_whatif ? results.num_items : 1); i++)
            print_json(&results, &results.items[i], profile.table.num_rows);
    } else if (status == SLUICE_OK && is_whatif) {
        print_whatif(&results);
    } else if (status == SLUICE_OK) {
        print_plans(&results);
    }
    sluice_profile_costs_clear(&costs);
    sluice_profile_clear(&profile);
    return sluice_cli_exit_code(status, &err);
}

int sluice_profile_cmd_plan(int argc, char **argv)
{
    struct request request;
    int exit_code;
    if (!parse_request(argc, argv, "Plan an epoch from cost tables without running anything.", true,
                       &request, &exit_code))
        return exit_code;
    return answer(&request, false);
}

int sluice_profile_cmd_whatif(int argc, char **argv)
{
    struct request request;
    int exit_code;
    if (!parse_request(argc, argv,
                       "Forecast an epoch on other machines: how long each resource is busy under "
                       "each plan, and which is the limit.",
                       false, &request, &exit_code))
        return exit_code;
    return answer(&request, true);
}
