#include "image/exact_math.h"
#include "op/warp_op.h"

#include "base/c_locale.h"

#include <math.h>

/* randaugment: torchvision's RandAugment(num_ops, magnitude, num_magnitude_bins): ops drawn
 * uniformly from 14, each may come again, all at one magnitude, with signs that are drawn. */

struct params {
    uint32_t num_ops;
    double magnitude;
    uint32_t bins;
    struct sluice_warp_params warp;
};

static const struct sluice_op_param param_list[] = {
    {.name = "num_ops",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, num_ops),
     .form = "N",
     .example = "2"},
    {.name = "magnitude",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, magnitude),
     .form = "M",
     .example = "9",
     .max = 1000,
     .has_preset = true,
     .preset = {.min = 9}},
    {.name = "bins",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, bins),
     .form = "BINS",
     .has_preset = true,
     .preset = {.min = 31}},
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

static const char *prepare(void *params)
{
    const struct params *p = params;
    if (p->num_ops > SLUICE_MAX_CHOSEN)
        return "at most 32 ops can be drawn";
    if (p->bins > 1000)
        return "there are at most 1000 bins";
    if (p->bins < 2 || p->magnitude >= p->bins || p->magnitude != floor(p->magnitude))
        return "the magnitude is the number of a bin, from 0 on";
    return NULL;
}

/* torchvision's _augmentation_space(). */
static void expand(const void *params, char *text, size_t room)
{
    const struct params *p = params;
    const double m = p->magnitude / (p->bins - 1);
    const int64_t bits = 8 - sluice_round_half_even(p->magnitude / ((p->bins - 1) / 4.0));
    char warp[80];
    sluice_warp_print(&p->warp, warp, sizeof(warp));
    sluice_snprintf(text, room,
                    "identity,shear_x=~%.9f%s,shear_y=~%.9f%s,translate_x=~%.9f:unit=whole_part%s,"
                    "translate_y=~%.9f:unit=whole_part%s,rotate=~%.9f%s,brightness=1~%.9f,"
                    "color=1~%.9f,contrast=1~%.9f,sharpness=1~%.9f,posterize=%d,solarize=%.9f,"
                    "autocontrast,equalize)",
                    0.3 * m, warp, 0.3 * m, warp, 150.0 / 331 * m, warp, 150.0 / 331 * m, warp,
                    30 * m, warp, 0.9 * m, 0.9 * m, 0.9 * m, 0.9 * m, (int)bits, 255 * (1 - m));
}

static unsigned choose(const void *params, const struct sluice_op *children, unsigned num_children,
                       struct sluice_rng *rng, uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    const struct params *p = params;
    for (unsigned i = 0; i < p->num_ops; i++)
        chosen[i] = sluice_draw_child(children, num_children, NULL, rng);
    return p->num_ops;
}

static unsigned num_chosen(const void *params, unsigned num_children)
{
    (void)num_children;
    return ((const struct params *)params)->num_ops;
}

const struct sluice_op_type sluice_op_randaugment = {
    .name = "randaugment",
    .help = "torchvision's RandAugment: this number of ops of 14, at a magnitude of 31; "
            ":filter=bilinear:fill=128",
    .column = "RandAugment",
    .kind = SLUICE_OP_CHOICE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .expand = expand,
    .choose = choose,
    .num_chosen = num_chosen,
};
