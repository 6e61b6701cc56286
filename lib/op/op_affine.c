#include "image/exact_math.h"
#include "op/warp_op.h"

#include <math.h>

/* affine: torchvision's RandomAffine and functional.affine() of a PIL image: rotation, shear, scale
 * and translation about the centre. */

struct params {
    struct sluice_number degrees, translate_x, translate_y, scale, shear_x, shear_y;
    struct sluice_warp_params warp;
};

#define NUMBER(its_name, its_form, lower, upper, its_preset)                                       \
    {                                                                                              \
        .name = #its_name, .kind = SLUICE_PARAM_DRAWN,                                             \
        .offset = offsetof(struct params, its_name), .form = its_form, .min = lower, .max = upper, \
        .has_preset = true, .preset = {                                                            \
            its_preset,                                                                            \
            its_preset                                                                             \
        }                                                                                          \
    }

static const struct sluice_op_param param_list[] = {
    {.name = "degrees",
     .kind = SLUICE_PARAM_DRAWN,
     .offset = offsetof(struct params, degrees),
     .form = "D",
     .example = "-5-5",
     .min = -360,
     .max = 360},
    NUMBER(translate_x, "PART", -1, 1, 0),
    NUMBER(translate_y, "PART", -1, 1, 0),
    NUMBER(scale, "F", 0.0001, 100, 1),
    NUMBER(shear_x, "D", -89, 89, 0),
    NUMBER(shear_y, "D", -89, 89, 0),
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

static double radians(double degrees)
{
    return degrees * (3.14159265358979323846 / 180);
}

/* torchvision's _get_inverse_affine_matrix(), in its order of operations. */
static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const double rot = radians(sluice_draw_number(rng, &p->degrees));
    const double tx =
        (double)sluice_round_half_even(sluice_draw_number(rng, &p->translate_x) * in.width);
    const double ty =
        (double)sluice_round_half_even(sluice_draw_number(rng, &p->translate_y) * in.height);
    const double scale = sluice_draw_number(rng, &p->scale);
    const double sx = radians(sluice_draw_number(rng, &p->shear_x));
    const double sy = radians(sluice_draw_number(rng, &p->shear_y));
    const double cx = in.width * 0.5, cy = in.height * 0.5;
    const double a = sluice_exact_cos(rot - sy) / sluice_exact_cos(sy);
    const double b = -sluice_exact_cos(rot - sy) * sluice_exact_tan(sx) / sluice_exact_cos(sy) -
                     sluice_exact_sin(rot);
    const double c = sluice_exact_sin(rot - sy) / sluice_exact_cos(sy);
    const double d = -sluice_exact_sin(rot - sy) * sluice_exact_tan(sx) / sluice_exact_cos(sy) +
                     sluice_exact_cos(rot);
    double m[6] = {d / scale, -b / scale, 0.0 / scale, -c / scale, a / scale, 0.0 / scale};
    m[2] += m[0] * (-cx - tx) + m[1] * (-cy - ty);
    m[5] += m[3] * (-cx - tx) + m[4] * (-cy - ty);
    m[2] += cx;
    m[5] += cy;
    sluice_warp_draw(&p->warp, rng, m, drawn);
}

static double ns_of(const void *params)
{
    return sluice_warp_ns(&((const struct params *)params)->warp);
}

const struct sluice_op_type sluice_op_affine = {
    .name = "affine",
    .help = "turns in degrees; :translate_x=P:translate_y=P in parts of the sides, :scale=F, "
            ":shear_x=D:shear_y=D "
            "in degrees, all about the centre; :filter=bilinear:fill=128",
    .column = "RandomAffine",
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
