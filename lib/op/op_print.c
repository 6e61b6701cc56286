/* Prints parameters of ops; op_params.c parses them. */

#include "op/op.h"

#include "base/c_locale.h"

#include <assert.h>
#include <stdio.h>

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
    const void *value = (const uint8_t *)op->params + param->offset;
    switch (param->kind) {
    case SLUICE_PARAM_SIZE:
    case SLUICE_PARAM_PIXELS:
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
        if (epochs->end == SLUICE_ALL_EPOCHS)
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
    case SLUICE_PARAM_SIZES: {
        const struct sluice_size *sizes = value;
        snprintf(text, room, sizes->width ? "%ux%u" : "%u", sizes->height, sizes->width);
        break;
    }
    case SLUICE_PARAM_SIDES: {
        const struct sluice_sides *s = value;
        if (s->left != s->right || s->top != s->bottom)
            snprintf(text, room, "%u/%u/%u/%u", s->left, s->top, s->right, s->bottom);
        else if (s->left != s->top)
            snprintf(text, room, "%u/%u", s->left, s->top);
        else
            snprintf(text, room, "%u", s->left);
        break;
    }
    case SLUICE_PARAM_BUCKETS: {
        const struct sluice_buckets *buckets = value;
        size_t len = 0;
        for (unsigned i = 0; i < buckets->num && len < room; i++)
            len += (size_t)snprintf(text + len, room - len, "%s%ux%u", i > 0 ? "/" : "",
                                    buckets->sizes[i].height, buckets->sizes[i].width);
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

void sluice_print_level(double magnitude, double mstd, double from, double by,
                        char text[SLUICE_LEVEL_ROOM])
{
    const double low = by < 0 ? from + by : from, high = by < 0 ? from : from + by;
    const double mean = from + by * magnitude / 10, deviation = (by < 0 ? -by : by) * mstd / 10;
    if (deviation > 0)
        sluice_snprintf(text, SLUICE_LEVEL_ROOM, "normal(%.9f,%.9f,%.9f,%.9f)", mean, deviation,
                        low, high);
    else
        sluice_snprintf(text, SLUICE_LEVEL_ROOM, "%.9f", mean);
}

static bool is_preset(const struct sluice_op *op, const struct sluice_op_param *param)
{
    const uint8_t *value = (const uint8_t *)op->params + param->offset;
    if (param->kind == SLUICE_PARAM_NUMBER)
        return *(const double *)(const void *)value == param->preset.min;
    if (param->kind == SLUICE_PARAM_COLOR)
        return value[0] == param->preset.min && value[1] == value[0] && value[2] == value[0];
    if (param->kind == SLUICE_PARAM_EPOCHS)
        return !sluice_op_has_schedule(op);
    assert(param->kind == SLUICE_PARAM_WORD || param->kind == SLUICE_PARAM_SIZE);
    return *(const uint32_t *)(const void *)value == (uint32_t)param->preset.min;
}

void sluice_op_print(const struct sluice_op *op, char *text, size_t room)
{
    const struct sluice_op_param *params = op->type->params;
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; params && params[i].name; i++) {
        char value[SLUICE_MAX_BUCKETS * 10 + 1]; /* "8192x8192/" */
        if (params[i].is_quiet && is_preset(op, &params[i]))
            continue;
        print_value(op, &params[i], value, sizeof(value));
        len += (size_t)(i == 0 ? snprintf(text, room, "%s", value)
                               : snprintf(text + len, room - len, ":%s=%s", params[i].name, value));
        assert(len < room);
    }
}

void sluice_op_print_modifiers(const struct sluice_op *op, char *text, size_t room)
{
    static const char *const names[] = {"p", "weight"};
    const double values[] = {op->p, op->weight};
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; sluice_op_kind_has_p(op->type->kind) && i < SLUICE_ARRAY_LEN(values); i++) {
        char number[32];
        if (values[i] == 1)
            continue;
        sluice_print_number(values[i], number, sizeof(number));
        len += (size_t)snprintf(text + len, room - len, ":%s=%s", names[i], number);
        assert(len < room);
    }
    if (op->draws > 0)
        snprintf(text + len, room - len, ":draws=%u", op->draws);
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

void sluice_op_list(char *out, size_t room)
{
    size_t at = 0;
    const struct sluice_op_type *type;
    out[0] = '\0';
    for (size_t i = 0; (type = sluice_op_type_at(i)) && at < room; i++) {
        char example[80];
        sluice_op_print_example(type, example, sizeof(example));
        at += (size_t)snprintf(out + at, room - at, "%s%s%s: %s", i > 0 ? "\n" : "", type->name,
                               example, type->help);
    }
}
