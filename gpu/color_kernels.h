#ifndef SLUICE_GPU_COLOR_KERNELS_H
#define SLUICE_GPU_COLOR_KERNELS_H

#include "gpu/pixels.h"

/* Kernels of single pixels, in place, and mirrors: the bits of image/color.h.  See
 * pixel_kernels.h.  C11 and CUDA. */

/* --- kernels of single pixels --- */

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_luma(uint32_t pixel)
{
    return (19595u * sluice_gpu_channel(pixel, 0) + 38470u * sluice_gpu_channel(pixel, 1) +
            7471u * sluice_gpu_channel(pixel, 2) + 0x8000u) >>
           16;
}

/* sluice_blend() */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_blend(float from, float value, float factor)
{
    const float sum = from + factor * (value - from);
    return sum <= 0 ? 0 : sum >= 255 ? 255 : (uint32_t)sum;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_saturate(uint32_t pixel, float factor)
{
    const float luma = (float)sluice_gpu_luma(pixel);
    uint32_t made[3];
    for (uint32_t c = 0; c < 3; c++)
        made[c] = sluice_gpu_blend(luma, (float)sluice_gpu_channel(pixel, c), factor);
    return sluice_gpu_pixel_of(made[0], made[1], made[2]);
}

/* The hue of a pixel, 0 to 255, as image/kernels/color_loops.inc computes it. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_hue_of(int r, int g, int b, int most, int least)
{
    const int range = most - least, mid = r + g + b - most - least;
    const float third = (float)(most - mid) / (float)(range > 0 ? range : 1);
    const int is_r = r == most, is_g = g == most, is_b_least = b == least, is_r_least = r == least;
    const float whole = is_r   ? (is_b_least ? 1.0f : -1.0f)
                        : is_g ? (is_b_least ? 1.0f : 3.0f)
                               : (is_r_least ? 3.0f : 5.0f);
    const int is_minus = is_r ? is_b_least : is_g ? !is_b_least : !is_r_least;
    const double turn = (double)(whole + (is_minus ? -third : third)) / 6.0 + 1.0;
    const float part = (float)(turn >= 1.0 ? turn - 1.0 : turn);
    return (uint32_t)((double)part * 255.0);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_shift_hue(uint32_t pixel, uint32_t shift)
{
    const int r = (int)sluice_gpu_channel(pixel, 0), g = (int)sluice_gpu_channel(pixel, 1);
    const int b = (int)sluice_gpu_channel(pixel, 2);
    const int rg_most = r > g ? r : g, rg_least = r < g ? r : g;
    const int most = rg_most > b ? rg_most : b, least = rg_least < b ? rg_least : b;
    const int range = most - least;
    const float of_most = (float)(range > 0 ? range : 1) / (float)(most > 0 ? most : 1);
    const uint32_t s = range > 0 ? (uint32_t)((double)of_most * 255.0) : 0, v = (uint32_t)most;
    const uint32_t h = (sluice_gpu_hue_of(r, g, b, most, least) + shift) & 255;
    const uint32_t six = h * 6, turn = six / 255, part = six - turn * 255;
    const uint32_t low = (2 * v * (255 - s) + 255) / 510;
    const uint32_t down = (2 * v * (65025 - s * part) + 65025) / 130050;
    const uint32_t up = (2 * v * (65025 - s * (255 - part)) + 65025) / 130050;
    const uint32_t k = turn == 6 ? 0 : turn;
    return sluice_gpu_pixel_of(k == 0 || k == 5 ? v
                               : k == 1         ? down
                               : k == 4         ? up
                                                : low,
                               k == 1 || k == 2 ? v
                               : k == 0         ? up
                               : k == 3         ? down
                                                : low,
                               k == 3 || k == 4 ? v
                               : k == 2         ? up
                               : k == 5         ? down
                                                : low);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_point(const struct sluice_gpu_pixels *p,
                                               const struct sluice_kernel_call *call,
                                               uint32_t pixel)
{
    switch (call->kernel) {
    case SLUICE_KERNEL_GRAY: {
        const uint32_t luma = sluice_gpu_luma(pixel);
        return sluice_gpu_pixel_of(luma, luma, luma);
    }
    case SLUICE_KERNEL_SATURATE:
        return sluice_gpu_saturate(pixel, call->with.factor);
    case SLUICE_KERNEL_HUE:
        return sluice_gpu_shift_hue(pixel, call->with.shift);
    case SLUICE_KERNEL_PERMUTE:
        return sluice_gpu_pixel_of(sluice_gpu_channel(pixel, call->with.order[0] & 3),
                                   sluice_gpu_channel(pixel, call->with.order[1] & 3),
                                   sluice_gpu_channel(pixel, call->with.order[2] & 3));
    default: /* a table, made in the phases before */
        return sluice_gpu_pixel_of(p->shared->table[0][sluice_gpu_channel(pixel, 0)],
                                   p->shared->table[1][sluice_gpu_channel(pixel, 1)],
                                   p->shared->table[2][sluice_gpu_channel(pixel, 2)]);
    }
}

SLUICE_KERNEL_INLINE void sluice_gpu_run_points(const struct sluice_gpu_pixels *p,
                                                const struct sluice_kernel_call *call)
{
    for (uint64_t i = 4 * (uint64_t)p->thread; i < p->num; i += 4 * (uint64_t)p->num_threads) {
        uint32_t four[4] = {0, 0, 0, 0};
        const uint32_t count = sluice_gpu_load_four(p, i, four);
        for (uint32_t k = 0; k < 4; k++)
            four[k] = sluice_gpu_point(p, call, four[k]);
        sluice_gpu_store_four(p, i, four, count);
    }
}

/* --- tables that follow from the pixels --- */

#ifdef __CUDACC__
#define SLUICE_GPU_COUNT(address, more) atomicAdd(address, more)
#else
#define SLUICE_GPU_COUNT(address, more) (*(address) += (more))
#endif

SLUICE_KERNEL_INLINE void sluice_gpu_clear_counts(const struct sluice_gpu_pixels *p)
{
    for (uint32_t i = p->thread; i < 3 * 256; i += p->num_threads)
        p->shared->histogram[i / 256][i % 256] = 0;
    if (p->thread == 0)
        p->shared->luma_sum = 0;
}

SLUICE_KERNEL_INLINE void sluice_gpu_count(const struct sluice_gpu_pixels *p, int is_luma)
{
    unsigned long long sum = 0;
    for (uint64_t i = 4 * (uint64_t)p->thread; i < p->num; i += 4 * (uint64_t)p->num_threads) {
        uint32_t four[4];
        const uint32_t count = sluice_gpu_load_four(p, i, four);
        for (uint32_t k = 0; k < count; k++) {
            if (is_luma) {
                sum += sluice_gpu_luma(four[k]);
                continue;
            }
            for (uint32_t c = 0; c < 3; c++)
                SLUICE_GPU_COUNT(&p->shared->histogram[c][sluice_gpu_channel(four[k], c)], 1u);
        }
    }
    if (is_luma)
        SLUICE_GPU_COUNT(&p->shared->luma_sum, sum);
}

/* The bounds of each channel for autocontrast; for equalize, the sums below each value. */
SLUICE_KERNEL_INLINE void sluice_gpu_find_bounds(const struct sluice_gpu_pixels *p, int is_equalize)
{
    struct sluice_gpu_pixels_shared *shared = p->shared;
    for (uint32_t c = p->thread; c < 3; c += p->num_threads) {
        uint32_t *histogram = shared->histogram[c];
        uint32_t low = 0, high = 255;
        while (low < 255 && histogram[low] == 0)
            low++;
        while (high > 0 && histogram[high] == 0)
            high--;
        shared->low[c] = low;
        shared->high[c] = high;
        if (!is_equalize)
            continue;
        const uint32_t step = (uint32_t)((p->num - histogram[high]) / 255);
        shared->step[c] = step;
        uint32_t sum = step / 2;
        for (uint32_t v = 0; v < 256; v++) {
            const uint32_t count = histogram[v];
            histogram[v] = sum;
            sum += count;
        }
    }
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_equalized(const struct sluice_gpu_pixels_shared *shared,
                                                   uint32_t c, uint32_t v)
{
    const uint32_t value = shared->step[c] ? shared->histogram[c][v] / shared->step[c] : v;
    return value > 255 ? 255 : value;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_stretched(const struct sluice_gpu_pixels_shared *shared,
                                                   uint32_t c, uint32_t v)
{
    const int low = (int)shared->low[c], high = (int)shared->high[c];
    const double scale = high > low ? 255.0 / (high - low) : 1;
    const double offset = high > low ? -low * scale : 0;
    const int value = (int)(v * scale + offset);
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

SLUICE_KERNEL_INLINE void sluice_gpu_make_table(const struct sluice_gpu_pixels *p,
                                                const struct sluice_kernel_call *call)
{
    const double mean = (double)p->shared->luma_sum / (double)p->num;
    const float gray = (float)(int)(mean + 0.5);
    for (uint32_t i = p->thread; i < 3 * 256; i += p->num_threads) {
        const uint32_t c = i / 256, v = i % 256;
        uint32_t value = 0;
        if (call->kernel == SLUICE_KERNEL_TABLE)
            value = call->with.table[c][v];
        else if (call->kernel == SLUICE_KERNEL_CONTRAST)
            value = sluice_gpu_blend(gray, (float)v, call->with.factor);
        else if (call->kernel == SLUICE_KERNEL_EQUALIZE)
            value = sluice_gpu_equalized(p->shared, c, v);
        else
            value = sluice_gpu_stretched(p->shared, c, v);
        p->shared->table[c][v] = (uint8_t)value;
    }
}

/* The phases of all kernels that end in a table. */
SLUICE_KERNEL_INLINE void sluice_gpu_run_table(const struct sluice_gpu_pixels *p,
                                               const struct sluice_kernel_call *call,
                                               uint32_t phase)
{
    const uint32_t last = sluice_gpu_num_phases(call->kernel) - 1;
    if (phase == last)
        sluice_gpu_run_points(p, call);
    else if (phase + 1 == last)
        sluice_gpu_make_table(p, call);
    else if (phase == 0)
        sluice_gpu_clear_counts(p);
    else if (phase == 1)
        sluice_gpu_count(p, call->kernel == SLUICE_KERNEL_CONTRAST);
    else
        sluice_gpu_find_bounds(p, call->kernel == SLUICE_KERNEL_EQUALIZE);
}

/* --- mirrors --- */

/* Each thread swaps pixels of the first half with those of the second. */
SLUICE_KERNEL_INLINE void sluice_gpu_mirror(const struct sluice_gpu_pixels *p, int is_flip)
{
    const uint32_t width = is_flip ? p->width : p->width / 2;
    const uint32_t height = is_flip ? p->height / 2 : p->height;
    const uint64_t num = (uint64_t)width * height;
    for (uint64_t i = p->thread; i < num; i += p->num_threads) {
        const uint64_t y = i / width, x = i % width;
        const uint64_t here = y * p->width + x;
        const uint64_t there =
            is_flip ? (p->height - 1 - y) * p->width + x : y * p->width + (p->width - 1 - x);
        const uint32_t first = sluice_gpu_load(p, here), second = sluice_gpu_load(p, there);
        sluice_gpu_store(p, here, second);
        sluice_gpu_store(p, there, first);
    }
}

#endif
