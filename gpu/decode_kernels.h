#ifndef SLUICE_GPU_DECODE_KERNELS_H
#define SLUICE_GPU_DECODE_KERNELS_H

#include "base/compiler.h"
#include "gpu/layout.h"
#include "gpu/tuning.h"
#include "image/jpeg_arithmetic.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "image/kernels.h"
#ifdef __cplusplus
}
#endif

/* The arithmetic of the decoder on the device, from bits to the pixels of a row: the one source of
 * decode.cu, where each thread of a block calls these functions, and of decode_host.c, where a loop
 * does.  All results are those of image/jpeg_window_c.c and image/kernels_c.c.
 *
 * What is declared SLUICE_GPU_SHARED belongs to a block of threads.  Functions with a `thread` are
 * called by each thread of the block; where the text says "then", all have returned from the one
 * before any calls the next.
 *
 * C11 and CUDA.  No function reads or writes outside the batch's memory, whatever the bits are. */

/* The memory of a batch. */
struct sluice_gpu_memory {
    const uint8_t *upload;
    int16_t *coefficients; /* 64 of each block: zero before the decoding */
    uint8_t *samples;      /* 64 of each block; each plane is rows of columns * 8 */
    int32_t *weights;
    uint32_t *pixels; /* red, green, blue in a word's low bytes, after the pass across */
    uint8_t *rows;    /* the result */
    uint32_t *faults; /* not 0: the sample is not to be used */
    uint32_t num_samples, out_width, out_height;
};

SLUICE_KERNEL_INLINE const struct sluice_gpu_sample *
sluice_gpu_sample_of(const struct sluice_gpu_memory *memory, uint32_t number)
{
    const struct sluice_gpu_index *index =
        (const struct sluice_gpu_index *)(const void *)memory->upload;
    return (const struct sluice_gpu_sample *)(const void *)(memory->upload + index[number].at);
}

/* The sample whose task is number `task` of its kind: the last with no more tasks before it. */
#define SLUICE_GPU_FIND(memory, task, tasks, number)                                               \
    do {                                                                                           \
        const struct sluice_gpu_index *index_ =                                                    \
            (const struct sluice_gpu_index *)(const void *)(memory)->upload;                       \
        uint32_t low_ = 0, high_ = (memory)->num_samples;                                          \
        while (high_ - low_ > 1) {                                                                 \
            const uint32_t middle_ = (low_ + high_) / 2;                                           \
            if (index_[middle_].tasks <= (task))                                                   \
                low_ = middle_;                                                                    \
            else                                                                                   \
                high_ = middle_;                                                                   \
        }                                                                                          \
        (number) = low_;                                                                           \
        (task) -= index_[low_].tasks;                                                              \
    } while (0)

/* --- bits to coefficients --- */

#define SLUICE_GPU_LOOKUP_BITS 10

/* A Huffman table, as struct sluice_jpeg_lookup. */
struct sluice_gpu_lookup {
    uint16_t
        fast[1 << SLUICE_GPU_LOOKUP_BITS]; /* length << 8 | symbol; 0: a longer code, or none */
    uint32_t limit[18];
    int32_t offset[17];
    uint8_t symbols[256];
};

/* SLUICE_GPU_SHARED.  What decoding a sample's segments looks at. */
struct sluice_gpu_decode_shared {
    struct sluice_gpu_lookup lookups[SLUICE_GPU_MAX_HUFFMAN];
    struct sluice_gpu_plane planes[SLUICE_GPU_MAX_PLANES];
    uint8_t block_plane[SLUICE_GPU_MAX_BLOCKS_IN_MCU]; /* as the sample's */
    uint8_t block_x[SLUICE_GPU_MAX_BLOCKS_IN_MCU], block_y[SLUICE_GPU_MAX_BLOCKS_IN_MCU];
    uint8_t place[64]; /* of the coefficients in the order of the file */
};

/* First, the tables' limits and the rest. */
SLUICE_KERNEL_INLINE void sluice_gpu_decode_prepare(struct sluice_gpu_decode_shared *shared,
                                                    const struct sluice_gpu_sample *sample,
                                                    uint32_t thread, uint32_t num_threads)
{
    const struct sluice_gpu_huffman *huffman =
        (const struct sluice_gpu_huffman *)(const void *)((const uint8_t *)sample +
                                                          sample->huffman_at);
    for (uint32_t t = thread; t < sample->num_huffman; t += num_threads) {
        struct sluice_gpu_lookup *lookup = &shared->lookups[t];
        int32_t number = 0, code = 0;
        lookup->limit[0] = 0;
        lookup->offset[0] = 0;
        for (uint32_t length = 1; length <= 16; length++) {
            const int32_t count = huffman[t].counts[length - 1];
            lookup->offset[length] = number - code;
            number += count;
            code += count;
            lookup->limit[length] = (uint32_t)code << (16 - length);
            code <<= 1;
        }
        lookup->limit[17] = UINT32_MAX;
    }
    for (uint32_t i = thread; i < sample->num_huffman * 256; i += num_threads)
        shared->lookups[i / 256].symbols[i % 256] = huffman[i / 256].symbols[i % 256];
    for (uint32_t c = thread; c < sample->num_planes; c += num_threads)
        shared->planes[c] = sample->planes[c];
    for (uint32_t b = thread; b < SLUICE_GPU_MAX_BLOCKS_IN_MCU; b += num_threads) {
        shared->block_plane[b] = sample->block_plane[b];
        shared->block_x[b] = sample->block_x[b];
        shared->block_y[b] = sample->block_y[b];
    }
    for (uint32_t k = thread; k < 64; k += num_threads) {
        const uint32_t natural = sluice_jpeg_natural_order[k];
        shared->place[k] = (uint8_t)(natural % 8 * 8 + natural / 8);
    }
}

/* length << 8 | symbol of the code that begins with these 16 bits and has at least `length` bits;
 * 0: none. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_find_code(const struct sluice_gpu_lookup *lookup,
                                                   uint32_t next16, uint32_t length)
{
    while (next16 >= lookup->limit[length])
        length++;
    if (length > 16)
        return 0;
    const int32_t number = (int32_t)(next16 >> (16 - length)) + lookup->offset[length];
    return length << 8 | lookup->symbols[number & 255];
}

/* Then the lookups. */
SLUICE_KERNEL_INLINE void sluice_gpu_decode_fill(struct sluice_gpu_decode_shared *shared,
                                                 uint32_t num_huffman, uint32_t thread,
                                                 uint32_t num_threads)
{
    for (uint32_t i = thread; i < num_huffman << SLUICE_GPU_LOOKUP_BITS; i += num_threads) {
        struct sluice_gpu_lookup *lookup = &shared->lookups[i >> SLUICE_GPU_LOOKUP_BITS];
        const uint32_t bits = i & ((1u << SLUICE_GPU_LOOKUP_BITS) - 1);
        const uint32_t found =
            sluice_gpu_find_code(lookup, bits << (16 - SLUICE_GPU_LOOKUP_BITS), 1);
        lookup->fast[bits] = (uint16_t)(found >> 8 <= SLUICE_GPU_LOOKUP_BITS ? found : 0);
    }
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_swap_bytes(uint32_t word)
{
#ifdef __CUDACC__
    return __byte_perm(word, 0, 0x0123);
#elif __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap32(word);
#else
    return word;
#endif
}

/* Bits of a segment; zeros follow its last word. */
struct sluice_gpu_reader {
    uint64_t bits; /* the next one is the top one */
    uint32_t count;
    uint32_t ahead; /* the word before `next`, read early because memory is slow */
    const uint32_t *next, *end;
};

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_next_word(struct sluice_gpu_reader *in)
{
    const uint32_t word = in->next < in->end ? *in->next : 0;
    in->next++;
    return word;
}

/* At least 32 bits may be taken afterwards: a code and what follows it have 31. */
SLUICE_KERNEL_INLINE void sluice_gpu_refill(struct sluice_gpu_reader *in)
{
    if (in->count > 32)
        return;
    in->bits |= (uint64_t)sluice_gpu_swap_bytes(in->ahead) << (32 - in->count);
    in->count += 32;
    in->ahead = sluice_gpu_next_word(in);
}

/* The value of `size` bits (0 .. 15) at the top of `bits` (T.81, F.2.2.1). */
SLUICE_KERNEL_INLINE int32_t sluice_gpu_extend(uint64_t bits, uint32_t size)
{
    const int32_t value = (int32_t)(bits >> 1 >> (63 - size));
    return value - ((int64_t)bits < 0 ? 0 : (int32_t)((1u << size) - 1));
}

/* The block at which a segment's reader is. */
struct sluice_gpu_cursor {
    uint32_t mcu_row, mcu_column, block; /* `block` counts within the MCU */
    uint32_t plane;
    int16_t *out; /* NULL: the window does not need it */
};

SLUICE_KERNEL_INLINE void sluice_gpu_cursor_set(struct sluice_gpu_cursor *at,
                                                const struct sluice_gpu_memory *memory,
                                                const struct sluice_gpu_decode_shared *shared)
{
    at->plane = shared->block_plane[at->block];
    const struct sluice_gpu_plane *plane = &shared->planes[at->plane];
    const uint32_t column =
        at->mcu_column * plane->h + shared->block_x[at->block] - plane->first_column;
    const uint32_t row = at->mcu_row * plane->v + shared->block_y[at->block] - plane->first_row;
    at->out = 0;
    if (column < plane->columns && row < plane->rows)
        at->out = memory->coefficients +
                  ((uint64_t)plane->first_block + (uint64_t)row * plane->columns + column) * 64;
}

/* Then segment number `number`.  Returns whether it is faultless: where image/jpeg_window.h would
 * decline it, it is not. */
SLUICE_KERNEL_INLINE int sluice_gpu_decode_segment(const struct sluice_gpu_memory *memory,
                                                   const struct sluice_gpu_sample *sample,
                                                   const struct sluice_gpu_decode_shared *shared,
                                                   uint32_t number)
{
    const uint8_t *base = (const uint8_t *)sample;
    const struct sluice_gpu_segment segment =
        ((const struct sluice_gpu_segment *)(const void *)(base + sample->segments_at))[number];
    const uint32_t *first =
        (const uint32_t *)(const void *)(base + sample->words_at) + segment.first_word;
    struct sluice_gpu_reader in;
    in.bits = 0;
    in.count = 0;
    in.next = first;
    in.end = first + (segment.num_bits + 31) / 32;
    in.ahead = sluice_gpu_next_word(&in);
    sluice_gpu_refill(&in);
    in.bits <<= segment.skip;
    in.count -= segment.skip;

    struct sluice_gpu_cursor at;
    at.mcu_row = segment.first_mcu / sample->mcus_across;
    at.mcu_column = segment.first_mcu % sample->mcus_across;
    at.block = 0;
    sluice_gpu_cursor_set(&at, memory, shared);
    const uint32_t blocks_in_mcu = sample->blocks_in_mcu, mcus_across = sample->mcus_across;
    uint32_t mcus_left = segment.num_mcus;
    /* Of the planes; in registers, which have no index.  The first block is of the first plane. */
    int32_t dc0 = segment.dc[0], dc1 = segment.dc[1], dc2 = segment.dc[2];
    int32_t dc = dc0;
    uint32_t k = 0;
    const struct sluice_gpu_lookup *lookup = &shared->lookups[shared->planes[at.plane].dc];
    const struct sluice_gpu_lookup *ac = &shared->lookups[shared->planes[at.plane].ac];
    /* One symbol each time: threads whose blocks end at different times stay together. */
    for (;;) {
        sluice_gpu_refill(&in);
        uint32_t found = lookup->fast[in.bits >> (64 - SLUICE_GPU_LOOKUP_BITS)];
        if (found == 0) {
            found =
                sluice_gpu_find_code(lookup, (uint32_t)(in.bits >> 48), SLUICE_GPU_LOOKUP_BITS + 1);
            if (found == 0)
                return 0;
        }
        const uint32_t length = found >> 8, run = found >> 4 & 15, size = found & 15;
        in.bits <<= length;
        const int32_t value = sluice_gpu_extend(in.bits, size);
        in.bits <<= size;
        in.count -= length + size;
        if (k == 0) {
            dc += value;
            if (dc != (int16_t)dc)
                return 0;
            if (at.out)
                at.out[0] = (int16_t)dc;
            k = 1;
            lookup = ac;
            continue;
        }
        if (size != 0 || run == 15) {
            k += run;
            if (k > 63)
                return 0;
            if (size != 0 && at.out)
                at.out[shared->place[k]] = (int16_t)value;
            k++;
        } else {
            k = 64;
        }
        if (k < 64)
            continue;

        const uint32_t plane = at.plane;
        if (++at.block == blocks_in_mcu) {
            if (--mcus_left == 0)
                break;
            if (in.next > in.end + 2)
                return 0;
            at.block = 0;
            if (++at.mcu_column == mcus_across) {
                at.mcu_column = 0;
                at.mcu_row++;
            }
        }
        sluice_gpu_cursor_set(&at, memory, shared);
        if (plane != at.plane) {
            dc0 = plane == 0 ? dc : dc0;
            dc1 = plane == 1 ? dc : dc1;
            dc2 = plane == 2 ? dc : dc2;
            dc = at.plane == 0 ? dc0 : at.plane == 1 ? dc1 : dc2;
        }
        lookup = &shared->lookups[shared->planes[at.plane].dc];
        ac = &shared->lookups[shared->planes[at.plane].ac];
        k = 0;
    }
    /* `ahead` is a word that has not been taken. */
    return (uint64_t)(in.next - 1 - first) * 32 - in.count <= segment.num_bits;
}

/* --- coefficients to samples --- */

/* SLUICE_GPU_SHARED.  Values between the passes; the spare columns keep threads off each other's
 * banks of memory. */
struct sluice_gpu_transform_shared {
    int32_t work[SLUICE_GPU_BLOCKS_IN_TASK][74];
};
#define SLUICE_GPU_WORK_STRIDE 9

/* Which block of a plane, and which of its columns and rows, a thread has. */
struct sluice_gpu_line {
    const struct sluice_gpu_plane *plane; /* NULL: none */
    uint32_t block;                       /* of the plane */
    uint32_t slot, line;
};

SLUICE_KERNEL_INLINE struct sluice_gpu_line
sluice_gpu_transform_line(const struct sluice_gpu_sample *sample, uint32_t task, uint32_t thread)
{
    struct sluice_gpu_line line;
    line.slot = thread / 8;
    line.line = thread % 8;
    line.block = task * SLUICE_GPU_BLOCKS_IN_TASK + line.slot;
    line.plane = 0;
    if (line.block >= sample->num_blocks)
        return line;
    const uint32_t block = sample->planes[0].first_block + line.block;
    uint32_t c = sample->num_planes - 1;
    while (block < sample->planes[c].first_block)
        c--;
    line.plane = &sample->planes[c];
    line.block = block - line.plane->first_block;
    return line;
}

/* Four values of 16 bits. */
SLUICE_KERNEL_INLINE int32_t sluice_gpu_part(uint64_t word, uint32_t i)
{
    return (int16_t)(word >> 16 * i);
}

/* First, the columns.  Returns whether all values are in the range of
 * image/jpeg_window_kernels.h. */
SLUICE_KERNEL_INLINE int sluice_gpu_transform_columns(const struct sluice_gpu_memory *memory,
                                                      struct sluice_gpu_transform_shared *shared,
                                                      const struct sluice_gpu_line *line)
{
    const uint64_t *coefficients =
        (const uint64_t *)(const void *)(memory->coefficients +
                                         ((uint64_t)line->plane->first_block + line->block) * 64 +
                                         line->line * 8);
    const int16_t *quantisers = line->plane->quantisers + line->line * 8;
    const uint64_t low = coefficients[0], high = coefficients[1];
    int32_t in[8], sums[8];
    int is_in_range = 1;
    for (uint32_t v = 0; v < 8; v++) {
        in[v] = sluice_gpu_part(v < 4 ? low : high, v % 4) * quantisers[v];
        is_in_range &= in[v] >= -16384 && in[v] <= 16383;
    }
    int32_t *work = shared->work[line->slot] + line->line;
    /* Where the range is left, wrapping sums could depend on the compiler. */
    for (uint32_t v = 0; v < 8; v++)
        in[v] = is_in_range ? in[v] : 0;
    sluice_jpeg_transform_8(in, sums);
    for (uint32_t y = 0; y < 8; y++) {
        const int32_t value = (sums[y] + (1 << 10)) >> 11;
        is_in_range &= value >= -16384 && value <= 16383;
        work[y * SLUICE_GPU_WORK_STRIDE] = value;
    }
    return is_in_range;
}

/* Then the rows. */
SLUICE_KERNEL_INLINE int sluice_gpu_transform_rows(const struct sluice_gpu_memory *memory,
                                                   const struct sluice_gpu_transform_shared *shared,
                                                   const struct sluice_gpu_line *line)
{
    const int32_t *work = shared->work[line->slot] + line->line * SLUICE_GPU_WORK_STRIDE;
    int32_t in[8], sums[8];
    int is_in_range = 1;
    for (uint32_t x = 0; x < 8; x++) {
        is_in_range &= work[x] >= -16384 && work[x] <= 16383;
        in[x] = work[x];
    }
    for (uint32_t x = 0; x < 8; x++)
        in[x] = is_in_range ? in[x] : 0;
    sluice_jpeg_transform_8(in, sums);
    uint64_t samples = 0;
    for (uint32_t x = 0; x < 8; x++) {
        const int32_t value = (sums[x] + (1 << 17)) >> 18;
        is_in_range &= value >= -512 && value <= 511;
        const int32_t sample = value + 128;
        samples |= (uint64_t)(sample < 0 ? 0 : sample > 255 ? 255 : sample) << 8 * x;
    }
    const uint32_t columns = line->plane->columns;
    const uint32_t row = line->block / columns, column = line->block % columns;
    uint8_t *out = memory->samples + (uint64_t)line->plane->first_block * 64 +
                   ((uint64_t)row * 8 + line->line) * columns * 8 + column * 8;
    *(uint64_t *)(void *)out = samples; /* the lowest byte is the first: little endian */
    return is_in_range;
}

/* --- weights of the resize --- */

/* A product and a sum that round twice. */
#ifdef __CUDACC__
#define SLUICE_GPU_MUL(a, b) __dmul_rn(a, b)
#define SLUICE_GPU_ADD(a, b) __dadd_rn(a, b)
#else
#define SLUICE_GPU_MUL(a, b) ((a) * (b))
#define SLUICE_GPU_ADD(a, b) ((a) + (b))
#endif

SLUICE_KERNEL_INLINE double sluice_gpu_triangle(double x)
{
    x = x < 0 ? -x : x;
    return x < 1.0 ? SLUICE_GPU_ADD(1.0, -x) : 0.0;
}

/* Output `i` of an axis: what sluice_weigh_c() and the part of resize.c make of it. */
SLUICE_KERNEL_INLINE void sluice_gpu_weigh(const struct sluice_gpu_memory *memory,
                                           const struct sluice_gpu_axis *axis, int is_mirrored,
                                           uint32_t i)
{
    const double scale = (double)axis->in / axis->out;
    const double support = scale < 1.0 ? 1.0 : scale;
    const double inverse = 1.0 / support;
    const uint32_t o = axis->from + (is_mirrored ? axis->count - 1 - i : i);
    const double center = SLUICE_GPU_MUL(SLUICE_GPU_ADD(o, 0.5), scale);
    int32_t first = (int32_t)SLUICE_GPU_ADD(SLUICE_GPU_ADD(center, -support), 0.5);
    first = first < 0 ? 0 : first;
    int32_t end = (int32_t)SLUICE_GPU_ADD(SLUICE_GPU_ADD(center, support), 0.5);
    end = end > (int32_t)axis->in ? (int32_t)axis->in : end;
    const int32_t count = end - first;
    double sum = 0;
    for (int32_t k = 0; k < count; k++)
        sum = SLUICE_GPU_ADD(
            sum, sluice_gpu_triangle(SLUICE_GPU_MUL(
                     SLUICE_GPU_ADD(SLUICE_GPU_ADD((double)(k + first), -center), 0.5), inverse)));
    int32_t *spans = memory->weights + axis->first_weight;
    int32_t *weights = spans + 2 * (uint64_t)axis->count + i;
    for (int32_t k = 0; k < count; k++) {
        const double weight = sluice_gpu_triangle(SLUICE_GPU_MUL(
            SLUICE_GPU_ADD(SLUICE_GPU_ADD((double)(k + first), -center), 0.5), inverse));
        const double normalized = sum != 0.0 ? weight / sum : weight;
        weights[(uint64_t)k * axis->count] = (int32_t)SLUICE_GPU_ADD(
            0.5, SLUICE_GPU_MUL(normalized, (double)(1 << SLUICE_RESIZE_BITS)));
    }
    /* Where the size does not change, a span may end with a tap of weight 0 past the input. */
    const int32_t from = first - (int32_t)axis->in_from, left = (int32_t)axis->in_count - from;
    spans[i] = from;
    spans[axis->count + i] = count < left ? count : left;
}

/* --- samples to pixels, and the pass across --- */

/* SLUICE_GPU_SHARED. */
struct sluice_gpu_across_shared {
    uint32_t pixels[SLUICE_GPU_ACROSS_PIXELS];
};

/* What a task makes: rows [row, row + num_rows) and columns [column, column + num_columns) of its
 * result, from the inputs [first, first + num_inputs) of each row.  Each row has
 * 1 << thread_bits threads. */
struct sluice_gpu_across {
    uint32_t row, num_rows, column, num_columns, first, num_inputs;
    uint32_t thread_bits;
};

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

SLUICE_KERNEL_INLINE struct sluice_gpu_across
sluice_gpu_across_task(const struct sluice_gpu_memory *memory,
                       const struct sluice_gpu_sample *sample, uint32_t task)
{
    const struct sluice_gpu_axis *axis = &sample->across;
    const uint32_t num_tiles =
        (axis->count + sample->columns_at_once - 1) / sample->columns_at_once;
    struct sluice_gpu_across work;
    work.row = task / num_tiles * sample->rows_at_once;
    work.num_rows = sluice_gpu_min(sample->rows_at_once, sample->down.in_count - work.row);
    work.column = task % num_tiles * sample->columns_at_once;
    work.num_columns = sluice_gpu_min(sample->columns_at_once, axis->count - work.column);
    /* Both ends of a span are monotonic in the output. */
    const int32_t *spans = memory->weights + axis->first_weight;
    const uint32_t last_column = work.column + work.num_columns - 1;
    const uint32_t low = sample->is_flipped ? last_column : work.column;
    const uint32_t high = sample->is_flipped ? work.column : last_column;
    work.first = (uint32_t)spans[low];
    work.num_inputs = (uint32_t)(spans[high] + spans[axis->count + high]) - work.first;
    work.thread_bits = 8; /* SLUICE_GPU_ACROSS_THREADS */
    for (uint32_t rows = sample->rows_at_once; rows > 1; rows /= 2)
        work.thread_bits--;
    return work;
}

/* A sample of a plane by its place in the image. */
SLUICE_KERNEL_INLINE int32_t sluice_gpu_sample_at(const struct sluice_gpu_memory *memory,
                                                  const struct sluice_gpu_plane *plane, uint32_t x,
                                                  uint32_t y)
{
    return memory->samples[(uint64_t)plane->first_block * 64 +
                           (uint64_t)(y - plane->first_row * 8) * plane->columns * 8 +
                           (x - plane->first_column * 8)];
}

/* Chroma at a pixel of the image, as upsample_row() of jpeg_window_pixels.c makes it. */
SLUICE_KERNEL_INLINE int32_t sluice_gpu_chroma(const struct sluice_gpu_memory *memory,
                                               const struct sluice_gpu_plane *plane, uint32_t x,
                                               uint32_t y)
{
    if (plane->upsampling == SLUICE_GPU_REPEAT)
        return sluice_gpu_sample_at(memory, plane, x / plane->wide, y / plane->high);
    const uint32_t column = plane->wide == 2 ? x / 2 : x, row = plane->high == 2 ? y / 2 : y;
    /* The second-nearest sample is before even pixels and after odd ones; the edge repeats. */
    uint32_t beside = column, above = row;
    if (plane->wide == 2)
        beside = x % 2 ? sluice_gpu_min(column + 1, plane->width - 1) : column - (column > 0);
    if (plane->high == 2)
        above = y % 2 ? sluice_gpu_min(row + 1, plane->height - 1) : row - (row > 0);
    const int32_t near = sluice_gpu_sample_at(memory, plane, column, row);
    if (plane->wide == 1)
        return (3 * near + sluice_gpu_sample_at(memory, plane, column, above) + (y % 2 ? 2 : 1)) >>
               2;
    const int32_t next = sluice_gpu_sample_at(memory, plane, beside, row);
    if (plane->high == 1)
        return (3 * near + next + (x % 2 ? 2 : 1)) >> 2;
    const int32_t near_sum = 3 * near + sluice_gpu_sample_at(memory, plane, column, above);
    const int32_t next_sum = 3 * next + sluice_gpu_sample_at(memory, plane, beside, above);
    return (3 * near_sum + next_sum + (x % 2 ? 7 : 8)) >> 4;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_clip(int32_t value)
{
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_pixel(const struct sluice_gpu_memory *memory,
                                               const struct sluice_gpu_sample *sample, uint32_t x,
                                               uint32_t y)
{
    const int32_t luma = sluice_gpu_sample_at(memory, &sample->planes[0], x, y);
    if (sample->num_planes == 1)
        return (uint32_t)luma * 0x010101;
    const int32_t b = sluice_gpu_chroma(memory, &sample->planes[1], x, y) - 128;
    const int32_t r = sluice_gpu_chroma(memory, &sample->planes[2], x, y) - 128;
    const uint32_t red = sluice_gpu_clip(luma + r + ((SLUICE_JPEG_CR_TO_R * r + 32768) >> 16));
    const uint32_t green = sluice_gpu_clip(
        luma - r + ((SLUICE_JPEG_CB_TO_G * b + SLUICE_JPEG_CR_TO_G * r + 32768) >> 16));
    const uint32_t blue = sluice_gpu_clip(luma + 2 * b + ((SLUICE_JPEG_CB_TO_B * b + 32768) >> 16));
    return red | green << 8 | blue << 16;
}

/* First, the pixels of the task's inputs. */
SLUICE_KERNEL_INLINE void sluice_gpu_across_load(const struct sluice_gpu_memory *memory,
                                                 const struct sluice_gpu_sample *sample,
                                                 const struct sluice_gpu_across *work,
                                                 struct sluice_gpu_across_shared *shared,
                                                 uint32_t thread)
{
    const uint32_t y = thread >> work->thread_bits, step = 1u << work->thread_bits;
    if (y >= work->num_rows)
        return;
    for (uint32_t x = thread & (step - 1); x < work->num_inputs; x += step)
        shared->pixels[y * work->num_inputs + x] = sluice_gpu_pixel(
            memory, sample, sample->left + work->first + x, sample->top + work->row + y);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_round(int32_t sum)
{
    return sluice_gpu_clip((sum + (1 << (SLUICE_RESIZE_BITS - 1))) >> SLUICE_RESIZE_BITS);
}

/* Three weighted sums at once. */
struct sluice_gpu_sums {
    int32_t red, green, blue;
};

SLUICE_KERNEL_INLINE void sluice_gpu_sums_add(struct sluice_gpu_sums *sums, uint32_t pixel,
                                              int32_t weight)
{
    sums->red += (int32_t)(pixel & 255) * weight;
    sums->green += (int32_t)(pixel >> 8 & 255) * weight;
    sums->blue += (int32_t)(pixel >> 16 & 255) * weight;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_sums_round(const struct sluice_gpu_sums *sums)
{
    return sluice_gpu_round(sums->red) | sluice_gpu_round(sums->green) << 8 |
           sluice_gpu_round(sums->blue) << 16;
}

/* Then their sums. */
SLUICE_KERNEL_INLINE void sluice_gpu_across_sum(const struct sluice_gpu_memory *memory,
                                                const struct sluice_gpu_sample *sample,
                                                const struct sluice_gpu_across *work,
                                                const struct sluice_gpu_across_shared *shared,
                                                uint32_t thread)
{
    const uint32_t y = thread >> work->thread_bits, step = 1u << work->thread_bits;
    if (y >= work->num_rows)
        return;
    const struct sluice_gpu_axis *axis = &sample->across;
    const int32_t *spans = memory->weights + axis->first_weight;
    const int32_t *weights = spans + 2 * (uint64_t)axis->count;
    const uint32_t *pixels = shared->pixels + y * work->num_inputs;
    uint32_t *out = memory->pixels + sample->first_pixel + (uint64_t)(work->row + y) * axis->count;
    const uint32_t end = work->column + work->num_columns;
    for (uint32_t o = work->column + (thread & (step - 1)); o < end; o += step) {
        const uint32_t first = (uint32_t)spans[o] - work->first;
        const uint32_t count = (uint32_t)spans[axis->count + o];
        struct sluice_gpu_sums sums = {0, 0, 0};
        for (uint32_t k = 0; k < count; k++)
            sluice_gpu_sums_add(&sums, pixels[first + k], weights[(uint64_t)k * axis->count + o]);
        out[o] = sluice_gpu_sums_round(&sums);
    }
}

/* --- the pass down --- */

/* Pixels [x, x + SLUICE_GPU_DOWN_PIXELS) of row y, as far as the row goes. */
SLUICE_KERNEL_INLINE void sluice_gpu_down(const struct sluice_gpu_memory *memory,
                                          const struct sluice_gpu_sample *sample, uint32_t x,
                                          uint32_t y)
{
    const struct sluice_gpu_axis *axis = &sample->down;
    const int32_t *spans = memory->weights + axis->first_weight;
    const int32_t *weights = spans + 2 * (uint64_t)axis->count + y;
    const uint32_t first = (uint32_t)spans[y], count = (uint32_t)spans[axis->count + y];
    const uint32_t width = memory->out_width;
    const uint32_t *in = memory->pixels + sample->first_pixel + (uint64_t)first * width + x;
    const uint32_t num = sluice_gpu_min(SLUICE_GPU_DOWN_PIXELS, width - x);
    struct sluice_gpu_sums sums[SLUICE_GPU_DOWN_PIXELS] = {
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    for (uint32_t k = 0; k < count; k++, in += width, weights += axis->count) {
        const int32_t weight = *weights;
        for (uint32_t i = 0; i < SLUICE_GPU_DOWN_PIXELS; i++) {
            if (i < num)
                sluice_gpu_sums_add(&sums[i], in[i], weight);
        }
    }
    uint32_t made[SLUICE_GPU_DOWN_PIXELS];
    for (uint32_t i = 0; i < SLUICE_GPU_DOWN_PIXELS; i++)
        made[i] = sluice_gpu_sums_round(&sums[i]);
    uint8_t *out =
        memory->rows + (((uint64_t)sample->row * memory->out_height + y) * width + x) * 3;
    if (width % SLUICE_GPU_DOWN_PIXELS == 0) {
        uint32_t *words = (uint32_t *)(void *)out; /* little endian */
        words[0] = made[0] | made[1] << 24;
        words[1] = made[1] >> 8 | made[2] << 16;
        words[2] = made[2] >> 16 | made[3] << 8;
        return;
    }
    for (uint32_t i = 0; i < SLUICE_GPU_DOWN_PIXELS; i++) {
        if (i < num) {
            out[3 * i] = (uint8_t)made[i];
            out[3 * i + 1] = (uint8_t)(made[i] >> 8);
            out[3 * i + 2] = (uint8_t)(made[i] >> 16);
        }
    }
}

#endif
