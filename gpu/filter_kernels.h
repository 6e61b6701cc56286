#ifndef SLUICE_GPU_FILTER_KERNELS_H
#define SLUICE_GPU_FILTER_KERNELS_H

#include "gpu/color_kernels.h"
#include "image/gaussian.h"
#include "image/warp.h"

/* Kernels that read other pixels than they write, through the scratch memory: sharpness, blurs and
 * warps, the bits of image/color.h, image/gaussian.h and image/warp.h.  See pixel_kernels.h.  C11
 * and CUDA. */

/* --- kernels of neighbours --- */

SLUICE_KERNEL_INLINE void sluice_gpu_sharpen(const struct sluice_gpu_pixels *p, float factor)
{
    for (uint64_t i = p->thread; i < p->num; i += p->num_threads) {
        const uint32_t y = (uint32_t)(i / p->width), x = (uint32_t)(i % p->width);
        if (x == 0 || y == 0 || x + 1 >= p->width || y + 1 >= p->height)
            continue;
        const uint32_t *up = p->scratch + i - p->width, *here = p->scratch + i;
        const uint32_t *down = p->scratch + i + p->width;
        uint32_t made[3];
        for (uint32_t c = 0; c < 3; c++) {
            const uint32_t value = sluice_gpu_channel(*here, c);
            uint32_t sum = 4 * value;
            for (int k = -1; k < 2; k++)
                sum += sluice_gpu_channel(up[k], c) + sluice_gpu_channel(here[k], c) +
                       sluice_gpu_channel(down[k], c);
            const uint32_t smooth = (2 * sum + 13) / 26; /* sum / 13, rounded */
            made[c] = sluice_gpu_blend((float)smooth, (float)value, factor);
        }
        sluice_gpu_store(p, i, sluice_gpu_pixel_of(made[0], made[1], made[2]));
    }
}

/* A line of pixels in the row or its scratch memory. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_at(const struct sluice_gpu_pixels *p, int is_scratch,
                                            uint64_t i)
{
    return is_scratch ? p->scratch[i] : sluice_gpu_load(p, i);
}

/* Pass 0 to 5 of a box blur: across, then down; from the row to the scratch memory and back. */
SLUICE_KERNEL_INLINE void sluice_gpu_box_blur(const struct sluice_gpu_pixels *p,
                                              const struct sluice_kernel_call *call, uint32_t pass)
{
    const int64_t radius = call->with.box.radius;
    const uint32_t inner = call->with.box.inner, edge = call->with.box.edge;
    const int is_down = pass >= 3, is_scratch = pass % 2;
    const int64_t last = (is_down ? p->height : p->width) - 1;
    const uint64_t stride = is_down ? p->width : 1;
    for (uint64_t i = p->thread; i < p->num; i += p->num_threads) {
        const int64_t at = (int64_t)(is_down ? i / p->width : i % p->width);
        const uint64_t line = i - (uint64_t)at * stride; /* its first pixel */
        uint32_t sums[3] = {0, 0, 0}, made[3];
        for (int64_t k = at - radius; k <= at + radius; k++) {
            const int64_t from = k < 0 ? 0 : k > last ? last : k;
            const uint32_t pixel = sluice_gpu_at(p, is_scratch, line + (uint64_t)from * stride);
            for (uint32_t c = 0; c < 3; c++)
                sums[c] += sluice_gpu_channel(pixel, c);
        }
        const int64_t before = at > radius ? at - radius - 1 : 0;
        const int64_t after = at + radius + 1 < last ? at + radius + 1 : last;
        const uint32_t behind = sluice_gpu_at(p, is_scratch, line + (uint64_t)before * stride);
        const uint32_t ahead = sluice_gpu_at(p, is_scratch, line + (uint64_t)after * stride);
        for (uint32_t c = 0; c < 3; c++)
            made[c] = (sums[c] * inner +
                       (sluice_gpu_channel(behind, c) + sluice_gpu_channel(ahead, c)) * edge +
                       (1u << 23)) >>
                      24;
        const uint32_t pixel = sluice_gpu_pixel_of(made[0], made[1] & 255, made[2] & 255);
        if (is_scratch)
            sluice_gpu_store(p, i, pixel);
        else
            p->scratch[i] = pixel;
    }
}

/* Phase 0: sums across, float32, to the scratch memory. */
SLUICE_KERNEL_INLINE void sluice_gpu_gaussian_across(const struct sluice_gpu_pixels *p,
                                                     const struct sluice_kernel_call *call)
{
    float *sums = (float *)(void *)p->scratch;
    const float *weights = call->with.gaussian.weights;
    const uint32_t radius = call->with.gaussian.radius;
    for (uint64_t i = p->thread; i < p->num; i += p->num_threads) {
        const int64_t x = (int64_t)(i % p->width);
        const uint64_t line = i - (uint64_t)x;
        const uint32_t middle = sluice_gpu_load(p, i);
        float sum[3];
        for (uint32_t c = 0; c < 3; c++)
            sum[c] = (float)sluice_gpu_channel(middle, c) * weights[0];
        for (uint32_t k = 1; k <= radius; k++) {
            const uint32_t a = sluice_gpu_load(p, line + sluice_mirrored(x - k, p->width));
            const uint32_t b = sluice_gpu_load(p, line + sluice_mirrored(x + k, p->width));
            for (uint32_t c = 0; c < 3; c++)
                sum[c] += ((float)sluice_gpu_channel(a, c) + (float)sluice_gpu_channel(b, c)) *
                          weights[k];
        }
        for (uint32_t c = 0; c < 3; c++)
            sums[3 * i + c] = sum[c];
    }
}

/* To a u8: to the nearest, halves to even. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_to_nearest(float value)
{
    const float rounder = 12582912.0f; /* 1.5 x 2^23 */
    const float rounded = (value + rounder) - rounder;
    return rounded <= 0 ? 0 : rounded >= 255 ? 255 : (uint32_t)rounded;
}

/* Phase 1: sums down, rounded. */
SLUICE_KERNEL_INLINE void sluice_gpu_gaussian_down(const struct sluice_gpu_pixels *p,
                                                   const struct sluice_kernel_call *call)
{
    const float *sums = (const float *)(const void *)p->scratch;
    const float *weights = call->with.gaussian.weights;
    const uint32_t radius = call->with.gaussian.radius;
    for (uint64_t i = p->thread; i < p->num; i += p->num_threads) {
        const int64_t y = (int64_t)(i / p->width);
        const uint64_t x = i % p->width;
        float sum[3];
        for (uint32_t c = 0; c < 3; c++)
            sum[c] = sums[3 * i + c] * weights[0];
        for (uint32_t k = 1; k <= radius; k++) {
            const uint64_t up = sluice_mirrored(y - k, p->height);
            const uint64_t down = sluice_mirrored(y + k, p->height);
            const float *a = sums + 3 * (up * p->width + x), *b = sums + 3 * (down * p->width + x);
            for (uint32_t c = 0; c < 3; c++)
                sum[c] += (a[c] + b[c]) * weights[k];
        }
        sluice_gpu_store(p, i,
                         sluice_gpu_pixel_of(sluice_gpu_to_nearest(sum[0]),
                                             sluice_gpu_to_nearest(sum[1]),
                                             sluice_gpu_to_nearest(sum[2])));
    }
}

/* --- warps: image/warp.c, and for bilinear and bicubic image/kernels/warp_pixel.inc --- */

#define SLUICE_GPU_OUTSIDE 0xFFFFFFFFu

/* COORD() of Pillow, of an axis of this size. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_whole(double v, uint32_t size)
{
    return v >= 0 && v < size ? (uint32_t)v : SLUICE_GPU_OUTSIDE;
}

SLUICE_KERNEL_INLINE int sluice_gpu_floor(double v)
{
    const int whole = (int)v;
    return whole - (v < whole);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_clamp(int v, uint32_t size)
{
    return v < 0 ? 0 : (uint32_t)v < size ? (uint32_t)v : size - 1;
}

/* Phase 0, with the copy of the row: the source of each column, and then of each row, for a
 * matrix that only scales and moves.  Pillow adds step after step, and so do we. */
SLUICE_KERNEL_INLINE void sluice_gpu_find_lines(const struct sluice_gpu_pixels *p, const double *m)
{
    uint32_t *sources = p->scratch + p->num;
    for (uint32_t i = p->thread; i < p->width + p->height; i += p->num_threads) {
        const int is_column = i < p->width;
        const double step = is_column ? m[0] : m[4];
        double at = is_column ? m[2] + m[0] * 0.5 : m[5] + m[4] * 0.5;
        for (uint32_t k = is_column ? i : i - p->width; k > 0; k--)
            at += step;
        sources[i] = sluice_gpu_whole(at, is_column ? p->width : p->height);
    }
}

SLUICE_KERNEL_INLINE int sluice_gpu_is_fixed(const double *m, double x, double y)
{
    const double across = x * m[0] + y * m[1] + m[2], down = x * m[3] + y * m[4] + m[5];
    return across < 32768.0 && across > -32768.0 && down < 32768.0 && down > -32768.0;
}

/* 16 bits of fraction. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_fix(double v)
{
    return (uint32_t)sluice_gpu_floor(v * 65536.0 + 0.5);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_source(const struct sluice_gpu_pixels *p, uint32_t x,
                                                uint32_t y, uint32_t fill)
{
    return x < p->width && y < p->height ? p->scratch[(uint64_t)y * p->width + x] : fill;
}

SLUICE_KERNEL_INLINE void sluice_gpu_nearest_by_lines(const struct sluice_gpu_pixels *p,
                                                      uint32_t fill)
{
    const uint32_t *columns = p->scratch + p->num, *rows = columns + p->width;
    for (uint64_t i = p->thread; i < p->num; i += p->num_threads)
        sluice_gpu_store(p, i,
                         sluice_gpu_source(p, columns[i % p->width], rows[i / p->width], fill));
}

SLUICE_KERNEL_INLINE void sluice_gpu_nearest_fixed(const struct sluice_gpu_pixels *p,
                                                   const double *m, uint32_t fill)
{
    const uint32_t a0 = sluice_gpu_fix(m[0]), a1 = sluice_gpu_fix(m[1]), a3 = sluice_gpu_fix(m[3]),
                   a4 = sluice_gpu_fix(m[4]), a2 = sluice_gpu_fix(m[2] + m[0] * 0.5 + m[1] * 0.5),
                   a5 = sluice_gpu_fix(m[5] + m[3] * 0.5 + m[4] * 0.5);
    for (uint64_t i = p->thread; i < p->num; i += p->num_threads) {
        const uint32_t y = (uint32_t)(i / p->width), x = (uint32_t)(i % p->width);
        const int32_t from_x = (int32_t)(a2 + a1 * y + a0 * x) >> 16;
        const int32_t from_y = (int32_t)(a5 + a4 * y + a3 * x) >> 16;
        sluice_gpu_store(p, i, sluice_gpu_source(p, (uint32_t)from_x, (uint32_t)from_y, fill));
    }
}

/* A thread a row: positions are sums of steps. */
SLUICE_KERNEL_INLINE void sluice_gpu_nearest_double(const struct sluice_gpu_pixels *p,
                                                    const double *m, uint32_t fill)
{
    for (uint32_t y = p->thread; y < p->height; y += p->num_threads) {
        double at_x = m[2] + m[1] * 0.5 + m[0] * 0.5, at_y = m[5] + m[4] * 0.5 + m[3] * 0.5;
        for (uint32_t k = 0; k < y; k++) {
            at_x += m[1];
            at_y += m[4];
        }
        for (uint32_t x = 0; x < p->width; x++) {
            const uint32_t pixel = sluice_gpu_source(p, sluice_gpu_whole(at_x, p->width),
                                                     sluice_gpu_whole(at_y, p->height), fill);
            sluice_gpu_store(p, (uint64_t)y * p->width + x, pixel);
            at_x += m[0];
            at_y += m[3];
        }
    }
}

SLUICE_KERNEL_INLINE double sluice_gpu_mix(double a, double b, double part)
{
    return a + (b - a) * part;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_bilinear(const struct sluice_gpu_pixels *p, double xin,
                                                  double yin)
{
    xin -= 0.5;
    yin -= 0.5;
    const int x = sluice_gpu_floor(xin), y = sluice_gpu_floor(yin);
    const double dx = xin - x, dy = yin - y;
    const uint32_t x0 = sluice_gpu_clamp(x, p->width), x1 = sluice_gpu_clamp(x + 1, p->width);
    const uint32_t *upper = p->scratch + (uint64_t)sluice_gpu_clamp(y, p->height) * p->width;
    const uint32_t *lower = y + 1 >= 0 && (uint32_t)(y + 1) < p->height
                                ? p->scratch + (uint64_t)(y + 1) * p->width
                                : upper;
    uint32_t made[3];
    for (uint32_t c = 0; c < 3; c++) {
        const double above =
            sluice_gpu_mix(sluice_gpu_channel(upper[x0], c), sluice_gpu_channel(upper[x1], c), dx);
        const double below =
            sluice_gpu_mix(sluice_gpu_channel(lower[x0], c), sluice_gpu_channel(lower[x1], c), dx);
        made[c] = (uint32_t)sluice_gpu_mix(above, below, dy) & 255;
    }
    return sluice_gpu_pixel_of(made[0], made[1], made[2]);
}

/* Keys' cubic with a = -1. */
SLUICE_KERNEL_INLINE double sluice_gpu_cubic(double v1, double v2, double v3, double v4, double d)
{
    const double p2 = -v1 + v3, p3 = 2 * (v1 - v2) + v3 - v4, p4 = -v1 + v2 - v3 + v4;
    return v2 + d * (p2 + d * (p3 + d * p4));
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_bicubic(const struct sluice_gpu_pixels *p, double xin,
                                                 double yin)
{
    xin -= 0.5;
    yin -= 0.5;
    const int x = sluice_gpu_floor(xin), y = sluice_gpu_floor(yin);
    const double dx = xin - x, dy = yin - y;
    double lines[4][3];
    for (int k = 0; k < 4; k++) {
        const int line = y - 1 + k;
        /* Beneath the image the row before it stands in; the first one is clamped. */
        if (k > 0 && (line < 0 || (uint32_t)line >= p->height)) {
            for (uint32_t c = 0; c < 3; c++)
                lines[k][c] = lines[k - 1][c];
            continue;
        }
        const uint32_t *row = p->scratch + (uint64_t)sluice_gpu_clamp(line, p->height) * p->width;
        uint32_t four[4];
        for (int j = 0; j < 4; j++)
            four[j] = row[sluice_gpu_clamp(x - 1 + j, p->width)];
        for (uint32_t c = 0; c < 3; c++)
            lines[k][c] = sluice_gpu_cubic(
                sluice_gpu_channel(four[0], c), sluice_gpu_channel(four[1], c),
                sluice_gpu_channel(four[2], c), sluice_gpu_channel(four[3], c), dx);
    }
    uint32_t made[3];
    for (uint32_t c = 0; c < 3; c++) {
        const double sum = sluice_gpu_cubic(lines[0][c], lines[1][c], lines[2][c], lines[3][c], dy);
        made[c] = sum <= 0 ? 0 : sum >= 255 ? 255 : (uint32_t)sum;
    }
    return sluice_gpu_pixel_of(made[0], made[1], made[2]);
}

SLUICE_KERNEL_INLINE void sluice_gpu_interpolate(const struct sluice_gpu_pixels *p, const double *m,
                                                 int is_bicubic, uint32_t fill)
{
    for (uint64_t i = p->thread; i < p->num; i += p->num_threads) {
        const double x = (double)(i % p->width) + 0.5, y = (double)(i / p->width) + 0.5;
        const double xin = m[0] * x + m[1] * y + m[2], yin = m[3] * x + m[4] * y + m[5];
        uint32_t pixel = fill;
        if (xin >= 0 && xin < p->width && yin >= 0 && yin < p->height)
            pixel = is_bicubic ? sluice_gpu_bicubic(p, xin, yin) : sluice_gpu_bilinear(p, xin, yin);
        sluice_gpu_store(p, i, pixel);
    }
}

SLUICE_KERNEL_INLINE void sluice_gpu_warp(const struct sluice_gpu_pixels *p,
                                          const struct sluice_kernel_call *call, uint32_t phase)
{
    const double *m = call->with.warp.matrix;
    const uint32_t fill = call->with.warp.fill;
    const int is_nearest = call->with.warp.filter == SLUICE_WARP_NEAREST;
    const int is_by_lines = is_nearest && m[1] == 0 && m[3] == 0;
    const double w = p->width, h = p->height;
    if (phase == 0) {
        sluice_gpu_copy_to_scratch(p);
        if (is_by_lines)
            sluice_gpu_find_lines(p, m);
    } else if (!is_nearest) {
        sluice_gpu_interpolate(p, m, call->with.warp.filter == SLUICE_WARP_BICUBIC, fill);
    } else if (is_by_lines) {
        sluice_gpu_nearest_by_lines(p, fill);
    } else if (sluice_gpu_is_fixed(m, 0, 0) && sluice_gpu_is_fixed(m, w, h) &&
               sluice_gpu_is_fixed(m, 0, h) && sluice_gpu_is_fixed(m, w, 0)) {
        sluice_gpu_nearest_fixed(p, m, fill);
    } else {
        sluice_gpu_nearest_double(p, m, fill);
    }
}

#endif
