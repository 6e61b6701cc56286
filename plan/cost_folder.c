#include "plan/cost_folder.h"

#include "base/file.h"
#include "plan/model_file.h"
#include "plan/sample_cost.h"

#include <math.h>
#include <stdio.h>

/* The side of the square that decoded rows end as; 0: none was decoded.  The original's pixels are
 * some bytes more than the image's. */
static uint32_t size_of_rows(const struct sluice_cost_table *table, unsigned u8_split)
{
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        if (row->bytes[1] != row->bytes[0] || row->bytes[u8_split] != row->bytes[0])
            return (uint32_t)fmin(sqrt((double)row->bytes[u8_split] / 3), 65535);
    }
    return 0;
}

/* By the columns of prep_sizes.csv, where nothing else says it. */
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
        /* Columns of other ops are no damage. */
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
    if (size == 0 || size == sluice_pipeline_output_size(usual)) {
        *pipeline = usual;
        return SLUICE_OK;
    }
    sluice_pipeline_destroy(usual);
    snprintf(text, sizeof(text),
             "decode,random_resized_crop=%u,hflip=0.5,to_tensor,normalize=imagenet", size);
    return sluice_pipeline_parse(text, pipeline, err);
}

/* *fingerprint is that of when it was profiled. */
static sluice_status find(const char *folder, struct sluice_pipeline **pipeline,
                          uint64_t *fingerprint, struct sluice_err *err)
{
    struct sluice_model_origin origin = {0};
    struct sluice_err why = {0};
    sluice_status status = sluice_model_file_read_origin(folder, &origin, &why);
    if (status != SLUICE_OK && status != SLUICE_E_NOT_FOUND)
        return sluice_fail(err, status, "%s", why.text);
    if (origin.pipeline[0]) {
        status = sluice_pipeline_parse(origin.pipeline, pipeline, err);
        *fingerprint = origin.fingerprint;
        return status;
    }
    status = find_by_columns(folder, pipeline, err);
    if (status == SLUICE_OK)
        *fingerprint = sluice_pipeline_fingerprint(*pipeline);
    return status;
}

sluice_status sluice_cost_folder_pipeline(const char *folder, struct sluice_pipeline **pipeline,
                                          struct sluice_err *err)
{
    uint64_t fingerprint;
    return find(folder, pipeline, &fingerprint, err);
}

sluice_status sluice_cost_folder_check(const char *folder, const struct sluice_pipeline *pipeline,
                                       struct sluice_err *err)
{
    struct sluice_pipeline *profiled = NULL;
    uint64_t fingerprint = 0;
    const uint64_t wanted = sluice_pipeline_fingerprint(pipeline);
    sluice_status status = find(folder, &profiled, &fingerprint, err);
    if (status == SLUICE_OK && fingerprint != wanted)
        status =
            sluice_fail(err, SLUICE_E_INVALID,
                        "the profile in %s is of the pipeline \"%s\" (fingerprint %016llx), and "
                        "this is \"%s\" (fingerprint %016llx)",
                        folder, sluice_pipeline_spec(profiled), (unsigned long long)fingerprint,
                        sluice_pipeline_spec(pipeline), (unsigned long long)wanted);
    sluice_pipeline_destroy(profiled);
    return status;
}
