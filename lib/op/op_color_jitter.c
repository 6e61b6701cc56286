#include "op/op.h"

#include <math.h>
#include <stdio.h>

/* color_jitter: torchvision's ColorJitter: brightness, contrast, saturation and hue, in an order
 * that is drawn. */

struct params {
    double brightness, contrast, saturation, hue;
};

#define NUMBER(its_name, upper)                                                                    \
    {                                                                                              \
        .name = #its_name, .kind = SLUICE_PARAM_NUMBER,                                            \
        .offset = offsetof(struct params, its_name), .form = "F", .max = upper, .has_preset = true \
    }

static const struct sluice_op_param param_list[] = {
    {.name = "brightness",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, brightness),
     .form = "F",
     .example = "0.4",
     .max = 99},
    NUMBER(contrast, 99),
    NUMBER(saturation, 99),
    NUMBER(hue, 0.5),
    {0},
};

/* A factor from max(0, 1 - by) to 1 + by; nothing where `by` is 0. */
static int write_factor(char *text, size_t room, const char *name, double by)
{
    char low[32], high[32];
    if (by == 0)
        return 0;
    sluice_print_number(fmax(0, 1 - by), low, sizeof(low));
    sluice_print_number(1 + by, high, sizeof(high));
    return snprintf(text, room, "%s=%s-%s,", name, low, high);
}

static void expand(const void *params, char *text, size_t room)
{
    const struct params *p = params;
    char hue[32];
    int len = write_factor(text, room, "brightness", p->brightness);
    len += write_factor(text + len, room - (size_t)len, "contrast", p->contrast);
    len += write_factor(text + len, room - (size_t)len, "color", p->saturation);
    sluice_print_number(p->hue, hue, sizeof(hue));
    if (p->hue > 0)
        len += snprintf(text + len, room - (size_t)len, "hue=-%s-%s,", hue, hue);
    if (len == 0)
        len = snprintf(text, room, "identity,");
    text[len - 1] = ')';
}

static unsigned choose(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    (void)params, (void)children;
    return sluice_draw_order(num_children, rng, chosen);
}

const struct sluice_op_type sluice_op_color_jitter = {
    .name = "color_jitter",
    .help = "brightness by up to this; :contrast=F:saturation=F:hue=H; in an order that is drawn",
    .column = "ColorJitter",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .expand = expand,
    .choose = choose,
    .num_chosen = sluice_num_children,
};
