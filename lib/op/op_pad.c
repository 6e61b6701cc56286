#include "op/op.h"

/* pad: torchvision's Pad(padding, fill, padding_mode) on PIL images. */

struct params {
    struct sluice_sides sides;
    uint32_t mode;
    uint8_t fill[3];
};

static const struct sluice_op_param param_list[] = {
    {.name = "padding",
     .kind = SLUICE_PARAM_SIDES,
     .offset = offsetof(struct params, sides),
     .form = "PIXELS, X/Y or LEFT/TOP/RIGHT/BOTTOM",
     .example = "4"},
    SLUICE_PADDING_PARAMS(struct params),
    {0},
};

/* An image grows by no more than a resize may make it. */
static const char *prepare(void *params)
{
    const struct sluice_sides *s = &((const struct params *)params)->sides;
    return s->left + s->right > SLUICE_MAX_OP_SIZE || s->top + s->bottom > SLUICE_MAX_OP_SIZE
               ? "opposite sides get at most 8192 pixels"
               : NULL;
}

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)rng;
    const struct params *p = params;
    const struct sluice_sides *s = &p->sides;
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = in,
        .keep = {.width = in.width, .height = in.height},
        .out = {in.width + s->left + s->right, in.height + s->top + s->bottom},
        .left = s->left,
        .top = s->top,
        .padding = {.mode = (enum sluice_padding_mode)p->mode,
                    .color = {p->fill[0], p->fill[1], p->fill[2]},
                    .in = in},
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    const struct sluice_sides *s = &((const struct params *)params)->sides;
    const uint32_t across = s->left + s->right, down = s->top + s->bottom;
    if (in.width)
        return sluice_known_exactly((struct sluice_size){in.width + across, in.height + down});
    in.padding.width += across;
    in.padding.height += down;
    return in;
}

static bool has_padding(const void *params)
{
    (void)params;
    return true;
}

const struct sluice_op_type sluice_op_pad = {
    .name = "pad",
    .help = "4 pixels more at each side, black, of :fill=128 or :mode=reflect; 4/8 left and right, "
            "top and bottom; 1/2/3/4 left, top, right, bottom",
    .column = "Pad",
    .kind = SLUICE_OP_RESAMPLE,
    .takes_whole = true,
    .is_copy = true,
    .has_padding = has_padding,
    .params = param_list,
    .params_size = sizeof(struct params),
    .prepare = prepare,
    .draw = draw,
    .known_size = known_size,
};
