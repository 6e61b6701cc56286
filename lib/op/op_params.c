/* Parses parameters of ops; op_print.c prints them. */

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
        const bool is_negative = param->min < 0 && sluice_spec_accept(text, "-");
        sluice_status status = sluice_spec_number(text, &bounds[i], err);
        if (status)
            return status;
        if (is_negative)
            bounds[i] = -bounds[i];
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
    *epochs = (struct sluice_epochs){.end = SLUICE_ALL_EPOCHS};
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
    const size_t len = strcspn(text->at, ":,)]");
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

/* At most `most` whole numbers separated by '/', each at most `max`. */
static sluice_status parse_wholes(struct sluice_spec_text *text,
                                  const struct sluice_op_param *param, uint32_t max, unsigned most,
                                  uint32_t *wholes, unsigned *num, struct sluice_err *err)
{
    *num = 0;
    do {
        const struct sluice_spec_text start = *text;
        double value;
        const sluice_status status = sluice_spec_number(text, &value, err);
        if (status != SLUICE_OK)
            return status;
        if (value > max || value != (uint32_t)value)
            return sluice_spec_fail(&start, err, "%s has whole numbers from 0 to %u", param->name,
                                    max);
        wholes[(*num)++] = (uint32_t)value;
    } while (*num < most && sluice_spec_accept(text, "/"));
    return SLUICE_OK;
}

static sluice_status parse_color(struct sluice_spec_text *text, const struct sluice_op_param *param,
                                 uint8_t color[3], struct sluice_err *err)
{
    uint32_t values[3] = {0};
    unsigned num;
    const sluice_status status = parse_wholes(text, param, 255, 3, values, &num, err);
    if (status == SLUICE_OK && num == 2)
        return sluice_spec_fail(text, err, "R/G/B is wanted here");
    for (unsigned c = 0; status == SLUICE_OK && c < 3; c++)
        color[c] = (uint8_t)values[num == 1 ? 0 : c];
    return status;
}

static sluice_status parse_sizes(struct sluice_spec_text *text, struct sluice_size *sizes,
                                 struct sluice_err *err)
{
    sizes->width = 0;
    const sluice_status status = sluice_spec_size(text, &sizes->height, err);
    return status == SLUICE_OK && sluice_spec_accept(text, "x")
               ? sluice_spec_size(text, &sizes->width, err)
               : status;
}

static sluice_status parse_sides(struct sluice_spec_text *text, const struct sluice_op_param *param,
                                 struct sluice_sides *sides, struct sluice_err *err)
{
    uint32_t values[4] = {0};
    unsigned num;
    const sluice_status status =
        parse_wholes(text, param, SLUICE_MAX_OP_SIZE, 4, values, &num, err);
    if (status == SLUICE_OK && num == 3)
        return sluice_spec_fail(text, err, "%s is wanted here", param->form);
    if (status == SLUICE_OK)
        *sides = (struct sluice_sides){values[0], values[num > 1 ? 1 : 0], values[num > 2 ? 2 : 0],
                                       values[num > 2 ? 3 : num - 1]};
    return status;
}

static sluice_status parse_buckets(struct sluice_spec_text *text, struct sluice_buckets *buckets,
                                   struct sluice_err *err)
{
    buckets->num = 0;
    do {
        const struct sluice_spec_text start = *text;
        struct sluice_size size;
        const sluice_status status = parse_sizes(text, &size, err);
        if (status != SLUICE_OK)
            return status;
        if (size.width == 0)
            return sluice_spec_fail(&start, err, "HEIGHTxWIDTH is wanted here");
        if (buckets->num == SLUICE_MAX_BUCKETS)
            return sluice_spec_fail(&start, err, "there are at most %u buckets",
                                    SLUICE_MAX_BUCKETS);
        for (unsigned i = 0; i < buckets->num; i++) {
            if (buckets->sizes[i].width == size.width && buckets->sizes[i].height == size.height)
                return sluice_spec_fail(&start, err, "the bucket %ux%u is there twice", size.height,
                                        size.width);
        }
        buckets->sizes[buckets->num++] = size;
    } while (sluice_spec_accept(text, "/"));
    return SLUICE_OK;
}

static sluice_status parse_pixels(struct sluice_spec_text *text, uint32_t *pixels,
                                  struct sluice_err *err)
{
    const char *p = text->at;
    uint64_t value = 0;
    while (*p >= '0' && *p <= '9' && value <= SLUICE_MAX_AREA)
        value = value * 10 + (uint64_t)(*p++ - '0');
    if (value < 1 || value > SLUICE_MAX_AREA)
        return sluice_spec_fail(text, err, "a number of pixels from 1 to %u is wanted here",
                                SLUICE_MAX_AREA);
    text->at = p;
    *pixels = (uint32_t)value;
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
    case SLUICE_PARAM_SIZES:
        return parse_sizes(text, value_of(op, param), err);
    case SLUICE_PARAM_SIDES:
        return parse_sides(text, param, value_of(op, param), err);
    case SLUICE_PARAM_PIXELS:
        return parse_pixels(text, value_of(op, param), err);
    case SLUICE_PARAM_BUCKETS:
        return parse_buckets(text, value_of(op, param), err);
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
    case SLUICE_PARAM_EPOCHS:
        *(struct sluice_epochs *)value = (struct sluice_epochs){.end = SLUICE_ALL_EPOCHS};
        break;
    case SLUICE_PARAM_SCALE:
    case SLUICE_PARAM_SIZES:
    case SLUICE_PARAM_SIDES:
    case SLUICE_PARAM_BUCKETS:
    case SLUICE_PARAM_PIXELS:
        assert(!"a preset of a scale, of sizes, of sides, of buckets or of an area");
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

/* Modifiers of every op that may stand in parentheses. */
static const struct sluice_op_param modifiers[] = {
    {.name = "p", .kind = SLUICE_PARAM_NUMBER, .form = "P", .max = 1},
    {.name = "weight", .kind = SLUICE_PARAM_NUMBER, .form = "W", .min = 0.0001, .max = 1e6},
};

static sluice_status parse_draws(struct sluice_op *op, struct sluice_spec_text *text,
                                 struct sluice_err *err)
{
    const struct sluice_spec_text start = *text;
    const sluice_status status = sluice_spec_size(text, &op->draws, NULL);
    return status == SLUICE_OK && op->draws <= SLUICE_MAX_DRAWS
               ? SLUICE_OK
               : sluice_spec_fail(&start, err, "draws is a number from 1 to %u", SLUICE_MAX_DRAWS);
}

/* True: a modifier was parsed, with this status. */
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
    if (sluice_op_kind_draws(op->type->kind) && sluice_spec_accept(text, "draws=")) {
        *status = parse_draws(op, text, err);
        return true;
    }
    return false;
}

static sluice_status parse_named(struct sluice_op *op, struct sluice_spec_text *text,
                                 bool *is_given, struct sluice_err *err)
{
    const struct sluice_op_param *params = op->type->params;
    const size_t len = strcspn(text->at, "=:,()[]");
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
            status = sluice_spec_fail(text, err, "p=P, weight=W or draws=N is wanted here");
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
