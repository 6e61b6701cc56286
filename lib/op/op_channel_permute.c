#include "op/op.h"

/* channel_permute: permutes the channels at random, as torchvision's RandomChannelPermutation and
 * RandomPhotometricDistort. */

static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)params, (void)in;
    const uint8_t *order = orders[sluice_rng_below(rng, SLUICE_ARRAY_LEN(orders))];
    for (size_t c = 0; c < 3; c++)
        drawn->values[c] = order[c];
}

static void apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory)
{
    (void)memory;
    const double *values = drawn->values;
    const uint8_t order[3] = {(uint8_t)values[0], (uint8_t)values[1], (uint8_t)values[2]};
    const size_t bytes = (size_t)size.width * size.height * 3;
    for (size_t i = 0; i < bytes; i += 3) {
        const uint8_t pixel[3] = {in[i], in[i + 1], in[i + 2]};
        out[i] = pixel[order[0]];
        out[i + 1] = pixel[order[1]];
        out[i + 2] = pixel[order[2]];
    }
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    call->kernel = SLUICE_KERNEL_PERMUTE;
    for (size_t c = 0; c < 3; c++)
        call->with.order[c] = (uint32_t)drawn->values[c];
}

const struct sluice_op_type sluice_op_channel_permute = {
    .name = "channel_permute",
    .help = "the channels in an order that is drawn",
    .column = "RandomChannelPermutation",
    .kind = SLUICE_OP_PIXELS,
    .ns_per_pixel = 0.5,
    .is_random = true,
    .drawn_name = "order",
    .num_drawn = 3,
    .draw = draw,
    .apply = apply,
    .call = call,
};
