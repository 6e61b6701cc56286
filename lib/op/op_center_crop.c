#include "op/op.h"

/* center_crop: the middle of an image, as torchvision's CenterCrop. */

struct params {
    struct sluice_size size;
};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZES,
     .offset = offsetof(struct params, size),
     .form = "SIZE or HEIGHTxWIDTH",
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

static const char *prepare(void *params)
{
    sluice_crop_size_prepare(&((struct params *)params)->size);
    return NULL;
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)rng;
    const struct sluice_size size = sluice_crop_size(((const struct params *)params)->size);
    const struct span across = center_span(in.width, size.width),
                      down = center_span(in.height, size.height);
    drawn->resample = (struct sluice_resample){
        .from = {across.from, down.from, across.count, down.count},
        .to = {across.count, down.count},
        .keep = {.width = across.count, .height = down.count},
        .out = size,
        .left = (size.width - across.count) / 2,
        .top = (size.height - down.count) / 2,
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)in;
    return sluice_known_exactly(sluice_crop_size(((const struct params *)params)->size));
}

const struct sluice_op_type sluice_op_center_crop = {
    .name = "center_crop",
    .help = "the middle 224 x 224 pixels, or 192x256 as HEIGHTxWIDTH",
    .column = "CenterCrop",
    .kind = SLUICE_OP_RESAMPLE,
    .is_copy = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
