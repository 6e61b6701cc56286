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

static sluice_status read_file(const char *path, json_t **json, struct sluice_err *err)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    json_error_t error;
    *json = SLUICE_IN_C_LOCALE(json_loadf(in, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error));
    fclose(in);
    if (*json)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s: line %d, column %d: %s", path, error.line,
                       error.column, error.text);
}

static sluice_status parse_file(const char *path, bool is_val, struct sluice_pipeline **pipeline,
                                struct sluice_err *err)
{
    json_t *json = NULL;
    sluice_status status = read_file(path, &json, err);
    if (status == SLUICE_OK)
        status = parse_json(json, path, is_val, pipeline, err);
    json_decref(json);
    return status;
}

static bool read_number(const json_t *json, double *to)
{
    *to = json_number_value(json);
    return json_is_number(json);
}

static bool read_range(const json_t *json, double *min, double *max)
{
    return json_array_size(json) == 2 && read_number(json_array_get(json, 0), min) &&
           read_number(json_array_get(json, 1), max);
}

/* A number, a list of one or three, "channel" or "pixel". */
static bool read_fill(const json_t *json, struct sluice_batch_ops *ops)
{
    if (json_is_string(json)) {
        const char *word = json_string_value(json);
        const bool is_pixel = strcmp(word, "pixel") == 0;
        ops->fill = is_pixel ? SLUICE_FILL_PIXEL : SLUICE_FILL_CHANNEL;
        return is_pixel || strcmp(word, "channel") == 0;
    }
    const size_t num = json_array_size(json);
    if (json_is_array(json) && num != 1 && num != 3)
        return false;
    ops->fill = SLUICE_FILL_VALUES;
    bool is_read = true;
    for (size_t i = 0; i < 3; i++) {
        double value;
        const json_t *of = json_is_array(json) ? json_array_get(json, num == 3 ? i : 0) : json;
        is_read = is_read && read_number(of, &value);
        ops->fill_values[i] = is_read ? (float)value : 0;
    }
    return is_read;
}

static bool read_pairing(const json_t *json, bool *is_rolled)
{
    const char *word = json_string_value(json);
    *is_rolled = word && strcmp(word, "torchvision") == 0;
    return word && (*is_rolled || strcmp(word, "timm") == 0);
}

/* Whether the value has the key's type; *is_known: the key is known. */
static bool read_mix(const char *key, const json_t *json, struct sluice_batch_ops *ops,
                     bool *is_known)
{
    *is_known = true;
    if (strcmp(key, "mixup") == 0)
        return read_number(json, &ops->mix.mixup_alpha);
    if (strcmp(key, "cutmix") == 0)
        return read_number(json, &ops->mix.cutmix_alpha);
    if (strcmp(key, "p") == 0)
        return read_number(json, &ops->mix.p);
    if (strcmp(key, "switch_p") == 0)
        return read_number(json, &ops->mix.cutmix_p);
    if (strcmp(key, "label_smoothing") == 0)
        return read_number(json, &ops->label_smoothing);
    if (strcmp(key, "pairing") == 0)
        return read_pairing(json, &ops->is_rolled);
    *is_known = false;
    return false;
}

static bool read_erasing(const char *key, const json_t *json, struct sluice_batch_ops *ops,
                         bool *is_known)
{
    struct sluice_erasing_params *erasing = &ops->erasing;
    *is_known = true;
    if (strcmp(key, "p") == 0)
        return read_number(json, &erasing->p);
    if (strcmp(key, "scale") == 0)
        return read_range(json, &erasing->min_scale, &erasing->max_scale);
    if (strcmp(key, "ratio") == 0)
        return read_range(json, &erasing->min_ratio, &erasing->max_ratio);
    if (strcmp(key, "fill") == 0)
        return read_fill(json, ops);
    *is_known = false;
    return false;
}

static sluice_status read_batch_ops(const json_t *json, const char *path, const char *name,
                                    struct sluice_batch_ops *ops, struct sluice_err *err)
{
    const bool is_mix = strcmp(name, "mix") == 0;
    json_t *of = json_object_get(json, name), *value;
    if (!of || json_is_null(of))
        return SLUICE_OK;
    if (!json_is_object(of))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: \"%s\" is to be an object", path, name);
    if (!is_mix)
        ops->erasing.p = 0.5; /* RandomErasing's default */
    const char *key;
    json_object_foreach(of, key, value)
    {
        bool is_known;
        if (!(is_mix ? read_mix : read_erasing)(key, value, ops, &is_known))
            return sluice_fail(err, SLUICE_E_INVALID, "%s: \"%s\": %s \"%s\" %s", path, name,
                               is_known ? "the value of" : "no", key,
                               is_known ? "is of another type than docs/RECIPES.md says"
                                        : "is known here");
    }
    return SLUICE_OK;
}

sluice_status sluice_recipe_batch_ops(const char *text, struct sluice_batch_ops *ops,
                                      struct sluice_err *err)
{
    if (!sluice_is_recipe(text))
        return SLUICE_OK;
    const char *path = text + 1;
    struct sluice_batch_ops read = *ops;
    struct sluice_err why = {0};
    json_t *json = NULL;
    sluice_status status = read_file(path, &json, err);
    if (status == SLUICE_OK)
        status = read_batch_ops(json, path, "mix", &read, err);
    if (status == SLUICE_OK)
        status = read_batch_ops(json, path, "erasing", &read, err);
    json_decref(json);
    if (status != SLUICE_OK)
        return status;
    status = sluice_batch_ops_check(&read, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", path, why.text);
    *ops = read;
    return SLUICE_OK;
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

/* The text of fit_bucket, which the caller frees. */
static char *bucket_op(const char *buckets)
{
    char *text = NULL;
    if (asprintf(&text, "fit_bucket=%s", buckets) < 0)
        return NULL;
    for (char *at = text; (at = strchr(at, ',')) != NULL;)
        *at = '/';
    return text;
}

sluice_status sluice_recipe_check_buckets(const char *buckets, struct sluice_err *err)
{
    struct sluice_pipeline *pipeline = NULL;
    sluice_status status = sluice_pipeline_parse("decode", &pipeline, err);
    if (status == SLUICE_OK)
        status = sluice_recipe_add_buckets(buckets, &pipeline, err);
    sluice_pipeline_destroy(pipeline);
    return status;
}

sluice_status sluice_recipe_add_buckets(const char *buckets, struct sluice_pipeline **pipeline,
                                        struct sluice_err *err)
{
    const char *spec = sluice_pipeline_spec(*pipeline), *fit = strstr(spec, ",fit_bucket=");
    const char *after = spec + strcspn(spec, ",");
    struct sluice_pipeline *made = NULL;
    char *text = NULL, *op = bucket_op(buckets);
    if (fit) {
        free(op);
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the pipeline has fit_bucket already: give its buckets there or here");
    }
    if (sluice_pipeline_is_upright(*pipeline))
        after += 1 + strcspn(after + 1, ",");
    if (!op || asprintf(&text, "%.*s,%s%s", (int)(after - spec), spec, op, after) < 0) {
        free(op);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a pipeline");
    }
    free(op);
    sluice_status status = sluice_pipeline_parse(text, &made, err);
    free(text);
    if (status == SLUICE_OK && sluice_pipeline_num_buckets(made) == 0)
        status =
            sluice_fail(err, SLUICE_E_INVALID,
                        "\"%s\" gives all images one size: two buckets are the least, and no op "
                        "after them may end in one size",
                        sluice_pipeline_spec(made));
    if (status != SLUICE_OK) {
        sluice_pipeline_destroy(made);
        return status;
    }
    sluice_pipeline_destroy(*pipeline);
    *pipeline = made;
    return SLUICE_OK;
}
