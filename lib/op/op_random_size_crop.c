#include "op/op.h"

/* random_size_crop: the branch of DETR's transforms that crops: in some samples the shorter side is
 * resized to a drawn size (RandomResize), and a box of drawn sides is kept (RandomSizeCrop).  The
 * draws come in its order. */

struct params {
    struct sluice_range sides;
    struct sluice_number shorter;
    double p;
    uint32_t filter;
};

static const struct sluice_op_param param_list[] = {
    {.name = "sides",
     .kind = SLUICE_PARAM_RANGE,
     .offset = offsetof(struct params, sides),
     .form = "MIN-MAX",
     .example = "384-600",
     .min = 1,
     .max = SLUICE_MAX_OP_SIZE},
    {.name = "shorter",
     .kind = SLUICE_PARAM_DRAWN,
     .offset = offsetof(struct params, shorter),
     .form = "PIXELS",
     .example = "400-600/3",
     .min = 1,
     .max = SLUICE_MAX_OP_SIZE},
    {.name = "p",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, p),
     .form = "P",
     .max = 1,
     .has_preset = true,
     .preset = {.min = 0.5}},
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
    const struct params *p = params;
    if (p->sides.min != (uint32_t)p->sides.min || p->sides.max != (uint32_t)p->sides.max)
        return "sides are whole numbers";
    return p->shorter.has_sign || p->shorter.deviation > 0 ? "shorter is one number, A-B or A-B/N"
                                                           : NULL;
}

/* From the least to the most side, but not above the image's. */
static uint32_t draw_side(const struct params *p, uint32_t side, struct sluice_rng *rng)
{
    const uint32_t least = (uint32_t)p->sides.min, most = (uint32_t)p->sides.max;
    const uint32_t limit = side < most ? side : most;
    return limit > least ? least + sluice_rng_below(rng, limit - least + 1) : limit;
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    struct sluice_size to = in;
    struct sluice_box keep = {.width = in.width, .height = in.height};
    if (sluice_rng_double(rng) < p->p) {
        to = sluice_size_with_sides((uint32_t)sluice_draw_whole(rng, &p->shorter), 0, in);
        keep.width = draw_side(p, to.width, rng);
        keep.height = draw_side(p, to.height, rng);
        keep.top = sluice_rng_below(rng, to.height - keep.height + 1);
        keep.left = sluice_rng_below(rng, to.width - keep.width + 1);
    }
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = to,
        .keep = keep,
        .out = {keep.width, keep.height},
        .filter = sluice_draw_filter(rng, p->filter),
    };
}

/* The image as it is, or a box of at most the largest square. */
static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    const uint64_t side = (uint64_t)((const struct params *)params)->sides.max;
    const uint64_t pixels = in.width ? (uint64_t)in.width * in.height : in.max_pixels;
    return (struct sluice_known_size){.is_rounded = true,
                                      .max_pixels = pixels > 0 && pixels < side * side ? side * side
                                                                                       : pixels};
}

const struct sluice_op_type sluice_op_random_size_crop = {
    .name = "random_size_crop",
    .help = "with :p=0.5 the shorter side becomes one of 400, 500 and 600 pixels, and a box with "
            "sides of 384 to 600 of it is kept",
    .column = "RandomSizeCrop",
    .kind = SLUICE_OP_RESAMPLE,
    .is_random = true,
    .has_drawn_size = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
