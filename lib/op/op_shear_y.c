#include "op/warp_op.h"

/* shear_y: each column moves by this times its distance from the left edge, as timm's shear_y. */

struct params {
    struct sluice_number amount;
    struct sluice_warp_params warp;
};

static const struct sluice_op_param param_list[] = {
    {.name = "amount",
     .kind = SLUICE_PARAM_DRAWN,
     .offset = offsetof(struct params, amount),
     .form = "F",
     .example = "-0.3-0.3",
     .min = -10,
     .max = 10},
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    (void)in;
    const double matrix[6] = {1, 0, 0, sluice_draw_number(rng, &p->amount), 1, 0};
    sluice_warp_draw(&p->warp, rng, matrix, drawn);
}

static double ns_of(const void *params)
{
    return sluice_warp_ns(&((const struct params *)params)->warp);
}

const struct sluice_op_type sluice_op_shear_y = {
    .name = "shear_y",
    .help = "each column moves by this times its distance from the left edge",
    .kind = SLUICE_OP_PIXELS,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .apply = sluice_warp_apply,
    .map = sluice_warp_map,
    .call = sluice_warp_call,
    .ns_of = ns_of,
};
