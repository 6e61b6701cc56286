#include "op/op.h"

/* fit_bucket: the size whose proportions are nearest to the image's, by diffusers'
 * find_nearest_bucket() (training_utils); the image is resized to cover it, as torchvision's Resize
 * would, and cut by CenterCrop or RandomCrop. */

struct params {
    uint32_t crop, filter;
    struct sluice_buckets buckets;
};

enum { CENTER, RANDOM };
static const char *const crops[] = {"center", "random", NULL};

static const struct sluice_op_param param_list[] = {
    {.name = "sizes",
     .kind = SLUICE_PARAM_BUCKETS,
     .offset = offsetof(struct params, buckets),
     .form = "HEIGHTxWIDTH/HEIGHTxWIDTH/...",
     .example = "512x512/384x640/640x384"},
    {.name = "crop",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, crop),
     .form = "center or random",
     .has_preset = true,
     .words = crops,
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

/* The least |h * bucket_w - w * bucket_h|; of several the last. */
static const struct sluice_buckets *bucket_of(const void *params, struct sluice_size in,
                                              unsigned *bucket)
{
    const struct sluice_buckets *buckets = &((const struct params *)params)->buckets;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < buckets->num; i++) {
        const uint64_t a = (uint64_t)in.height * buckets->sizes[i].width;
        const uint64_t b = (uint64_t)in.width * buckets->sizes[i].height;
        const uint64_t metric = a > b ? a - b : b - a;
        if (metric <= least) {
            least = metric;
            *bucket = i;
        }
    }
    return buckets;
}

/* The size with the proportions of `in` that covers `out`: one side is equal, the other is
 * truncated as in torchvision's Resize. */
static struct sluice_size cover(struct sluice_size in, struct sluice_size out)
{
    const uint64_t a = (uint64_t)in.width * out.height, b = (uint64_t)in.height * out.width;
    if (a > b)
        out.width = (uint32_t)((double)a / (double)in.height);
    else
        out.height = (uint32_t)((double)b / (double)in.width);
    return out;
}

/* CenterCrop's round(rest / 2), halves to the even number. */
static uint32_t middle(uint32_t rest)
{
    const uint32_t half = rest / 2;
    return half + (rest & half & 1);
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    unsigned bucket = 0;
    const struct sluice_buckets *buckets = bucket_of(params, in, &bucket);
    const struct sluice_size out = buckets->sizes[bucket], to = cover(in, out);
    struct sluice_box keep = {.left = middle(to.width - out.width),
                              .top = middle(to.height - out.height),
                              .width = out.width,
                              .height = out.height};
    if (p->crop == RANDOM) {
        keep.top = sluice_rng_below(rng, to.height - out.height + 1);
        keep.left = sluice_rng_below(rng, to.width - out.width + 1);
    }
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = to,
        .keep = keep,
        .out = out,
        .filter = sluice_draw_filter(rng, p->filter),
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    const struct sluice_buckets *buckets = &((const struct params *)params)->buckets;
    unsigned bucket = 0;
    if (in.width)
        bucket_of(params, (struct sluice_size){in.width, in.height}, &bucket);
    if (in.width || buckets->num == 1)
        return sluice_known_exactly(buckets->sizes[bucket]);
    struct sluice_known_size known = {.is_rounded = true, .min_pixels = UINT64_MAX};
    for (unsigned i = 0; i < buckets->num; i++) {
        const uint64_t pixels = (uint64_t)buckets->sizes[i].width * buckets->sizes[i].height;
        known.min_pixels = pixels < known.min_pixels ? pixels : known.min_pixels;
        known.max_pixels = pixels > known.max_pixels ? pixels : known.max_pixels;
    }
    return known;
}

const struct sluice_op_type sluice_op_fit_bucket = {
    .name = "fit_bucket",
    .help = "the one of these sizes, as HEIGHTxWIDTH, with the proportions nearest to the image's, "
            "which is resized to cover it and cut in the middle, or by :crop=random; batches are "
            "of one size",
    .column = "FitBucket",
    .kind = SLUICE_OP_RESAMPLE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .bucket_of = bucket_of,
    .known_size = known_size,
};
