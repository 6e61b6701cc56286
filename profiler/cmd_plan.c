#include "profiler/commands.h"

#include "base/parse.h"
#include "base/show.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "op/recipe.h"
#include "plan/mode.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sluice_profile_planners[] = {
    "remote_auto", "remote_sophon", "remote_nooff", "remote_alloff", "remote_piloff", NULL,
};

sluice_status sluice_profile_make_plan(const char *planner, const struct sluice_form_menu *menu,
                                       const struct sluice_rates *rates, uint8_t **choice,
                                       struct sluice_err *err)
{
    const struct sluice_cost_table *table = menu->table;
    const struct sluice_choices *choices = &menu->choices;
    enum sluice_mode mode;
    if (!sluice_mode_parse(planner, &mode) || mode == SLUICE_MODE_LOCAL)
        return sluice_fail(err, SLUICE_E_INVALID, "'%s' is no planner", planner);
    uint8_t *plan = malloc(table->num_rows ? table->num_rows : 1);
    if (!plan)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                           table->num_rows);
    sluice_status status = SLUICE_OK;
    double bound_s;
    if (mode == SLUICE_MODE_AUTO) {
        status = sluice_form_menu_plan(menu, rates, plan, &bound_s, err);
    } else if (mode == SLUICE_MODE_SOPHON) {
        status = sluice_plan_sophon(table, rates, plan, err);
        for (size_t i = 0; status == SLUICE_OK && i < table->num_rows; i++)
            plan[i] = (uint8_t)sluice_choices_find_split(choices, plan[i]);
    } else {
        memset(plan, (int)sluice_choices_of_mode(choices, mode), table->num_rows);
    }
    if (status != SLUICE_OK) {
        free(plan);
        return status;
    }
    *choice = plan;
    return SLUICE_OK;
}

/* The name of a mode's planner in the JSON where none was typed. */
static const char *json_name(enum sluice_mode mode)
{
    static const char *const names[SLUICE_NUM_MODES] = {
        [SLUICE_MODE_LOCAL] = "local",   [SLUICE_MODE_NOOFF] = "nooff",
        [SLUICE_MODE_ALLOFF] = "alloff", [SLUICE_MODE_PILOFF] = "piloff",
        [SLUICE_MODE_SOPHON] = "greedy", [SLUICE_MODE_AUTO] = "lp",
    };
    return names[mode];
}

/* --- what is asked --- */

struct request {
    struct sluice_profile_source source;
    double net_bw, remote_cpus, local_cpus, gpu_rate, pcie_bw;
    uint64_t batch_size;
    struct sluice_option_strings forms;
    const char *planner;
    bool is_planner_given;
    bool is_json;
};

/* The result of a plan, by which plans are compared. */
struct result {
    enum sluice_mode mode;
    const char *json_name;
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

/* Seconds of the epoch. */
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
        "{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:s, s:o, s:o, s:s}", "planner",
        result->json_name, "mode", sluice_mode_name(result->mode), "samples",
        (json_int_t)num_samples, "primal_s", forecast->primal_s, "fill_s", result->fill_s, "dual_s",
        results->bound_s, "gap", gap_of(results, result), "wire_bytes",
        (json_int_t)forecast->wire_bytes, "slowest", sluice_resource_name(forecast->slowest),
        "choices", choices, "busy_s", busy_to_json(forecast), "costs", results->costs);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
    printf("\n");
    json_decref(json);
}

/* "40000 samples, link 500 Mbit/s, 4 storage and 8 compute cores; costs: rows". */
static void print_question(const struct request *request, const struct results *results,
                           size_t num_samples)
{
    char link[SLUICE_SHOW_BYTES], storage[32], compute[32], gpu[SLUICE_SHOW_BYTES];
    sluice_format_double(request->remote_cpus, storage);
    sluice_format_double(request->local_cpus, compute);
    printf("%zu samples, link %s, %s storage and %s compute cores", num_samples,
           sluice_show_rate(request->net_bw > 0 ? request->net_bw : INFINITY, link), storage,
           compute);
    if (request->gpu_rate > 0)
        printf(", GPU %s samples/s", sluice_show_number(request->gpu_rate, gpu));
    printf("; costs: %s\n", results->costs);
    if (strcmp(request->source.gpu_decode, "on") == 0 && request->source.gpu_decode_rate > 0)
        printf("the GPU decodes %s samples/s, with nothing else to do\n",
               sluice_show_number(request->source.gpu_decode_rate, gpu));
    else if (strcmp(request->source.gpu_decode, "on") == 0)
        printf("the GPU decodes\n");
    printf("\n");
}

/* "jpeg_crop@0 51%, u8_packed@3 48%", the most frequent first. */
static void print_choices(const struct results *results, const struct result *result,
                          size_t num_samples)
{
    bool is_printed[SLUICE_MAX_CHOICES] = {false};
    printf("%-14s", sluice_mode_name(result->mode));
    for (unsigned i = 0; i < results->choices.num; i++) {
        unsigned most = results->choices.num;
        for (unsigned c = 0; c < results->choices.num; c++) {
            if (!is_printed[c] && result->forecast.choices[c] > 0 &&
                (most == results->choices.num ||
                 result->forecast.choices[c] > result->forecast.choices[most]))
                most = c;
        }
        if (most == results->choices.num)
            break;
        is_printed[most] = true;
        char share[SLUICE_SHOW_BYTES];
        printf(
            "%s %s %s", i > 0 ? "," : "", sluice_choice_name(results->choices.at[most]),
            sluice_show_share((double)result->forecast.choices[most] / (double)num_samples, share));
    }
    printf("\n");
}

static void print_plans(const struct request *request, const struct results *results,
                        size_t num_samples)
{
    char epoch[SLUICE_SHOW_BYTES], sent[SLUICE_SHOW_BYTES], factor[SLUICE_SHOW_BYTES];
    print_question(request, results, num_samples);
    printf("%-14s %9s  %9s  %9s  limited by\n", "mode", "epoch", "vs best", "sent");
    for (size_t i = 0; i < results->num_items; i++) {
        const struct result *result = &results->items[i];
        printf("%-14s %9s  %8sx  %9s  %s\n", sluice_mode_name(result->mode),
               sluice_show_seconds(seconds_of(result), epoch),
               sluice_show_number(1 + gap_of(results, result), factor),
               sluice_show_bytes((double)result->forecast.wire_bytes, sent),
               sluice_resource_name(result->forecast.slowest));
    }
    printf("\n%-14s forms at splits, by share of the samples\n", "mode");
    for (size_t i = 0; i < results->num_items; i++)
        print_choices(results, &results->items[i], num_samples);
    printf("\nno plan of these choices takes less than %s\n",
           sluice_show_seconds(results->bound_s, epoch));
}

/* Whether some plan keeps the resource busy. */
static bool is_used(const struct results *results, int resource)
{
    for (size_t i = 0; i < results->num_items; i++) {
        if (results->items[i].forecast.busy_s[resource] > 0)
            return true;
    }
    return false;
}

static void print_whatif(const struct request *request, const struct results *results,
                         size_t num_samples)
{
    char text[SLUICE_SHOW_BYTES];
    print_question(request, results, num_samples);
    printf("%-14s %8s", "mode", "epoch");
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (is_used(results, r))
            printf("  %8s", sluice_resource_name((enum sluice_resource)r));
    }
    printf("\n");
    for (size_t i = 0; i < results->num_items; i++) {
        const struct result *result = &results->items[i];
        printf("%-14s %8s", sluice_mode_name(result->mode),
               sluice_show_seconds(seconds_of(result), text));
        bool has_star = false; /* of the column before, which stands where a blank would */
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
            if (!is_used(results, r))
                continue;
            const int name_len = (int)strlen(sluice_resource_name((enum sluice_resource)r));
            printf("%s %*s", has_star ? "" : " ", name_len > 8 ? name_len : 8,
                   sluice_show_seconds(result->forecast.busy_s[r], text));
            has_star = result->forecast.slowest == (enum sluice_resource)r;
            if (has_star)
                putchar('*');
        }
        printf("\n");
    }
    printf("\n* limits the epoch; every time is how long the resource is busy\n");
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
    const struct sluice_form_menu menu = sluice_profile_menu(profile, costs, &request->forms);
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
            enum sluice_mode mode = SLUICE_MODE_AUTO;
            (void)sluice_mode_parse(planner, &mode);
            const bool is_asked = strcmp(planner, sluice_mode_canonical(request->planner)) == 0;
            if (is_asked != (turn == 0))
                continue;
            struct result *result = &results->items[results->num_items++];
            *result = (struct result){.mode = mode,
                                      .json_name = is_asked && request->is_planner_given
                                                       ? request->planner
                                                       : json_name(mode),
                                      .forecast = best};
            if (mode != SLUICE_MODE_AUTO) {
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

/* The target of the option table; valid only within parse_request(). */
static struct request given;

enum { DATA, MACHINES, CHOICES };
static const char *const groups[] = {
    [DATA] = "data", [MACHINES] = "machines to plan for", [CHOICES] = "what may be chosen", NULL};

static const struct sluice_option options[] = {
    {.name = "profile-folder",
     .group = DATA,
     SLUICE_VALUE_STRING(given.source.folder, "FOLDER"),
     .help = "Folder of the profile: prep_sizes.csv, prep_times.csv and, for --costs model, "
             "cost_model.json."},
    SLUICE_PROFILE_TABLE_OPTIONS(DATA, given.source),
    {.name = "net-bw",
     .group = MACHINES,
     SLUICE_VALUE_RATE(given.net_bw, "RATE"),
     .help = "Bandwidth between storage and compute node, in Mbit/s or with a unit (1Gbps); none: "
             "never the limit."},
    {.name = "remote-cpus",
     .group = MACHINES,
     SLUICE_VALUE_DOUBLE(given.remote_cpus, "N"),
     SLUICE_RANGE(1e-6, 1e9),
     .help = "Cores of the storage node that preprocess; 0.5 is a quota of half a core."},
    {.name = "local-cpus",
     .group = MACHINES,
     SLUICE_VALUE_DOUBLE(given.local_cpus, "N"),
     SLUICE_RANGE(1e-6, 1e9),
     .help = "Cores of the compute node that preprocess."},
    {.name = "gpu-rate",
     .group = MACHINES,
     SLUICE_VALUE_DOUBLE(given.gpu_rate, "SAMPLES/S"),
     SLUICE_RANGE(0, 1e12),
     .help = "Samples per second that the GPU trains; 0: never the limit."},
    SLUICE_PROFILE_GPU_OPTIONS(MACHINES, given.source),
    {.name = "batch-size",
     .short_name = 'b',
     .group = MACHINES,
     SLUICE_VALUE_UINT(given.batch_size, "N"),
     SLUICE_RANGE(1, UINT32_MAX),
     .help = "Samples in a batch. The forecast adds the time in which the GPU waits for the first "
             "batch and everything else for the last."},
    {.name = "pcie-bw",
     .group = MACHINES,
     SLUICE_VALUE_RATE(given.pcie_bw, "RATE"),
     .help = "Bandwidth from memory to the GPU, in Mbit/s or with a unit; none: never the limit."},
    SLUICE_PROFILE_COSTS_OPTION(DATA, given.source),
    SLUICE_PROFILE_INDEX_OPTION(MACHINES, given.source),
    {.name = "pipeline",
     .group = DATA,
     SLUICE_VALUE_STRING(given.source.pipeline, "SPEC"),
     .check = sluice_recipe_check,
     .help =
         "Preprocessing steps that were profiled, from which the crops follow; offload_profile run "
         "--help lists the ops.",
     .default_text = "the folder's, else the default pipeline"},
    {.name = "seed",
     .group = DATA,
     SLUICE_VALUE_UINT(given.source.seed, "N"),
     .help = "Seed of the crops."},
    {.name = "epoch",
     .group = DATA,
     SLUICE_VALUE_UINT(given.source.epoch, "N"),
     .max = UINT32_MAX,
     .help = "Epoch of the crops."},
    {.name = "form",
     .group = CHOICES,
     SLUICE_VALUE_STRINGS(given.forms, "FORM"),
     .help = "A form that the server offers beside raw, u8 and f32: jpeg_crop, u8_packed or "
             "jpeg_rows. May be given again; none: only those three.",
     .default_text = "all"},
    /* The last: `whatif` prints all planners and takes none. */
    {.name = "planner",
     .group = CHOICES,
     SLUICE_VALUE_CHOICE(given.planner, "NAME"),
     .choices = sluice_profile_planners,
     .aliases = sluice_mode_aliases,
     .is_given = &given.is_planner_given,
     .help = "The mode whose plan to print first, or alone with --json. remote_auto: the shortest "
             "epoch over all resources, a linear program; remote_sophon: SOPHON's rule; the "
             "others: the same split for every sample. The word after remote_ is enough."},
};

static sluice_status check_given(const struct sluice_cli_result *parsed, struct sluice_err *err)
{
    (void)parsed;
    if (!given.source.folder && !given.source.sizes_path)
        return sluice_fail(err, SLUICE_E_INVALID, "--profile-folder or --sizes is needed");
    if (given.source.gpu_decode_rate > 0 && strcmp(given.source.gpu_decode, "on") != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--gpu-decode-rate is of --gpu-decode on");
    for (size_t i = 0; i < given.forms.num_items; i++) {
        const char *form = given.forms.items[i];
        if (strcmp(form, "none") == 0 && given.forms.num_items > 1)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "--form: none and other forms exclude each other");
        if (strcmp(form, "jpeg_crop") != 0 && strcmp(form, "u8_packed") != 0 &&
            strcmp(form, "jpeg_rows") != 0 && strcmp(form, "none") != 0) {
            static const char *const known[] = {"jpeg_crop", "u8_packed", "jpeg_rows", "none",
                                                NULL};
            char near[100];
            sluice_suggest(form, known, near, sizeof(near));
            return sluice_fail(err, SLUICE_E_INVALID,
                               "--form: '%s' is none of jpeg_crop, u8_packed, jpeg_rows, "
                               "none%s",
                               form, near);
        }
    }
    return SLUICE_OK;
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
                             .planner = "remote_auto"};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = summary,
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options) - !has_planner,
        .groups = groups,
        .check = check_given,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    *exit_code = parsed.exit_code;
    if (parsed.should_exit)
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
        print_whatif(request, &results, profile.table.num_rows);
    } else if (status == SLUICE_OK) {
        print_plans(request, &results, profile.table.num_rows);
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
