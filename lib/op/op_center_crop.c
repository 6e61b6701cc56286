#include "op/op.h"

/* center_crop: the middle of an image, as torchvision's CenterCrop, or a corner, as FiveCrop has
 * them. */

struct params {
    struct sluice_size size;
    uint32_t at;
};

enum { CENTER, TOP_LEFT, TOP_RIGHT, BOTTOM_LEFT, BOTTOM_RIGHT };
static const char *const places[] = {"center",      "top_left",     "top_right",
                                     "bottom_left", "bottom_right", NULL};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZES,
     .offset = offsetof(struct params, size),
     .form = "SIZE or HEIGHTxWIDTH",
     .example = "224"},
    {.name = "at",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, at),
     .form = "center, top_left, top_right, bottom_left or bottom_right",
     .has_preset = true,
     .words = places,
     .is_quiet = true},
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
    const struct params *p = params;
    const struct sluice_size size = sluice_crop_size(p->size);
    struct span across = center_span(in.width, size.width),
                down = center_span(in.height, size.height);
    if (p->at != CENTER) {
        const bool is_right = p->at == TOP_RIGHT || p->at == BOTTOM_RIGHT;
        const bool is_bottom = p->at == BOTTOM_LEFT || p->at == BOTTOM_RIGHT;
        across.from = is_right ? in.width - across.count : 0;
        down.from = is_bottom ? in.height - down.count : 0;
    }
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
    .help = "the middle 224 x 224 pixels, or 192x256 as HEIGHTxWIDTH; :at=top_left: a corner",
    .column = "CenterCrop",
    .kind = SLUICE_OP_RESAMPLE,
    .is_copy = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
