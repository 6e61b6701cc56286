#include "op/recipe.h"

#include "support/test.h"

#include <unistd.h>

static char path[] = "/tmp/sluice-recipe-XXXXXX";

static sluice_status parse(const char *json, bool is_val, struct sluice_pipeline **pipeline,
                           struct sluice_err *err)
{
    FILE *out = fopen(path, "we");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    fputs(json, out);
    fclose(out);
    char text[64];
    snprintf(text, sizeof(text), "@%s", path);
    *pipeline = NULL;
    return sluice_recipe_parse(text, is_val, pipeline, err);
}

static void check(const char *json, bool is_val, const char *want)
{
    struct sluice_pipeline *pipeline;
    struct sluice_err err = {0};
    REQUIRE_OK(parse(json, is_val, &pipeline, &err));
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline), want);
    sluice_pipeline_destroy(pipeline);
}

static void check_fails(const char *json, bool is_val, sluice_status want, const char *words)
{
    struct sluice_pipeline *pipeline;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(parse(json, is_val, &pipeline, &err), want);
    CU_ASSERT_PTR_NULL(pipeline);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, words));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
}

TEST(a_recipe_has_both_pipelines)
{
    const char *both = "{\"train\": [\"decode\", \"one_of(invert,equalize)\"],"
                       " \"val\": \"decode,center_crop=9\", \"mix\": {\"mixup\": 0.2}}";
    check(both, false, "decode,one_of(invert,equalize)");
    check(both, true, "decode,center_crop=9");
    check("[\"decode\", \"invert\"]", false, "decode,invert");
    check("\"decode,invert\"", true, "decode,invert");
}

TEST(errors_name_the_file)
{
    check_fails("{\"train\": \"decode\"}", true, SLUICE_E_NOT_FOUND, "it has no \"val\"");
    check_fails("{\"val\": \"decode\"}", false, SLUICE_E_INVALID, "it has no \"train\"");
    check_fails("{\"train\": [\"decode\", 5]}", false, SLUICE_E_INVALID, "list of ops in text");
    check_fails("{\"train\": {}}", false, SLUICE_E_INVALID, "list of ops in text");
    check_fails("{\"train\": \"decode,mosaic\"}", false, SLUICE_E_INVALID, "mosaic");
    check_fails("{\"train\": \"decode\", \"train\": \"decode\"}", false, SLUICE_E_INVALID,
                "duplicate");
    check_fails("{\"train\": [\"decode\",}", false, SLUICE_E_INVALID, "line 1");
    check_fails("", false, SLUICE_E_INVALID, "line 1");
    check_fails("{\"train\": \"decode\\u0000\"}", false, SLUICE_E_INVALID, "line 1");
}

static sluice_status batch_ops(const char *json, struct sluice_batch_ops *ops,
                               struct sluice_err *err)
{
    struct sluice_pipeline *pipeline;
    (void)parse(json, false, &pipeline, NULL);
    sluice_pipeline_destroy(pipeline);
    char text[64];
    snprintf(text, sizeof(text), "@%s", path);
    return sluice_recipe_batch_ops(text, ops, err);
}

TEST(a_recipe_says_what_is_done_to_batches)
{
    struct sluice_batch_ops ops = sluice_batch_ops_none();
    CHECK_OK(
        batch_ops("{\"train\": \"decode\", \"mix\": {\"mixup\": 1, \"cutmix\": 0.25, \"p\": 0.5, "
                  "\"switch_p\": 0.75, \"label_smoothing\": 0.1, \"pairing\": \"torchvision\"}, "
                  "\"erasing\": {\"p\": 0.25, \"scale\": [0.1, 0.2], \"ratio\": [0.5, 2], "
                  "\"fill\": [1, 2, 3]}}",
                  &ops, NULL));
    CU_ASSERT(ops.mix.mixup_alpha == 1 && ops.mix.cutmix_alpha == 0.25 && ops.mix.p == 0.5);
    CU_ASSERT(ops.mix.cutmix_p == 0.75 && ops.label_smoothing == 0.1 && ops.is_rolled);
    CU_ASSERT(ops.erasing.p == 0.25 && ops.erasing.min_scale == 0.1 &&
              ops.erasing.max_scale == 0.2 && ops.erasing.min_ratio == 0.5 &&
              ops.erasing.max_ratio == 2);
    CU_ASSERT(ops.fill == SLUICE_FILL_VALUES && ops.fill_values[0] == 1 && ops.fill_values[2] == 3);

    ops = sluice_batch_ops_none();
    CHECK_OK(batch_ops("{\"train\": \"decode\", \"mix\": null, "
                       "\"erasing\": {\"fill\": \"pixel\"}}",
                       &ops, NULL));
    CU_ASSERT(ops.erasing.p == 0.5 && ops.fill == SLUICE_FILL_PIXEL);
    CU_ASSERT(ops.mix.p == 1 && ops.erasing.max_scale == 1.0 / 3);

    ops = sluice_batch_ops_none();
    CHECK_OK(batch_ops("[\"decode\"]", &ops, NULL));
    CHECK_OK(sluice_recipe_batch_ops("decode", &ops, NULL));
    CU_ASSERT(!sluice_has_batch_ops(&ops));
}

TEST(wrong_batch_ops_are_named)
{
    static const char *const wrong[][2] = {
        {"\"mix\": 5", "\"mix\" is to be an object"},
        {"\"mix\": {\"alpha\": 1}", "\"mix\": no \"alpha\" is known"},
        {"\"mix\": {\"mixup\": \"1\"}", "\"mix\": the value of \"mixup\""},
        {"\"mix\": {\"mixup\": -1}", "alphas are from 0 to 1000"},
        {"\"mix\": {\"label_smoothing\": 1}", "label_smoothing is from 0 to below 1"},
        {"\"mix\": {\"pairing\": \"random\"}", "\"pairing\""},
        {"\"erasing\": {\"count\": 2}", "\"erasing\": no \"count\" is known"},
        {"\"erasing\": {\"scale\": [1]}", "\"scale\""},
        {"\"erasing\": {\"scale\": [0.2, 0.1]}", "p and scale are from 0 to 1"},
        {"\"erasing\": {\"ratio\": [0, 1]}", "ratio from 0.001"},
        {"\"erasing\": {\"fill\": \"noise\"}", "\"fill\""},
        {"\"erasing\": {\"fill\": [1, 2]}", "\"fill\""},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_batch_ops ops = sluice_batch_ops_none();
        struct sluice_err err = {0};
        char json[128];
        snprintf(json, sizeof(json), "{\"train\": \"decode\", %s}", wrong[i][0]);
        CU_ASSERT_EQUAL(batch_ops(json, &ops, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, wrong[i][1]));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
        CU_ASSERT(!sluice_has_batch_ops(&ops));
    }
}

TEST(a_file_must_be_there)
{
    struct sluice_pipeline *pipeline = NULL;
    CHECK_FAILS(SLUICE_E_IO, "/no/such.json: No such file",
                sluice_recipe_parse("@/no/such.json", false, &pipeline, sluice_test_err()));
    CHECK_OK(sluice_recipe_check("decode,invert", NULL));
    CU_ASSERT_EQUAL(sluice_recipe_check_val("@/no/such.json", NULL), SLUICE_E_IO);
    CU_ASSERT_EQUAL(sluice_pipeline_parse("@/no/such.json", &pipeline, NULL), SLUICE_E_INVALID);
}

int main(void)
{
    close(mkstemp(path));
    const int rc = sluice_test_main();
    unlink(path);
    return rc;
}

TEST(buckets_go_right_after_decode)
{
    static const char *const cases[][3] = {
        {"decode,hflip", "20x30,30x20", "decode,fit_bucket=20x30/30x20,hflip=0.5"},
        {"decode", "20x30,30x20:crop=random", "decode,fit_bucket=20x30/30x20:crop=random"},
        {"decode=pillow13,exif_transpose,to_tensor", "20x30/30x20",
         "decode=pillow13,exif_transpose,fit_bucket=20x30/30x20,to_tensor"},
        {"decode,exif_transpose", "8x9,9x8", "decode,exif_transpose,fit_bucket=8x9/9x8"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL;
        REQUIRE_OK(sluice_pipeline_parse(cases[i][0], &pipeline, NULL));
        REQUIRE_OK(sluice_recipe_add_buckets(cases[i][1], &pipeline, NULL));
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline), cases[i][2]);
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(buckets_that_do_not_fit_the_pipeline_are_refused)
{
    static const char *const cases[][3] = {
        {"decode,fit_bucket=8x8/9x8", "20x30,30x20", "has fit_bucket already"},
        {"decode,center_crop=8", "20x30,30x20", "gives all images one size"},
        {"decode", "20x30", "gives all images one size"},
        {"decode", "20,30", "HEIGHTxWIDTH is wanted here"},
        {"decode", "20x30,30x20,hflip", "a size from 1 to 8192 is wanted here"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_pipeline_parse(cases[i][0], &pipeline, NULL));
        const uint64_t before = sluice_pipeline_fingerprint(pipeline);
        CU_ASSERT_EQUAL(sluice_recipe_add_buckets(cases[i][1], &pipeline, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i][2]));
        CU_ASSERT_EQUAL(sluice_pipeline_fingerprint(pipeline), before);
        sluice_pipeline_destroy(pipeline);
    }
    CU_ASSERT_EQUAL(sluice_recipe_check_buckets("9x9,8x8:filter=bicubic", NULL), SLUICE_OK);
    CU_ASSERT_EQUAL(sluice_recipe_check_buckets("9x9,9x9", NULL), SLUICE_E_INVALID);
}
