#include "op/op.h"

/* resize: torchvision's Resize(size, interpolation, max_size). */

struct params {
    uint32_t filter;
    struct sluice_size size;
    uint32_t side, max;
};

enum { SHORTER, LONGER };
static const char *const sides[] = {"shorter", "longer", NULL};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZES,
     .offset = offsetof(struct params, size),
     .form = "SHORTER_SIDE or HEIGHTxWIDTH",
     .example = "256"},
    {.name = "filter",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, filter),
     .form = "bilinear, bicubic, lanczos, box, hamming, nearest or random",
     .has_preset = true,
     .words = sluice_resize_filters,
     .is_quiet = true},
    {.name = "side",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, side),
     .form = "shorter or longer",
     .has_preset = true,
     .words = sides,
     .is_quiet = true},
    {.name = "max",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, max),
     .form = "LONGER_SIDE",
     .has_preset = true,
     .is_quiet = true},
    {0},
};

static const char *prepare(void *params)
{
    const struct params *p = params;
    const bool is_shorter = !p->size.width && p->side == SHORTER;
    if (p->size.width && p->side == LONGER)
        return "HEIGHTxWIDTH has no :side";
    if (p->max && !is_shorter)
        return "max is of resizes to a shorter side";
    return p->max && p->max <= p->size.height ? "max is to be above the shorter side" : NULL;
}

static struct sluice_size size_of(const struct params *p, struct sluice_size in)
{
    if (p->size.width)
        return p->size;
    return p->side == LONGER ? sluice_size_with_sides(0, p->size.height, in)
                             : sluice_size_with_sides(p->size.height, p->max, in);
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
    if (p->size.width || in.width)
        return sluice_known_exactly(size_of(p, (struct sluice_size){in.width, in.height}));
    return p->side == LONGER
               ? (struct sluice_known_size){.longer = p->size.height}
               : (struct sluice_known_size){.shorter = p->size.height, .longer = p->max};
}

const struct sluice_op_type sluice_op_resize = {
    .name = "resize",
    .help = "the shorter side becomes 256 pixels, and the longer one at most :max=448; "
            ":side=longer the longer one; 192x256 height and width",
    .column = "Resize",
    .kind = SLUICE_OP_RESAMPLE,
    .takes_whole = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
