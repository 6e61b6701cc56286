#include "op/op.h"

/* random_crop: torchvision's RandomCrop(size, padding, pad_if_needed=True, fill=fill,
 * padding_mode=mode). */

struct params {
    struct sluice_size size;
    double padding;
    uint32_t mode;
    uint8_t fill[3];
};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZES,
     .offset = offsetof(struct params, size),
     .form = "SIZE or HEIGHTxWIDTH",
     .example = "32:padding=4"},
    {.name = "padding",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, padding),
     .form = "PIXELS",
     .max = SLUICE_MAX_OP_SIZE,
     .has_preset = true},
    SLUICE_PADDING_PARAMS(struct params),
    {0},
};

static const char *prepare(void *params)
{
    struct params *p = params;
    sluice_crop_size_prepare(&p->size);
    const struct sluice_size size = sluice_crop_size(p->size);
    const uint32_t side = size.width < size.height ? size.width : size.height;
    if (p->padding != (uint32_t)p->padding)
        return "the padding is to be a whole number";
    /* The window then has the pixels that are mirrored. */
    if (p->mode != SLUICE_PADDING_CONSTANT && 2 * p->padding >= side)
        return "padding that mirrors is to be below half of the size";
    return p->padding < side ? NULL : "the padding is to be below the size";
}

/* One axis: `count` pixels from `from` are kept, and stand at `at`. */
struct span {
    uint32_t from, count, at;
};

/* A random window within the padded image; an image that is still too small is padded on both sides
 * by the missing pixels. */
static struct span draw_span(uint32_t padding, uint32_t size, uint32_t in, struct sluice_rng *rng)
{
    const uint32_t padded = in + 2 * padding;
    const uint32_t lack = padded < size ? size - padded : 0;
    const uint32_t before = padding + lack;
    const uint32_t start = sluice_rng_below(rng, padded + 2 * lack - size + 1);
    const uint32_t from = start > before ? start - before : 0;
    const uint32_t at = before > start ? before - start : 0;
    const uint32_t left = in - from, room = size - at;
    return (struct span){.from = from, .count = left < room ? left : room, .at = at};
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct params *p = params;
    const uint32_t padding = (uint32_t)p->padding;
    const struct sluice_size size = sluice_crop_size(p->size);
    const struct span across = draw_span(padding, size.width, in.width, rng),
                      down = draw_span(padding, size.height, in.height, rng);
    drawn->resample = (struct sluice_resample){
        .from = {across.from, down.from, across.count, down.count},
        .to = {across.count, down.count},
        .keep = {.width = across.count, .height = down.count},
        .out = size,
        .left = across.at,
        .top = down.at,
        .padding = {.mode = (enum sluice_padding_mode)p->mode,
                    .color = {p->fill[0], p->fill[1], p->fill[2]},
                    .around = padding,
                    .in = in},
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    (void)in;
    return sluice_known_exactly(sluice_crop_size(((const struct params *)params)->size));
}

static bool has_padding(const void *params)
{
    return ((const struct params *)params)->padding > 0;
}

const struct sluice_op_type sluice_op_random_crop = {
    .name = "random_crop",
    .help =
        "32 x 32 pixels anywhere in an image with 4 around it, black, :fill=128 or :mode=reflect",
    .column = "RandomCrop",
    .kind = SLUICE_OP_RESAMPLE,
    .is_copy = true,
    .has_padding = has_padding,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
