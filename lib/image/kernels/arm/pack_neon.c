#include "image/pack/pack_kernels.h"

#include <arm_neon.h>

static void split_row(const uint8_t *pixels, size_t width, uint8_t *const planes[3])
{
    const uint8x16_t middle = vdupq_n_u8(SLUICE_PACK_MIDDLE);
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const uint8x16x3_t rgb = vld3q_u8(pixels + 3 * x);
        const uint8x16_t offset = vsubq_u8(middle, rgb.val[1]);
        vst1q_u8(planes[0] + x, rgb.val[1]);
        vst1q_u8(planes[1] + x, vaddq_u8(rgb.val[0], offset));
        vst1q_u8(planes[2] + x, vaddq_u8(rgb.val[2], offset));
    }
    if (x < width) {
        uint8_t *const rest[3] = {planes[0] + x, planes[1] + x, planes[2] + x};
        sluice_pack_kernels_c.split_row(pixels + 3 * x, width - x, rest);
    }
}

static void residual_row(const uint8_t *row, const uint8_t *above, size_t width, uint8_t *out)
{
    out[0] = (uint8_t)(row[0] - above[0]);
    size_t x = 1;
    for (; x + 16 <= width; x += 16) {
        const uint8x16_t a = vld1q_u8(row + x - 1), b = vld1q_u8(above + x);
        const uint8x16_t c = vld1q_u8(above + x - 1);
        const uint8x16_t low = vminq_u8(a, b), high = vmaxq_u8(a, b);
        const uint8x16_t held = vminq_u8(vmaxq_u8(c, low), high);
        const uint8x16_t predicted = vsubq_u8(vaddq_u8(low, high), held);
        vst1q_u8(out + x, vsubq_u8(vld1q_u8(row + x), predicted));
    }
    for (; x < width; x++) {
        const uint8_t a = row[x - 1], b = above[x], c = above[x - 1];
        const uint8_t low = a < b ? a : b, high = a < b ? b : a;
        const uint8_t held = c < low ? low : c > high ? high : c;
        out[x] = (uint8_t)(row[x] - (low + high - held));
    }
}

static void find_spreads(const uint8_t *residuals, size_t num_blocks, uint8_t *spreads)
{
    static const uint16_t padded[8] = SLUICE_PACK_BOUNDS; /* and three of 0, always reached */
    const uint16x8_t bounds = vld1q_u16(padded);
    for (size_t block = 0; block < num_blocks; block++) {
        const uint8x16_t at = vld1q_u8(residuals + block * SLUICE_PACK_BLOCK);
        const uint8x16_t sizes = vminq_u8(at, vsubq_u8(vdupq_n_u8(0), at));
        const uint16x8_t is_reached = vcgeq_u16(vdupq_n_u16(vaddlvq_u8(sizes)), bounds);
        spreads[block] = (uint8_t)(vaddvq_u16(vshrq_n_u16(is_reached, 15)) - 3);
    }
}

/* Each pixel waits for the one to its left and has only three planes: little for a vector to do. */
static void restore_row(const uint8_t *const residuals[3], size_t width, uint8_t *above,
                        uint8_t *pixels)
{
    sluice_pack_kernels_c.restore_row(residuals, width, above, pixels);
}

const struct sluice_pack_kernels sluice_pack_kernels_neon = {
    .split_row = split_row,
    .residual_row = residual_row,
    .find_spreads = find_spreads,
    .restore_row = restore_row,
};
