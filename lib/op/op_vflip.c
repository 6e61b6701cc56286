#include "op/op.h"

#include <string.h>

/* vflip: mirrors top to bottom, as torchvision's vflip. */

static void apply(const union sluice_drawn *drawn, struct sluice_size size, const uint8_t *in,
                  uint8_t *out, void *memory)
{
    (void)drawn, (void)memory;
    const size_t row = (size_t)size.width * 3;
    for (uint32_t y = 0; y < size.height; y++)
        memcpy(out + y * row, in + (size.height - 1 - y) * row, row);
}

static void map(const union sluice_drawn *drawn, struct sluice_size size, double matrix[9])
{
    (void)drawn;
    const double flip[9] = {1, 0, 0, 0, -1, size.height, 0, 0, 1};
    memcpy(matrix, flip, sizeof(flip));
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    (void)drawn;
    call->kernel = SLUICE_KERNEL_FLIP;
}

const struct sluice_op_type sluice_op_vflip = {
    .name = "vflip",
    .help = "top and bottom change places",
    .column = "RandomVerticalFlip",
    .kind = SLUICE_OP_PIXELS,
    .ns_per_pixel = 0.1,
    .apply = apply,
    .map = map,
    .call = call,
};
