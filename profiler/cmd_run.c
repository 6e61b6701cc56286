#include "profiler/commands.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/progress.h"
#include "datasets/manifest/drift.h"
#include "datasets/manifest/manifest.h"
#include "datasets/shards/shard.h"
#include "host/disk_clock.h"
#include "op/op.h"
#include "op/recipe.h"
#include "plan/choice_fit.h"
#include "plan/cost_folder.h"
#include "plan/model_file.h"
#include "plan/op_meter.h"
#include "profiler/form_meter.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_FILE_BYTES ((size_t)1 << 30)

struct run_options {
    const char *root;
    const char *out_folder;
    const char *pipeline;
    uint64_t seed, limit, max_pixels;
};

struct run {
    struct sluice_pipeline *pipeline;
    struct sluice_buf_pool *pool;
    struct sluice_op_meter ops;
    struct sluice_form_meter meter;
    struct sluice_form_table forms;
};

static void run_clear(struct run *run)
{
    sluice_form_meter_clear(&run->meter);
    sluice_form_table_clear(&run->forms);
    sluice_op_meter_clear(&run->ops);
    sluice_buf_pool_destroy(run->pool);
    sluice_pipeline_destroy(run->pipeline);
}

static sluice_status run_init(struct run *run, const struct run_options *options,
                              struct sluice_err *err)
{
    *run = (struct run){0};
    sluice_status status = sluice_recipe_parse(options->pipeline, false, &run->pipeline, err);
    if (status == SLUICE_OK)
        status = sluice_buf_pool_create((size_t)256 << 20, &run->pool, err);
    if (status == SLUICE_OK)
        status = sluice_op_meter_init(&run->ops, run->pool, options->max_pixels, err);
    if (status == SLUICE_OK)
        status =
            sluice_form_meter_init(&run->meter, run->pipeline, run->pool, options->max_pixels, err);
    if (status != SLUICE_OK)
        run_clear(run);
    return status;
}

/* Sizes and times of one image. */
static sluice_status measure(struct run *run, const char *root,
                             const struct sluice_manifest_entry *entry, uint64_t index,
                             const struct sluice_draw_key *key, struct sluice_sample_cost *row,
                             struct sluice_err *err)
{
    struct sluice_sample sample = {.key = *key};
    struct sluice_disk_clock disk = SLUICE_DISK_CLOCK_INITIALIZER; /* one read at a time */
    struct sluice_disk_read read;
    sluice_disk_clock_start(&disk, &read);
    sluice_status status = sluice_shard_read(root, entry->path, entry->offset, entry->bytes,
                                             MAX_FILE_BYTES, run->pool, &sample.data, NULL, err);
    row->op_s[0] = (double)sluice_disk_clock_stop(&disk, &read).busy_ns * 1e-9;
    if (status != SLUICE_OK)
        return status;
    status = sluice_op_meter_measure(&run->ops, run->pipeline, &sample, NULL, 0, row, err);
    if (status == SLUICE_OK)
        status = sluice_form_meter_add(&run->meter, sample.data, index, key, &run->forms, err);
    sluice_sample_clear(&sample);
    return status;
}

/* Writes the model fitted to the measurements, in addition to the tables. */
static sluice_status write_model(const char *folder, const struct sluice_pipeline *pipeline,
                                 const struct sluice_form_table *forms,
                                 const struct sluice_cost_table *table,
                                 const struct sluice_manifest *manifest, struct sluice_err *err)
{
    const struct sluice_choices choices = sluice_choices_of(pipeline);
    const struct sluice_choice_model preset = sluice_choice_model_default(&choices);
    struct sluice_model_file file = {.num_samples = table->num_rows,
                                     .transport = sluice_transport_cost_default()};
    const sluice_status status = sluice_choice_model_fit(forms, NULL, &preset, &file.model, err);
    if (status != SLUICE_OK)
        return status;
    sluice_choice_model_set_disk(&file.model, table, table->num_rows);
    sluice_hash128_hex(sluice_manifest_id(manifest), file.dataset_id);
    return sluice_model_file_write(folder, pipeline, &file, err);
}

static sluice_status profile(const struct run_options *options, struct sluice_err *err)
{
    struct run run = {0};
    struct sluice_manifest *manifest = NULL;
    struct sluice_cost_table table = {0};
    sluice_status status = run_init(&run, options, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_manifest_open(options->root, NULL, &manifest, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(manifest, options->root, false, NULL, err);
    if (status == SLUICE_OK)
        sluice_manifest_tell_drift(manifest, options->root, NULL, "start again", NULL);
    if (status == SLUICE_OK)
        status = sluice_cost_table_init(&table, run.pipeline, manifest->num_entries, err);

    struct sluice_progress progress;
    size_t num_failed = 0;
    if (status == SLUICE_OK) {
        sluice_progress_start(&progress, "profiling", manifest->num_entries);
        for (size_t i = 0; i < manifest->num_entries; i++) {
            if (sluice_manifest_at(manifest, i).subset != SLUICE_SUBSET_TRAIN)
                continue;
            if (options->limit && table.num_rows == options->limit)
                break;
            const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
            const struct sluice_draw_key key = {.seed = options->seed, .sample_id = i};
            const size_t index = table.num_rows++;
            struct sluice_sample_cost *row = &table.rows[index];
            struct sluice_err why = {0};
            if (measure(&run, options->root, &entry, index, &key, row, &why) != SLUICE_OK) {
                sluice_log(SLUICE_LOG_WARN, "%s/%s: %s", options->root, entry.path, why.text);
                num_failed++;
            }
            sluice_progress_update(&progress, i + 1, NULL);
        }
        sluice_progress_end(&progress, manifest->num_entries);
        if (num_failed == table.num_rows)
            status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: none of %zu images could be decoded",
                                 options->root, table.num_rows);
    }
    if (status == SLUICE_OK)
        status = sluice_cost_table_write(options->out_folder, run.pipeline, &table, err);
    if (status == SLUICE_OK)
        status = sluice_form_table_write(options->out_folder, &run.meter.choices, &run.forms, err);
    if (status == SLUICE_OK)
        status = write_model(options->out_folder, run.pipeline, &run.forms, &table, manifest, err);
    if (status == SLUICE_OK)
        printf("%s: %zu samples, %zu undecodable\n", options->out_folder, table.num_rows,
               num_failed);
    sluice_cost_table_clear(&table);
    sluice_manifest_destroy(manifest);
    run_clear(&run);
    return status;
}

static struct run_options given;

enum { DATA, OUTPUT };
static const char *const groups[] = {[DATA] = "data", [OUTPUT] = "output", NULL};

static const struct sluice_option options[] = {
    {.name = "out",
     .short_name = 'o',
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.out_folder, "FOLDER"),
     .is_required = true,
     .help = "Folder to write prep_sizes.csv, prep_times.csv, prep_forms.csv and cost_model.json "
             "to."},
    {.name = "pipeline",
     .group = DATA,
     SLUICE_VALUE_STRING(given.pipeline, "SPEC"),
     .check = sluice_recipe_check,
     .list = sluice_op_list,
     .help = "Preprocessing steps to measure: ops from the list below, with commas between."},
    {.name = "seed",
     .group = DATA,
     SLUICE_VALUE_UINT(given.seed, "N"),
     .help = "Seed of the crops and flips; the epoch is 0."},
    {.name = "limit",
     .group = DATA,
     SLUICE_VALUE_UINT(given.limit, "N"),
     .help = "Measure only the first N samples; 0: all."},
    {.name = "max-image-pixels",
     .group = DATA,
     SLUICE_VALUE_UINT(given.max_pixels, "N"),
     .help = "Refuse images with more pixels; 0: 178956970."},
};

int sluice_profile_cmd_run(int argc, char **argv)
{
    given = (struct run_options){.pipeline = SLUICE_DEFAULT_PIPELINE};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Measure, on one core of this machine, the size of each sample of DIR after "
                   "every step and in every form, and the time that takes.",
        .positional = "DIR",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    given.root = parsed.positional[0];
    struct sluice_err err = {0};
    return sluice_cli_exit_code(profile(&given, &err), &err);
}
