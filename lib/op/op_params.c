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

static sluice_status parse_signed(struct sluice_spec_text *text,
                                  const struct sluice_op_param *param, double *number,
                                  struct sluice_err *err)
{
    const struct sluice_spec_text start = *text;
    const bool is_negative = param->min < 0 && sluice_spec_accept(text, "-");
    const sluice_status status = sluice_spec_number(text, number, err);
    if (status != SLUICE_OK)
        return status;
    if (is_negative)
        *number = -*number;
    return *number >= param->min && *number <= param->max
               ? SLUICE_OK
               : sluice_spec_fail(&start, err, "%s lies from %g to %g", param->name, param->min,
                                  param->max);
}

/* "normal(MEAN,DEVIATION,A,B)". */
static sluice_status parse_normal(struct sluice_spec_text *text,
                                  const struct sluice_op_param *param, struct sluice_number *number,
                                  struct sluice_err *err)
{
    double *const values[] = {&number->mean, &number->deviation, &number->min, &number->max};
    const struct sluice_spec_text start = *text;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(values); i++) {
        if (i > 0 && !sluice_spec_accept(text, ","))
            return sluice_spec_fail(text, err, "normal(MEAN,DEVIATION,A,B) is wanted here");
        const sluice_status status = parse_signed(text, param, values[i], err);
        if (status != SLUICE_OK)
            return status;
    }
    if (!sluice_spec_accept(text, ")"))
        return sluice_spec_fail(text, err, "')' is wanted here");
    if (number->min > number->max || number->deviation <= 0)
        return sluice_spec_fail(&start, err, "the deviation is above 0, and A is at most B");
    return SLUICE_OK;
}

/* "A", "A-B", "A-B/N" or a normal. */
static sluice_status parse_span(struct sluice_spec_text *text, const struct sluice_op_param *param,
                                struct sluice_number *number, struct sluice_err *err)
{
    if (sluice_spec_accept(text, "normal("))
        return parse_normal(text, param, number, err);
    const struct sluice_spec_text start = *text;
    sluice_status status = parse_signed(text, param, &number->min, err);
    number->max = number->min;
    if (status != SLUICE_OK || !sluice_spec_accept(text, "-"))
        return status;
    status = parse_signed(text, param, &number->max, err);
    if (status == SLUICE_OK && number->min > number->max)
        return sluice_spec_fail(&start, err, "the lower bound is above the upper one");
    if (status == SLUICE_OK && sluice_spec_accept(text, "/"))
        status = sluice_spec_size(text, &number->steps, err);
    return status == SLUICE_OK && number->steps == 1
               ? sluice_spec_fail(text, err, "at least 2 numbers are wanted here")
               : status;
}

/* A span, or "C~" and a span. */
static sluice_status parse_drawn(struct sluice_spec_text *text, const struct sluice_op_param *param,
                                 struct sluice_number *number, struct sluice_err *err)
{
    const struct sluice_spec_text start = *text;
    *number = (struct sluice_number){.has_sign = sluice_spec_accept(text, "~")};
    sluice_status status = parse_span(text, param, number, err);
    if (status == SLUICE_OK && !number->has_sign && number->min == number->max &&
        sluice_spec_accept(text, "~")) {
        *number = (struct sluice_number){.about = number->min, .has_sign = true};
        status = parse_span(text, param, number, err);
    }
    if (status == SLUICE_OK && number->has_sign &&
        (number->min < 0 || number->about - number->max < param->min ||
         number->about + number->max > param->max))
        return sluice_spec_fail(&start, err, "%s lies from %g to %g", param->name, param->min,
                                param->max);
    return status;
}

static sluice_status parse_epoch(struct sluice_spec_text *text, uint32_t *epoch,
                                 struct sluice_err *err)
{
    const struct sluice_spec_text start = *text;
    double number;
    const sluice_status status = sluice_spec_number(text, &number, err);
    if (status == SLUICE_OK && number != (uint32_t)number)
        return sluice_spec_fail(&start, err, "an epoch is a whole number");
    *epoch = (uint32_t)number;
    return status;
}

/* "epoch>=N", "epoch<N" or "A<=epoch<B". */
static sluice_status parse_epochs(struct sluice_spec_text *text,
                                  const struct sluice_op_param *param, struct sluice_epochs *epochs,
                                  struct sluice_err *err)
{
    const struct sluice_spec_text start = *text;
    sluice_status status = SLUICE_OK;
    *epochs = (struct sluice_epochs){.end = UINT32_MAX};
    if (sluice_spec_accept(text, "epoch>="))
        return parse_epoch(text, &epochs->from, err);
    if (*text->at >= '0' && *text->at <= '9') {
        status = parse_epoch(text, &epochs->from, err);
        if (status == SLUICE_OK && !sluice_spec_accept(text, "<="))
            status = sluice_spec_fail(text, err, "%s is wanted here", param->form);
    }
    if (status == SLUICE_OK && !sluice_spec_accept(text, "epoch<"))
        status = sluice_spec_fail(text, err, "%s is wanted here", param->form);
    if (status == SLUICE_OK)
        status = parse_epoch(text, &epochs->end, err);
    if (status == SLUICE_OK && epochs->from >= epochs->end)
        status = sluice_spec_fail(&start, err, "no epoch is in this range");
    return status;
}

static sluice_status parse_word(struct sluice_spec_text *text, const struct sluice_op_param *param,
                                uint32_t *word, struct sluice_err *err)
{
    const size_t len = strcspn(text->at, ":,)");
    for (uint32_t i = 0; param->words[i]; i++) {
        if (strlen(param->words[i]) == len && memcmp(text->at, param->words[i], len) == 0) {
            *word = i;
            text->at += len;
            return SLUICE_OK;
        }
    }
    char near[80];
    sluice_spec_suggest(text, param->words, near, sizeof(near));
    return sluice_spec_fail(text, err, "%s is wanted here%s", param->form, near);
}

static sluice_status parse_color(struct sluice_spec_text *text, const struct sluice_op_param *param,
                                 uint8_t color[3], struct sluice_err *err)
{
    double values[3];
    for (int c = 0; c < 3; c++) {
        if (c == 1 && *text->at != '/') {
            values[1] = values[2] = values[0];
            break;
        }
        if (c > 0 && !sluice_spec_accept(text, "/"))
            return sluice_spec_fail(text, err, "R/G/B is wanted here");
        const struct sluice_spec_text start = *text;
        const sluice_status status = sluice_spec_number(text, &values[c], err);
        if (status != SLUICE_OK)
            return status;
        if (values[c] > 255 || values[c] != (uint8_t)values[c])
            return sluice_spec_fail(&start, err, "%s has whole numbers from 0 to 255", param->name);
    }
    for (int c = 0; c < 3; c++)
        color[c] = (uint8_t)values[c];
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
    case SLUICE_PARAM_DRAWN:
        return parse_drawn(text, param, value_of(op, param), err);
    case SLUICE_PARAM_WORD:
        return parse_word(text, param, value_of(op, param), err);
    case SLUICE_PARAM_EPOCHS:
        return parse_epochs(text, param, value_of(op, param), err);
    case SLUICE_PARAM_COLOR:
        return parse_color(text, param, value_of(op, param), err);
    }
    assert(!"a kind of parameter");
    return SLUICE_E_INTERNAL;
}

static void set_preset(const struct sluice_op *op, const struct sluice_op_param *param)
{
    void *value = value_of(op, param);
    switch (param->kind) {
    case SLUICE_PARAM_NUMBER:
        *(double *)value = param->preset.min;
        break;
    case SLUICE_PARAM_RANGE:
    case SLUICE_PARAM_RATIOS:
        *(struct sluice_range *)value = param->preset;
        break;
    case SLUICE_PARAM_DRAWN:
        *(struct sluice_number *)value =
            (struct sluice_number){.min = param->preset.min, .max = param->preset.max};
        break;
    case SLUICE_PARAM_WORD:
    case SLUICE_PARAM_SIZE:
        *(uint32_t *)value = (uint32_t)param->preset.min;
        break;
    case SLUICE_PARAM_COLOR:
        memset(value, (int)param->preset.min, 3);
        break;
    case SLUICE_PARAM_SCALE:
    case SLUICE_PARAM_EPOCHS:
        assert(!"a preset of a scale or of epochs");
    }
}

/* The error for an unknown parameter of the op, or one given twice. */
static sluice_status fail_name(const struct sluice_op_type *type,
                               const struct sluice_spec_text *text, struct sluice_err *err)
{
    const char *names[16] = {NULL};
    char list[400] = "", near[80];
    size_t len = 0;
    for (size_t i = 1; type->params && type->params[i].name && i < SLUICE_ARRAY_LEN(names); i++) {
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

/* Any op that may stand in parentheses takes these. */
static const struct sluice_op_param modifiers[] = {
    {.name = "p", .kind = SLUICE_PARAM_NUMBER, .form = "P", .max = 1},
    {.name = "weight", .kind = SLUICE_PARAM_NUMBER, .form = "W", .min = 0.0001, .max = 1e6},
};

/* True: it was one, with this status. */
static bool parse_modifier(struct sluice_op *op, struct sluice_spec_text *text,
                           sluice_status *status, struct sluice_err *err)
{
    double *const values[] = {&op->p, &op->weight};
    for (size_t i = 0; sluice_op_kind_has_p(op->type->kind) && i < SLUICE_ARRAY_LEN(modifiers);
         i++) {
        const size_t len = strlen(modifiers[i].name);
        if (strncmp(text->at, modifiers[i].name, len) != 0 || text->at[len] != '=')
            continue;
        text->at += len + 1;
        *status = parse_number(text, &modifiers[i], values[i], err);
        return true;
    }
    return false;
}

static sluice_status parse_named(struct sluice_op *op, struct sluice_spec_text *text,
                                 bool *is_given, struct sluice_err *err)
{
    const struct sluice_op_param *params = op->type->params;
    const size_t len = strcspn(text->at, "=:,()");
    sluice_status status;
    for (size_t i = 0; params && params[i].name; i++) {
        if (is_given[i] || strlen(params[i].name) != len || text->at[len] != '=' ||
            memcmp(text->at, params[i].name, len) != 0)
            continue;
        is_given[i] = true;
        text->at += len + 1;
        return parse_value(op, &params[i], text, err);
    }
    return parse_modifier(op, text, &status, err) ? status : fail_name(op->type, text, err);
}

static sluice_status parse_params(struct sluice_op *op, struct sluice_spec_text *text,
                                  bool has_value, struct sluice_err *err)
{
    const struct sluice_op_param *params = op->type->params;
    bool is_given[16] = {false};
    for (size_t i = 0; params && params[i].name; i++) {
        assert(i < SLUICE_ARRAY_LEN(is_given));
        if (params[i].has_preset)
            set_preset(op, &params[i]);
    }
    if (params && !has_value && !params[0].has_preset)
        return sluice_spec_fail(text, err, "'=%s' is wanted here", params[0].form);
    const struct sluice_spec_text start = *text;
    is_given[0] = has_value || !sluice_op_kind_has_p(op->type->kind);
    sluice_status status = has_value ? parse_value(op, &params[0], text, err) : SLUICE_OK;
    while (!status && sluice_spec_accept(text, ":"))
        status = parse_named(op, text, is_given, err);
    for (size_t i = 1; params && !status && params[i].name; i++) {
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
    const bool is_choice = op->type->kind == SLUICE_OP_CHOICE && !op->type->expand;
    if (is_choice && !sluice_spec_accept(text, "("))
        return sluice_spec_fail(text, err, "'(' and ops are wanted here");
    const bool has_value = is_choice ? op->type->params != NULL : sluice_spec_accept(text, "=");
    op->p = op->weight = 1;
    if (!op->type->params && (has_value || !sluice_op_kind_has_p(op->type->kind)))
        return has_value ? sluice_spec_fail(text, err, "%s takes no value", op->type->name)
                         : SLUICE_OK;
    if (is_choice && !op->type->params)
        return SLUICE_OK;
    op->params = op->type->params ? calloc(1, op->type->params_size) : NULL;
    if (op->type->params && !op->params)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the parameters of %s",
                           op->type->name);
    sluice_status status = parse_params(op, text, has_value, err);
    if (status == SLUICE_OK && is_choice && !sluice_spec_accept(text, ","))
        status = sluice_spec_fail(text, err, "',' and ops are wanted here");
    if (status)
        sluice_op_clear(op);
    return status;
}

sluice_status sluice_op_parse_modifiers(struct sluice_op *op, struct sluice_spec_text *text,
                                        struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK && sluice_spec_accept(text, ":")) {
        if (!parse_modifier(op, text, &status, err))
            status = sluice_spec_fail(text, err, "p=P or weight=W is wanted here");
    }
    return status;
}

void sluice_op_clear(struct sluice_op *op)
{
    for (unsigned i = 0; i < op->num_children; i++)
        sluice_op_clear(&op->children[i]);
    free(op->children);
    op->children = NULL;
    op->num_children = 0;
    free(op->params);
    op->params = NULL;
}

static void print_drawn(const struct sluice_number *number, char *text, size_t room)
{
    char about[32] = "", min[32], max[32] = "", steps[16] = "";
    if (number->about != 0)
        sluice_print_number(number->about, about, sizeof(about));
    sluice_print_number(number->min, min, sizeof(min));
    if (number->min < number->max)
        sluice_print_number(number->max, max, sizeof(max));
    if (number->steps)
        snprintf(steps, sizeof(steps), "/%u", number->steps);
    if (number->deviation > 0) {
        char mean[32], deviation[32];
        sluice_print_number(number->mean, mean, sizeof(mean));
        sluice_print_number(number->deviation, deviation, sizeof(deviation));
        sluice_print_number(number->max, max, sizeof(max));
        snprintf(text, room, "%s%snormal(%s,%s,%s,%s)", about, number->has_sign ? "~" : "", mean,
                 deviation, min, max);
        return;
    }
    snprintf(text, room, "%s%s%s%s%s%s", about, number->has_sign ? "~" : "", min, max[0] ? "-" : "",
             max, steps);
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
    case SLUICE_PARAM_DRAWN:
        print_drawn(value, text, room);
        break;
    case SLUICE_PARAM_EPOCHS: {
        const struct sluice_epochs *epochs = value;
        if (epochs->end == UINT32_MAX)
            snprintf(text, room, "epoch>=%u", epochs->from);
        else if (epochs->from == 0)
            snprintf(text, room, "epoch<%u", epochs->end);
        else
            snprintf(text, room, "%u<=epoch<%u", epochs->from, epochs->end);
        break;
    }
    case SLUICE_PARAM_WORD:
        snprintf(text, room, "%s", param->words[*(const uint32_t *)value]);
        break;
    case SLUICE_PARAM_COLOR: {
        const uint8_t *color = value;
        if (color[0] == color[1] && color[0] == color[2])
            snprintf(text, room, "%u", color[0]);
        else
            snprintf(text, room, "%u/%u/%u", color[0], color[1], color[2]);
        break;
    }
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
        if (params[i].is_quiet &&
            *(const uint32_t *)value_of(op, &params[i]) == (uint32_t)params[i].preset.min)
            continue;
        print_value(op, &params[i], value, sizeof(value));
        len += (size_t)(i == 0 ? snprintf(text, room, "%s", value)
                               : snprintf(text + len, room - len, ":%s=%s", params[i].name, value));
        assert(len < room);
    }
}

void sluice_op_print_modifiers(const struct sluice_op *op, char *text, size_t room)
{
    const double values[] = {op->p, op->weight};
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; sluice_op_kind_has_p(op->type->kind) && i < SLUICE_ARRAY_LEN(values); i++) {
        char number[32];
        if (values[i] == 1)
            continue;
        sluice_print_number(values[i], number, sizeof(number));
        len += (size_t)snprintf(text + len, room - len, ":%s=%s", modifiers[i].name, number);
        assert(len < room);
    }
}

void sluice_op_print_example(const struct sluice_op_type *type, char *text, size_t room)
{
    size_t len = (size_t)snprintf(text, room, "%s", type->example ? type->example : "");
    for (size_t i = 0; !type->example && type->params && type->params[i].name; i++) {
        const struct sluice_op_param *param = &type->params[i];
        if (param->example)
            len += (size_t)snprintf(text + len, room - len, "%s%s=%s", i > 0 ? ":" : "",
                                    i > 0 ? param->name : "", param->example);
        assert(len < room);
    }
}
