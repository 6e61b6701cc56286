/* Parameters of ops: from text, and back. */

#include "op/op.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *value_of(const struct sluice_op *op, const struct sluice_op_param *param)
{
    return (uint8_t *)op->params + param->offset;
}

static sluice_status parse_number(struct sluice_spec_text *text,
                                  const struct sluice_op_param *param, double *number,
                                  struct sluice_err *err)
{
    const struct sluice_spec_text start = *text;
    const sluice_status status = sluice_spec_number(text, number, err);
    if (status == SLUICE_OK && *number > param->max)
        return sluice_spec_fail(&start, err, "%s is at most %g", param->name, param->max);
    if (status == SLUICE_OK && *number < param->min)
        return sluice_spec_fail(&start, err, "%s is at least %g", param->name, param->min);
    return status;
}

static sluice_status parse_range(struct sluice_spec_text *text, const struct sluice_op_param *param,
                                 struct sluice_range *range, struct sluice_err *err)
{
    double bounds[2];
    for (int i = 0; i < 2; i++) {
        if (i == 1 && !sluice_spec_accept(text, "-"))
            return sluice_spec_fail(text, err, "'-' is wanted between two bounds");
        sluice_status status = sluice_spec_number(text, &bounds[i], err);
        if (status)
            return status;
        if (param->kind == SLUICE_PARAM_RATIOS && sluice_spec_accept(text, "/")) {
            double under;
            status = sluice_spec_number(text, &under, err);
            if (status)
                return status;
            bounds[i] = under > 0 ? bounds[i] / under : 0;
        }
        if (bounds[i] < param->min || bounds[i] > param->max)
            return sluice_spec_fail(text, err, "a bound of %s lies from %g to %g", param->name,
                                    param->min, param->max);
    }
    if (bounds[0] > bounds[1])
        return sluice_spec_fail(text, err, "the lower bound is above the upper one");
    *range = (struct sluice_range){bounds[0], bounds[1]};
    return SLUICE_OK;
}

static sluice_status parse_triple(struct sluice_spec_text *text, double triple[3],
                                  struct sluice_err *err)
{
    for (int c = 0; c < 3; c++) {
        if (c > 0 && !sluice_spec_accept(text, ":"))
            return sluice_spec_fail(text, err, "three numbers R:G:B are wanted here");
        const sluice_status status = sluice_spec_number(text, &triple[c], err);
        if (status)
            return status;
    }
    return SLUICE_OK;
}

static sluice_status parse_scale(struct sluice_spec_text *text, struct sluice_scale *scale,
                                 struct sluice_err *err)
{
    static const struct sluice_scale imagenet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
    static const char *const known[] = {"imagenet", NULL};

    if (strcspn(text->at, ",") == strlen(known[0]) && sluice_spec_accept(text, known[0])) {
        *scale = imagenet;
        return SLUICE_OK;
    }
    if (*text->at < '0' || *text->at > '9') {
        char near[80];
        sluice_spec_suggest(text, known, near, sizeof(near));
        return sluice_spec_fail(text, err, "imagenet or R:G:B/R:G:B is wanted here%s", near);
    }
    const sluice_status status = parse_triple(text, scale->mean, err);
    if (status)
        return status;
    if (!sluice_spec_accept(text, "/"))
        return sluice_spec_fail(text, err, "'/' and three deviations are wanted here");
    return parse_triple(text, scale->std, err);
}

static sluice_status parse_value(const struct sluice_op *op, const struct sluice_op_param *param,
                                 struct sluice_spec_text *text, struct sluice_err *err)
{
    switch (param->kind) {
    case SLUICE_PARAM_SIZE:
        return sluice_spec_size(text, value_of(op, param), err);
    case SLUICE_PARAM_NUMBER:
        return parse_number(text, param, value_of(op, param), err);
    case SLUICE_PARAM_RANGE:
    case SLUICE_PARAM_RATIOS:
        return parse_range(text, param, value_of(op, param), err);
    case SLUICE_PARAM_SCALE:
        return parse_scale(text, value_of(op, param), err);
    }
    assert(!"a kind of parameter");
    return SLUICE_E_INTERNAL;
}

static void set_preset(const struct sluice_op *op, const struct sluice_op_param *param)
{
    assert(param->kind != SLUICE_PARAM_SIZE && param->kind != SLUICE_PARAM_SCALE);
    if (param->kind == SLUICE_PARAM_NUMBER)
        *(double *)value_of(op, param) = param->preset.min;
    else
        *(struct sluice_range *)value_of(op, param) = param->preset;
}

/* The error for an unknown parameter of the op, or one given twice. */
static sluice_status fail_name(const struct sluice_op_type *type,
                               const struct sluice_spec_text *text, struct sluice_err *err)
{
    const char *names[16] = {NULL};
    char list[200] = "", near[80];
    size_t len = 0;
    for (size_t i = 1; type->params[i].name && i < SLUICE_ARRAY_LEN(names); i++) {
        const struct sluice_op_param *param = &type->params[i];
        names[i - 1] = param->name;
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s=%s", i > 1 ? " or " : "",
                                param->name, param->form);
        assert(len < sizeof(list));
    }
    if (!names[0])
        return sluice_spec_fail(text, err, "nothing more belongs here");
    sluice_spec_suggest(text, names, near, sizeof(near));
    return sluice_spec_fail(text, err, "%s, each once, is wanted here%s", list, near);
}

static sluice_status parse_named(const struct sluice_op *op, struct sluice_spec_text *text,
                                 bool *is_given, struct sluice_err *err)
{
    const struct sluice_op_param *params = op->type->params;
    const size_t len = strcspn(text->at, "=:,");
    for (size_t i = 1; params[i].name; i++) {
        if (is_given[i] || strlen(params[i].name) != len || text->at[len] != '=' ||
            memcmp(text->at, params[i].name, len) != 0)
            continue;
        is_given[i] = true;
        text->at += len + 1;
        return parse_value(op, &params[i], text, err);
    }
    return fail_name(op->type, text, err);
}

static sluice_status parse_params(const struct sluice_op *op, struct sluice_spec_text *text,
                                  bool has_value, struct sluice_err *err)
{
    const struct sluice_op_param *params = op->type->params;
    bool is_given[16] = {false};
    for (size_t i = 0; params[i].name; i++) {
        assert(i < SLUICE_ARRAY_LEN(is_given));
        if (params[i].has_preset)
            set_preset(op, &params[i]);
    }
    if (!has_value && !params[0].has_preset)
        return sluice_spec_fail(text, err, "'=%s' is wanted here", params[0].form);
    const struct sluice_spec_text start = *text;
    sluice_status status = has_value ? parse_value(op, &params[0], text, err) : SLUICE_OK;
    while (!status && sluice_spec_accept(text, ":"))
        status = parse_named(op, text, is_given, err);
    for (size_t i = 1; !status && params[i].name; i++) {
        if (!params[i].has_preset && !is_given[i])
            status = sluice_spec_fail(text, err, "':%s=%s' is wanted here", params[i].name,
                                      params[i].form);
    }
    const char *why = !status && op->type->prepare ? op->type->prepare(op->params) : NULL;
    return why ? sluice_spec_fail(&start, err, "%s", why) : status;
}

sluice_status sluice_op_parse(struct sluice_op *op, struct sluice_spec_text *text,
                              struct sluice_err *err)
{
    const bool has_value = sluice_spec_accept(text, "=");
    if (!op->type->params)
        return has_value ? sluice_spec_fail(text, err, "%s takes no value", op->type->name)
                         : SLUICE_OK;
    op->params = calloc(1, op->type->params_size);
    if (!op->params)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the parameters of %s",
                           op->type->name);
    const sluice_status status = parse_params(op, text, has_value, err);
    if (status)
        sluice_op_clear(op);
    return status;
}

void sluice_op_clear(struct sluice_op *op)
{
    free(op->params);
    op->params = NULL;
}

static void print_value(const struct sluice_op *op, const struct sluice_op_param *param, char *text,
                        size_t room)
{
    char numbers[6][32];
    const void *value = value_of(op, param);
    switch (param->kind) {
    case SLUICE_PARAM_SIZE:
        snprintf(text, room, "%u", *(const uint32_t *)value);
        break;
    case SLUICE_PARAM_NUMBER:
        sluice_print_number(*(const double *)value, text, room);
        break;
    case SLUICE_PARAM_RANGE:
    case SLUICE_PARAM_RATIOS:
        sluice_print_number(((const struct sluice_range *)value)->min, numbers[0], 32);
        sluice_print_number(((const struct sluice_range *)value)->max, numbers[1], 32);
        snprintf(text, room, "%s-%s", numbers[0], numbers[1]);
        break;
    case SLUICE_PARAM_SCALE:
        for (int c = 0; c < 3; c++) {
            sluice_print_number(((const struct sluice_scale *)value)->mean[c], numbers[c], 32);
            sluice_print_number(((const struct sluice_scale *)value)->std[c], numbers[3 + c], 32);
        }
        snprintf(text, room, "%s:%s:%s/%s:%s:%s", numbers[0], numbers[1], numbers[2], numbers[3],
                 numbers[4], numbers[5]);
        break;
    }
}

void sluice_op_print(const struct sluice_op *op, char *text, size_t room)
{
    const struct sluice_op_param *params = op->type->params;
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; params && params[i].name; i++) {
        char value[200];
        print_value(op, &params[i], value, sizeof(value));
        len += (size_t)(i == 0 ? snprintf(text, room, "=%s", value)
                               : snprintf(text + len, room - len, ":%s=%s", params[i].name, value));
        assert(len < room);
    }
}

void sluice_op_print_example(const struct sluice_op_type *type, char *text, size_t room)
{
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; type->params && type->params[i].name; i++) {
        const struct sluice_op_param *param = &type->params[i];
        if (param->example)
            len += (size_t)snprintf(text + len, room - len, "%s%s=%s", i > 0 ? ":" : "",
                                    i > 0 ? param->name : "", param->example);
        assert(len < room);
    }
}
