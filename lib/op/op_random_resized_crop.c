#include "op/op.h"
#include "image/exact_math.h"

#include <math.h>

/* random_resized_crop: torchvision's RandomResizedCrop. */

struct params {
    uint32_t filter;
    struct sluice_size size;
    struct sluice_range scale, ratio;
    double log_ratio_min, log_ratio_max;
};

/* Outside these bounds of scale and ratio a crop has no pixels. */
static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZES,
     .offset = offsetof(struct params, size),
     .form = "SIZE or HEIGHTxWIDTH",
     .example = "224"},
    {.name = "scale",
     .kind = SLUICE_PARAM_RANGE,
     .offset = offsetof(struct params, scale),
     .form = "MIN-MAX",
     .example = "0.08-1",
     .min = 0.0001,
     .max = 1,
     .has_preset = true,
     .preset = {0.08, 1}},
    {.name = "ratio",
     .kind = SLUICE_PARAM_RATIOS,
     .offset = offsetof(struct params, ratio),
     .form = "MIN-MAX",
     .min = 0.0001,
     .max = 10000,
     .has_preset = true,
     .preset = {3.0 / 4, 4.0 / 3}},
    {.name = "filter",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, filter),
     .form = "bilinear, bicubic, lanczos, box, hamming, nearest or random",
     .has_preset = true,
     .words = sluice_resize_filters,
     .is_quiet = true},
    {0},
};

static const char *prepare(void *params)
{
    struct params *p = params;
    sluice_crop_size_prepare(&p->size);
    p->log_ratio_min = sluice_exact_log(p->ratio.min);
    p->log_ratio_max = sluice_exact_log(p->ratio.max);
    return NULL;
}

/* RandomResizedCrop.get_params.  Each try draws the area, then the log of the
 * ratio; a box that fits draws its top, then its left. */
static struct sluice_box draw_box(const struct params *p, struct sluice_size in,
                                  struct sluice_rng *rng)
{
    const double area = (double)in.width * in.height;
    for (int i = 0; i < 10; i++) {
        const double scale = p->scale.min + (p->scale.max - p->scale.min) * sluice_rng_double(rng);
        const double log_ratio =
            p->log_ratio_min + (p->log_ratio_max - p->log_ratio_min) * sluice_rng_double(rng);
        const double target_area = area * scale;
        const double ratio = sluice_exact_exp(log_ratio);
        const int64_t width = sluice_round_half_even(sqrt(target_area * ratio));
        const int64_t height = sluice_round_half_even(sqrt(target_area / ratio));
        if (width > 0 && width <= in.width && height > 0 && height <= in.height) {
            struct sluice_box box = {.width = (uint32_t)width, .height = (uint32_t)height};
            box.top = sluice_rng_below(rng, in.height - box.height + 1);
            box.left = sluice_rng_below(rng, in.width - box.width + 1);
            return box;
        }
    }

    /* The largest central box within the bounds of the ratio. */
    const double in_ratio = (double)in.width / in.height;
    int64_t width = in.width, height = in.height;
    if (in_ratio < p->ratio.min)
        height = sluice_round_half_even((double)width / p->ratio.min);
    else if (in_ratio > p->ratio.max)
        width = sluice_round_half_even((double)height * p->ratio.max);
    /* torchvision fails where extreme bounds round a side to nothing; we keep one pixel. */
    width = width < 1 ? 1 : width;
    height = height < 1 ? 1 : height;
    return (struct sluice_box){
        .left = (in.width - (uint32_t)width) / 2,
        .top = (in.height - (uint32_t)height) / 2,
        .width = (uint32_t)width,
        .height = (uint32_t)height,
    };
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const struct sluice_size to = sluice_crop_size(p->size);
    drawn->resample = (struct sluice_resample){
        .from = draw_box(p, in, rng),
        .to = to,
        .keep = {.width = to.width, .height = to.height},
        .out = to,
    };
    drawn->resample.filter = sluice_draw_filter(rng, p->filter); /* after the box's draws */
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)in;
    return sluice_known_exactly(sluice_crop_size(((const struct params *)params)->size));
}

const struct sluice_op_type sluice_op_random_resized_crop = {
    .name = "random_resized_crop",
    .help = "a random box with this share of the area, resized to 224 x 224, or 192x256 as "
            "HEIGHTxWIDTH; "
            ":ratio=3/4-4/3 bounds width to height; these ranges hold if left out",
    .column = "RandomResizedCrop",
    .label = "crop",
    .kind = SLUICE_OP_RESAMPLE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
