#include "plan/cost_folder.h"

#include "base/file.h"
#include "base/log.h"
#include "plan/model_file.h"
#include "plan/sample_facts.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The original's sizes are of pickled objects, 33 bytes more than what they hold. */
#define PICKLE_BYTES 64

static bool is_decoded(const struct sluice_sample_cost *row, unsigned u8_split)
{
    return row->bytes[1] != row->bytes[0] || row->bytes[u8_split] != row->bytes[0];
}

/* The side of the square that decoded rows end as; 0: none was decoded.  The original's pixels are
 * some bytes more than the image's. */
static uint32_t size_of_rows(const struct sluice_cost_table *table, unsigned u8_split)
{
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        if (is_decoded(row, u8_split))
            return (uint32_t)fmin(sqrt((double)row->bytes[u8_split] / 3), 65535);
    }
    return 0;
}

/* The pipeline from the columns of prep_sizes.csv, if no other file names it. */
static sluice_status find_by_columns(const char *folder, struct sluice_pipeline **pipeline,
                                     struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES], text[128];
    struct sluice_pipeline *usual = NULL;
    struct sluice_cost_table table = {0};
    struct sluice_err why = {0};
    sluice_status status = sluice_pipeline_parse(SLUICE_DEFAULT_PIPELINE, &usual, err);
    if (status == SLUICE_OK)
        status = sluice_path_in(folder, "prep_sizes.csv", path, err);
    if (status != SLUICE_OK) {
        sluice_pipeline_destroy(usual);
        return status;
    }
    status = sluice_cost_table_read_sizes(path, usual, &table, &why);
    if (status != SLUICE_OK) {
        /* Columns of other ops do not mean a damaged file. */
        status = status == SLUICE_E_CORRUPT ? SLUICE_E_INVALID : status;
        (void)sluice_fail(err, status,
                          "%s (taken for \"%s\", as there is no " SLUICE_MODEL_FILE
                          " that says of which pipeline it is)",
                          why.text, SLUICE_DEFAULT_PIPELINE);
        sluice_pipeline_destroy(usual);
        return status;
    }
    const uint32_t size = size_of_rows(&table, sluice_pipeline_u8_split(usual));
    sluice_cost_table_clear(&table);
    if (size == 0 || size == sluice_output_side(usual)) {
        *pipeline = usual;
        return SLUICE_OK;
    }
    sluice_pipeline_destroy(usual);
    snprintf(text, sizeof(text),
             "decode,random_resized_crop=%u,hflip=0.5,to_tensor,normalize=imagenet", size);
    return sluice_pipeline_parse(text, pipeline, err);
}

/* *origin is what the folder says of itself; without a pipeline there, *pipeline follows from the
 * columns and *origin has no more than its fingerprint. */
static sluice_status find(const char *folder, struct sluice_pipeline **pipeline,
                          struct sluice_model_origin *origin, struct sluice_err *err)
{
    struct sluice_err why = {0};
    sluice_status status = sluice_model_file_read_origin(folder, origin, &why);
    if (status != SLUICE_OK && status != SLUICE_E_NOT_FOUND)
        return sluice_fail(err, status, "%s", why.text);
    if (origin->pipeline[0])
        return sluice_pipeline_parse(origin->pipeline, pipeline, err);
    status = find_by_columns(folder, pipeline, err);
    if (status == SLUICE_OK)
        origin->fingerprint = sluice_pipeline_fingerprint(*pipeline);
    return status;
}

sluice_status sluice_cost_folder_pipeline(const char *folder, struct sluice_pipeline **pipeline,
                                          struct sluice_err *err)
{
    struct sluice_model_origin origin = {.fingerprint = 0};
    return find(folder, pipeline, &origin, err);
}

static sluice_status check_pipeline(const char *folder, const struct sluice_pipeline *pipeline,
                                    struct sluice_model_origin *origin, struct sluice_err *err)
{
    struct sluice_pipeline *profiled = NULL;
    const uint64_t wanted = sluice_pipeline_fingerprint(pipeline);
    sluice_status status = find(folder, &profiled, origin, err);
    if (status == SLUICE_OK && origin->fingerprint != wanted)
        status = sluice_fail(
            err, SLUICE_E_INVALID,
            "the profile in %s is of the pipeline \"%s\" (fingerprint %016llx), and "
            "this is \"%s\" (fingerprint %016llx)",
            folder, sluice_pipeline_spec(profiled), (unsigned long long)origin->fingerprint,
            sluice_pipeline_spec(pipeline), (unsigned long long)wanted);
    sluice_pipeline_destroy(profiled);
    return status;
}

sluice_status sluice_cost_folder_check(const char *folder, const struct sluice_pipeline *pipeline,
                                       struct sluice_err *err)
{
    struct sluice_model_origin origin = {.fingerprint = 0};
    return check_pipeline(folder, pipeline, &origin, err);
}

/* --- rows --- */

static bool is_about(uint64_t bytes, uint64_t expected)
{
    return bytes >= expected && bytes - expected <= PICKLE_BYTES;
}

/* Bytes that every sample has at a stage; 0: they vary. */
static uint64_t bytes_at(const struct sluice_pipeline *pipeline, unsigned stage)
{
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, stage);
    const bool is_f32 = sluice_pipeline_kind(pipeline, stage) == SLUICE_KIND_F32;
    if (known.width == 0)
        return 0;
    return ((uint64_t)known.width * known.height + known.more_pixels) * (is_f32 ? 12 : 3);
}

sluice_status sluice_cost_folder_check_sizes(const char *name,
                                             const struct sluice_pipeline *pipeline,
                                             const struct sluice_cost_table *table,
                                             struct sluice_err *err)
{
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        if (!is_decoded(row, sluice_pipeline_u8_split(pipeline)))
            continue;
        for (unsigned stage = 1; stage < table->num_stages; stage++) {
            const uint64_t expected = bytes_at(pipeline, stage);
            if (expected && !is_about(row->bytes[stage], expected))
                return sluice_fail(
                    err, SLUICE_E_INVALID,
                    "%s has %llu bytes for sample %zu after %s, and \"%s\" makes %llu: it is of "
                    "another pipeline or size",
                    name, (unsigned long long)row->bytes[stage], i,
                    sluice_pipeline_op_name(pipeline, stage - 1), sluice_pipeline_spec(pipeline),
                    (unsigned long long)expected);
        }
    }
    return SLUICE_OK;
}

static sluice_status check_dataset(const char *folder, const struct sluice_cost_folder_use *use,
                                   const struct sluice_model_origin *origin, struct sluice_err *err)
{
    char ours[33];
    if (!use->manifest || !origin->dataset_id[0])
        return SLUICE_OK;
    sluice_hash128_hex(sluice_manifest_id(use->manifest), ours);
    if (strcmp(origin->dataset_id, ours) == 0)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "the profile in %s is of the dataset %s, and this is %s: it was made for "
                       "other data",
                       folder, origin->dataset_id, ours);
}

static sluice_status check_files(const char *folder, const struct sluice_cost_folder_use *use,
                                 const struct sluice_cost_table *table, struct sluice_err *err)
{
    for (size_t i = 0; use->manifest && i < table->num_rows; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(use->manifest, use->ids[i]);
        if (!is_about(table->rows[i].bytes[0], entry.bytes))
            return sluice_fail(
                err, SLUICE_E_INVALID,
                "the profile in %s has %llu bytes for sample %zu, and %s has %llu: it "
                "was made for other data",
                folder, (unsigned long long)table->rows[i].bytes[0], i, entry.path,
                (unsigned long long)entry.bytes);
    }
    return SLUICE_OK;
}

sluice_status sluice_cost_folder_read(const char *folder, const struct sluice_cost_folder_use *use,
                                      struct sluice_cost_table *table, struct sluice_err *err)
{
    struct sluice_model_origin origin = {.fingerprint = 0};
    struct sluice_cost_table read = {0};
    sluice_status status = check_pipeline(folder, use->pipeline, &origin, err);
    if (status == SLUICE_OK)
        status = check_dataset(folder, use, &origin, err);
    if (status == SLUICE_OK)
        status = sluice_cost_table_read(folder, use->pipeline, &read, err);
    if (status == SLUICE_OK && read.num_rows != use->num_used && read.num_rows != use->num_total)
        status = sluice_fail(err, SLUICE_E_INVALID,
                             "the profile in %s has %zu samples and the training subset %zu: it "
                             "was made for other data",
                             folder, read.num_rows, use->num_total);
    if (status == SLUICE_OK)
        status = sluice_cost_folder_check_sizes(folder, use->pipeline, &read, err);
    if (status == SLUICE_OK && !origin.dataset_id[0])
        status = check_files(folder, use, &read, err);
    if (status != SLUICE_OK) {
        sluice_cost_table_clear(&read);
        return status;
    }
    if (!origin.pipeline[0])
        sluice_log(
            SLUICE_LOG_INFO,
            "the profile in %s does not say of which pipeline and dataset it is: its columns "
            "and sizes fit, more cannot be checked",
            folder);
    else if (!origin.dataset_id[0])
        sluice_log(
            SLUICE_LOG_INFO,
            "the profile in %s does not say of which dataset it is: the lengths of the files "
            "fit, more cannot be checked",
            folder);
    *table = read;
    return SLUICE_OK;
}
