#include "profiler/commands.h"

#include "base/compiler.h"
#include "base/parse.h"
#include "base/show.h"
#include "cli/cli.h"
#include "image/codecs/coding.h"
#include "op/recipe.h"
#include "plan/cost_folder.h"
#include "plan/mode.h"
#include "plan/sizing.h"
#include "plan/table_fill.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As many as show the spread of the crops to less than 1 %. */
#define MOST_SAMPLES 8192u
#define MADE_SAMPLES 2048u

struct request {
    struct sluice_profile_source source;
    uint64_t gpus;
    double rate;
    double net_bw, remote_cpus, local_cpus;
    bool has_link, has_storage_cores, has_file_bytes, has_width, has_height;
    uint64_t file_bytes, width, height;
    bool is_made; /* without a profile: all samples have these sizes */
    bool is_json;
};

/* Link rates to size for where none is given: what is sold. */
static const double usual_links[] = {1e9 / 8, 2.5e9 / 8, 10e9 / 8, 25e9 / 8, 100e9 / 8};

enum { MOST_LINKS = sizeof(usual_links) / sizeof(usual_links[0]) };

/* --- what is sized --- */

struct fixed_row {
    enum sluice_mode mode;
    struct sluice_sizing sizing;
};

struct link_row {
    double link_bytes_per_s;
    struct sluice_sizing least;   /* the storage cores that it takes */
    struct sluice_sizing reached; /* with --remote-cpus */
};

struct answer {
    const char *costs;
    size_t num_samples;
    double file_bytes; /* in the mean */
    struct fixed_row fixed[3];
    struct link_row links[MOST_LINKS];
    size_t num_links;
};

static sluice_status size_all(const struct request *request, const struct sluice_form_menu *menu,
                              struct answer *answer, struct sluice_err *err)
{
    struct sluice_sizing_ask ask = {
        .samples_per_s = request->rate * (double)request->gpus,
        .num_loaders = (unsigned)request->gpus,
        .link_bytes_per_s = request->has_link && request->net_bw > 0 ? request->net_bw : INFINITY,
        .compute_cores = request->local_cpus > 0 ? request->local_cpus : INFINITY,
    };
    static const enum sluice_mode fixed[] = {SLUICE_MODE_NOOFF, SLUICE_MODE_PILOFF,
                                             SLUICE_MODE_ALLOFF};
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < SLUICE_ARRAY_LEN(fixed); i++) {
        answer->fixed[i].mode = fixed[i];
        status = sluice_size_choice(menu, &ask, sluice_choices_of_mode(&menu->choices, fixed[i]),
                                    &answer->fixed[i].sizing, err);
    }
    answer->num_links = request->has_link ? 1 : MOST_LINKS;
    for (size_t i = 0; status == SLUICE_OK && i < answer->num_links; i++) {
        struct link_row *row = &answer->links[i];
        if (!request->has_link)
            ask.link_bytes_per_s = usual_links[i];
        row->link_bytes_per_s = ask.link_bytes_per_s;
        status = sluice_size_storage(menu, &ask, &row->least, err);
        if (status == SLUICE_OK && request->has_storage_cores)
            status = sluice_size_rate(menu, &ask, request->remote_cpus, &row->reached, err);
    }
    return status;
}

/* --- text --- */

/* Rounded up, so that what stands there is enough. */
static const char *show_cores(double cores, char out[SLUICE_SHOW_BYTES])
{
    const double step = cores < 10 ? 0.1 : 1;
    snprintf(out, SLUICE_SHOW_BYTES, "%.*f", cores < 10 ? 1 : 0, ceil(cores / step - 1e-9) * step);
    return out;
}

/* "network and compute CPU"; "" of none. */
static const char *show_binds(unsigned binds, char out[120])
{
    size_t used = 0;
    out[0] = '\0';
    SLUICE_EACH_RESOURCE (r, binds) {
        used += (size_t)snprintf(out + used, 120 - used, "%s%s", used > 0 ? " and " : "",
                                 sluice_resource_words((enum sluice_resource)r));
    }
    return out;
}

static void print_question(const struct request *request, const struct answer *answer)
{
    const double samples_per_s = request->rate * (double)request->gpus;
    char rate[SLUICE_SHOW_BYTES], sum[SLUICE_SHOW_BYTES], bytes[SLUICE_SHOW_BYTES];
    printf("%llu GPU%s at %s images/s", (unsigned long long)request->gpus,
           request->gpus == 1 ? "" : "s", sluice_show_number(request->rate, rate));
    if (request->gpus > 1)
        printf(": %s images/s", sluice_show_number(samples_per_s, sum));
    if (request->is_made)
        printf("; files of %s, %llu x %llu", sluice_show_bytes(answer->file_bytes, bytes),
               (unsigned long long)request->width, (unsigned long long)request->height);
    else
        printf("; %zu samples of a profile, files of %s", answer->num_samples,
               sluice_show_bytes(answer->file_bytes, bytes));
    printf("; costs: %s\n", answer->costs);
    printf("the storage must read %s/s of files; a loader for each GPU",
           sluice_show_bytes(samples_per_s * answer->file_bytes, bytes));
    if (request->local_cpus > 0) {
        sluice_format_double(request->local_cpus, rate);
        printf("; %s compute cores", rate);
    }
    printf("\n\n");
}

static void print_fixed(const struct answer *answer)
{
    char storage[SLUICE_SHOW_BYTES], compute[SLUICE_SHOW_BYTES], sent[SLUICE_SHOW_BYTES],
        binds[120];
    printf("%-14s %13s  %13s  %13s\n", "mode", "storage cores", "compute cores", "sent");
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(answer->fixed); i++) {
        const struct sluice_sizing *sizing = &answer->fixed[i].sizing;
        printf("%-14s %13s  %13s  %13s", sluice_mode_name(answer->fixed[i].mode),
               sizing->is_met ? show_cores(sizing->storage_cores, storage) : "-",
               show_cores(sizing->compute_cores, compute),
               sluice_show_rate(sizing->link_bytes_per_s, sent));
        if (!sizing->is_met)
            printf("  at most %s images/s: %s", sluice_show_number(sizing->samples_per_s, storage),
                   show_binds(sizing->binds, binds));
        printf("\n");
    }
}

static void print_links(const struct request *request, const struct answer *answer)
{
    char link[SLUICE_SHOW_BYTES], storage[SLUICE_SHOW_BYTES], compute[SLUICE_SHOW_BYTES];
    char sent[SLUICE_SHOW_BYTES], binds[120];
    printf("\nremote_auto\n%-14s %13s  %13s  %13s  bound by, beside storage CPU\n", "link",
           "storage cores", "compute cores", "sent");
    for (size_t i = 0; i < answer->num_links; i++) {
        const struct link_row *row = &answer->links[i];
        const struct sluice_sizing *sizing = &row->least;
        printf("%-14s %13s  %13s  %13s  ", sluice_show_rate(row->link_bytes_per_s, link),
               sizing->is_met ? show_cores(sizing->storage_cores, storage) : "not met",
               show_cores(sizing->compute_cores, compute),
               sluice_show_rate(sizing->link_bytes_per_s, sent));
        if (!sizing->is_met)
            printf("at most %s images/s: %s", sluice_show_number(sizing->samples_per_s, storage),
                   show_binds(sizing->binds, binds));
        else
            printf("%s", sizing->binds ? show_binds(sizing->binds, binds) : "nothing");
        printf("\n");
    }
    if (!request->has_storage_cores)
        return;
    sluice_format_double(request->remote_cpus, storage);
    printf("\nremote_auto with %s storage cores\n%-14s %13s  %13s  %13s  limited by\n", storage,
           "link", "images/s", "compute cores", "sent");
    for (size_t i = 0; i < answer->num_links; i++) {
        const struct link_row *row = &answer->links[i];
        const struct sluice_sizing *sizing = &row->reached;
        printf("%-14s %13s  %13s  %13s  %s\n", sluice_show_rate(row->link_bytes_per_s, link),
               sluice_show_number(sizing->samples_per_s, storage),
               show_cores(sizing->compute_cores, compute),
               sluice_show_rate(sizing->link_bytes_per_s, sent), show_binds(sizing->binds, binds));
    }
}

/* --- JSON --- */

static json_t *number_or_null(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

/* link_bytes_per_s < 0: the mode is sized for any. */
static void print_row(const struct request *request, const struct answer *answer,
                      enum sluice_mode mode, double link_bytes_per_s, bool is_reached,
                      const struct sluice_sizing *sizing)
{
    json_t *binds = json_array();
    SLUICE_EACH_RESOURCE (r, sizing->binds)
        json_array_append_new(binds, json_string(sluice_resource_name((enum sluice_resource)r)));
    const double storage_cores = is_reached       ? request->remote_cpus
                                 : sizing->is_met ? sizing->storage_cores
                                                  : INFINITY;
    json_t *json = json_pack(
        "{s:s, s:o, s:f, s:b, s:o, s:o, s:f, s:f, s:o, s:s, s:I, s:f}", "mode",
        sluice_mode_name(mode), "link_mbit_s", number_or_null(link_bytes_per_s * 8 / 1e6),
        "asked_samples_per_s", request->rate * (double)request->gpus, "met", sizing->is_met,
        "samples_per_s", number_or_null(sizing->samples_per_s), "storage_cores",
        number_or_null(storage_cores), "compute_cores", sizing->compute_cores, "sent_mbit_s",
        sizing->link_bytes_per_s * 8 / 1e6, "binds", binds, "costs", answer->costs, "samples",
        (json_int_t)answer->num_samples, "file_bytes", answer->file_bytes);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
    printf("\n");
    json_decref(json);
}

static void print_json(const struct request *request, const struct answer *answer)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(answer->fixed); i++)
        print_row(request, answer, answer->fixed[i].mode,
                  request->has_link ? request->net_bw : INFINITY, false, &answer->fixed[i].sizing);
    for (size_t i = 0; i < answer->num_links; i++) {
        const struct link_row *row = &answer->links[i];
        print_row(request, answer, SLUICE_MODE_AUTO, row->link_bytes_per_s, false, &row->least);
        if (request->has_storage_cores)
            print_row(request, answer, SLUICE_MODE_AUTO, row->link_bytes_per_s, true,
                      &row->reached);
    }
}

/* --- the samples --- */

/* A table of samples that differ in their crops alone. */
static sluice_status make_profile(const struct request *request, struct sluice_profile *profile,
                                  struct sluice_err *err)
{
    const struct sluice_profile_source *source = &request->source;
    *profile = (struct sluice_profile){0};
    sluice_status status =
        sluice_recipe_parse(source->pipeline ? source->pipeline : SLUICE_DEFAULT_PIPELINE, false,
                            &profile->pipeline, err);
    if (status != SLUICE_OK)
        return status;
    profile->choices = sluice_choices_of(profile->pipeline);
    struct sluice_cost_table *table = &profile->table;
    status = sluice_cost_table_init(table, profile->pipeline, MADE_SAMPLES, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_sample_facts *facts = calloc(MADE_SAMPLES, sizeof(*facts));
    bool *is_measured = calloc(MADE_SAMPLES, sizeof(*is_measured));
    if (facts && is_measured) {
        table->num_rows = MADE_SAMPLES;
        for (size_t i = 0; i < table->num_rows; i++) {
            const struct sluice_draw_key key = {.seed = source->seed, .sample_id = i};
            facts[i] = sluice_sample_facts_make(profile->pipeline, request->file_bytes,
                                                (uint32_t)request->width, (uint32_t)request->height,
                                                SLUICE_CODING_UNKNOWN, &key);
        }
        sluice_cost_table_fill(table, profile->pipeline, facts, is_measured);
    }
    free(facts);
    free(is_measured);
    return table->num_rows > 0
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u samples", MADE_SAMPLES);
}

/* Leaves MOST_SAMPLES of them, evenly spread, with their facts. */
static void thin(struct sluice_profile *profile, struct sluice_profile_costs *costs)
{
    struct sluice_cost_table *table = &profile->table;
    if (table->num_rows <= MOST_SAMPLES)
        return;
    size_t num_kept = 0;
    for (size_t i = 0; i < table->num_rows; i++) {
        if (!sluice_cost_table_is_sampled(i, table->num_rows, MOST_SAMPLES))
            continue;
        table->rows[num_kept] = table->rows[i];
        costs->facts[num_kept++] = costs->facts[i];
    }
    table->num_rows = num_kept;
}

static double mean_file_bytes(const struct sluice_cost_table *table)
{
    double sum = 0;
    for (size_t i = 0; i < table->num_rows; i++)
        sum += (double)table->rows[i].bytes[0];
    return table->num_rows > 0 ? sum / (double)table->num_rows : 0;
}

static sluice_status make_answer(const struct request *request, struct answer *answer,
                                 struct sluice_err *err)
{
    struct sluice_profile profile = {0};
    struct sluice_profile_costs costs = {0};
    sluice_status status = request->is_made ? make_profile(request, &profile, err)
                                            : sluice_profile_load(&request->source, &profile, err);
    if (status == SLUICE_OK)
        status = sluice_profile_load_costs(&request->source, &profile, &costs, err);
    if (status == SLUICE_OK) {
        answer->costs = costs.name;
        answer->num_samples = profile.table.num_rows;
        answer->file_bytes = mean_file_bytes(&profile.table);
        thin(&profile, &costs);
        const struct sluice_form_menu menu = sluice_profile_menu(&profile, &costs, NULL);
        status = size_all(request, &menu, answer, err);
    }
    sluice_profile_costs_clear(&costs);
    sluice_profile_clear(&profile);
    return status;
}

/* --- the command line --- */

/* The target of the option table; valid only within the command. */
static struct request given;

enum { WANTED, MACHINES, DATA };
static const char *const groups[] = {
    [WANTED] = "what is wanted", [MACHINES] = "machines", [DATA] = "data", NULL};

static const struct sluice_option options[] = {
    {.name = "gpus",
     .group = WANTED,
     SLUICE_VALUE_UINT(given.gpus, "N"),
     SLUICE_RANGE(1, 65536),
     .help = "GPUs that train from this storage, each with a loader of its own (a rank)."},
    {.name = "rate",
     .group = WANTED,
     SLUICE_VALUE_DOUBLE(given.rate, "IMAGES/S"),
     SLUICE_RANGE(1e-3, 1e9),
     .is_required = true,
     .help = "Images per second that each GPU trains when it never waits.",
     .default_text = "none"},
    {.name = "net-bw",
     .group = MACHINES,
     SLUICE_VALUE_RATE(given.net_bw, "RATE"),
     .is_given = &given.has_link,
     .alias = "link",
     .help = "Bandwidth from the storage to all GPUs together, in Mbit/s or with a unit; none: "
             "never the limit.",
     .default_text = "one row each for 1, 2.5, 10, 25 and 100 Gbit/s"},
    {.name = "remote-cpus",
     .group = MACHINES,
     SLUICE_VALUE_DOUBLE(given.remote_cpus, "N"),
     SLUICE_RANGE(1e-6, 1e9),
     .is_given = &given.has_storage_cores,
     .alias = "storage-cores",
     .help = "Also say what rate so many cores of the storage reach.",
     .default_text = "none"},
    {.name = "local-cpus",
     .group = MACHINES,
     SLUICE_VALUE_DOUBLE(given.local_cpus, "N"),
     SLUICE_RANGE(0, 1e9),
     .alias = "compute-cores",
     .help = "Cores that preprocess beside all GPUs together; 0: as many as it takes, which the "
             "answer says."},
    SLUICE_PROFILE_INDEX_OPTION(MACHINES, given.source),
    {.name = "profile-folder",
     .group = DATA,
     SLUICE_VALUE_STRING(given.source.folder, "FOLDER"),
     .alias = "profile",
     .help = "Profile of the images and machines to size for.",
     .default_text = "images of one size, at costs that were measured on an AMD EPYC"},
    SLUICE_PROFILE_COSTS_OPTION(DATA, given.source),
    {.name = "file-bytes",
     .group = DATA,
     SLUICE_VALUE_BYTES(given.file_bytes, "SIZE"),
     .is_given = &given.has_file_bytes,

     SLUICE_RANGE(1, 1e12),
     .help = "Without a profile: size of each JPEG, the mean of yours. ImageNet's is 110 kB."},
    {.name = "width",
     .group = DATA,
     SLUICE_VALUE_UINT(given.width, "PIXELS"),
     .is_given = &given.has_width,

     SLUICE_RANGE(1, 65535),
     .help = "Without a profile: its width."},
    {.name = "height",
     .group = DATA,
     SLUICE_VALUE_UINT(given.height, "PIXELS"),
     .is_given = &given.has_height,

     SLUICE_RANGE(1, 65535),
     .help = "Without a profile: its height."},
    {.name = "pipeline",
     .group = DATA,
     SLUICE_VALUE_STRING(given.source.pipeline, "SPEC"),
     .check = sluice_recipe_check,
     .help = "Preprocessing steps; offload_profile run --help lists the ops.",
     .default_text = "the profile's, else the default pipeline"},
};

static sluice_status check_given(const struct sluice_cli_result *parsed, struct sluice_err *err)
{
    (void)parsed;
    const bool has_costs = strcmp(given.source.costs, "auto") != 0;
    if (!given.source.folder && has_costs && strcmp(given.source.costs, "default") != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--costs %s needs --profile-folder",
                           given.source.costs);
    if (given.source.folder && (given.has_file_bytes || given.has_width || given.has_height))
        return sluice_fail(err, SLUICE_E_INVALID, "--%s says what --profile-folder knows",
                           given.has_file_bytes ? "file-bytes"
                           : given.has_width    ? "width"
                                                : "height");
    return SLUICE_OK;
}

int sluice_profile_cmd_size(int argc, char **argv)
{
    given = (struct request){.source = sluice_profile_source_init(),
                             .gpus = 1,
                             .file_bytes = 110000,
                             .width = 500,
                             .height = 375};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary =
            "What storage cores, compute cores and link a number of GPUs needs, in each mode "
            "and by the plan of remote_auto; where they cannot do, what they lack.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
        .check = check_given,
        .epilog = "Disk and GPUs are never the limit here: the answer says what must be read.",
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    given.is_made = !given.source.folder;
    if (given.is_made)
        given.source.costs = "default";
    struct answer answer = {0};
    struct sluice_err err = {0};
    const sluice_status status = make_answer(&given, &answer, &err);
    if (status == SLUICE_OK && parsed.is_json) {
        print_json(&given, &answer);
    } else if (status == SLUICE_OK) {
        print_question(&given, &answer);
        print_fixed(&answer);
        print_links(&given, &answer);
    }
    return sluice_cli_exit_code(status, &err);
}
