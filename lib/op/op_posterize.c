#include "op/op.h"

#include <math.h>

/* posterize: keeps the upper bits of every value, as Pillow's ImageOps.posterize; 0 bits make
 * black. */

struct params {
    struct sluice_number bits;
    uint32_t rounding;
};

static const char *const roundings[] = {"down", "up", NULL};

static const struct sluice_op_param param_list[] = {
    {
        .name = "bits",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, bits),
        .form = "BITS",
        .example = "4",
        .max = 8,
    },
    {.name = "rounding",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, rounding),
     .form = "down or up",
     .has_preset = true,
     .words = roundings},
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct params *p = params;
    drawn->values[0] =
        p->rounding ? ceil(sluice_draw_number(rng, &p->bits)) : sluice_draw_whole(rng, &p->bits);
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)unused;
    const int mask = ~((1 << (8 - (int)drawn->values[0])) - 1);
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = (uint8_t)(v & mask);
}

const struct sluice_op_type sluice_op_posterize = {
    .name = "posterize",
    .help = "keeps this number of upper bits of each value",
    .column = "RandomPosterize",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 0.1,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .table = table,
};
