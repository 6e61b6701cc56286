#include "profiler/commands.h"

#include "base/cli.h"
#include "base/log.h"
#include "pipeline/pipeline.h"
#include "profiler/cost_model.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const op_names[SLUICE_PROFILE_STAGES] = {"read",  "decode",    "crop",
                                                            "hflip", "to_tensor", "normalize"};

/* What is fitted: each op, then all after reading, which is what a plan adds up. */
enum { TOTAL = SLUICE_PROFILE_STAGES, NUM_TARGETS };

struct fit {
    struct sluice_cost_features *features;
    double *cost;   /* one target of all samples */
    double *known;  /* costs of the samples that are fitted to */
    double *errors; /* of those held out */
    struct sluice_cost_features *known_features;
    size_t num_samples, num_known;
};

static void fit_clear(struct fit *fit)
{
    free(fit->features);
    free(fit->cost);
    free(fit->known);
    free(fit->errors);
    free(fit->known_features);
}

static bool is_known(const struct fit *fit, size_t i)
{
    /* Spread evenly: sample i is known if the count of known ones rises there. */
    return (i + 1) * fit->num_known / fit->num_samples > i * fit->num_known / fit->num_samples;
}

static sluice_status fit_init(struct fit *fit, const struct sluice_cost_table *table,
                              const char *spec, uint64_t seed, uint64_t num_known,
                              struct sluice_err *err)
{
    const size_t n = table->num_rows;
    *fit = (struct fit){.num_samples = n,
                        .num_known = num_known > 0 && num_known < n ? (size_t)num_known : n / 2};
    struct sluice_pipeline *pipeline = NULL;
    sluice_status status = sluice_pipeline_parse(spec, &pipeline, err);
    if (status != SLUICE_OK)
        return status;
    fit->features = calloc(n, sizeof(*fit->features));
    fit->known_features = calloc(n, sizeof(*fit->known_features));
    fit->cost = calloc(n, sizeof(*fit->cost));
    fit->known = calloc(n, sizeof(*fit->known));
    fit->errors = calloc(n, sizeof(*fit->errors));
    if (!fit->features || !fit->known_features || !fit->cost || !fit->known || !fit->errors)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to fit %zu samples", n);
    size_t num_copied = 0;
    for (size_t i = 0; status == SLUICE_OK && i < n; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        const struct sluice_draw_key key = {.seed = seed, .sample_id = i};
        struct sluice_draws draws = {0};
        if (row->width > 0 && row->height > 0)
            draws = sluice_pipeline_draws(pipeline, &key, row->width, row->height);
        fit->features[i] =
            sluice_cost_features(row->bytes[0], row->width, row->height, draws.top + draws.height,
                                 (uint64_t)draws.width * draws.height);
        if (is_known(fit, i))
            fit->known_features[num_copied++] = fit->features[i];
    }
    sluice_pipeline_destroy(pipeline);
    return status;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct quality {
    size_t num_held_out;
    double median, p90, bias; /* relative errors; of the sum */
};

static sluice_status fit_target(struct fit *fit, const struct sluice_cost_table *table, int target,
                                struct sluice_cost_model *model, struct quality *quality,
                                struct sluice_err *err)
{
    size_t num_copied = 0;
    for (size_t i = 0; i < fit->num_samples; i++) {
        fit->cost[i] = 0;
        if (target == TOTAL) {
            for (int op = 1; op < SLUICE_PROFILE_STAGES; op++)
                fit->cost[i] += table->rows[i].op_s[op];
        } else {
            fit->cost[i] = table->rows[i].op_s[target];
        }
        if (is_known(fit, i))
            fit->known[num_copied++] = fit->cost[i];
    }
    const sluice_status status =
        sluice_cost_model_fit(fit->known_features, fit->known, num_copied, model, err);
    if (status != SLUICE_OK)
        return status;
    *quality = (struct quality){0};
    double sum_predicted = 0, sum_measured = 0;
    for (size_t i = 0; i < fit->num_samples; i++) {
        if (is_known(fit, i) || !(fit->cost[i] > 0))
            continue;
        const double predicted = sluice_cost_model_predict(model, &fit->features[i]);
        fit->errors[quality->num_held_out++] = fabs(predicted / fit->cost[i] - 1);
        sum_predicted += predicted;
        sum_measured += fit->cost[i];
    }
    if (quality->num_held_out == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "no samples are left to try the fit on");
    qsort(fit->errors, quality->num_held_out, sizeof(*fit->errors), compare);
    quality->median = fit->errors[(quality->num_held_out - 1) / 2];
    quality->p90 = fit->errors[(quality->num_held_out - 1) * 9 / 10];
    quality->bias = sum_predicted / sum_measured - 1;
    return SLUICE_OK;
}

static void print_target(const char *name, bool is_json, const struct fit *fit,
                         const struct sluice_cost_model *model, const struct quality *quality)
{
    if (!is_json) {
        printf("%-10s %8zu %10.1f%% %8.1f%% %+8.1f%%\n", name, quality->num_held_out,
               100 * quality->median, 100 * quality->p90, 100 * quality->bias);
        return;
    }
    json_t *json = json_pack(
        "{s:s, s:I, s:I, s:f, s:f, s:f, s:{s:f, s:f, s:f, s:f, s:f}}", "op", name, "fitted_to",
        (json_int_t)fit->num_known, "held_out", (json_int_t)quality->num_held_out, "median_error",
        quality->median, "p90_error", quality->p90, "sum_error", quality->bias, "seconds_per",
        "sample", model->weight[SLUICE_FEATURE_ONE], "file_byte",
        model->weight[SLUICE_FEATURE_FILE_BYTES], "pixel", model->weight[SLUICE_FEATURE_PIXELS],
        "byte_to_crop", model->weight[SLUICE_FEATURE_BYTES_TO_CROP], "crop_pixel",
        model->weight[SLUICE_FEATURE_CROP_PIXELS]);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
    printf("\n");
    json_decref(json);
}

int sluice_profile_cmd_fit(int argc, char **argv)
{
    struct sluice_profile_source source = {0};
    uint64_t num_known = 0, seed = 0;
    const char *spec = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet";
    const struct sluice_option options[] = {
        {.name = "profile-folder",
         .type = SLUICE_OPTION_STRING,
         .value = &source.folder,
         .arg = "FOLDER",
         .is_required = true,
         .help = "Folder with prep_sizes.csv and prep_times.csv."},
        {.name = "profile-samples",
         .type = SLUICE_OPTION_UINT,
         .value = &num_known,
         .arg = "N",
         .help = "Fit to so many of its samples, spread evenly, and try it on the others; 0: to "
                 "half of them."},
        {.name = "pipeline",
         .type = SLUICE_OPTION_STRING,
         .value = &spec,
         .arg = "SPEC",
         .help = "The ops that were profiled."},
        {.name = "seed",
         .type = SLUICE_OPTION_UINT,
         .value = &seed,
         .arg = "N",
         .help = "The seed it was profiled with, which gives each sample's crop."},
    };
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Fit the time of each op to what is known before a sample is fetched, and say "
                   "how well that foretells the others.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;

    struct sluice_cost_table table = {0};
    struct fit fit = {0};
    struct sluice_err err = {0};
    sluice_status status = sluice_profile_load(&source, &table, &err);
    if (status == SLUICE_OK)
        status = fit_init(&fit, &table, spec, seed, num_known, &err);
    if (status == SLUICE_OK && !parsed.is_json)
        printf("%-10s %8s %11s %9s %9s\n", "op", "held out", "median", "p90", "sum");
    for (int target = 0; status == SLUICE_OK && target < NUM_TARGETS; target++) {
        bool is_free = target != TOTAL;
        for (size_t i = 0; is_free && i < table.num_rows; i++)
            is_free = table.rows[i].op_s[target] == 0;
        if (is_free) /* counted under another op */
            continue;
        struct sluice_cost_model model;
        struct quality quality;
        status = fit_target(&fit, &table, target, &model, &quality, &err);
        if (status == SLUICE_OK)
            print_target(target == TOTAL ? "all ops" : op_names[target], parsed.is_json, &fit,
                         &model, &quality);
    }
    fit_clear(&fit);
    sluice_cost_table_clear(&table);
    if (status != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
        return 1;
    }
    return 0;
}
