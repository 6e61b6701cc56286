#include "op/op.h"

/* identity: changes nothing; one of the ops that policies draw. */

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)drawn, (void)unused;
    for (int v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = (uint8_t)v;
}

const struct sluice_op_type sluice_op_identity = {
    .name = "identity",
    .help = "changes nothing; one of the ops that policies draw",
    .kind = SLUICE_OP_TABLE,
    .is_identity = true,
    .table = table,
};
