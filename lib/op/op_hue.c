#include "image/color.h"
#include "op/op.h"

/* hue: torchvision's adjust_hue on a PIL image: the H of Pillow's HSV plus int(255 shift), modulo
 * 256. */

struct params {
    struct sluice_number shift;
};

static const struct sluice_op_param param_list[] = {
    {
        .name = "shift",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, shift),
        .form = "H",
        .example = "-0.1-0.1",
        .min = -0.5,
        .max = 0.5,
    },
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct params *p = params;
    drawn->values[0] = sluice_draw_number(rng, &p->shift);
}

static void apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory)
{
    (void)memory;
    sluice_shift_hue_rgb(in, (size_t)size.width * size.height,
                         (uint8_t)(int)(drawn->values[0] * 255), out);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    call->kernel = SLUICE_KERNEL_HUE;
    call->with.shift = (uint8_t)(int)(drawn->values[0] * 255);
}

const struct sluice_op_type sluice_op_hue = {
    .name = "hue",
    .help = "turns the hue by this part of a circle, from -0.5 to 0.5, drawn from this range",
    .kind = SLUICE_OP_PIXELS,
    .ns_per_pixel = 3,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .apply = apply,
    .call = call,
};
