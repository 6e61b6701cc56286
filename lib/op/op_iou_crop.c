#include "op/op.h"

/* iou_crop: torchvision's RandomIoUCrop, from SSD: a box of the image that one of the objects'
 * boxes overlaps.  The draws come in its order and its arithmetic, which for the box's place and for
 * the overlaps is float32.  Sides that are rounded to nothing, with which torchvision divides by
 * zero, are a failed trial. */

/* The least intersection over union of the crop and a box; with 1, the image stays as it is. */
static const float overlaps[] = {0, 0.1F, 0.3F, 0.5F, 0.7F, 0.9F, 1};
enum { NUM_OVERLAPS = sizeof(overlaps) / sizeof(overlaps[0]) };

/* torchvision has no bound, but 1 in 5 million samples has this many overlaps before a 1. */
#define MOST_ROUNDS 100

struct params {
    struct sluice_range scale, ratio;
    double p;
    uint32_t trials; /* for each overlap */
    struct sluice_epochs epochs;
};

static const struct sluice_op_param param_list[] = {
    {.name = "scale",
     .kind = SLUICE_PARAM_RANGE,
     .offset = offsetof(struct params, scale),
     .form = "MIN-MAX",
     .example = "0.3-1",
     .min = 0.0001,
     .max = 1,
     .has_preset = true,
     .preset = {0.3, 1}},
    {.name = "ratio",
     .kind = SLUICE_PARAM_RATIOS,
     .offset = offsetof(struct params, ratio),
     .form = "MIN-MAX",
     .min = 0.0001,
     .max = 10000,
     .has_preset = true,
     .preset = {0.5, 2}},
    {.name = "p",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, p),
     .form = "P",
     .max = 1,
     .has_preset = true,
     .preset = {.min = 1}},
    {.name = "trials",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, trials),
     .form = "N",
     .has_preset = true,
     .preset = {.min = 40},
     .is_quiet = true},
    SLUICE_EPOCHS_PARAM(struct params),
    {0},
};

/* As torch.rand() makes them: in [0, 1) with 24 bits. */
static float draw_part(struct sluice_rng *rng)
{
    return (float)(sluice_rng_u32(rng) >> 8) * 0x1p-24F;
}

/* Whether a box that has its center in the crop overlaps it enough. */
static bool is_overlapped(const struct sluice_box *crop, const float *boxes, size_t num_boxes,
                          float overlap)
{
    const float left = (float)crop->left, top = (float)crop->top;
    const float right = (float)(crop->left + crop->width);
    const float bottom = (float)(crop->top + crop->height);
    const float area = (right - left) * (bottom - top);
    for (const float *b = boxes; b < boxes + 4 * num_boxes; b += 4) {
        const float x = 0.5F * (b[0] + b[2]), y = 0.5F * (b[1] + b[3]);
        if (!(left < x && x < right && top < y && y < bottom))
            continue;
        const float across = (b[2] < right ? b[2] : right) - (b[0] > left ? b[0] : left);
        const float down = (b[3] < bottom ? b[3] : bottom) - (b[1] > top ? b[1] : top);
        const float both = (across > 0 ? across : 0) * (down > 0 ? down : 0);
        const float either = (b[2] - b[0]) * (b[3] - b[1]) + area - both;
        if (both / either >= overlap)
            return true;
    }
    return false;
}

/* One trial.  False: the box is not as it has to be. */
static bool try_box(const struct params *p, struct sluice_size in, struct sluice_rng *rng,
                    struct sluice_box *box)
{
    const float least = (float)p->scale.min, span = (float)(p->scale.max - p->scale.min);
    const float across = least + span * draw_part(rng), down = least + span * draw_part(rng);
    box->width = (uint32_t)((float)in.width * across);
    box->height = (uint32_t)((float)in.height * down);
    if (box->width == 0 || box->height == 0)
        return false;
    const double ratio = (double)box->width / box->height;
    if (!(p->ratio.min <= ratio && ratio <= p->ratio.max))
        return false;
    box->left = (uint32_t)((float)(in.width - box->width) * draw_part(rng));
    box->top = (uint32_t)((float)(in.height - box->height) * draw_part(rng));
    return true;
}

static struct sluice_box draw_by_boxes(const void *params, struct sluice_size in,
                                       const float *boxes, size_t num_boxes, struct sluice_rng *rng)
{
    const struct params *p = params;
    const struct sluice_box all = {.width = in.width, .height = in.height};
    if (num_boxes == 0 || sluice_rng_double(rng) >= p->p)
        return all;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        const float overlap = overlaps[sluice_rng_below(rng, NUM_OVERLAPS)];
        if (overlap >= 1)
            return all;
        for (uint32_t i = 0; i < p->trials; i++) {
            struct sluice_box box;
            if (try_box(p, in, rng, &box) && is_overlapped(&box, boxes, num_boxes, overlap))
                return box;
        }
    }
    return all;
}

static const struct sluice_epochs *epochs(const void *params)
{
    return &((const struct params *)params)->epochs;
}

/* At most as many pixels as the input has. */
static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)params;
    const uint64_t most = in.width ? (uint64_t)in.width * in.height : in.max_pixels;
    return (struct sluice_known_size){.is_rounded = true, .max_pixels = most};
}

const struct sluice_op_type sluice_op_iou_crop = {
    .name = "iou_crop",
    .help = "a random box of 0.3 to 1 of each side that the box of an object overlaps, with "
            ":ratio=1/2-2 of width to height; :p=0.8; :epochs=epoch<71: in these alone",
    .column = "RandomIoUCrop",
    .kind = SLUICE_OP_RESAMPLE,
    .is_random = true,
    .is_copy = true,
    .has_drawn_size = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .epochs = epochs,
    .draw_by_boxes = draw_by_boxes,
    .known_size = known_size,
};
