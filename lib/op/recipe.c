#include "op/recipe.h"

#include "base/c_locale.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sluice_is_recipe(const char *text)
{
    return text[0] == '@';
}

/* The ops of a text or of a list of texts, with commas between; NULL: it is neither, or memory is
 * short. */
static char *join(const json_t *ops)
{
    if (json_is_string(ops))
        return strdup(json_string_value(ops));
    if (!json_is_array(ops))
        return NULL;
    char *text = NULL;
    size_t len, index;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return NULL;
    const json_t *op;
    bool is_valid = true;
    json_array_foreach(ops, index, op)
    {
        is_valid = is_valid && json_is_string(op);
        fprintf(out, "%s%s", index ? "," : "", is_valid ? json_string_value(op) : "");
    }
    if (fclose(out) == 0 && is_valid)
        return text;
    free(text);
    return NULL;
}

static sluice_status parse_json(const json_t *json, const char *path, bool is_val,
                                struct sluice_pipeline **pipeline, struct sluice_err *err)
{
    const char *part = is_val ? "val" : "train";
    const json_t *ops = json_is_object(json) ? json_object_get(json, part) : json;
    if (!ops)
        return sluice_fail(err, is_val ? SLUICE_E_NOT_FOUND : SLUICE_E_INVALID,
                           "%s: it has no \"%s\"", path, part);
    char *text = join(ops);
    if (!text)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: \"%s\" is to be a pipeline's text, or a list of ops in text", path,
                           part);
    struct sluice_err why = {0};
    const sluice_status status = sluice_pipeline_parse(text, pipeline, &why);
    if (status != SLUICE_OK)
        (void)!sluice_fail(err, status, "%s: \"%s\": %s", path, part, why.text);
    free(text);
    return status;
}

static sluice_status parse_file(const char *path, bool is_val, struct sluice_pipeline **pipeline,
                                struct sluice_err *err)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    json_error_t error;
    json_t *json =
        SLUICE_IN_C_LOCALE(json_loadf(in, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error));
    fclose(in);
    if (!json)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: line %d, column %d: %s", path, error.line,
                           error.column, error.text);
    const sluice_status status = parse_json(json, path, is_val, pipeline, err);
    json_decref(json);
    return status;
}

sluice_status sluice_recipe_parse(const char *text, bool is_val, struct sluice_pipeline **pipeline,
                                  struct sluice_err *err)
{
    return sluice_is_recipe(text) ? parse_file(text + 1, is_val, pipeline, err)
                                  : sluice_pipeline_parse(text, pipeline, err);
}

static sluice_status check(const char *text, bool is_val, struct sluice_err *err)
{
    if (!sluice_is_recipe(text))
        return sluice_pipeline_check(text, err);
    struct sluice_pipeline *pipeline = NULL;
    const sluice_status status = parse_file(text + 1, is_val, &pipeline, err);
    sluice_pipeline_destroy(pipeline);
    return status;
}

sluice_status sluice_recipe_check(const char *text, struct sluice_err *err)
{
    return check(text, false, err);
}

sluice_status sluice_recipe_check_val(const char *text, struct sluice_err *err)
{
    return check(text, true, err);
}
