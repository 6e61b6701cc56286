#include "image/exact_math.h"
#include "image/gaussian.h"
#include "op/op.h"

/* tv_blur: torchvision's GaussianBlur(kernel, sigma) of a PIL image, within 1: PyTorch leaves the
 * order of its sum to each backend. */

struct params {
    struct sluice_number sigma;
    double kernel;
};

static const struct sluice_op_param param_list[] = {
    {
        .name = "sigma",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, sigma),
        .form = "S",
        .example = "0.1-2:kernel=23",
        .max = 100,
    },
    {.name = "kernel",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, kernel),
     .form = "PIXELS",
     .min = 1,
     .max = 2 * SLUICE_GAUSSIAN_MAX_RADIUS + 1,
     .has_preset = true,
     .preset = {.min = 9}},
    {0},
};

static const char *prepare(void *params)
{
    const struct params *p = params;
    if (p->kernel != (uint32_t)p->kernel || (uint32_t)p->kernel % 2 == 0)
        return "the kernel is to be an odd number of pixels";
    return p->sigma.about + p->sigma.min > 0 ? NULL : "sigma is to be above 0";
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct params *p = params;
    drawn->values[0] = sluice_draw_number(rng, &p->sigma);
    drawn->values[1] = p->kernel;
}

static size_t memory_bytes(struct sluice_size size)
{
    return sluice_gaussian_memory(size.width, size.height);
}

/* exp(-x^2 / 2 sigma^2), divided by their sum; returns the radius of those that count. */
static uint32_t weigh(const union sluice_drawn *drawn, float weights[])
{
    const double sigma = drawn->values[0];
    const uint32_t radius = (uint32_t)drawn->values[1] / 2;
    double exact[SLUICE_GAUSSIAN_MAX_RADIUS + 1], sum = 0;
    for (uint32_t i = 0; i <= radius; i++) {
        const double x = i / sigma, power = -0.5 * x * x;
        exact[i] = power < -700 ? 0 : sluice_exact_exp(power);
        sum += i ? 2 * exact[i] : exact[i];
    }
    uint32_t num = 0;
    while (num <= radius && exact[num] / sum >= 0x1p-24) {
        weights[num] = (float)(exact[num] / sum);
        num++;
    }
    return num - 1;
}

static void apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory)
{
    float weights[SLUICE_GAUSSIAN_MAX_RADIUS + 1];
    const uint32_t radius = weigh(drawn, weights);
    sluice_gaussian_rgb(in, size.width, size.height, weights, radius, out, memory);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    call->kernel = SLUICE_KERNEL_GAUSSIAN;
    call->with.gaussian.radius = weigh(drawn, call->with.gaussian.weights);
}

const struct sluice_op_type sluice_op_tv_blur = {
    .name = "tv_blur",
    .help = "torchvision's Gaussian blur, of a sigma in pixels that is drawn from this range",
    .column = "GaussianBlur",
    .kind = SLUICE_OP_PIXELS,
    .ns_per_pixel = 2.4,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .apply = apply,
    .memory_bytes = memory_bytes,
    .call = call,
};
