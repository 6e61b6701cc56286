#include "op/op.h"

/* solarize_add: adds to every value below a threshold, as timm's solarize_add. */

struct params {
    struct sluice_number add;
    struct sluice_number threshold;
};

static const struct sluice_op_param param_list[] = {
    {
        .name = "add",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, add),
        .form = "A",
        .example = "43",
        .max = 255,
    },
    {
        .name = "threshold",
        .kind = SLUICE_PARAM_DRAWN,
        .offset = offsetof(struct params, threshold),
        .form = "T",
        .max = 256,
        .has_preset = true,
        .preset = {128, 128},
    },
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    const struct params *p = params;
    drawn->values[0] = sluice_draw_whole(rng, &p->add);
    drawn->values[1] = sluice_draw_whole(rng, &p->threshold);
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)unused;
    const int add = (int)drawn->values[0], threshold = (int)drawn->values[1];
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = (uint8_t)(v >= threshold  ? v
                                                      : v + add > 255 ? 255
                                                                      : v + add);
}

const struct sluice_op_type sluice_op_solarize_add = {
    .name = "solarize_add",
    .help = "adds this to values below :threshold=128",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 0.5,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .table = table,
};
