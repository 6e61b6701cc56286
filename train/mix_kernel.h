#ifndef SLUICE_TRAIN_MIX_KERNEL_H
#define SLUICE_TRAIN_MIX_KERNEL_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

/* The model's input and targets of a batch with random erasing, mixup, CutMix and label smoothing,
 * value by value; equal bit for bit to sluice.torch.RandomErasing and Mix.  kernels.cu,
 * kernels_loss.cu and, in loops, mix.c share this source.
 *
 * C11 and CUDA. */

/* A row's erased box (height 0: none), and its draw key without the seed. */
struct sluice_mix_row {
    uint32_t top, left, height, width;
    uint32_t sample_low, sample_high, epoch;
};

enum { SLUICE_MIX_NONE, SLUICE_MIX_MIXUP, SLUICE_MIX_CUTMIX };

/* The draws of a batch. */
struct sluice_mix_batch {
    uint32_t n, image_height, image_width; /* rows, and their size in pixels */
    uint32_t kind;
    uint32_t is_rolled;                /* row i pairs with i - 1; else with the i-th from the end */
    float own, other;                  /* the parts of both rows; 1 and 0 without a mix */
    uint32_t top, left, height, width; /* CUTMIX: the box of the other row */
    uint32_t fill;                     /* enum sluice_fill */
    float fill_values[3];
    uint32_t seed_low, seed_high;
    float label_on, label_off; /* of the row's class, and of the others */
};

SLUICE_KERNEL_INLINE float sluice_mix_product(float a, float b)
{
#ifdef __CUDACC__
    return __fmul_rn(a, b); /* no FMA with the sum that follows */
#else
    return a * b;
#endif
}

SLUICE_KERNEL_INLINE float sluice_mix_sum(float a, float b)
{
#ifdef __CUDACC__
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

/* Philox4x32-10 (lib/base/rng.h), in place of the counter. */
SLUICE_KERNEL_INLINE void sluice_mix_philox(uint32_t key0, uint32_t key1, uint32_t counter[4])
{
    for (int round = 0; round < 10; round++) {
        const uint64_t first = (uint64_t)0xD2511F53u * counter[0];
        const uint64_t second = (uint64_t)0xCD9E8D57u * counter[2];
        counter[0] = (uint32_t)(second >> 32) ^ counter[1] ^ key0;
        counter[1] = (uint32_t)second;
        counter[2] = (uint32_t)(first >> 32) ^ counter[3] ^ key1;
        counter[3] = (uint32_t)first;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* Entry `i` of what sluice_fill_drawn() draws for the row. */
SLUICE_KERNEL_INLINE float sluice_mix_normal(const struct sluice_mix_batch *batch,
                                             const struct sluice_mix_row *row,
                                             const float *quantiles, uint32_t i)
{
    uint32_t words[4] = {row->sample_low, row->sample_high, row->epoch, 0xFF020000u | i >> 3};
    sluice_mix_philox(batch->seed_low, batch->seed_high, words);
    const uint32_t word = words[i >> 1 & 3];
    return quantiles[i & 1 ? word >> 16 : word & 0xFFFF];
}

/* The row that a row is mixed with. */
SLUICE_KERNEL_INLINE uint32_t sluice_mix_partner(const struct sluice_mix_batch *batch, uint32_t row)
{
    if (batch->is_rolled)
        return row > 0 ? row - 1 : batch->n - 1;
    return batch->n - 1 - row;
}

/* The normalised value of a row's pixel after erasing.  quantiles: as sluice_normal_quantiles()
 * gives them; unused where the fill is SLUICE_FILL_VALUES (0). */
SLUICE_KERNEL_INLINE float sluice_mix_erased(const struct sluice_mix_batch *batch,
                                             const struct sluice_mix_row *rows,
                                             const uint8_t *pixels, const float *table,
                                             const float *quantiles, uint32_t n, uint32_t y,
                                             uint32_t x, uint32_t c)
{
    const struct sluice_mix_row *row = &rows[n];
    const uint32_t in_y = y - row->top, in_x = x - row->left; /* huge before the box */
    if (in_y < row->height && in_x < row->width) {
        if (batch->fill == 0)
            return batch->fill_values[c];
        return sluice_mix_normal(batch, row, quantiles,
                                 batch->fill == 1 ? c
                                                  : (c * row->height + in_y) * row->width + in_x);
    }
    const size_t at = (((size_t)n * batch->image_height + y) * batch->image_width + x) * 3 + c;
    return table[256 * c + pixels[at]];
}

/* The model's input at (n, y, x, c). */
SLUICE_KERNEL_INLINE float sluice_mix_value(const struct sluice_mix_batch *batch,
                                            const struct sluice_mix_row *rows,
                                            const uint8_t *pixels, const float *table,
                                            const float *quantiles, uint32_t n, uint32_t y,
                                            uint32_t x, uint32_t c)
{
    const uint32_t partner = sluice_mix_partner(batch, n);
    if (batch->kind == SLUICE_MIX_CUTMIX && y - batch->top < batch->height &&
        x - batch->left < batch->width)
        return sluice_mix_erased(batch, rows, pixels, table, quantiles, partner, y, x, c);
    const float own = sluice_mix_erased(batch, rows, pixels, table, quantiles, n, y, x, c);
    if (batch->kind != SLUICE_MIX_MIXUP)
        return own;
    const float other = sluice_mix_erased(batch, rows, pixels, table, quantiles, partner, y, x, c);
    return sluice_mix_sum(sluice_mix_product(own, batch->own),
                          sluice_mix_product(other, batch->other));
}

/* The probability that a row's target gives class c; labels of the row and of its partner. */
SLUICE_KERNEL_INLINE float sluice_mix_target(const struct sluice_mix_batch *batch, uint32_t own,
                                             uint32_t other, uint32_t c)
{
    return sluice_mix_sum(
        sluice_mix_product(c == own ? batch->label_on : batch->label_off, batch->own),
        sluice_mix_product(c == other ? batch->label_on : batch->label_off, batch->other));
}

#endif
