#include "op/op.h"

/* equalize: Pillow's ImageOps.equalize: equalises the histogram of each channel. */

static void equalize(const uint32_t histogram[256], uint64_t num_pixels, uint8_t out[256])
{
    int last = 255;
    while (last > 0 && histogram[last] == 0)
        last--;
    const uint64_t step = (num_pixels - histogram[last]) / 255; /* 0 for one value alone, too */
    uint64_t n = step / 2;
    for (int v = 0; v < 256; v++) {
        const uint64_t value = step ? n / step : (uint64_t)v;
        out[v] = (uint8_t)(value > 255 ? 255 : value);
        n += histogram[v];
    }
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *statistics,
                  uint8_t out[3][256])
{
    (void)drawn;
    for (int c = 0; c < 3; c++)
        equalize(statistics->histogram[c], statistics->num_pixels, out[c]);
}

static void call(const union sluice_drawn *drawn, struct sluice_kernel_call *call)
{
    (void)drawn;
    call->kernel = SLUICE_KERNEL_EQUALIZE;
}

const struct sluice_op_type sluice_op_equalize = {
    .name = "equalize",
    .help = "about as many pixels of each value, by channel",
    .column = "RandomEqualize",
    .kind = SLUICE_OP_TABLE,
    .ns_per_pixel = 1.5,
    .statistics = SLUICE_STATISTICS_HISTOGRAM,
    .table = table,
    .call = call,
};
