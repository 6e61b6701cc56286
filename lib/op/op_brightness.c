#include "image/color.h"
#include "op/op.h"

/* brightness: Pillow's ImageEnhance.Brightness(image).enhance(factor). */

struct params {
    struct sluice_number factor;
};

static const struct sluice_op_param param_list[] = {
    {
        .name = "factor",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, factor),
        .form = "F",
        .example = "0.6-1.4",
        .max = 100,
    },
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct params *p = params;
    drawn->values[0] = sluice_draw_number(rng, &p->factor);
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)unused;
    const float factor = (float)drawn->values[0];
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = sluice_blend(0, (float)v, factor);
}

const struct sluice_op_type sluice_op_brightness = {
    .name = "brightness",
    .help = "values times a factor that is drawn from this range",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 0.5,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .table = table,
};
