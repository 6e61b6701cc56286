#include "profiler/commands.h"

#include "base/show.h"
#include "cli/cli.h"
#include "op/recipe.h"
#include "plan/choice_fit.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fits of the tables' ops: each stage's, then all after reading. */
static const char *name_target(const struct sluice_pipeline *pipeline, unsigned target)
{
    if (target > sluice_pipeline_num_ops(pipeline))
        return "all ops";
    return target ? sluice_pipeline_op_label(pipeline, target - 1) : "read";
}

/* Which samples are fitted to, and which are held out. */
struct halves {
    size_t num_samples, num_known;
};

static bool is_known(const struct halves *halves, uint64_t i)
{
    const size_t n = halves->num_samples; /* a table has rows */
    return n > 0 && sluice_cost_table_is_sampled(i % n, n, halves->num_known);
}

static struct halves divide(size_t num_samples, uint64_t num_known)
{
    return (struct halves){
        .num_samples = num_samples,
        .num_known =
            num_known > 0 && num_known < num_samples ? (size_t)num_known : (num_samples + 1) / 2,
    };
}

/* --- ops --- */

static double op_seconds(const struct sluice_cost_table *table, size_t i, unsigned target)
{
    const struct sluice_sample_cost *row = &table->rows[i];
    if (target < table->num_stages)
        return row->op_s[target];
    double sum = 0;
    for (unsigned op = 1; op < table->num_stages; op++)
        sum += row->op_s[op];
    return sum;
}

/* A prediction of the held-out samples: relative errors, and means in seconds. */
struct quality {
    size_t num_held_out;
    double median, p90, sum, predicted, mean;
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct sluice_choice_weights fit_op(const struct sluice_cost_table *table,
                                           const struct sluice_sample_facts *facts,
                                           const struct halves *halves, unsigned target)
{
    struct sluice_weights_fit sums = {0};
    double feature[SLUICE_NUM_CHOICE_FEATURES];
    for (size_t i = 0; i < table->num_rows; i++) {
        sluice_choice_features(&facts[i], feature);
        if (is_known(halves, i))
            sluice_weights_fit_add(&sums, feature, op_seconds(table, i, target));
    }
    return sluice_weights_fit_solve(&sums, NULL);
}

static sluice_status try_op(const struct sluice_cost_table *table,
                            const struct sluice_sample_facts *facts, const struct halves *halves,
                            unsigned target, const struct sluice_choice_weights *weights,
                            struct quality *quality, struct sluice_err *err)
{
    double feature[SLUICE_NUM_CHOICE_FEATURES];
    double *errors = calloc(table->num_rows + 1, sizeof(*errors));
    if (!errors)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to try %zu samples",
                           table->num_rows);
    double predicted_sum = 0, measured_sum = 0;
    *quality = (struct quality){0};
    for (size_t i = 0; i < table->num_rows; i++) {
        const double measured = op_seconds(table, i, target);
        if (is_known(halves, i) || !(measured > 0))
            continue;
        sluice_choice_features(&facts[i], feature);
        const double predicted = sluice_choice_predict(weights, feature);
        errors[quality->num_held_out++] = fabs(predicted / measured - 1);
        predicted_sum += predicted;
        measured_sum += measured;
    }
    if (quality->num_held_out > 0) {
        qsort(errors, quality->num_held_out, sizeof(*errors), compare);
        quality->median = errors[(quality->num_held_out - 1) / 2];
        quality->p90 = errors[(quality->num_held_out - 1) * 9 / 10];
        quality->sum = predicted_sum / measured_sum - 1;
        quality->predicted = predicted_sum / (double)quality->num_held_out;
        quality->mean = measured_sum / (double)quality->num_held_out;
    }
    free(errors);
    return SLUICE_OK;
}

/* "12.3%"; ">100%" for larger errors, and "-" for NAN. */
static const char *show_error(double error, char out[16])
{
    if (isnan(error))
        snprintf(out, 16, "-");
    else if (error > 1)
        snprintf(out, 16, ">100%%");
    else
        snprintf(out, 16, "%.1f%%", 100 * error);
    return out;
}

/* The same of a difference, with its sign. */
static const char *show_difference(double difference, char out[16])
{
    if (isnan(difference))
        snprintf(out, 16, "-");
    else if (fabs(difference) > 1)
        snprintf(out, 16, "%s100%%", difference > 0 ? ">+" : "<-");
    else
        snprintf(out, 16, "%+.1f%%", 100 * difference);
    return out;
}

/* The end of a row: the errors of what a plan goes by without a profile. */
static void print_default(bool is_known, double median, double p90, double sum)
{
    char text[3][16];
    printf(" %10s %7s %7s\n", show_error(is_known ? median : NAN, text[0]),
           show_error(is_known ? p90 : NAN, text[1]),
           show_difference(is_known ? sum : NAN, text[2]));
}

/* preset: by the price of the op in op.h; NULL: it has none. */
static void print_op(const char *name, bool is_json, const struct halves *halves,
                     const struct quality *fitted, const struct quality *preset)
{
    static const struct quality none = {0};
    if (!is_json) {
        char predicted[SLUICE_SHOW_BYTES], mean[SLUICE_SHOW_BYTES], median[16], p90[16], sum[16];
        printf("%-12s %12s %8zu %9s %7s %7s %7s", name,
               sluice_show_seconds(fitted->predicted, predicted), fitted->num_held_out,
               sluice_show_seconds(fitted->mean, mean), show_error(fitted->median, median),
               show_error(fitted->p90, p90), show_difference(fitted->sum, sum));
        print_default(preset, (preset ? preset : &none)->median, (preset ? preset : &none)->p90,
                      (preset ? preset : &none)->sum);
        return;
    }
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "op", name, "fitted_to",
                  (json_int_t)halves->num_known, "held_out", (json_int_t)fitted->num_held_out,
                  "mean", fitted->mean, "predicted", fitted->predicted, "median_error",
                  fitted->median, "p90_error", fitted->p90, "sum_error", fitted->sum);
    if (preset)
        json_object_set_new(json, "default",
                            json_pack("{s:f, s:f, s:f, s:f}", "predicted", preset->predicted,
                                      "median_error", preset->median, "p90_error", preset->p90,
                                      "sum_error", preset->sum));
    json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(8));
    printf("\n");
    json_decref(json);
}

/* The weights that a plan has for an op without a profile; false: no price is of this op alone. */
static bool default_weights(const struct sluice_pipeline *pipeline, unsigned target,
                            struct sluice_choice_weights *weights)
{
    const bool is_op = target > 0 && target <= sluice_pipeline_num_ops(pipeline);
    const double ns = is_op ? sluice_pipeline_mean_ns(pipeline, target - 1, target, 0) : 0;
    *weights = (struct sluice_choice_weights){{SLUICE_PER(OUTPUT_PIXEL, 1e-9 * ns)}};
    return ns > 0;
}

static sluice_status fit_ops(const struct sluice_profile_source *source,
                             const struct sluice_profile *profile,
                             const struct sluice_form_table *forms, uint64_t num_known,
                             bool is_json, struct sluice_err *err)
{
    const struct sluice_cost_table *table = &profile->table;
    const struct halves halves = divide(table->num_rows, num_known);
    struct sluice_sample_facts *facts = NULL;
    sluice_status status = sluice_profile_find_facts(source, profile, forms, &facts, err);
    for (unsigned target = 0; status == SLUICE_OK && target <= table->num_stages; target++) {
        struct quality fitted = {0}, preset = {0};
        struct sluice_choice_weights weights = fit_op(table, facts, &halves, target);
        status = try_op(table, facts, &halves, target, &weights, &fitted, err);
        const bool has_default = default_weights(profile->pipeline, target, &weights);
        if (status == SLUICE_OK && has_default)
            status = try_op(table, facts, &halves, target, &weights, &preset, err);
        if (status == SLUICE_OK && fitted.num_held_out > 0) /* else it counts under another op */
            print_op(name_target(profile->pipeline, target), is_json, &halves, &fitted,
                     has_default ? &preset : NULL);
    }
    free(facts);
    return status;
}

/* --- forms --- */

static void print_form(const char *choice, enum sluice_resource side, bool is_json,
                       const struct halves *halves, const struct sluice_choice_quality *fitted,
                       const struct sluice_choice_quality *preset)
{
    const char *name = sluice_modelled_name(side);
    if (!is_json) {
        char mean[SLUICE_SHOW_BYTES], text[3][16];
        printf("%-12s %-12s %8zu %9s %7s %7s %7s", choice, name, fitted->num_rows,
               side == SLUICE_NETWORK ? sluice_show_bytes(fitted->mean, mean)
                                      : sluice_show_seconds(fitted->mean, mean),
               show_error(fitted->median, text[0]), show_error(fitted->p90, text[1]),
               show_difference(fitted->sum, text[2]));
        print_default(true, preset->median, preset->p90, preset->sum);
        return;
    }
    json_t *json = json_pack(
        "{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:{s:f, s:f, s:f}}", "choice", choice, "side",
        name, "fitted_to", (json_int_t)halves->num_known, "held_out", (json_int_t)fitted->num_rows,
        "mean", fitted->mean, "median_error", fitted->median, "p90_error", fitted->p90, "sum_error",
        fitted->sum, "default", "median_error", preset->median, "p90_error", preset->p90,
        "sum_error", preset->sum);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(8));
    printf("\n");
    json_decref(json);
}

static sluice_status try_forms(const struct sluice_choices *choices,
                               const struct sluice_form_table *forms, const bool *is_used,
                               const struct halves *halves, bool is_json, struct sluice_err *err)
{
    const struct sluice_choice_model preset = sluice_choice_model_default(choices);
    struct sluice_choice_model fitted;
    sluice_status status = sluice_choice_model_fit(forms, is_used, &preset, &fitted, err);
    if (status == SLUICE_OK && !is_json)
        printf("\n%-12s %-12s %8s %9s %7s %7s %7s %10s %7s %7s\n", "choice", "side", "held out",
               "mean", "median", "p90", "sum", "by default", "p90", "sum");
    for (unsigned c = 0; c < choices->num; c++) {
        SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED) {
            struct sluice_choice_quality good = {0}, plain = {0};
            if (status == SLUICE_OK)
                status = sluice_choice_model_try(forms, is_used, false, &fitted,
                                                 SLUICE_NUM_FILE_CLASSES, c, side, &good, err);
            if (status == SLUICE_OK)
                status = sluice_choice_model_try(forms, is_used, false, &preset,
                                                 SLUICE_NUM_FILE_CLASSES, c, side, &plain, err);
            if (status == SLUICE_OK && good.num_rows > 0)
                print_form(sluice_choice_name(choices->at[c]), side, is_json, halves, &good,
                           &plain);
        }
    }
    return status;
}

static sluice_status fit_forms(const struct sluice_profile *profile,
                               const struct sluice_form_table *forms, uint64_t num_known,
                               bool is_json, struct sluice_err *err)
{
    /* Samples may be a part of the subset: they count by their order. */
    const struct halves halves = divide(profile->table.num_rows, num_known);
    bool *is_used = calloc(forms->num_rows, sizeof(*is_used));
    if (!is_used)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to fit %zu rows", forms->num_rows);
    for (size_t i = 0; i < forms->num_rows; i++)
        is_used[i] = is_known(&halves, forms->rows[i].index);
    const sluice_status status =
        try_forms(&profile->choices, forms, is_used, &halves, is_json, err);
    free(is_used);
    return status;
}

/* --- the command line --- */

struct fit_options {
    struct sluice_profile_source source;
    uint64_t num_known;
};

static struct fit_options fit;

enum { DATA, FITTING };
static const char *const groups[] = {[DATA] = "data", [FITTING] = "fitting", NULL};

static const struct sluice_option options[] = {
    {.name = "profile-folder",
     .group = DATA,
     SLUICE_VALUE_STRING(fit.source.folder, "FOLDER"),
     .is_required = true,
     .help = "Folder of the profile: prep_sizes.csv, prep_times.csv and, for the forms, "
             "prep_forms.csv."},
    {.name = "profile-samples",
     .group = FITTING,
     SLUICE_VALUE_UINT(fit.num_known, "N"),
     .help = "Fit to N samples, spread evenly, and predict the others; 0: fit to half of them."},
    {.name = "pipeline",
     .group = DATA,
     SLUICE_VALUE_STRING(fit.source.pipeline, "SPEC"),
     .check = sluice_recipe_check,
     .help = "Preprocessing steps that were profiled; offload_profile run --help lists the ops.",
     .default_text = "as the folder says"},
    {.name = "seed",
     .group = DATA,
     SLUICE_VALUE_UINT(fit.source.seed, "N"),
     .help = "Seed that was profiled with; it decides the crop of each sample."},
};

int sluice_profile_cmd_fit(int argc, char **argv)
{
    fit = (struct fit_options){.source = sluice_profile_source_init()};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Fit the time of each step, and the time and bytes of each form, to what is "
                   "known before a sample is fetched, and print how well that predicts the other "
                   "samples.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;

    struct sluice_profile profile = {0};
    struct sluice_form_table forms = {0};
    struct sluice_err err = {0};
    sluice_status status = sluice_profile_load(&fit.source, &profile, &err);
    if (status == SLUICE_OK)
        status = sluice_profile_load_forms(&fit.source, &profile, &forms, &err);
    if (status == SLUICE_OK && !parsed.is_json)
        printf("%-12s %12s %8s %9s %7s %7s %7s %10s %7s %7s\n", "op", "predicted", "held out",
               "mean", "median", "p90", "sum", "by default", "p90", "sum");
    if (status == SLUICE_OK)
        status = fit_ops(&fit.source, &profile, &forms, fit.num_known, parsed.is_json, &err);
    if (status == SLUICE_OK && forms.num_rows > 0)
        status = fit_forms(&profile, &forms, fit.num_known, parsed.is_json, &err);
    sluice_form_table_clear(&forms);
    sluice_profile_clear(&profile);
    return sluice_cli_exit_code(status, &err);
}
