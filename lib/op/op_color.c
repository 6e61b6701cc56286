#include "image/color.h"
#include "op/op.h"

/* color: Pillow's ImageEnhance.Color(image).enhance(factor), torchvision's saturation. */

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

static void apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory)
{
    (void)memory;
    sluice_saturate_rgb(in, (size_t)size.width * size.height, (float)drawn->values[0], out);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    call->kernel = SLUICE_KERNEL_SATURATE;
    call->with.factor = (float)drawn->values[0];
}

const struct sluice_op_type sluice_op_color = {
    .name = "color",
    .help = "saturation: away from gray by a factor that is drawn from this range",
    .kind = SLUICE_OP_PIXELS,
    .ns_per_pixel = 0.7,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .apply = apply,
    .call = call,
};
