#include "op/op.h"

#include <math.h>

/* solarize: inverts every value at or above a threshold, as Pillow's ImageOps.solarize. */

struct params {
    struct sluice_number threshold;
    uint32_t rounding;
};

static const char *const roundings[] = {"none", "down", NULL};

static const struct sluice_op_param param_list[] = {
    {
        .name = "threshold",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, threshold),
        .form = "T",
        .example = "128",
        .max = 256,
        .has_preset = true,
        .preset = {128, 128},
    },
    {.name = "rounding",
     .kind = SLUICE_PARAM_WORD,
     .offset = offsetof(struct params, rounding),
     .form = "none or down",
     .has_preset = true,
     .words = roundings,
     .is_quiet = true},
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct params *p = params;
    const double threshold = sluice_draw_number(rng, &p->threshold);
    drawn->values[0] = p->rounding ? floor(threshold) : threshold;
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)unused;
    const double threshold = drawn->values[0];
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = (uint8_t)(v < threshold ? v : 255 - v);
}

const struct sluice_op_type sluice_op_solarize = {
    .name = "solarize",
    .help = "inverts values of at least this",
    .column = "RandomSolarize",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 0.1,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .table = table,
};
