#ifndef SLUICE_GPU_HASH_KERNELS_H
#define SLUICE_GPU_HASH_KERNELS_H

#include "base/compiler.h"
#include "gpu/layout.h"
#include "gpu/tuning.h"

#include <stdbool.h>

/* XXH3-128 of rows, each followed by its label as 8 bytes, little endian; more than 240 bytes in
 * all.  Equals base/hash.h.  By the specification of XXH3, seed 0:
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
 *
 * The input is blocks of 16 stripes of 8 words; a block adds to each of 8 accumulators, which then
 * are scrambled.  A block's addends do not depend on the accumulators, so threads compute them for
 * many blocks at once, and 8 threads add them block by block.
 *
 * SLUICE_GPU_SHARED, `thread` and "then" are as in decode_kernels.h.  C11 and CUDA, little endian.
 */

#define SLUICE_GPU_HASH_STRIPE 64
#define SLUICE_GPU_HASH_STRIPES 16 /* in a block: (192 - 64) / 8 */
#define SLUICE_GPU_HASH_BLOCK (SLUICE_GPU_HASH_STRIPE * SLUICE_GPU_HASH_STRIPES)

/* The specification's prime numbers, and its secret of 192 bytes as words. */
#define SLUICE_GPU_PRIME32_1 UINT64_C(0x9E3779B1)
#define SLUICE_GPU_PRIME32_2 UINT64_C(0x85EBCA77)
#define SLUICE_GPU_PRIME32_3 UINT64_C(0xC2B2AE3D)
#define SLUICE_GPU_PRIME64_1 UINT64_C(0x9E3779B185EBCA87)
#define SLUICE_GPU_PRIME64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define SLUICE_GPU_PRIME64_3 UINT64_C(0x165667B19E3779F9)
#define SLUICE_GPU_PRIME64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define SLUICE_GPU_PRIME64_5 UINT64_C(0x27D4EB2F165667C5)
#define SLUICE_GPU_PRIME_MX1 UINT64_C(0x165667919E3779F9)

SLUICE_KERNEL_CONST uint64_t sluice_gpu_hash_secret[24] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
};

SLUICE_KERNEL_CONST uint64_t sluice_gpu_hash_start[8] = {
    SLUICE_GPU_PRIME32_3, SLUICE_GPU_PRIME64_1, SLUICE_GPU_PRIME64_2, SLUICE_GPU_PRIME64_3,
    SLUICE_GPU_PRIME64_4, SLUICE_GPU_PRIME32_2, SLUICE_GPU_PRIME64_5, SLUICE_GPU_PRIME32_1,
};

/* A row, maybe its size, and its label. */
struct sluice_gpu_hash_input {
    const uint64_t *words; /* of all rows; readable up to a multiple of 8 bytes */
    const struct sluice_gpu_row_views *views;
    uint64_t row, row_bytes;
    uint64_t tail[2]; /* behind the row: the size, the label; or the label, 0 */
    uint64_t len;     /* of both */
};

SLUICE_KERNEL_INLINE struct sluice_gpu_hash_input
sluice_gpu_hash_input_of(const uint8_t *rows, const struct sluice_gpu_row_views *views,
                         const struct sluice_gpu_hash_item *item)
{
    struct sluice_gpu_hash_input input;
    input.words = (const uint64_t *)(const void *)rows;
    input.views = views;
    input.row = item->row;
    input.row_bytes = views->ends[views->num - 1];
    const bool has_size = views->height > 0;
    const uint64_t size = views->height | (uint64_t)views->width << 32;
    input.tail[0] = has_size ? size : item->label;
    input.tail[1] = has_size ? item->label : 0;
    input.len = input.row_bytes + (has_size ? 16 : 8);
    return input;
}

/* SLUICE_GPU_SHARED. */
struct sluice_gpu_hash_shared {
    uint64_t sums[SLUICE_GPU_HASH_BLOCKS_AT_ONCE][8];
    uint64_t accumulators[8];
};

/* The 8 bytes from byte `at` on. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_load(const uint64_t *words, uint64_t at)
{
    const uint32_t shift = (uint32_t)(at % 8) * 8;
    words += at / 8;
    return shift == 0 ? words[0] : words[0] >> shift | words[1] << (64 - shift);
}

/* The 8 bytes from byte `at` of the row on, which may be of several views. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_row_word(const struct sluice_gpu_hash_input *input,
                                                       uint64_t at)
{
    const struct sluice_gpu_row_views *views = input->views;
    uint64_t start = 0, word = 0;
    uint32_t v = 0;
    for (; at >= views->ends[v]; v++)
        start = views->ends[v];
    for (uint32_t num = 0; num < 8;) {
        const uint64_t end = views->ends[v];
        const uint64_t place = views->capacity * start + input->row * (end - start) + at - start;
        if (num == 0 && at + 8 <= end)
            return sluice_gpu_hash_load(input->words, place);
        for (uint64_t i = place; num < 8 && at < end; i++, at++, num++)
            word |= (uint64_t)((const uint8_t *)input->words)[i] << 8 * num;
        start = end;
        v++;
    }
    return word;
}

/* The 8 bytes from byte `at` of the tail on. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_tail(const struct sluice_gpu_hash_input *input,
                                                   uint64_t at)
{
    if (at >= 8)
        return input->tail[1] >> (at - 8) * 8;
    return at == 0 ? input->tail[0] : input->tail[0] >> at * 8 | input->tail[1] << (64 - at * 8);
}

/* The 8 bytes from byte `at` on of the row followed by its tail. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_word(const struct sluice_gpu_hash_input *input,
                                                   uint64_t at)
{
    if (at + 8 <= input->row_bytes)
        return sluice_gpu_hash_row_word(input, at);
    if (at >= input->row_bytes)
        return sluice_gpu_hash_tail(input, at - input->row_bytes);
    /* Both: the last bytes of the row, then the tail's first. */
    const uint32_t num_bits = (uint32_t)(input->row_bytes - at) * 8;
    const uint64_t last = sluice_gpu_hash_row_word(input, input->row_bytes - 8);
    return last >> (64 - num_bits) | input->tail[0] << num_bits;
}

/* The term that the stripe at byte `at` adds to an accumulator. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_stripe(const struct sluice_gpu_hash_input *input,
                                                     uint64_t at, uint32_t secret_at,
                                                     uint32_t accumulator)
{
    const uint64_t value = sluice_gpu_hash_word(input, at + accumulator * 8);
    const uint64_t other = sluice_gpu_hash_word(input, at + (accumulator ^ 1) * 8);
    const uint64_t key =
        value ^ sluice_gpu_hash_load(sluice_gpu_hash_secret, secret_at + accumulator * 8);
    return other + (key & UINT32_MAX) * (key >> 32);
}

/* The sum of the terms of a block's first stripes. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_block(const struct sluice_gpu_hash_input *input,
                                                    uint64_t block, uint32_t num_stripes,
                                                    uint32_t accumulator)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < num_stripes; s++)
        sum += sluice_gpu_hash_stripe(
            input, block * SLUICE_GPU_HASH_BLOCK + s * SLUICE_GPU_HASH_STRIPE, s * 8, accumulator);
    return sum;
}

/* Whole blocks, after which the accumulators are scrambled: at least one byte comes after them. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_num_blocks(const struct sluice_gpu_hash_input *input)
{
    return (input->len - 1) / SLUICE_GPU_HASH_BLOCK;
}

/* The number of blocks from `first` on that fit into shared memory. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_hash_num_at_once(uint64_t num_blocks, uint64_t first)
{
    const uint64_t left = num_blocks - first;
    return left < SLUICE_GPU_HASH_BLOCKS_AT_ONCE ? (uint32_t)left : SLUICE_GPU_HASH_BLOCKS_AT_ONCE;
}

/* Phase 1, repeated with phase 2 for all blocks: computes the sums of blocks from `first` on. */
SLUICE_KERNEL_INLINE void sluice_gpu_hash_sum(const struct sluice_gpu_hash_input *input,
                                              struct sluice_gpu_hash_shared *shared, uint64_t first,
                                              uint32_t num_blocks, uint32_t thread,
                                              uint32_t num_threads)
{
    for (uint32_t i = thread; i < num_blocks * 8; i += num_threads)
        shared->sums[i / 8][i % 8] =
            sluice_gpu_hash_block(input, first + i / 8, SLUICE_GPU_HASH_STRIPES, i % 8);
}

/* Phase 2, in threads 0 to 7: adds the sums and scrambles, before the next phase 1. */
SLUICE_KERNEL_INLINE void sluice_gpu_hash_scramble(struct sluice_gpu_hash_shared *shared,
                                                   uint64_t first, uint32_t num_blocks,
                                                   uint32_t accumulator)
{
    uint64_t value =
        first == 0 ? sluice_gpu_hash_start[accumulator] : shared->accumulators[accumulator];
    const uint64_t secret = sluice_gpu_hash_secret[16 + accumulator];
    for (uint32_t b = 0; b < num_blocks; b++) {
        value += shared->sums[b][accumulator];
        value = (value ^ value >> 47 ^ secret) * SLUICE_GPU_PRIME32_1;
    }
    shared->accumulators[accumulator] = value;
}

/* Phase 3, in threads 0 to 7: adds the stripes after the last whole block. */
SLUICE_KERNEL_INLINE void sluice_gpu_hash_rest(const struct sluice_gpu_hash_input *input,
                                               struct sluice_gpu_hash_shared *shared,
                                               uint32_t accumulator)
{
    const uint64_t len = input->len, num_blocks = sluice_gpu_hash_num_blocks(input);
    const uint32_t num_stripes =
        (uint32_t)(len - 1 - num_blocks * SLUICE_GPU_HASH_BLOCK) / SLUICE_GPU_HASH_STRIPE;
    uint64_t value =
        num_blocks == 0 ? sluice_gpu_hash_start[accumulator] : shared->accumulators[accumulator];
    value += sluice_gpu_hash_block(input, num_blocks, num_stripes, accumulator);
    value += sluice_gpu_hash_stripe(input, len - SLUICE_GPU_HASH_STRIPE, 192 - 64 - 7, accumulator);
    shared->accumulators[accumulator] = value;
}

/* The halves of the product, one xor the other. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_fold(uint64_t a, uint64_t b)
{
#ifdef __CUDACC__
    return a * b ^ __umul64hi(a, b);
#else
    const uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
    const uint64_t left = (a >> 32) * (b & UINT32_MAX), right = (a & UINT32_MAX) * (b >> 32);
    const uint64_t middle = (low >> 32) + (left & UINT32_MAX) + right;
    return a * b ^ ((a >> 32) * (b >> 32) + (left >> 32) + (middle >> 32));
#endif
}

/* Then the low (0) and the high (1) word of the result. */
SLUICE_KERNEL_INLINE uint64_t sluice_gpu_hash_merge(const struct sluice_gpu_hash_input *input,
                                                    const struct sluice_gpu_hash_shared *shared,
                                                    uint32_t is_high)
{
    const uint64_t len = input->len;
    const uint32_t secret_at = is_high ? 192 - 64 - 11 : 11;
    uint64_t hash = is_high ? ~(len * SLUICE_GPU_PRIME64_2) : len * SLUICE_GPU_PRIME64_1;
    for (uint32_t i = 0; i < 8; i += 2)
        hash += sluice_gpu_hash_fold(
            shared->accumulators[i] ^
                sluice_gpu_hash_load(sluice_gpu_hash_secret, secret_at + 8 * i),
            shared->accumulators[i + 1] ^
                sluice_gpu_hash_load(sluice_gpu_hash_secret, secret_at + 8 * i + 8));
    hash ^= hash >> 37;
    hash *= SLUICE_GPU_PRIME_MX1;
    return hash ^ hash >> 32;
}

#endif
