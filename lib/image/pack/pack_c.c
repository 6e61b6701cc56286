#include "base/compiler.h"
#include "image/pack/pack_kernels.h"

static void split_row(const uint8_t *pixels, size_t width, uint8_t *const planes[3])
{
    uint8_t *g = planes[0], *r = planes[1], *b = planes[2];
    for (size_t x = 0; x < width; x++) {
        const uint8_t green = pixels[3 * x + 1];
        g[x] = green;
        r[x] = (uint8_t)(pixels[3 * x] - green + SLUICE_PACK_MIDDLE);
        b[x] = (uint8_t)(pixels[3 * x + 2] - green + SLUICE_PACK_MIDDLE);
    }
}

/* LOCO-I: a + b - c, held between a (left) and b (above); c is above a. */
static inline uint8_t predict(uint8_t a, uint8_t b, uint8_t c)
{
    const uint8_t low = a < b ? a : b, high = a < b ? b : a;
    const uint8_t held = c < low ? low : c > high ? high : c;
    return (uint8_t)(low + high - held);
}

/* The first pixel is predicted from the one above it, whatever stands left of it. */
static void residual_row(const uint8_t *row, const uint8_t *above, size_t width, uint8_t *out)
{
    out[0] = (uint8_t)(row[0] - above[0]);
    for (size_t x = 1; x < width; x++)
        out[x] = (uint8_t)(row[x] - predict(row[x - 1], above[x], above[x - 1]));
}

static void find_spreads(const uint8_t *residuals, size_t num_blocks, uint8_t *spreads)
{
    static const unsigned bounds[] = SLUICE_PACK_BOUNDS;
    for (size_t block = 0; block < num_blocks; block++) {
        const uint8_t *at = residuals + block * SLUICE_PACK_BLOCK;
        unsigned sum = 0;
        for (unsigned i = 0; i < SLUICE_PACK_BLOCK; i++) {
            const uint8_t negated = (uint8_t)-at[i];
            sum += at[i] < negated ? at[i] : negated;
        }
        uint8_t spread = 0;
        for (unsigned i = 0; i < SLUICE_ARRAY_LEN(bounds); i++)
            spread += sum >= bounds[i];
        spreads[block] = spread;
    }
}

/* The planes go side by side, as each waits for its own left pixel. */
static void restore_row(const uint8_t *const residuals[3], size_t width, uint8_t *above,
                        uint8_t *pixels)
{
    uint8_t left[3], corner[3];
    for (unsigned plane = 0; plane < 3; plane++)
        left[plane] = corner[plane] = above[plane];
    for (size_t x = 0; x < width; x++) {
        uint8_t *at = above + 4 * x;
        for (unsigned plane = 0; plane < 3; plane++) {
            left[plane] =
                (uint8_t)(predict(left[plane], at[plane], corner[plane]) + residuals[plane][x]);
            corner[plane] = at[plane];
            at[plane] = left[plane];
        }
        pixels[3 * x] = (uint8_t)(left[1] + left[0] - SLUICE_PACK_MIDDLE);
        pixels[3 * x + 1] = left[0];
        pixels[3 * x + 2] = (uint8_t)(left[2] + left[0] - SLUICE_PACK_MIDDLE);
    }
}

const struct sluice_pack_kernels sluice_pack_kernels_c = {
    .split_row = split_row,
    .residual_row = residual_row,
    .find_spreads = find_spreads,
    .restore_row = restore_row,
};
