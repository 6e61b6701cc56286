#include "image/color.h"
#include "op/op.h"

/* contrast: Pillow's ImageEnhance.Contrast(image).enhance(factor): away from the mean of the luma.
 */

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

/* int(mean + 0.5), in Python's double. */
static float gray_of(const struct sluice_pixel_statistics *statistics)
{
    return (float)(int)((double)statistics->luma_sum / (double)statistics->num_pixels + 0.5);
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *statistics,
                  uint8_t out[3][256])
{
    const float factor = (float)drawn->values[0], gray = gray_of(statistics);
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = sluice_blend(gray, (float)v, factor);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    call->kernel = SLUICE_KERNEL_CONTRAST;
    call->with.factor = (float)drawn->values[0];
}

const struct sluice_op_type sluice_op_contrast = {
    .name = "contrast",
    .help = "away from the mean gray by a factor that is drawn from this range",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 0.8,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .statistics = SLUICE_STATISTICS_LUMA,
    .table = table,
    .call = call,
};
