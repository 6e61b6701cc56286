#include "op/recipe.h"

#include "support/test.h"

#include <stdio.h>
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
    CU_ASSERT_EQUAL_FATAL(parse(json, is_val, &pipeline, &err), SLUICE_OK);
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

TEST(a_file_must_be_there)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_recipe_parse("@/no/such.json", false, &pipeline, &err), SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/no/such.json: No such file"));
    CU_ASSERT_EQUAL(sluice_recipe_check("decode,invert", NULL), SLUICE_OK);
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
