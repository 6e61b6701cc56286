#ifndef SLUICE_IMAGE_WARP_H
#define SLUICE_IMAGE_WARP_H

#include <stdint.h>

/* Image.transform(size, AFFINE, matrix, filter, fillcolor) of Pillow, bit for bit: an image of the
 * same size, whose pixel at (x, y) comes from
 *
 *     (m[0] (x + 0.5) + m[1] (y + 0.5) + m[2],  m[3] (x + 0.5) + m[4] (y + 0.5) + m[5])
 *
 * of the input, or is `fill` if that lies outside.  Pixels of `in` and `out` have no gaps.
 *
 * Threads: pure functions. */

enum sluice_warp_filter { SLUICE_WARP_NEAREST, SLUICE_WARP_BILINEAR, SLUICE_WARP_BICUBIC };

void sluice_warp_rgb(const uint8_t *in, uint32_t width, uint32_t height, const double m[6],
                     enum sluice_warp_filter filter, const uint8_t fill[3], uint8_t *out);

/* Image.transform(size, PERSPECTIVE, a, filter, fillcolor): the pixel at (x, y) comes, with u = x +
 * 0.5 and v = y + 0.5, from
 *
 *     ((a[0] u + a[1] v + a[2]) / (a[6] u + a[7] v + 1),  (a[3] u + a[4] v + a[5]) / (the same)) */
void sluice_perspective_rgb(const uint8_t *in, uint32_t width, uint32_t height, const double a[8],
                            enum sluice_warp_filter filter, const uint8_t fill[3], uint8_t *out);

#endif
