#ifndef SLUICE_IMAGE_GAUSSIAN_H
#define SLUICE_IMAGE_GAUSSIAN_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

#define SLUICE_GAUSSIAN_MAX_RADIUS 63

/* A symmetric filter along rows, then along columns, in float32: each sum starts with the middle
 * and adds the pairs at distance 1, 2, ..., every operation rounded.  The result is rounded to the
 * nearest u8, halves to even.  Images are mirrored about their outer pixels, repeatedly if they are
 * smaller than the radius.
 *
 * in, out: height x width x 3.  weights: radius + 1, the middle first; their sum, with all but the
 * first twice, is 1 but for rounding.  `memory` has sluice_gaussian_memory() bytes, aligned for
 * floats.  Threads: pure. */
void sluice_gaussian_rgb(const uint8_t *in, uint32_t width, uint32_t height, const float *weights,
                         uint32_t radius, uint8_t *out, void *memory);
size_t sluice_gaussian_memory(uint32_t width, uint32_t height);

/* Maps any position to a pixel of [0, count) by mirroring about the outer pixels. */
SLUICE_KERNEL_INLINE uint32_t sluice_mirrored(int64_t at, uint32_t count)
{
    if (at >= 0 && at < count)
        return (uint32_t)at;
    if (count == 1)
        return 0;
    const int64_t period = 2 * ((int64_t)count - 1);
    at %= period;
    if (at < 0)
        at += period;
    return (uint32_t)(at < count ? at : period - at);
}

#endif
