#include "op/op.h"

/* zoom_out: torchvision's RandomZoomOut on PIL images: the image at a random place in a larger one
 * of its proportions.  The draws come in its order. */

struct params {
    struct sluice_range scale;
    double p;
    uint8_t fill[3];
    struct sluice_epochs epochs;
};

static const struct sluice_op_param param_list[] = {
    {.name = "scale",
     .kind = SLUICE_PARAM_RANGE,
     .offset = offsetof(struct params, scale),
     .form = "MIN-MAX",
     .example = "1-4",
     .min = 1,
     .max = 16,
     .has_preset = true,
     .preset = {1, 4}},
    {.name = "p",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, p),
     .form = "P",
     .max = 1,
     .has_preset = true,
     .preset = {.min = 0.5}},
    {.name = "fill",
     .kind = SLUICE_PARAM_COLOR,
     .offset = offsetof(struct params, fill),
     .form = "V or R/G/B",
     .has_preset = true,
     .is_quiet = true},
    SLUICE_EPOCHS_PARAM(struct params),
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    struct sluice_resample resample = {
        .from = {.width = in.width, .height = in.height},
        .to = in,
        .keep = {.width = in.width, .height = in.height},
        .out = in,
        .padding = {.color = {p->fill[0], p->fill[1], p->fill[2]}, .in = in},
    };
    if (sluice_rng_double(rng) < p->p) {
        const double by = p->scale.min + sluice_rng_double(rng) * (p->scale.max - p->scale.min);
        resample.out = (struct sluice_size){(uint32_t)(in.width * by), (uint32_t)(in.height * by)};
        resample.left = (uint32_t)((resample.out.width - in.width) * sluice_rng_double(rng));
        resample.top = (uint32_t)((resample.out.height - in.height) * sluice_rng_double(rng));
    }
    drawn->resample = resample;
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    const double most = ((const struct params *)params)->scale.max;
    if (in.width) {
        const uint64_t pixels = (uint64_t)in.width * in.height;
        return (struct sluice_known_size){.is_rounded = true,
                                          .min_pixels = pixels,
                                          .max_pixels = (uint64_t)((double)pixels * most * most)};
    }
    in.is_rounded = true;
    return in;
}

static const struct sluice_epochs *epochs(const void *params)
{
    return &((const struct params *)params)->epochs;
}

static bool has_padding(const void *params)
{
    (void)params;
    return true;
}

const struct sluice_op_type sluice_op_zoom_out = {
    .name = "zoom_out",
    .help =
        "the image at a random place in one of 1 to 4 times its sides, with :p=0.5, black or of "
        ":fill=128; :epochs=epoch<71: in these alone",
    .column = "RandomZoomOut",
    .kind = SLUICE_OP_RESAMPLE,
    .is_random = true,
    .takes_whole = true,
    .is_copy = true,
    .has_padding = has_padding,
    .has_drawn_size = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .epochs = epochs,
    .known_size = known_size,
};
