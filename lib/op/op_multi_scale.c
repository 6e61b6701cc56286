#include "op/op.h"

#include <stdio.h>

/* multi_scale: resizes all images of a batch to one square, whose size is drawn for the batch, as
 * RT-DETR's and YOLO's training does. */

struct params {
    struct sluice_number sides;
    uint32_t base, weight; /* the side that counts `weight` times, and alone outside `epochs` */
    uint32_t fit, filter;
    uint8_t fill[3];
    struct sluice_epochs epochs;
    struct sluice_buckets sizes; /* derived */
    unsigned base_bucket;
};

enum { STRETCH, LETTERBOX };
static const char *const fits[] = {"stretch", "letterbox", NULL};

static const struct sluice_op_param param_list[] = {
    {.name = "sides",
     .kind = SLUICE_PARAM_DRAWN,
     .offset = offsetof(struct params, sides),
     .form = "A-B/N",
     .example = "480-800/11",
     .min = 1,
     .max = SLUICE_MAX_OP_SIZE},
    {.name = "base",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, base),
     .form = "SIDE",
     .example = "640",
     .min = 1,
     .max = SLUICE_MAX_OP_SIZE},
    {.name = "weight",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, weight),
     .form = "N",
     .has_preset = true,
     .preset = {.min = 1},
     .is_quiet = true},
    {.name = "fit",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, fit),
     .form = "stretch or letterbox",
     .has_preset = true,
     .words = fits,
     .is_quiet = true},
    {.name = "filter",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, filter),
     .form = "bilinear, bicubic, lanczos, box, hamming, nearest or random",
     .has_preset = true,
     .words = sluice_resize_filters,
     .is_quiet = true},
    {.name = "fill",
     .kind = SLUICE_PARAM_COLOR,
     .offset = offsetof(struct params, fill),
     .form = "V or R/G/B",
     .has_preset = true,
     .is_quiet = true},
    SLUICE_EPOCHS_PARAM(struct params),
    {0},
};

static const char *prepare(void *params)
{
    struct params *p = params;
    const struct sluice_number *sides = &p->sides;
    const uint32_t first = (uint32_t)sides->min, span = (uint32_t)sides->max - first;
    if (sides->steps < 2 || sides->steps > SLUICE_MAX_BUCKETS || sides->about != 0 ||
        sides->has_sign || sides->min != first || sides->max != first + span ||
        span % (sides->steps - 1) != 0 || span == 0)
        return "A-B/N: at most 64 whole numbers at equal distances";
    p->sizes.num = sides->steps;
    p->base_bucket = p->sizes.num;
    for (unsigned i = 0; i < p->sizes.num; i++) {
        const uint32_t side = first + i * (span / (sides->steps - 1));
        p->sizes.sizes[i] = (struct sluice_size){side, side};
        if (side == p->base)
            p->base_bucket = i;
    }
    return p->base_bucket == p->sizes.num ? "base is to be one of the sides" : NULL;
}

static unsigned draw_bucket(const void *params, bool runs, struct sluice_rng *rng)
{
    const struct params *p = params;
    if (!runs)
        return p->base_bucket;
    const uint32_t drawn = sluice_rng_below(rng, p->sizes.num - 1 + p->weight);
    return drawn < p->sizes.num ? drawn : p->base_bucket;
}

static void draw_of_batch(const void *params, struct sluice_size in, unsigned bucket,
                          struct sluice_rng *rng, struct sluice_resample *resample)
{
    const struct params *p = params;
    const struct sluice_size out = p->sizes.sizes[bucket < p->sizes.num ? bucket : p->base_bucket];
    *resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = out,
        .out = out,
        .padding = {.color = {p->fill[0], p->fill[1], p->fill[2]}, .in = in},
        .filter = sluice_draw_filter(rng, p->filter),
    };
    if (p->fit == LETTERBOX)
        sluice_resample_letterbox(resample, in);
    resample->keep =
        (struct sluice_box){.width = resample->to.width, .height = resample->to.height};
}

static void print_base(const void *params, char *text, size_t room)
{
    const struct params *p = params;
    const char *filter = sluice_resize_filters[p->filter];
    if (p->fit == LETTERBOX)
        snprintf(text, room, "letterbox=%u:filter=%s:fill=%u/%u/%u", p->base, filter, p->fill[0],
                 p->fill[1], p->fill[2]);
    else
        snprintf(text, room, "resize=%ux%u:filter=%s", p->base, p->base, filter);
}

static const struct sluice_buckets *bucket_of(const void *params, struct sluice_size in,
                                              unsigned *bucket)
{
    (void)in;
    const struct params *p = params;
    *bucket = p->base_bucket;
    return &p->sizes;
}

static const struct sluice_epochs *epochs(const void *params)
{
    return &((const struct params *)params)->epochs;
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)in;
    const struct sluice_buckets *sizes = &((const struct params *)params)->sizes;
    const uint64_t least = sizes->sizes[0].width, most = sizes->sizes[sizes->num - 1].width;
    return (struct sluice_known_size){
        .is_rounded = true, .min_pixels = least * least, .max_pixels = most * most};
}

static bool has_padding(const void *params)
{
    return ((const struct params *)params)->fit == LETTERBOX;
}

const struct sluice_op_type sluice_op_multi_scale = {
    .name = "multi_scale",
    .help = "all images of a batch to one square, drawn for the batch: 480 to 800 in 11 sizes; "
            "with :weight=3 three times as often the base, and with :epochs=epoch<71 the base in "
            "other epochs; :fit=letterbox keeps proportions",
    .column = "MultiScale",
    .kind = SLUICE_OP_RESAMPLE,
    .is_random = true,
    .takes_whole = true,
    .has_padding = has_padding,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .epochs = epochs,
    .draw_bucket = draw_bucket,
    .draw_of_batch = draw_of_batch,
    .print_base = print_base,
    .bucket_of = bucket_of,
    .known_size = known_size,
};
