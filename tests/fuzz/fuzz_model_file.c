/* cost_model.json: every number that is read is one that planning can take, and a model that is
 * written reads back nearly the same. */

#include "plan/cost_folder.h"
#include "plan/model_file.h"

#include "fuzz_file.h"

#include <math.h>
#include <sys/stat.h>

static struct sluice_pipeline *usual;

static void check_number(double number)
{
    FUZZ_CHECK(number >= 0 && number <= 1e30);
}

/* Writing keeps nine digits. */
static void check_near(double a, double b)
{
    FUZZ_CHECK(fabs(a - b) <= 1e-8 * a);
}

static void check_model(const struct sluice_model_file *file, const struct sluice_choices *choices)
{
    const double numbers[] = {file->link_bytes_per_s,
                              file->storage_cores,
                              file->compute_cores,
                              file->model.disk_s_per_sample,
                              file->model.disk_s_per_byte,
                              file->transport.storage_s_per_sample,
                              file->transport.storage_s_per_byte,
                              file->transport.receive_s_per_sample};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        check_number(numbers[i]);
    char folder[128], path[160];
    snprintf(folder, sizeof(folder), "%s/written", fuzz_folder);
    snprintf(path, sizeof(path), "%s/%s", folder, SLUICE_MODEL_FILE);
    FUZZ_CHECK(mkdir(folder, 0700) == 0);
    struct sluice_model_file again;
    FUZZ_CHECK(sluice_model_file_write(folder, usual, file, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_model_file_read(folder, choices, &again, NULL) == SLUICE_OK);
    unlink(path);
    rmdir(folder);
    FUZZ_CHECK(again.num_samples == file->num_samples);
    FUZZ_CHECK(again.model.has_jpeg_index == file->model.has_jpeg_index);
    for (int k = 0; k < SLUICE_NUM_FILE_CLASSES; k++) {
        for (unsigned c = 0; c < choices->num; c++) {
            SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED) {
                for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++) {
                    const double weight = file->model.weights[k][c][side].per[f];
                    check_number(weight);
                    check_near(weight, again.model.weights[k][c][side].per[f]);
                }
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!usual)
        FUZZ_CHECK(sluice_pipeline_parse(SLUICE_DEFAULT_PIPELINE, &usual, NULL) == SLUICE_OK);
    (void)fuzz_file_put(SLUICE_MODEL_FILE, data, size);
    const struct sluice_choices choices = sluice_choices_of(usual);
    struct sluice_model_file file;
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_model_file_read(fuzz_folder, &choices, &file, &err);
    if (status == SLUICE_OK)
        check_model(&file, &choices);
    else
        FUZZ_CHECK(err.text[0] && (status == SLUICE_E_CORRUPT || status == SLUICE_E_UNSUPPORTED));

    struct sluice_model_origin origin = {0};
    if (sluice_model_file_read_origin(fuzz_folder, &origin, NULL) == SLUICE_OK)
        FUZZ_CHECK(memchr(origin.pipeline, 0, sizeof(origin.pipeline)));
    struct sluice_pipeline *pipeline = NULL;
    if (sluice_cost_folder_pipeline(fuzz_folder, &pipeline, NULL) == SLUICE_OK)
        sluice_pipeline_destroy(pipeline);
    return 0;
}
