#include "plan/cost_folder.h"

#include "plan/model_file.h"
#include "plan/sample_cost.h"
#include "support/choices.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#define OTHER "decode,resize=10,center_crop=8,to_tensor"
#define SMALL "decode,random_resized_crop=64,hflip=0.5,to_tensor,normalize=imagenet"

static struct sluice_pipeline *parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_pipeline_parse(spec, &pipeline, NULL), SLUICE_OK);
    return pipeline;
}

static const char *folder_of(const char *name)
{
    static char folder[1024];
    snprintf(folder, sizeof(folder), "%s/%s", sluice_test_dir(), name);
    return folder;
}

/* Tables of two samples, of which the first was not decoded. */
static const char *write_tables(const char *name, const struct sluice_pipeline *pipeline,
                                uint64_t pixel_bytes)
{
    const char *folder = folder_of(name);
    struct sluice_sample_cost rows[2] = {{.width = 0}, {.width = 100, .height = 100}};
    const struct sluice_cost_table table = {rows, 2, sluice_pipeline_num_ops(pipeline) + 1};
    for (unsigned k = 0; k < table.num_stages; k++) {
        rows[0].bytes[k] = 7;
        rows[1].bytes[k] = k == 0 ? 5000 : k == 1 ? 30000 : pixel_bytes;
    }
    CU_ASSERT_EQUAL_FATAL(sluice_cost_table_write(folder, pipeline, &table, NULL), SLUICE_OK);
    return folder;
}

static void write_model(const char *folder, const struct sluice_pipeline *pipeline)
{
    const struct sluice_choices choices = sluice_choices_of(pipeline);
    const struct sluice_model_file file = {.model = sluice_choice_model_default(&choices)};
    CU_ASSERT_EQUAL_FATAL(sluice_model_file_write(folder, pipeline, &file, NULL), SLUICE_OK);
}

static void check_is_of(const char *folder, const struct sluice_pipeline *expected)
{
    struct sluice_pipeline *found = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL_FATAL(sluice_cost_folder_pipeline(folder, &found, &err), SLUICE_OK);
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(found), sluice_pipeline_spec(expected));
    sluice_pipeline_destroy(found);
    CU_ASSERT_EQUAL(sluice_cost_folder_check(folder, expected, &err), SLUICE_OK);
}

static void a_folder_is_of_the_pipeline_that_its_model_names(void)
{
    struct sluice_pipeline *other = parse(OTHER);
    const char *folder = write_tables("named", other, 192);
    write_model(folder, other);
    check_is_of(folder, other);
    sluice_pipeline_destroy(other);
}

static void tables_of_the_original_are_of_the_default_at_their_size(void)
{
    struct sluice_pipeline *small = parse(SMALL);
    check_is_of(write_tables("plain", sluice_test_pipeline(), 150528), sluice_test_pipeline());
    check_is_of(write_tables("pickled", sluice_test_pipeline(), 150561), sluice_test_pipeline());
    check_is_of(write_tables("small", small, 64 * 64 * 3 + 33), small);
    sluice_pipeline_destroy(small);
}

/* The error names the folder, and both pipelines by text and fingerprint. */
static void check_refused(const char *folder, const struct sluice_pipeline *profiled,
                          const struct sluice_pipeline *wanted)
{
    const struct sluice_pipeline *const both[] = {profiled, wanted};
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_cost_folder_check(folder, wanted, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, folder));
    for (int i = 0; i < 2; i++) {
        char fingerprint[20];
        snprintf(fingerprint, sizeof(fingerprint), "%016llx",
                 (unsigned long long)sluice_pipeline_fingerprint(both[i]));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, sluice_pipeline_spec(both[i])));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, fingerprint));
    }
}

static void a_profile_of_another_pipeline_or_size_is_refused_by_name(void)
{
    struct sluice_pipeline *other = parse(OTHER), *small = parse(SMALL);
    const char *folder = write_tables("other", other, 192);
    write_model(folder, other);
    check_refused(folder, other, sluice_test_pipeline());
    folder = write_tables("default", sluice_test_pipeline(), 150528);
    check_refused(folder, sluice_test_pipeline(), small);
    check_refused(folder, sluice_test_pipeline(), other);
    write_model(folder, sluice_test_pipeline());
    check_refused(folder, sluice_test_pipeline(), small);
    sluice_pipeline_destroy(other);
    sluice_pipeline_destroy(small);
}

static void a_folder_that_does_not_say_is_an_error(void)
{
    struct sluice_pipeline *other = parse(OTHER), *found = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_cost_folder_pipeline(folder_of("absent"), &found, &err),
                    SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "absent"));
    err = (struct sluice_err){0};
    const char *folder = write_tables("nameless", other, 192);
    CU_ASSERT_EQUAL(sluice_cost_folder_pipeline(folder, &found, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "prep_sizes.csv:1"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cost_model.json"));
    CU_ASSERT_PTR_NULL(found);
    sluice_pipeline_destroy(other);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(a_folder_is_of_the_pipeline_that_its_model_names),
        SLUICE_TEST(tables_of_the_original_are_of_the_default_at_their_size),
        SLUICE_TEST(a_profile_of_another_pipeline_or_size_is_refused_by_name),
        SLUICE_TEST(a_folder_that_does_not_say_is_an_error),
    };
    return sluice_test_run("cost_folder", tests, SLUICE_TEST_COUNT(tests));
}
