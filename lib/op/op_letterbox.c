#include "image/exact_math.h"
#include "op/op.h"

/* letterbox: Pillow's ImageOps.pad(image, size, method, color). */

struct params {
    uint32_t filter;
    struct sluice_size size;
    uint8_t fill[3];
};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZES,
     .offset = offsetof(struct params, size),
     .form = "SIZE or HEIGHTxWIDTH",
     .example = "640"},
    {.name = "fill",
     .kind = SLUICE_PARAM_COLOR,
     .offset = offsetof(struct params, fill),
     .form = "V or R/G/B",
     .has_preset = true,
     .is_quiet = true},
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
    sluice_crop_size_prepare(&((struct params *)params)->size);
    return NULL;
}

/* round(side / other * size): a side of the fitted image.  Pillow fails where it is 0. */
static uint32_t fit_side(uint32_t side, uint32_t other, uint32_t size)
{
    const int64_t fitted = sluice_round_half_even((double)side / other * size);
    return fitted > 0 ? (uint32_t)fitted : 1;
}

/* ImageOps.contain(). */
static struct sluice_size contain(struct sluice_size in, struct sluice_size size)
{
    const double ratio = (double)in.width / in.height;
    const double size_ratio = (double)size.width / size.height;
    if (ratio > size_ratio)
        size.height = fit_side(in.height, in.width, size.width);
    else if (ratio < size_ratio)
        size.width = fit_side(in.width, in.height, size.height);
    return size;
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const struct sluice_size out = sluice_crop_size(p->size), to = contain(in, out);
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = to,
        .keep = {.width = to.width, .height = to.height},
        .out = out,
        .left = (uint32_t)sluice_round_half_even((out.width - to.width) * 0.5),
        .top = (uint32_t)sluice_round_half_even((out.height - to.height) * 0.5),
        .padding = {.color = {p->fill[0], p->fill[1], p->fill[2]}, .in = in},
        .filter = sluice_draw_filter(rng, p->filter),
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)in;
    return sluice_known_exactly(sluice_crop_size(((const struct params *)params)->size));
}

static bool has_padding(const void *params)
{
    (void)params;
    return true;
}

const struct sluice_op_type sluice_op_letterbox = {
    .name = "letterbox",
    .help = "the whole image, resized to fit into 640 x 640 pixels, or 480x640 as HEIGHTxWIDTH, "
            "in the middle of black or of :fill=114",
    .column = "LetterBox",
    .kind = SLUICE_OP_RESAMPLE,
    .takes_whole = true,
    .has_padding = has_padding,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
