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

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const struct sluice_size out = sluice_crop_size(p->size);
    struct sluice_resample resample = {
        .from = {.width = in.width, .height = in.height},
        .out = out,
        .padding = {.color = {p->fill[0], p->fill[1], p->fill[2]}, .in = in},
        .filter = sluice_draw_filter(rng, p->filter),
    };
    sluice_resample_letterbox(&resample, in);
    drawn->resample = resample;
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
