/* A profile's folder: prep_sizes.csv, prep_times.csv and prep_forms.csv, as one input with a line
 * of %% after each but the last.  Every number that is read is in its range, and a table that is
 * written reads back the same. */

#include "op/pipeline.h"
#include "plan/cost_folder.h"
#include "plan/form_table.h"
#include "plan/sample_cost.h"

#include "fuzz_file.h"

#include <math.h>

enum { SIZES, TIMES };
static const char *const names[] = {"prep_sizes.csv", "prep_times.csv", SLUICE_FORM_TABLE_FILE};

static void check_times(const struct sluice_cost_table *table)
{
    for (size_t i = 0; i < table->num_rows; i++) {
        for (unsigned k = 0; k < table->num_stages; k++)
            FUZZ_CHECK(isfinite(table->rows[i].op_s[k]) && table->rows[i].op_s[k] >= 0);
    }
}

static void written_path(char path[128], const char *name)
{
    snprintf(path, 128, "%s/written/%s", fuzz_folder, name);
}

static void check_costs(const struct sluice_pipeline *pipeline)
{
    struct sluice_cost_table table = {0}, again = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_cost_table_read(fuzz_folder, pipeline, &table, &err);
    if (status != SLUICE_OK) {
        FUZZ_CHECK(status == SLUICE_E_CORRUPT && err.text[0] && !table.rows);
        return;
    }
    check_times(&table);
    char folder[128], path[128];
    snprintf(folder, sizeof(folder), "%s/written", fuzz_folder);
    FUZZ_CHECK(sluice_cost_table_write(folder, pipeline, &table, NULL) == SLUICE_OK);
    written_path(path, names[SIZES]);
    FUZZ_CHECK(sluice_cost_table_read_sizes(path, pipeline, &again, NULL) == SLUICE_OK);
    FUZZ_CHECK(again.num_rows == table.num_rows && again.num_stages == table.num_stages);
    for (size_t i = 0; i < table.num_rows; i++) {
        FUZZ_CHECK(memcmp(table.rows[i].bytes, again.rows[i].bytes, sizeof(again.rows[i].bytes)) ==
                   0);
        FUZZ_CHECK(table.rows[i].width == again.rows[i].width);
        FUZZ_CHECK(table.rows[i].height == again.rows[i].height);
    }
    unlink(path);
    written_path(path, names[TIMES]);
    FUZZ_CHECK(sluice_cost_table_read_times(path, pipeline, &again, NULL) == SLUICE_OK);
    unlink(path);
    rmdir(folder);
    sluice_cost_table_clear(&again);
    sluice_cost_table_model_times(&table, pipeline);
    check_times(&table);
    sluice_cost_table_clear(&table);
}

static void check_forms(const struct sluice_pipeline *pipeline)
{
    const struct sluice_choices choices = sluice_choices_of(pipeline);
    struct sluice_form_table table = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_form_table_read(fuzz_folder, &choices, &table, &err);
    if (status != SLUICE_OK) {
        FUZZ_CHECK(status == SLUICE_E_CORRUPT && err.text[0] && !table.rows);
        return;
    }
    for (size_t i = 0; i < table.num_rows; i++) {
        const struct sluice_form_row *row = &table.rows[i];
        const struct sluice_sample_facts *facts = &row->facts;
        FUZZ_CHECK(row->choice < choices.num);
        FUZZ_CHECK(facts->crop.height >= 1 && facts->crop.width >= 1);
        FUZZ_CHECK(facts->crop.top + facts->crop.height <= facts->height);
        FUZZ_CHECK(facts->crop.left + facts->crop.width <= facts->width);
        FUZZ_CHECK(isnan(row->storage_s) || (row->storage_s >= 0 && isfinite(row->storage_s)));
        FUZZ_CHECK(isnan(row->compute_s) || (row->compute_s >= 0 && isfinite(row->compute_s)));
    }
    sluice_form_table_clear(&table);
}

/* The next part of the input, up to a line of %%. */
static void next_part(const char *name, const uint8_t **data, size_t *size)
{
    const uint8_t *end = *size ? memmem(*data, *size, "%%\n", 3) : NULL;
    const size_t len = end ? (size_t)(end - *data) : *size;
    (void)fuzz_file_put(name, *data, len);
    const size_t used = end ? len + 3 : len;
    *data += used;
    *size -= used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sluice_pipeline *usual;
    if (!usual)
        FUZZ_CHECK(sluice_pipeline_parse(SLUICE_DEFAULT_PIPELINE, &usual, NULL) == SLUICE_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        next_part(names[i], &data, &size);
    check_costs(usual);
    check_forms(usual);
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {{0}};
    if (sluice_cost_folder_pipeline(fuzz_folder, &pipeline, &err) == SLUICE_OK) {
        check_costs(pipeline);
        sluice_pipeline_destroy(pipeline);
    } else {
        FUZZ_CHECK(err.text[0]);
    }
    return 0;
}
