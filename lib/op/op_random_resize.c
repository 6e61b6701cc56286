#include "op/op.h"

/* random_resize: torchvision's RandomResize, or of its list of sizes RandomShortestSize: the
 * shorter side is drawn. */

struct params {
    struct sluice_number shorter;
    uint32_t filter, max;
};

static const struct sluice_op_param param_list[] = {
    {.name = "shorter",
     .kind = SLUICE_PARAM_DRAWN,
     .offset = offsetof(struct params, shorter),
     .form = "PIXELS",
     .example = "260-1040",
     .min = 1,
     .max = SLUICE_MAX_OP_SIZE},
    {.name = "filter",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, filter),
     .form = "bilinear, bicubic, lanczos, box, hamming, nearest or random",
     .has_preset = true,
     .words = sluice_resize_filters,
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
    const bool is_whole_range = !p->shorter.has_sign && p->shorter.deviation == 0;
    if (!is_whole_range)
        return "one number, A-B or A-B/N";
    return p->max && p->max <= p->shorter.max ? "max is to be above the shorter side" : NULL;
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const uint32_t shorter = (uint32_t)sluice_draw_whole(rng, &p->shorter);
    const struct sluice_size to = sluice_size_with_sides(shorter, p->max, in);
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = to,
        .keep = {.width = to.width, .height = to.height},
        .out = to,
        .filter = sluice_draw_filter(rng, p->filter),
    };
}

/* From the smallest square to twice the area of the largest. */
static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)in;
    const struct sluice_number *shorter = &((const struct params *)params)->shorter;
    return (struct sluice_known_size){.is_rounded = true,
                                      .min_pixels = (uint64_t)(shorter->min * shorter->min),
                                      .max_pixels = (uint64_t)(2 * shorter->max * shorter->max)};
}

static struct sluice_size largest(const void *params, struct sluice_size in)
{
    const struct params *p = params;
    const uint32_t most = (uint32_t)p->shorter.max;
    if (in.width > 0) {
        struct sluice_size size = sluice_size_with_sides(most, p->max, in);
        /* Where max limits the longer side, a smaller draw may round the shorter one up. */
        if (p->max && size.width == p->max)
            size.height += 2;
        else if (p->max && size.height == p->max)
            size.width += 2;
        return size;
    }
    return p->max ? (struct sluice_size){p->max, most} : (struct sluice_size){0, 0};
}

const struct sluice_op_type sluice_op_random_resize = {
    .name = "random_resize",
    .help = "the shorter side becomes 260 to 1040 pixels, or 480-800/11 one of 11 sizes, and the "
            "longer one at most :max=1333",
    .column = "RandomResize",
    .kind = SLUICE_OP_RESAMPLE,
    .is_random = true,
    .takes_whole = true,
    .has_drawn_size = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .largest = largest,
    .known_size = known_size,
};
