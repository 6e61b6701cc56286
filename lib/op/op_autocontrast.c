#include "op/op.h"

/* autocontrast: Pillow's ImageOps.autocontrast: the values of each channel stretched to 0 .. 255.
 */

static void stretch(int low, int high, uint8_t out[256])
{
    const double scale = high > low ? 255.0 / (high - low) : 1;
    const double offset = high > low ? -low * scale : 0;
    for (int v = 0; v < 256; v++) {
        const int value = (int)(v * scale + offset);
        out[v] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *statistics,
                  uint8_t out[3][256])
{
    (void)drawn;
    for (int c = 0; c < 3; c++)
        stretch(statistics->low[c], statistics->high[c], out[c]);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    (void)drawn;
    call->kernel = SLUICE_KERNEL_AUTOCONTRAST;
}

const struct sluice_op_type sluice_op_autocontrast = {
    .name = "autocontrast",
    .help = "the values of each channel stretched to 0 .. 255",
    .column = "RandomAutocontrast",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 1.2,
    .statistics = SLUICE_STATISTICS_RANGE,
    .table = table,
    .call = call,
};
