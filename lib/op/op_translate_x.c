#include "op/warp_op.h"

#include <math.h>

/* translate_x: moves the image by this part of its width, as timm's translate_x_rel; or by
 * whole pixels, truncated, as torchvision's policies. */

struct params {
    struct sluice_number amount;
    uint32_t unit;
    struct sluice_warp_params warp;
};

static const char *const units[] = {"part", "whole_part", "pixel", NULL};
enum { PART, WHOLE_PART, PIXEL };

static const struct sluice_op_param param_list[] = {
    {.name = "amount",
     .kind = SLUICE_PARAM_DRAWN,
     .offset = offsetof(struct params, amount),
     .form = "F",
     .example = "-0.1-0.1",
     .min = -8192,
     .max = 8192},
    {.name = "unit",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, unit),
     .form = "part, whole_part or pixel",
     .has_preset = true,
     .words = units},
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const double amount = sluice_draw_number(rng, &p->amount);
    const double exact = p->unit == PIXEL ? amount : amount * in.width;
    const double pixels = p->unit == PART ? exact : trunc(exact);
    const double matrix[6] = {1, 0, pixels, 0, 1, 0};
    sluice_warp_draw(&p->warp, rng, matrix, drawn);
}

static double ns_of(const void *params)
{
    return sluice_warp_ns(&((const struct params *)params)->warp);
}

const struct sluice_op_type sluice_op_translate_x = {
    .name = "translate_x",
    .help =
        "moves by this part of the width; :unit=whole_part in whole pixels, :unit=pixel in pixels",
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
