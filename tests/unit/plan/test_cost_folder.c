#include "plan/cost_folder.h"

#include "plan/model_file.h"
#include "plan/sample_cost.h"
#include "support/capture.h"
#include "support/choices.h"
#include "support/test.h"

#define OTHER "decode,resize=10,center_crop=8,to_tensor"
#define SMALL "decode,random_resized_crop=64,hflip=0.5,to_tensor,normalize=imagenet"

static struct sluice_pipeline *parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
    return pipeline;
}

/* Tables of two samples, of which the first was not decoded. */
static const char *write_tables(const char *name, const struct sluice_pipeline *pipeline,
                                uint64_t pixel_bytes)
{
    const char *folder = sluice_test_path(name);
    struct sluice_sample_cost rows[2] = {{.width = 0}, {.width = 100, .height = 100}};
    const struct sluice_cost_table table = {rows, 2, sluice_pipeline_num_ops(pipeline) + 1};
    for (unsigned k = 0; k < table.num_stages; k++) {
        rows[0].bytes[k] = 7;
        const bool is_float = sluice_pipeline_kind(pipeline, k) == SLUICE_KIND_F32;
        rows[1].bytes[k] = k == 0     ? 5000
                           : k == 1   ? 30000
                           : is_float ? pixel_bytes * 4
                                      : pixel_bytes;
    }
    REQUIRE_OK(sluice_cost_table_write(folder, pipeline, &table, NULL));
    return folder;
}

static void write_model_of(const char *folder, const struct sluice_pipeline *pipeline,
                           const char *dataset_id)
{
    const struct sluice_choices choices = sluice_choices_of(pipeline);
    struct sluice_model_file file = {.model = sluice_choice_model_default(&choices)};
    snprintf(file.dataset_id, sizeof(file.dataset_id), "%s", dataset_id);
    REQUIRE_OK(sluice_model_file_write(folder, pipeline, &file, NULL));
}

static void write_model(const char *folder, const struct sluice_pipeline *pipeline)
{
    write_model_of(folder, pipeline, "");
}

static void check_is_of(const char *folder, const struct sluice_pipeline *expected)
{
    struct sluice_pipeline *found = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_cost_folder_pipeline(folder, &found, &err));
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(found), sluice_pipeline_spec(expected));
    sluice_pipeline_destroy(found);
    CHECK_OK(sluice_cost_folder_check(folder, expected, &err));
}

TEST(a_folder_is_of_the_pipeline_that_its_model_names)
{
    struct sluice_pipeline *other = parse(OTHER);
    const char *folder = write_tables("named", other, 192);
    write_model(folder, other);
    check_is_of(folder, other);
    sluice_pipeline_destroy(other);
}

TEST(tables_of_the_original_are_of_the_default_at_their_size)
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
    CHECK_FAILS(SLUICE_E_INVALID, folder,
                sluice_cost_folder_check(folder, wanted, sluice_test_err()));
    for (int i = 0; i < 2; i++) {
        char fingerprint[20];
        snprintf(fingerprint, sizeof(fingerprint), "%016llx",
                 (unsigned long long)sluice_pipeline_fingerprint(both[i]));
        CHECK_SAYS(sluice_pipeline_spec(both[i]));
        CHECK_SAYS(fingerprint);
    }
}

TEST(a_profile_of_another_pipeline_or_size_is_refused_by_name)
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

TEST(a_folder_that_does_not_say_is_an_error)
{
    struct sluice_pipeline *other = parse(OTHER), *found = NULL;
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "absent",
                sluice_cost_folder_pipeline(sluice_test_path("absent"), &found, sluice_test_err()));
    const char *folder = write_tables("nameless", other, 192);
    CHECK_FAILS(SLUICE_E_INVALID, "prep_sizes.csv:1",
                sluice_cost_folder_pipeline(folder, &found, sluice_test_err()));
    CHECK_SAYS("cost_model.json");
    CU_ASSERT_PTR_NULL(found);
    sluice_pipeline_destroy(other);
}

/* --- reading for a dataset --- */

/* Two samples, of which the first row of write_tables() was not decoded. */
static struct sluice_manifest_entry entries[2] = {
    {.path = (char *)"a/1.jpg", .bytes = 7},
    {.path = (char *)"a/2.jpg", .bytes = 5000},
};
static const char *classes[1] = {"a"};
static const struct sluice_manifest dataset = {
    .rows = entries, .num_entries = 2, .classes = classes, .num_classes = 1};
static const uint32_t ids[2] = {0, 1};

static sluice_status read_for(const char *folder, const struct sluice_pipeline *pipeline,
                              size_t num_used, struct sluice_test_output *output,
                              struct sluice_err *err)
{
    const struct sluice_cost_folder_use use = {
        .pipeline = pipeline,
        .manifest = &dataset,
        .ids = ids,
        .num_used = num_used,
        .num_total = num_used,
    };
    struct sluice_cost_table table = {.num_rows = 99};
    *err = (struct sluice_err){0};
    sluice_test_capture_begin();
    const sluice_status status = sluice_cost_folder_read(folder, &use, &table, err);
    sluice_test_capture_end(output);
    if (status == SLUICE_OK) {
        CU_ASSERT_EQUAL(table.num_rows, 2);
        sluice_cost_table_clear(&table);
    } else {
        CU_ASSERT_EQUAL(table.num_rows, 99); /* untouched */
        CU_ASSERT_PTR_NOT_NULL(strstr(err->text, folder));
    }
    return status;
}

TEST(a_profile_of_another_dataset_is_refused_with_both_ids)
{
    static const char other[] = "00112233445566778899aabbccddeeff";
    static struct sluice_test_output output;
    char ours[33];
    struct sluice_err err;
    sluice_hash128_hex(sluice_manifest_id(&dataset), ours);
    const char *folder = write_tables("dataset", sluice_test_pipeline(), 150528);
    write_model_of(folder, sluice_test_pipeline(), ours);
    CHECK_OK(read_for(folder, sluice_test_pipeline(), 2, &output, &err));
    CU_ASSERT_STRING_EQUAL(output.err, "");
    write_model_of(folder, sluice_test_pipeline(), other);
    CU_ASSERT_EQUAL(read_for(folder, sluice_test_pipeline(), 2, &output, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, ours));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, other));
}

TEST(what_does_not_say_its_dataset_is_taken_with_one_line)
{
    static struct sluice_test_output output;
    struct sluice_err err;
    const char *folder = write_tables("silent", sluice_test_pipeline(), 150528);
    CHECK_OK(read_for(folder, sluice_test_pipeline(), 2, &output, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "does not say of which pipeline and dataset"));
    CU_ASSERT_PTR_EQUAL(strchr(output.err, '\n'), strrchr(output.err, '\n'));
    write_model(folder, sluice_test_pipeline());
    CHECK_OK(read_for(folder, sluice_test_pipeline(), 2, &output, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "does not say of which dataset"));
}

TEST(what_can_be_checked_without_an_id_is)
{
    static struct sluice_test_output output;
    const char *folder = write_tables("rows", sluice_test_pipeline(), 150528);
    CHECK_FAILS(SLUICE_E_INVALID, "2 samples",
                read_for(folder, sluice_test_pipeline(), 1, &output, sluice_test_err()));
    entries[1].bytes = 5100; /* more than a pickle adds */
    CHECK_FAILS(SLUICE_E_INVALID, "a/2.jpg",
                read_for(folder, sluice_test_pipeline(), 2, &output, sluice_test_err()));
    entries[1].bytes = 5000;
}

TEST(sizes_that_the_pipeline_does_not_make_are_refused)
{
    struct sluice_sample_cost row = {
        .bytes = {5000, 30000, 150528, 150528, 602112, 602112}, .width = 100, .height = 100};
    const struct sluice_cost_table table = {&row, 1, 6};
    CHECK_OK(
        sluice_cost_folder_check_sizes("f.csv", sluice_test_pipeline(), &table, sluice_test_err()));
    for (unsigned stage = 1; stage < 6; stage++)
        row.bytes[stage] += 33; /* the original's */
    CHECK_OK(
        sluice_cost_folder_check_sizes("f.csv", sluice_test_pipeline(), &table, sluice_test_err()));
    for (unsigned stage = 1; stage < 6; stage++)
        row.bytes[stage] -= 33;
    for (unsigned stage = 2; stage < 6; stage++) {
        const uint64_t right = row.bytes[stage];
        const uint64_t wrong[] = {right - 1, right + 1000, 96 * 96 * 3, 0};
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
            row.bytes[stage] = wrong[i];
            CHECK_FAILS(SLUICE_E_INVALID, "f.csv",
                        sluice_cost_folder_check_sizes("f.csv", sluice_test_pipeline(), &table,
                                                       sluice_test_err()));
            CHECK_SAYS("sample 0");
        }
        row.bytes[stage] = right;
    }
}
