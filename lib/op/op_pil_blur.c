#include "image/color.h"
#include "image/kernels/color_kernels.h"
#include "op/op.h"

/* pil_blur: Pillow's ImageFilter.GaussianBlur(sigma), which is three box blurs. */

struct params {
    struct sluice_number sigma;
};

static const struct sluice_op_param param_list[] = {
    {
        .name = "sigma",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, sigma),
        .form = "S",
        .example = "0.1-2",
        .max = 100,
    },
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct params *p = params;
    drawn->values[0] = sluice_draw_number(rng, &p->sigma);
}

static size_t memory_bytes(struct sluice_size size)
{
    return sluice_blur_memory(size.width, size.height);
}

static void apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory)
{
    sluice_blur_rgb(in, size.width, size.height, (float)drawn->values[0], out, memory);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    call->kernel = SLUICE_KERNEL_BOX_BLUR;
    const struct sluice_blur_box box = sluice_blur_box((float)drawn->values[0]);
    call->with.box.radius = box.radius;
    call->with.box.inner = box.inner;
    call->with.box.edge = box.edge;
}

const struct sluice_op_type sluice_op_pil_blur = {
    .name = "pil_blur",
    .help = "Pillow's Gaussian blur, of a sigma in pixels that is drawn from this range",
    .column = "GaussianBlur",
    .kind = SLUICE_OP_PIXELS,
    .ns_per_pixel = 5.5,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .apply = apply,
    .memory_bytes = memory_bytes,
    .call = call,
};
