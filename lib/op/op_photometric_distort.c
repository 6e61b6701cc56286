#include "op/op.h"

#include <stdio.h>

/* photometric_distort: torchvision's RandomPhotometricDistort, used to train SSD: each part by its
 * own coin, the contrast before or after saturation and hue, the channels permuted at last. */

struct params {
    double p;
    struct sluice_range brightness, contrast, saturation, hue;
};

#define RANGE(its_name, least, most, low, high)                                                    \
    {                                                                                              \
        .name = #its_name, .kind = SLUICE_PARAM_RANGE,                                             \
        .offset = offsetof(struct params, its_name), .form = "MIN-MAX", .min = least, .max = most, \
        .has_preset = true, .preset = {                                                            \
            low,                                                                                   \
            high                                                                                   \
        }                                                                                          \
    }

/* `p` is the modifier of every op; `part_p` is the probability of each part. */
static const struct sluice_op_param param_list[] = {
    {.name = "part_p",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, p),
     .form = "P",
     .example = "0.5",
     .max = 1,
     .has_preset = true,
     .preset = {.min = 0.5}},
    RANGE(brightness, 0, 100, 0.875, 1.125),
    RANGE(contrast, 0, 100, 0.5, 1.5),
    RANGE(saturation, 0, 100, 0.5, 1.5),
    RANGE(hue, -0.5, 0.5, -0.05, 0.05),
    {0},
};

/* Writes "NAME=MIN-MAX:p=P". */
static void print_part(char *text, size_t room, const char *name, const struct sluice_range *range,
                       const char *p)
{
    char low[32], high[32];
    sluice_print_number(range->min, low, sizeof(low));
    sluice_print_number(range->max, high, sizeof(high));
    snprintf(text, room, "%s=%s-%s:p=%s", name, low, high, p);
}

static void expand(const void *params, char *text, size_t room)
{
    const struct params *d = params;
    char p[32], brightness[120], contrast[120], color[120], hue[120];
    sluice_print_number(d->p, p, sizeof(p));
    print_part(brightness, sizeof(brightness), "brightness", &d->brightness, p);
    print_part(contrast, sizeof(contrast), "contrast", &d->contrast, p);
    print_part(color, sizeof(color), "color", &d->saturation, p);
    print_part(hue, sizeof(hue), "hue", &d->hue, p);
    snprintf(text, room, "%s,one_of(sequence(%s,%s,%s),sequence(%s,%s,%s)),channel_permute:p=%s)",
             brightness, contrast, color, hue, color, hue, contrast, p);
}

const struct sluice_op_type sluice_op_photometric_distort = {
    .name = "photometric_distort",
    .help =
        "brightness, contrast, saturation, hue and order of channels, each with this probability",
    .column = "RandomPhotometricDistort",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .expand = expand,
    .choose = sluice_choose_all,
    .num_chosen = sluice_num_children,
};
