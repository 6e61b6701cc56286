#include "image/exact_math.h"
#include "op/warp_op.h"

#include "base/c_locale.h"

#include <math.h>

/* rotate: Pillow's Image.rotate(degrees), counter-clockwise about the centre, within the image's
 * size. */

struct params {
    struct sluice_number degrees;
    struct sluice_warp_params warp;
};

static const struct sluice_op_param param_list[] = {
    {.name = "degrees",
     .kind = SLUICE_PARAM_DRAWN,
     .offset = offsetof(struct params, degrees),
     .form = "D",
     .example = "-30-30",
     .min = -360,
     .max = 360},
    SLUICE_WARP_PARAMS(struct params),
    {0},
};

/* Python's round(x, 15): the decimal with 15 digits after the point that is nearest. */
static double round_15(double x)
{
    char text[40];
    sluice_snprintf(text, sizeof(text), "%.15f", x);
    return sluice_strtod(text, NULL);
}

/* As in Image.rotate(), some angles only move pixels, whatever the filter. */
static bool is_quarter(double degrees, struct sluice_size in, double matrix[6])
{
    const double w = in.width, h = in.height;
    const double turns[4][6] = {
        {1, 0, 0, 0, 1, 0}, {0, -1, w, 1, 0, 0}, {-1, 0, w, 0, -1, h}, {0, 1, 0, -1, 0, h}};
    const int quarter = (int)(degrees / 90);
    if (quarter > 3 || degrees != quarter * 90.0 || (quarter % 2 == 1 && in.width != in.height))
        return false;
    for (int i = 0; i < 6; i++)
        matrix[i] = turns[quarter][i];
    return true;
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    struct sluice_warp_params warp = p->warp;
    const double rest = fmod(sluice_draw_number(rng, &p->degrees), 360);
    const double degrees = rest < 0 ? rest + 360 : rest; /* Python's modulo */
    double m[6];
    if (is_quarter(degrees, in, m)) {
        warp.filter = SLUICE_WARP_NEAREST;
    } else {
        const double angle = -(degrees * (3.14159265358979323846 / 180));
        const double cx = in.width / 2.0, cy = in.height / 2.0;
        m[0] = m[4] = round_15(sluice_exact_cos(angle));
        m[1] = round_15(sluice_exact_sin(angle));
        m[3] = round_15(-sluice_exact_sin(angle));
        m[2] = m[0] * -cx + m[1] * -cy + 0.0 + cx;
        m[5] = m[3] * -cx + m[4] * -cy + 0.0 + cy;
    }
    sluice_warp_draw(&warp, rng, m, drawn);
}

static double ns_of(const void *params)
{
    return sluice_warp_ns(&((const struct params *)params)->warp);
}

const struct sluice_op_type sluice_op_rotate = {
    .name = "rotate",
    .help =
        "turns the image about its centre, in degrees counter-clockwise; :filter=bilinear:fill=128",
    .column = "RandomRotation",
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
