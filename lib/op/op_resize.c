#include "op/op.h"

/* resize: to a shorter side, as torchvision's Resize(int). */

struct params {
    uint32_t filter;
    uint32_t shorter;
};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, shorter),
     .form = "SHORTER_SIDE",
     .example = "256"},
    {.name = "filter",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, filter),
     .form = "bilinear, bicubic, lanczos, box, hamming, nearest or random",
     .has_preset = true,
     .words = sluice_resize_filters,
     .is_quiet = true},
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    const struct sluice_size to =
        sluice_size_with_shorter(((const struct params *)params)->shorter, in);
    drawn->resample = (struct sluice_resample){
        .from = {.width = in.width, .height = in.height},
        .to = to,
        .keep = {.width = to.width, .height = to.height},
        .out = to,
        .filter = sluice_draw_filter(rng, ((const struct params *)params)->filter),
    };
}

static struct sluice_known_size known_size(const void *params, struct sluice_known_size in)
{
    const uint32_t shorter = ((const struct params *)params)->shorter;
    const struct sluice_size size = {in.width, in.height};
    if (!in.width)
        return (struct sluice_known_size){.shorter = shorter};
    const struct sluice_size out = sluice_size_with_shorter(shorter, size);
    return sluice_known_exactly(out.width, out.height);
}

const struct sluice_op_type sluice_op_resize = {
    .name = "resize",
    .help = "the shorter side becomes 256 pixels",
    .column = "Resize",
    .kind = SLUICE_OP_RESAMPLE,
    .takes_whole = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .known_size = known_size,
};
