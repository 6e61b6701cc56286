#include "op/op.h"

/* center_crop: the middle of an image, as torchvision's CenterCrop. */

struct params {
    uint32_t size;
};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, size),
     .form = "SIZE",
     .example = "224"},
    {0},
};

/* One axis: `count` pixels from `from` are kept.  A smaller image is padded, the odd pixel at the
 * end; a larger one is cut at round((image - size) / 2), halves to the even number. */
struct span {
    uint32_t from, count;
};

static struct span center_span(uint32_t in, uint32_t size)
{
    if (in < size)
        return (struct span){.from = 0, .count = in};
    const uint32_t rest = in - size;
    const uint32_t half = rest / 2;
    return (struct span){.from = half + (rest & half & 1), .count = size};
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)rng;
    const uint32_t size = ((const struct params *)params)->size;
    const struct span across = center_span(in.width, size), down = center_span(in.height, size);
    drawn->resample = (struct sluice_resample){
        .from = {across.from, down.from, across.count, down.count},
        .to = {across.count, down.count},
        .keep = {.width = across.count, .height = down.count},
        .out = {size, size},
        .left = (size - across.count) / 2,
        .top = (size - down.count) / 2,
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)in;
    const uint32_t side = ((const struct params *)params)->size;
    return sluice_known_exactly(side, side);
}

const struct sluice_op_type sluice_op_center_crop = {
    .name = "center_crop",
    .help = "the middle 224 x 224 pixels",
    .column = "CenterCrop",
    .kind = SLUICE_OP_RESAMPLE,
    .is_copy = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .known_size = known_size,
};
