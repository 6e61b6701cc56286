#ifndef SLUICE_GPU_PIXELS_H
#define SLUICE_GPU_PIXELS_H

#include "base/compiler.h"
#include "gpu/decode_kernels.h"
#include "image/kernel_call.h"

/* A view of a sample as kernels of colours, blurs and warps see it: its pixels, scratch memory, and
 * the threads that work on it (pixel_kernels.h).
 *
 * C11 and CUDA. */

/* SLUICE_GPU_SHARED.  Sums and tables of the kernel under way. */
struct sluice_gpu_pixels_shared {
    uint32_t histogram[3][256]; /* and then the sum of all values below each */
    unsigned long long luma_sum;
    uint32_t low[3], high[3]; /* the least and the greatest value that occurs */
    uint32_t step[3];         /* of equalize */
    uint8_t table[3][256];
};

/* The pixels of a view, and the threads that work on them. */
struct sluice_gpu_pixels {
    uint8_t *row;
    uint32_t *scratch;
    uint32_t width, height;
    uint64_t num;
    int is_by_fours; /* four pixels are three whole words */
    struct sluice_gpu_pixels_shared *shared;
    uint32_t thread, num_threads;
};

SLUICE_KERNEL_INLINE struct sluice_gpu_pixels
sluice_gpu_pixels_init(const struct sluice_gpu_memory *memory,
                       const struct sluice_gpu_sample *sample, const struct sluice_gpu_view *view,
                       struct sluice_gpu_pixels_shared *shared, uint32_t thread,
                       uint32_t num_threads)
{
    struct sluice_gpu_pixels p;
    p.width = view->across.count;
    p.height = view->down.count;
    p.num = (uint64_t)p.width * p.height;
    p.row = sluice_gpu_pixels_of(memory, sample, view);
    p.scratch = memory->pixels + view->first_pixel;
    p.is_by_fours = sluice_gpu_is_by_words(p.row, p.num);
    p.shared = shared;
    p.thread = thread;
    p.num_threads = num_threads;
    return p;
}

SLUICE_KERNEL_INLINE const struct sluice_kernel_call *
sluice_gpu_call_of(const struct sluice_gpu_sample *sample, const struct sluice_gpu_view *view,
                   uint32_t at)
{
    const uint8_t *calls = (const uint8_t *)sample + view->calls_at;
    return (const struct sluice_kernel_call *)(const void *)(calls + at);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_num_phases(uint32_t kernel)
{
    switch (kernel) {
    case SLUICE_KERNEL_TABLE:
    case SLUICE_KERNEL_SHARPEN:
    case SLUICE_KERNEL_GAUSSIAN:
    case SLUICE_KERNEL_WARP:
        return 2;
    case SLUICE_KERNEL_CONTRAST:
        return 4;
    case SLUICE_KERNEL_AUTOCONTRAST:
    case SLUICE_KERNEL_EQUALIZE:
        return 5;
    case SLUICE_KERNEL_BOX_BLUR:
        return 6;
    default:
        return 1;
    }
}

/* --- pixels: red, green, blue in a word's low bytes --- */

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_channel(uint32_t pixel, uint32_t c)
{
    return pixel >> 8 * c & 255;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_pixel_of(uint32_t red, uint32_t green, uint32_t blue)
{
    return red | green << 8 | blue << 16;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_load(const struct sluice_gpu_pixels *p, uint64_t i)
{
    const uint8_t *at = p->row + 3 * i;
    return sluice_gpu_pixel_of(at[0], at[1], at[2]);
}

SLUICE_KERNEL_INLINE void sluice_gpu_store(const struct sluice_gpu_pixels *p, uint64_t i,
                                           uint32_t pixel)
{
    uint8_t *at = p->row + 3 * i;
    at[0] = (uint8_t)pixel;
    at[1] = (uint8_t)(pixel >> 8);
    at[2] = (uint8_t)(pixel >> 16);
}

/* Four pixels from `i` on, as far as there are any; returns how many. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_load_four(const struct sluice_gpu_pixels *p, uint64_t i,
                                                   uint32_t four[4])
{
    if (p->is_by_fours) {
        const uint32_t *words = (const uint32_t *)(const void *)(p->row + 3 * i);
        const uint32_t a = words[0], b = words[1], c = words[2]; /* little endian */
        four[0] = a & 0xFFFFFF;
        four[1] = a >> 24 | (b & 0xFFFF) << 8;
        four[2] = b >> 16 | (c & 0xFF) << 16;
        four[3] = c >> 8;
        return 4;
    }
    const uint32_t count = p->num - i < 4 ? (uint32_t)(p->num - i) : 4;
    for (uint32_t k = 0; k < count; k++)
        four[k] = sluice_gpu_load(p, i + k);
    return count;
}

SLUICE_KERNEL_INLINE void sluice_gpu_store_four(const struct sluice_gpu_pixels *p, uint64_t i,
                                                const uint32_t four[4], uint32_t count)
{
    if (p->is_by_fours) {
        uint32_t *words = (uint32_t *)(void *)(p->row + 3 * i);
        words[0] = four[0] | four[1] << 24;
        words[1] = four[1] >> 8 | four[2] << 16;
        words[2] = four[2] >> 16 | four[3] << 8;
        return;
    }
    for (uint32_t k = 0; k < count; k++)
        sluice_gpu_store(p, i + k, four[k]);
}

SLUICE_KERNEL_INLINE void sluice_gpu_copy_to_scratch(const struct sluice_gpu_pixels *p)
{
    for (uint64_t i = 4 * (uint64_t)p->thread; i < p->num; i += 4 * (uint64_t)p->num_threads) {
        uint32_t four[4];
        const uint32_t count = sluice_gpu_load_four(p, i, four);
        for (uint32_t k = 0; k < count; k++)
            p->scratch[i + k] = four[k];
    }
}

#endif
