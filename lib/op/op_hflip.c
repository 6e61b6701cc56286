#include "op/op.h"

/* hflip: torchvision's RandomHorizontalFlip. */

struct params {
    double probability;
};

static const struct sluice_op_param param_list[] = {
    {.name = "p",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, probability),
     .form = "P",
     .example = "0.5",
     .max = 1,
     .has_preset = true,
     .preset = {.min = 0.5}},
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    drawn->is_mirrored = sluice_rng_double(rng) < ((const struct params *)params)->probability;
}

const struct sluice_op_type sluice_op_hflip = {
    .name = "hflip",
    .help = "mirrors with this probability",
    .column = "RandomHorizontalFlip",
    .kind = SLUICE_OP_MIRROR,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
};
