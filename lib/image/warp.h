#ifndef SLUICE_IMAGE_WARP_H
#define SLUICE_IMAGE_WARP_H

#include <stdint.h>

/* Image.transform(size, AFFINE, matrix, filter, fillcolor) of Pillow, bit for bit: an image of the
 * same size, whose pixel at (x, y) comes from
 *
 *     (m[0] (x + 0.5) + m[1] (y + 0.5) + m[2],  m[3] (x + 0.5) + m[4] (y + 0.5) + m[5])
 *
 * of the input; where that lies outside, it is `fill`.  Pixels of `in` and `out` have no gaps.
 *
 * Threads: pure functions. */

enum sluice_warp_filter { SLUICE_WARP_NEAREST, SLUICE_WARP_BILINEAR, SLUICE_WARP_BICUBIC };

void sluice_warp_rgb(const uint8_t *in, uint32_t width, uint32_t height, const double m[6],
                     enum sluice_warp_filter filter, const uint8_t fill[3], uint8_t *out);

#endif
