#include "compute_client/loader/choose/choice.h"

#include "support/test.h"

#include <math.h>

#define PIPELINE "decode,random_resized_crop=22,hflip=0.5,to_tensor,normalize=imagenet"

static struct sluice_pipeline *parse(const char *text)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(text, &pipeline, NULL));
    return pipeline;
}

TEST(fixed_modes_ask_for_what_their_name_says)
{
    struct sluice_pipeline *pipeline = parse(PIPELINE);
    const struct {
        enum sluice_mode mode;
        unsigned split;
        enum sluice_form form;
    } cases[] = {
        {SLUICE_MODE_LOCAL, 0, SLUICE_FORM_RAW},
        {SLUICE_MODE_NOOFF, 0, SLUICE_FORM_RAW},
        {SLUICE_MODE_PILOFF, 3, SLUICE_FORM_U8},
        {SLUICE_MODE_ALLOFF, 5, SLUICE_FORM_F32},
    };
    for (size_t i = 0; i < 4; i++) {
        const struct sluice_choice choice = sluice_choice_fixed(cases[i].mode, pipeline);
        CU_ASSERT_EQUAL(choice.split, cases[i].split);
        CU_ASSERT_EQUAL(choice.form, cases[i].form);
    }
    CU_ASSERT_EQUAL(sluice_choice_bytes(pipeline, sluice_choice_at(pipeline, 0), 777), 777);
    CU_ASSERT_EQUAL(sluice_choice_bytes(pipeline, sluice_choice_at(pipeline, 3), 777), 1452);
    CU_ASSERT_EQUAL(sluice_choice_bytes(pipeline, sluice_choice_at(pipeline, 4), 777), 5808);
    sluice_pipeline_destroy(pipeline);
}

TEST(only_files_before_a_crop_are_asked_for_cut)
{
    struct sluice_pipeline *pipeline = parse(PIPELINE);
    struct sluice_pipeline *val = parse("decode,hflip,center_crop=8,to_tensor");
    struct sluice_pipeline *resized = parse("decode,resize=16,center_crop=8,to_tensor");
    struct sluice_choice choice =
        sluice_choice_coded(pipeline, sluice_choice_at(pipeline, 0), SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(choice.form, SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(choice.split, 0);
    CU_ASSERT_EQUAL(sluice_choice_bytes(pipeline, choice, 777), 777); /* the most that comes */
    choice = sluice_choice_coded(pipeline, sluice_choice_at(pipeline, 3), SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(choice.form, SLUICE_FORM_U8);
    choice = sluice_choice_coded(val, sluice_choice_at(val, 0), SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(choice.form, SLUICE_FORM_RAW);
    sluice_pipeline_destroy(pipeline);
    choice = sluice_choice_coded(resized, sluice_choice_at(resized, 0), SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(choice.form, SLUICE_FORM_JPEG_CROP);
    sluice_pipeline_destroy(val);
    sluice_pipeline_destroy(resized);
}

TEST(rows_are_asked_for_of_files_that_stay_as_they_are_turned)
{
    struct sluice_pipeline *pipeline = parse(PIPELINE);
    struct sluice_pipeline *upright = parse("decode,exif_transpose,center_crop=8,to_tensor");
    struct sluice_choice choice =
        sluice_choice_coded(pipeline, sluice_choice_at(pipeline, 0), SLUICE_FORM_JPEG_ROWS);
    CU_ASSERT(choice.split == 0 && choice.form == SLUICE_FORM_JPEG_ROWS);
    CU_ASSERT_EQUAL(sluice_choice_bytes(pipeline, choice, 777), 777);
    choice = sluice_choice_coded(pipeline, sluice_choice_at(pipeline, 3), SLUICE_FORM_JPEG_ROWS);
    CU_ASSERT_EQUAL(choice.form, SLUICE_FORM_U8);
    choice = sluice_choice_coded(upright, sluice_choice_at(upright, 0), SLUICE_FORM_JPEG_ROWS);
    CU_ASSERT_EQUAL(choice.form, SLUICE_FORM_RAW);
    sluice_pipeline_destroy(pipeline);
    sluice_pipeline_destroy(upright);
}

TEST(packed_pixels_are_asked_for_where_pixels_come)
{
    struct sluice_pipeline *pipeline = parse(PIPELINE);
    struct sluice_pipeline *val = parse("decode,resize=16,center_crop=8,to_tensor");
    const size_t u8_bytes = sluice_pipeline_u8_bytes(pipeline);
    struct sluice_choice choice =
        sluice_choice_coded(pipeline, sluice_choice_at(pipeline, 3), SLUICE_FORM_U8_PACKED);
    CU_ASSERT(choice.split == 3 && choice.form == SLUICE_FORM_U8_PACKED);
    CU_ASSERT_EQUAL(sluice_choice_bytes(pipeline, choice, 777), u8_bytes); /* the most */
    choice = sluice_choice_coded(pipeline, sluice_choice_at(pipeline, 0), SLUICE_FORM_U8_PACKED);
    CU_ASSERT(choice.split == 1 && choice.form == SLUICE_FORM_U8_PACKED);
    CU_ASSERT_EQUAL(sluice_choice_bytes(pipeline, choice, 777), 777);
    choice = sluice_choice_coded(pipeline, sluice_choice_at(pipeline, 5), SLUICE_FORM_U8_PACKED);
    CU_ASSERT(choice.split == 5 && choice.form == SLUICE_FORM_F32);
    /* Of the decoded image all is needed here, which is more than the file. */
    choice = sluice_choice_coded(val, sluice_choice_at(val, 0), SLUICE_FORM_U8_PACKED);
    CU_ASSERT(choice.split == 0 && choice.form == SLUICE_FORM_RAW);
    choice = sluice_choice_coded(val, sluice_choice_at(val, 2), SLUICE_FORM_U8_PACKED);
    CU_ASSERT(choice.split == 2 && choice.form == SLUICE_FORM_U8_PACKED);
    sluice_pipeline_destroy(pipeline);
    sluice_pipeline_destroy(val);
}

/* Sample i's file has 1000 * (i + 1) bytes; cropping saves from the second on. */
static const char *write_profile(size_t num_rows)
{
    static char folder[600];
    struct sluice_cost_table table = {.num_rows = num_rows, .num_stages = 6};
    table.rows = calloc(num_rows, sizeof(*table.rows));
    for (size_t i = 0; i < num_rows; i++) {
        table.rows[i] = (struct sluice_sample_cost){
            .bytes = {1000 * (i + 1), 90000, 1452, 1452, 5808, 5808},
            .op_s = {1e-4, 1e-3, 1e-3, 1e-4, 1e-4, 1e-4},
            .width = 200,
            .height = 150,
        };
    }
    snprintf(folder, sizeof(folder), "%s/profile-%zu", sluice_test_dir(), num_rows);
    struct sluice_pipeline *pipeline = parse(PIPELINE);
    REQUIRE_OK(sluice_cost_table_write(folder, pipeline, &table, NULL));
    sluice_pipeline_destroy(pipeline);
    free(table.rows);
    return folder;
}

/* SOPHON's. */
static sluice_status plan(const char *folder, const struct sluice_pipeline *pipeline,
                          const struct sluice_rates *rates, size_t num_samples, size_t num_total,
                          struct sluice_choice *choices, struct sluice_err *err)
{
    const struct sluice_choice_request request = {
        .folder = folder,
        .rates = *rates,
        .use = {.pipeline = pipeline, .num_used = num_samples, .num_total = num_total}};
    return sluice_choice_plan(&request, choices, err);
}

TEST(the_plan_is_the_planners_in_the_plain_forms)
{
    struct sluice_pipeline *pipeline = parse(PIPELINE);
    const char *folder = write_profile(10);
    /* So slow a link that whatever saves is taken. */
    struct sluice_rates rates = {.link_bytes_per_s = 1,
                                 .storage_cores = 4,
                                 .compute_cores = 4,
                                 .gpu_samples_per_s = INFINITY};
    struct sluice_choice choices[10];
    struct sluice_err err = {0};
    CHECK_OK(plan(folder, pipeline, &rates, 10, 10, choices, &err));
    CU_ASSERT_EQUAL(choices[0].split, 0);
    CU_ASSERT_EQUAL(choices[0].form, SLUICE_FORM_RAW);
    for (int i = 1; i < 10; i++) {
        CU_ASSERT_EQUAL(choices[i].split, 2);
        CU_ASSERT_EQUAL(choices[i].form, SLUICE_FORM_U8);
    }
    /* So fast a link that nothing is worth a core. */
    rates.link_bytes_per_s = 1e15;
    CHECK_OK(plan(folder, pipeline, &rates, 10, 10, choices, &err));
    for (int i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(choices[i].split, 0);
    /* The first samples of a larger profile. */
    CHECK_OK(plan(folder, pipeline, &rates, 4, 10, choices, &err));
    sluice_pipeline_destroy(pipeline);
}

TEST(a_profile_of_other_data_or_ops_is_refused)
{
    struct sluice_pipeline *pipeline = parse(PIPELINE);
    struct sluice_pipeline *other = parse("decode,resize=10,center_crop=8,hflip,to_tensor,"
                                          "normalize=imagenet");
    const char *folder = write_profile(7);
    const struct sluice_rates rates = {.link_bytes_per_s = 1e6,
                                       .storage_cores = 4,
                                       .compute_cores = 4,
                                       .gpu_samples_per_s = INFINITY};
    struct sluice_choice choices[8];
    CHECK_FAILS(SLUICE_E_INVALID, "7",
                plan(folder, pipeline, &rates, 8, 8, choices, sluice_test_err()));
    CHECK_SAYS("8");
    CHECK_FAILS(SLUICE_E_INVALID, folder,
                plan(folder, other, &rates, 7, 7, choices, sluice_test_err()));
    CHECK_SAYS(sluice_pipeline_spec(pipeline));
    CHECK_SAYS(sluice_pipeline_spec(other));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "/nonexistent",
                plan("/nonexistent", pipeline, &rates, 7, 7, choices, sluice_test_err()));
    sluice_pipeline_destroy(pipeline);
    sluice_pipeline_destroy(other);
}
