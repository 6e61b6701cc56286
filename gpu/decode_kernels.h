#ifndef SLUICE_GPU_DECODE_KERNELS_H
#define SLUICE_GPU_DECODE_KERNELS_H

#include "base/compiler.h"
#include "gpu/layout.h"
#include "gpu/tuning.h"
#include "image/jpeg/arithmetic.h"

#include <string.h>

/* The arithmetic of the decoder on the device, from bits to samples; resize_kernels.h goes on to
 * the pixels of a row.  One source for decode.cu, where each thread of a block calls these
 * functions, and decode_host.c, where a loop does.  All results are those of image/jpeg/window_c.c
 * and image/kernels/kernels_c.c.
 *
 * Variables declared SLUICE_GPU_SHARED belong to a block of threads.  Functions with a `thread` are
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
    /* Red, green, blue in a word's low bytes, after the pass across; and scratch memory of what
     * follows the pass down (pixel_kernels.h). */
    uint32_t *pixels;
    uint8_t *rows;     /* the result */
    uint32_t *faults;  /* not 0: the sample is not to be used */
    uint64_t capacity; /* rows of the result (struct sluice_gpu_row_views) */
    uint32_t num_samples, num_views;
    uint32_t max_width, max_height; /* of a view */
};

SLUICE_KERNEL_INLINE const struct sluice_gpu_sample *
sluice_gpu_sample_of(const struct sluice_gpu_memory *memory, uint32_t number)
{
    const struct sluice_gpu_index *index =
        (const struct sluice_gpu_index *)(const void *)memory->upload;
    return (const struct sluice_gpu_sample *)(const void *)(memory->upload + index[number].at);
}

SLUICE_KERNEL_INLINE const struct sluice_gpu_view *
sluice_gpu_view_of(const struct sluice_gpu_sample *sample, uint32_t view)
{
    return (const struct sluice_gpu_view *)(sample + 1) + view;
}

/* The view's pixels in the result. */
SLUICE_KERNEL_INLINE uint8_t *sluice_gpu_pixels_of(const struct sluice_gpu_memory *memory,
                                                   const struct sluice_gpu_sample *sample,
                                                   const struct sluice_gpu_view *view)
{
    const uint64_t bytes = (uint64_t)view->across.count * view->down.count * 3;
    return memory->rows + memory->capacity * view->row_at + bytes * sample->row;
}

/* Whether four pixels of lines of `width` pixels from `row` on are three whole words. */
SLUICE_KERNEL_INLINE int sluice_gpu_is_by_words(const uint8_t *row, uint64_t width)
{
    return width % 4 == 0 && (uintptr_t)row % 4 == 0;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Reads what no thread of this launch writes, so that the compiler may read it early. */
#ifdef __CUDACC__
#define SLUICE_GPU_READ(address) __ldg(address)
#else
#define SLUICE_GPU_READ(address) (*(address))
#endif

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

/* A Huffman table, as struct sluice_jpeg_lookup.  A code with what follows it is a word: its bits
 * with the value's | the value's << 5 | the zeros before it << 9; SLUICE_GPU_END in place of the
 * zeros: the block's end. */
struct sluice_gpu_lookup {
    uint16_t fast[1 << SLUICE_GPU_LOOKUP_BITS]; /* 0: a longer code, or none */
    uint32_t limit[17];
    int32_t offset[17];
    uint8_t symbols[256];
};
#define SLUICE_GPU_END 64u

/* A block of the MCU: where it is in its plane's window. */
struct sluice_gpu_mcu_block {
    uint32_t h, column, columns; /* is at MCU * h + column, wrapping */
    uint32_t v, row, rows;
    uint32_t first_block;
    uint8_t plane, dc, ac, unused;
};

/* Words that a segment's thread has in shared memory: a ring of chunks, each of which is asked for
 * when the one before its place has been read. */
#define SLUICE_GPU_CHUNK_WORDS 4 /* what is copied at once: 16 bytes */
#define SLUICE_GPU_RING_WORDS (SLUICE_GPU_RING_CHUNKS * SLUICE_GPU_CHUNK_WORDS)
/* The spare chunk keeps threads off each other's banks of memory. */
#define SLUICE_GPU_RING_STRIDE (SLUICE_GPU_RING_WORDS + SLUICE_GPU_CHUNK_WORDS)

/* SLUICE_GPU_SHARED.  What decoding a sample's segments looks at. */
struct sluice_gpu_decode_shared {
    SLUICE_ALIGNED(16) uint32_t rings[SLUICE_GPU_SEGMENTS_IN_TASK * SLUICE_GPU_RING_STRIDE];
    struct sluice_gpu_mcu_block blocks[SLUICE_GPU_MAX_BLOCKS_IN_MCU]; /* in the order of the scan */
    uint8_t place[64]; /* of the coefficients in the order of the file */
    struct sluice_gpu_lookup lookups[SLUICE_GPU_MAX_HUFFMAN]; /* only those of the batch's files */
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
    }
    for (uint32_t i = thread; i < sample->num_huffman * 256; i += num_threads)
        shared->lookups[i / 256].symbols[i % 256] = huffman[i / 256].symbols[i % 256];
    for (uint32_t b = thread; b < sample->blocks_in_mcu; b += num_threads) {
        const struct sluice_gpu_plane *plane = &sample->planes[sample->block_plane[b]];
        struct sluice_gpu_mcu_block *block = &shared->blocks[b];
        block->h = plane->h;
        block->column = sample->block_x[b] - plane->first_column;
        block->columns = plane->columns;
        block->v = plane->v;
        block->row = sample->block_y[b] - plane->first_row;
        block->rows = plane->rows;
        block->first_block = plane->first_block;
        block->plane = sample->block_plane[b];
        block->dc = plane->dc;
        block->ac = plane->ac;
    }
    for (uint32_t k = thread; k < 64; k += num_threads) {
        const uint32_t natural = sluice_jpeg_natural_order[k];
        shared->place[k] = (uint8_t)(natural % 8 * 8 + natural / 8);
    }
}

/* The word of the code that begins with these 16 bits and has `shortest` to `longest` bits; 0:
 * none. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_find_code(const struct sluice_gpu_lookup *lookup,
                                                   uint32_t next16, uint32_t shortest,
                                                   uint32_t longest, int is_dc)
{
    /* Limits grow with the length, and reading them all takes less time than one by one. */
    uint32_t length = shortest;
    for (uint32_t i = shortest; i <= longest; i++)
        length += next16 >= lookup->limit[i];
    if (length > longest)
        return 0;
    const int32_t number = (int32_t)(next16 >> (16 - length)) + lookup->offset[length];
    const uint32_t symbol = lookup->symbols[number & 255];
    const uint32_t size = symbol & 15;
    uint32_t zeros = symbol >> 4;
    if (is_dc)
        zeros = 0;
    else if (size == 0 && zeros != 15)
        zeros = SLUICE_GPU_END;
    return (length + size) | size << 5 | zeros << 9;
}

/* Then the lookups. */
SLUICE_KERNEL_INLINE void sluice_gpu_decode_fill(struct sluice_gpu_decode_shared *shared,
                                                 const struct sluice_gpu_sample *sample,
                                                 uint32_t thread, uint32_t num_threads)
{
    uint32_t dc_tables = 0;
    for (uint32_t c = 0; c < sample->num_planes; c++)
        dc_tables |= 1u << sample->planes[c].dc;
    for (uint32_t i = thread; i < sample->num_huffman << SLUICE_GPU_LOOKUP_BITS; i += num_threads) {
        const uint32_t table = i >> SLUICE_GPU_LOOKUP_BITS;
        struct sluice_gpu_lookup *lookup = &shared->lookups[table];
        const uint32_t bits = i & ((1u << SLUICE_GPU_LOOKUP_BITS) - 1);
        const uint32_t next16 = bits << (16 - SLUICE_GPU_LOOKUP_BITS);
        lookup->fast[bits] = (uint16_t)sluice_gpu_find_code(
            lookup, next16, 1, SLUICE_GPU_LOOKUP_BITS, dc_tables >> table & 1);
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

/* Begins to copy the first `num_bytes` bytes of a chunk, and zeros after them. */
SLUICE_KERNEL_INLINE void sluice_gpu_copy_chunk(uint32_t *to, const uint8_t *from,
                                                uint32_t num_bytes)
{
#ifdef __CUDACC__
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n\t"
                 "cp.async.commit_group;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(num_bytes)
                 : "memory");
#else
    memset(to, 0, 4 * SLUICE_GPU_CHUNK_WORDS);
    memcpy(to, from, num_bytes);
#endif
}

/* All copies of this thread but the last SLUICE_GPU_RING_CHUNKS - 1 are done. */
SLUICE_KERNEL_INLINE void sluice_gpu_await_chunk(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(SLUICE_GPU_RING_CHUNKS - 1) : "memory");
#endif
}

/* Bits of a segment; zeros follow its last word. */
struct sluice_gpu_reader {
    uint64_t bits; /* the next one is the top one */
    uint32_t count;
    uint32_t ahead;        /* word number `next`, read early */
    uint32_t next;         /* of the words from the chunk of the first on */
    const uint8_t *chunks; /* 16-byte aligned */
    uint32_t num_bits;     /* from there on */
    uint32_t ring;         /* its number in the task's words */
};

SLUICE_KERNEL_INLINE void sluice_gpu_ask_for_chunk(const struct sluice_gpu_reader *in,
                                                   struct sluice_gpu_decode_shared *shared,
                                                   uint32_t chunk)
{
    const uint32_t at = chunk * 4 * SLUICE_GPU_CHUNK_WORDS;
    const uint32_t num_bytes = (in->num_bits + 31) / 32 * 4;
    const uint32_t left = sluice_gpu_min(num_bytes > at ? num_bytes - at : 0, 16);
    sluice_gpu_copy_chunk(&shared->rings[in->ring + chunk % SLUICE_GPU_RING_CHUNKS * 4],
                          in->chunks + (left ? at : 0), left);
}

/* Word number `next` becomes the one ahead; `has_moved`: it was another before. */
SLUICE_KERNEL_INLINE void sluice_gpu_look_ahead(struct sluice_gpu_reader *in,
                                                struct sluice_gpu_decode_shared *shared,
                                                uint32_t has_moved)
{
    if (has_moved && in->next % SLUICE_GPU_CHUNK_WORDS == 0) {
        sluice_gpu_ask_for_chunk(in, shared,
                                 in->next / SLUICE_GPU_CHUNK_WORDS + SLUICE_GPU_RING_CHUNKS - 1);
        sluice_gpu_await_chunk();
    }
    in->ahead = shared->rings[in->ring + in->next % SLUICE_GPU_RING_WORDS];
}

/* At least 32 bits may be taken afterwards: a code and what follows it have 31.  Hardly a branch:
 * some thread of a warp needs bits at nearly each symbol. */
SLUICE_KERNEL_INLINE void sluice_gpu_refill(struct sluice_gpu_reader *in,
                                            struct sluice_gpu_decode_shared *shared)
{
    const uint32_t is_needed = in->count <= 32;
    const uint32_t word = is_needed ? sluice_gpu_swap_bytes(in->ahead) : 0;
    in->bits |= (uint64_t)word << ((32 - in->count) & 31); /* the count is not 0 */
    in->count += is_needed * 32;
    in->next += is_needed;
    sluice_gpu_look_ahead(in, shared, is_needed);
}

/* Begins at word number `first_word` of `words`, in the task's ring number `slot`. */
SLUICE_KERNEL_INLINE void sluice_gpu_reader_init(struct sluice_gpu_reader *in, const uint8_t *words,
                                                 const struct sluice_gpu_segment *segment,
                                                 struct sluice_gpu_decode_shared *shared,
                                                 uint32_t slot)
{
    const uint8_t *first = words + (uint64_t)segment->first_word * 4;
    const uint32_t before = (uint32_t)((uintptr_t)first % (4 * SLUICE_GPU_CHUNK_WORDS));
    in->chunks = first - before;
    in->num_bits = before * 8 + segment->num_bits;
    in->ring = slot * SLUICE_GPU_RING_STRIDE;
#ifdef __CUDACC__
    asm volatile("" : "+r"(in->ring)); /* a register, not what it was computed from */
#endif
    for (uint32_t chunk = 0; chunk < SLUICE_GPU_RING_CHUNKS - 1; chunk++)
        sluice_gpu_ask_for_chunk(in, shared, chunk);
    in->next = 0;
    sluice_gpu_look_ahead(in, shared, 1);
    in->next = before / 4;
    sluice_gpu_look_ahead(in, shared, 0);
    in->bits = (uint64_t)sluice_gpu_swap_bytes(in->ahead) << 32;
    in->count = 32;
    in->next++;
    sluice_gpu_look_ahead(in, shared, 1);
    in->bits <<= segment->skip;
    in->count -= segment->skip;
}

/* The value at the end of a code that the bits begin with (T.81, F.2.2.1); 0 if it has none. */
SLUICE_KERNEL_INLINE int32_t sluice_gpu_value(uint64_t bits, uint32_t code)
{
    const uint32_t mask = (1u << (code >> 5 & 15)) - 1;
    const uint32_t value = (uint32_t)(bits >> 32) >> (32 - (code & 31)) & mask;
    return (int32_t)(value > mask >> 1 ? value : value - mask);
}

/* The block at which a segment's reader is. */
struct sluice_gpu_cursor {
    uint32_t mcu_row, mcu_column, block; /* `block` counts within the MCU */
    uint32_t plane;
    const struct sluice_gpu_lookup *dc, *ac;
    int16_t *out; /* NULL: the window does not need it */
};

SLUICE_KERNEL_INLINE void sluice_gpu_cursor_set(struct sluice_gpu_cursor *at,
                                                const struct sluice_gpu_memory *memory,
                                                const struct sluice_gpu_decode_shared *shared)
{
    const struct sluice_gpu_mcu_block *block = &shared->blocks[at->block];
    const uint32_t column = at->mcu_column * block->h + block->column;
    const uint32_t row = at->mcu_row * block->v + block->row;
    at->plane = block->plane;
    at->dc = &shared->lookups[block->dc];
    at->ac = &shared->lookups[block->ac];
    at->out = 0;
    if (column < block->columns && row < block->rows)
        at->out = memory->coefficients +
                  (uint64_t)(block->first_block + row * block->columns + column) * 64;
}

/* Then segment number `number`, as the task's number `slot`.  Returns whether it is faultless:
 * where image/jpeg/window.h would decline it, it is not. */
SLUICE_KERNEL_INLINE int sluice_gpu_decode_segment(const struct sluice_gpu_memory *memory,
                                                   const struct sluice_gpu_sample *sample,
                                                   struct sluice_gpu_decode_shared *shared,
                                                   uint32_t number, uint32_t slot)
{
    const uint8_t *base = (const uint8_t *)sample;
    const struct sluice_gpu_segment segment =
        ((const struct sluice_gpu_segment *)(const void *)(base + sample->segments_at))[number];
    struct sluice_gpu_reader in;
    sluice_gpu_reader_init(&in, base + sample->words_at, &segment, shared, slot);
    const uint32_t most_words = (in.num_bits + 31) / 32 + 2;

    struct sluice_gpu_cursor at;
    at.mcu_row = segment.first_mcu / sample->mcus_across;
    at.mcu_column = segment.first_mcu % sample->mcus_across;
    at.block = 0;
    sluice_gpu_cursor_set(&at, memory, shared);
    const uint32_t blocks_in_mcu = sample->blocks_in_mcu, mcus_across = sample->mcus_across;
    uint32_t mcus_left = segment.num_mcus;
    /* The planes' DC predictors, as separate variables to stay in registers.  The first block
     * belongs to the first plane. */
    int32_t dc0 = segment.dc[0], dc1 = segment.dc[1], dc2 = segment.dc[2];
    int32_t dc = dc0;
    uint32_t k = 0, place = 0;
    int32_t value = 0; /* to be written to `place` */
    uint32_t fault = 0;
    const struct sluice_gpu_lookup *lookup = at.dc;
    /* One symbol each time: threads whose blocks end at different times stay together. */
    for (;;) {
        sluice_gpu_refill(&in, shared);
        uint32_t code = lookup->fast[in.bits >> (64 - SLUICE_GPU_LOOKUP_BITS)];
        /* The value that was read is written while the next one is looked up. */
        if (value != 0 && at.out)
            at.out[place] = (int16_t)value;
        if (code == 0) {
            code = sluice_gpu_find_code(lookup, (uint32_t)(in.bits >> 48),
                                        SLUICE_GPU_LOOKUP_BITS + 1, 16, k == 0);
            if (code == 0)
                return 0;
        }
        value = sluice_gpu_value(in.bits, code);
        in.bits <<= code & 31;
        in.count -= code & 31;
        if (k == 0) {
            dc += value;
            value = dc;
            lookup = at.ac;
        }
        const uint32_t zeros = code >> 9;
        k += zeros;
        fault |= k & ~zeros; /* in bit 6: zeros past the block's last */
        place = shared->place[k & 63];
        if (++k < 64)
            continue;

        if (value != 0 && at.out)
            at.out[place] = (int16_t)value;
        value = 0;
        fault |= dc != (int16_t)dc ? 64 : 0;
        const uint32_t plane = at.plane;
        if (++at.block == blocks_in_mcu) {
            if (--mcus_left == 0)
                break;
            if ((fault & 64) != 0 || in.next > most_words)
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
        lookup = at.dc;
        k = 0;
    }
    return (fault & 64) == 0 && (uint64_t)in.next * 32 - in.count <= in.num_bits;
}

/* To 0 .. 255. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_clip(int32_t value)
{
#ifdef __CUDACC__
    return (uint32_t)__vimin_s32_relu(value, 255);
#else
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
#endif
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
 * image/jpeg/window_kernels.h. */
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
    uint32_t above_0 = 0; /* the bits of all values, each with what makes the least one 0 */
    for (uint32_t v = 0; v < 8; v++) {
        in[v] = sluice_gpu_part(v < 4 ? low : high, v % 4) * quantisers[v];
        above_0 |= (uint32_t)(in[v] + 16384);
    }
    int is_in_range = above_0 <= 32767;
    /* Where the range is left, wrapping sums could depend on the compiler. */
    for (uint32_t v = 0; v < 8; v++)
        in[v] = is_in_range ? in[v] : 0;
    sluice_jpeg_transform_8(in, sums);
    above_0 = 0;
    for (uint32_t y = 0; y < 8; y++) {
        sums[y] = (sums[y] + (1 << 10)) >> 11;
        above_0 |= (uint32_t)(sums[y] + 16384);
    }
    is_in_range &= above_0 <= 32767;
    int32_t *work = shared->work[line->slot] + line->line;
    for (uint32_t y = 0; y < 8; y++)
        work[y * SLUICE_GPU_WORK_STRIDE] = is_in_range ? sums[y] : 0;
    return is_in_range;
}

/* Then the rows. */
SLUICE_KERNEL_INLINE int sluice_gpu_transform_rows(const struct sluice_gpu_memory *memory,
                                                   const struct sluice_gpu_transform_shared *shared,
                                                   const struct sluice_gpu_line *line)
{
    const int32_t *work = shared->work[line->slot] + line->line * SLUICE_GPU_WORK_STRIDE;
    int32_t in[8], sums[8];
    for (uint32_t x = 0; x < 8; x++)
        in[x] = work[x];
    sluice_jpeg_transform_8(in, sums);
    uint64_t samples = 0;
    uint32_t above_0 = 0;
    for (uint32_t x = 0; x < 8; x++) {
        const int32_t value = (sums[x] + (1 << 17)) >> 18;
        above_0 |= (uint32_t)(value + 512);
        samples |= (uint64_t)sluice_gpu_clip(value + 128) << 8 * x;
    }
    const uint32_t columns = line->plane->columns;
    const uint32_t row = line->block / columns, column = line->block % columns;
    uint8_t *out = memory->samples + (uint64_t)line->plane->first_block * 64 +
                   ((uint64_t)row * 8 + line->line) * columns * 8 + column * 8;
    *(uint64_t *)(void *)out = samples; /* the lowest byte is the first: little endian */
    return above_0 <= 1023;
}

#endif
