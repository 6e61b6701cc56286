#include "image/exact_math.h"
#include "op/op.h"

#include <math.h>

/* smart_resize: that of Qwen-VL (qwen_vl_utils, vision_process.py).  Both sides become multiples of
 * `factor`, and the area keeps within two limits; the proportions stay about as they are.  Qwen's
 * fails for images of more than 200:1; ours resizes them by the same formula. */

struct params {
    uint32_t factor, min_pixels, max_pixels;
    uint32_t filter;
};

static const struct sluice_op_param param_list[] = {
    {.name = "factor",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, factor),
     .form = "FACTOR",
     .example = "28"},
    {.name = "min_pixels",
     .kind = SLUICE_PARAM_PIXELS,
     .offset = offsetof(struct params, min_pixels),
     .form = "PIXELS",
     .example = "784"},
    {.name = "max_pixels",
     .kind = SLUICE_PARAM_PIXELS,
     .offset = offsetof(struct params, max_pixels),
     .form = "PIXELS",
     .example = "1003520"},
    {.name = "filter",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, filter),
     .form = "bilinear, bicubic, lanczos, box, hamming, nearest or random",
     .has_preset = true,
     .preset = {SLUICE_RESIZE_BICUBIC, SLUICE_RESIZE_BICUBIC},
     .words = sluice_resize_filters,
     .is_quiet = true},
    {0},
};

static const char *prepare(void *params)
{
    const struct params *p = params;
    if (p->min_pixels > p->max_pixels)
        return "min_pixels is above max_pixels";
    return (uint64_t)p->factor * p->factor > p->max_pixels
               ? "max_pixels is below the factor squared"
               : NULL;
}

static uint32_t at_least_one(double count)
{
    return count < 1 ? 1 : (uint32_t)count;
}

static struct sluice_size size_of(const struct params *p, struct sluice_size in)
{
    const uint32_t factor = p->factor;
    const double area = (double)((uint64_t)in.width * in.height);
    uint32_t across = at_least_one((double)sluice_round_half_even((double)in.width / factor)),
             down = at_least_one((double)sluice_round_half_even((double)in.height / factor));
    const uint64_t pixels = (uint64_t)across * factor * down * factor;
    if (pixels > p->max_pixels) {
        const double beta = sqrt(area / p->max_pixels);
        across = at_least_one(floor(in.width / beta / factor));
        down = at_least_one(floor(in.height / beta / factor));
    } else if (pixels < p->min_pixels) {
        const double beta = sqrt(p->min_pixels / area);
        across = at_least_one(ceil(in.width * beta / factor));
        down = at_least_one(ceil(in.height * beta / factor));
    }
    return (struct sluice_size){across * factor, down * factor};
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const struct sluice_size to = size_of(p, in);
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = to,
        .keep = {.width = to.width, .height = to.height},
        .out = to,
        .filter = sluice_draw_filter(rng, p->filter),
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    const struct params *p = params;
    if (in.width)
        return sluice_known_exactly(size_of(p, (struct sluice_size){in.width, in.height}));
    return (struct sluice_known_size){
        .is_rounded = true, .min_pixels = p->min_pixels, .max_pixels = p->max_pixels};
}

const struct sluice_op_type sluice_op_smart_resize = {
    .name = "smart_resize",
    .help =
        "Qwen-VL's: sides are multiples of 28, and the area keeps within these limits; bicubic, "
        "or :filter=",
    .column = "SmartResize",
    .kind = SLUICE_OP_RESAMPLE,
    .takes_whole = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
