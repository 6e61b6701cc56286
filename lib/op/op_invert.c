#include "op/op.h"

/* invert: 255 less each value, as Pillow's ImageOps.invert. */

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)unused;
    (void)drawn;
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = (uint8_t)(255 - v);
}

const struct sluice_op_type sluice_op_invert = {
    .name = "invert",
    .help = "the negative",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 0.1,
    .table = table,
};
