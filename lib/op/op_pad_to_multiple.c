#include "op/op.h"

/* pad_to_multiple: pads at the right and at the bottom, as batches of torchvision's detection
 * models do (GeneralizedRCNNTransform's size_divisible). */

struct params {
    uint32_t multiple;
    uint8_t fill[3];
};

static const struct sluice_op_param param_list[] = {
    {.name = "multiple",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, multiple),
     .form = "PIXELS",
     .example = "32"},
    {.name = "fill",
     .kind = SLUICE_PARAM_COLOR,
     .offset = offsetof(struct params, fill),
     .form = "V or R/G/B",
     .has_preset = true,
     .is_quiet = true},
    {0},
};

static struct sluice_size size_of(const struct params *p, struct sluice_size in)
{
    const uint32_t m = p->multiple;
    return (struct sluice_size){(in.width + m - 1) / m * m, (in.height + m - 1) / m * m};
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)rng;
    const struct params *p = params;
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = in,
        .keep = {.width = in.width, .height = in.height},
        .out = size_of(p, in),
        .padding = {.color = {p->fill[0], p->fill[1], p->fill[2]}, .in = in},
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    if (in.width)
        return sluice_known_exactly(size_of(params, (struct sluice_size){in.width, in.height}));
    in.is_rounded = true;
    return in;
}

static bool has_padding(const void *params)
{
    (void)params;
    return true;
}

const struct sluice_op_type sluice_op_pad_to_multiple = {
    .name = "pad_to_multiple",
    .help = "pads right and bottom, so that both sides are multiples of 32; black, or :fill=128",
    .column = "PadToMultiple",
    .kind = SLUICE_OP_RESAMPLE,
    .takes_whole = true,
    .is_copy = true,
    .has_padding = has_padding,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .known_size = known_size,
};
