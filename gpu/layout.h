#ifndef SLUICE_GPU_LAYOUT_H
#define SLUICE_GPU_LAYOUT_H

#include <stdint.h>

/* The input of the decoder on the device: a batch as batch.h writes it, in one piece of memory.
 *
 *     index  max_samples + 1 times struct sluice_gpu_index
 *     then for each sample, at a multiple of 16 bytes:
 *         struct sluice_gpu_sample
 *         struct sluice_gpu_view        num_views times
 *         struct sluice_gpu_huffman     num_huffman times
 *         struct sluice_gpu_segment     num_segments times
 *         the segments' bits, without stuffing
 *         each view's calls of kernels (image/kernel_call.h), at a multiple of 16 bytes
 *
 * Every number in it is checked: no kernel can leave the batch's memory, whatever the bits are.
 *
 * C11 and CUDA.  Threads: plain data. */

#define SLUICE_GPU_MAX_PLANES 3
#define SLUICE_GPU_MAX_HUFFMAN (2 * SLUICE_GPU_MAX_PLANES)
#define SLUICE_GPU_MAX_BLOCKS_IN_MCU 6
#define SLUICE_GPU_MAX_VIEWS 32

/* A task is the work of one block of threads.  tuning.h has its size for each kind. */

/* The position of a sample, and the number of tasks before its own.  The entry after the last
 * sample has the totals. */
struct sluice_gpu_index {
    uint32_t at; /* bytes from the start of the batch */
    uint32_t decode_tasks, transform_tasks, across_tasks;
};

/* Codes of each length 1 .. 16, and their symbols, as in DHT. */
struct sluice_gpu_huffman {
    uint8_t counts[16];
    uint8_t symbols[256];
};

/* MCUs whose bits begin `skip` bits after a word's first, with the DC predictors there: all 0 after
 * a restart marker.  Segments of an MCU row between points of an index share their words. */
struct sluice_gpu_segment {
    uint32_t first_mcu, num_mcus; /* to decode; the segment may have more */
    uint32_t first_word;          /* from the sample's words on */
    uint32_t num_bits;            /* from that word's first bit on */
    int16_t dc[SLUICE_GPU_MAX_PLANES];
    uint16_t skip; /* 0 .. 31 */
};

/* How chroma is upsampled to the size of luma. */
enum {
    SLUICE_GPU_REPEAT, /* each sample `wide` x `high` times */
    SLUICE_GPU_SMOOTH, /* libjpeg's triangle filter; `wide` and `high` are 1 or 2 */
};

/* A component: the blocks [first_column, first_column + columns) x [first_row, first_row + rows),
 * which the views' boxes need. */
struct sluice_gpu_plane {
    uint32_t width, height; /* samples of the whole image */
    uint32_t first_column, first_row, columns, rows;
    uint32_t first_block; /* of the batch's */
    uint8_t h, v;         /* blocks in an MCU */
    uint8_t wide, high;   /* pixels of one sample */
    uint8_t upsampling;
    uint8_t dc, ac; /* of the sample's Huffman tables */
    uint8_t unused;
    /* Column after column: frequency (v, u) is at u * 8 + v. */
    int16_t quantisers[64];
};

/* One pass of the resize: outputs [from, from + count) of `out`, of the in_count inputs from
 * in_from on, of `in`. */
struct sluice_gpu_axis {
    uint32_t in, in_from, in_count;
    uint32_t out, from, count;
    uint32_t max_taps;
    uint32_t filter;       /* enum sluice_resize_filter: bilinear or bicubic */
    uint32_t first_weight; /* of the batch's; see sluice_gpu_weights_len() */
};

/* One of the images that a sample's row consists of: a box of the decoded image, resized. */
struct sluice_gpu_view {
    struct sluice_gpu_axis across, down;
    uint32_t left, top;   /* of the box */
    uint32_t row_at;      /* bytes of the views before it, in a row */
    uint32_t first_pixel; /* of the batch's, after the pass across */
    uint32_t rows_at_once, columns_at_once, across_tasks;
    uint32_t calls_at, calls_bytes; /* from the sample's start; 0 bytes: no call */
    uint32_t scratch_words;         /* that the calls take, from first_pixel on */
    uint32_t is_flipped;
};

struct sluice_gpu_sample {
    uint32_t huffman_at, segments_at, words_at; /* bytes from the sample's start */
    uint32_t num_views, num_huffman, num_segments, num_planes;
    uint32_t num_blocks; /* of all planes, which follow each other */
    uint32_t mcus_across;
    uint32_t blocks_in_mcu;
    uint8_t block_plane[SLUICE_GPU_MAX_BLOCKS_IN_MCU]; /* in the order of the scan */
    uint8_t block_x[SLUICE_GPU_MAX_BLOCKS_IN_MCU], block_y[SLUICE_GPU_MAX_BLOCKS_IN_MCU];
    uint8_t is_placed; /* set by batch.c: it is in the batch that its memory belongs to */
    uint8_t unused;
    uint32_t row; /* of the batch that is made */
    struct sluice_gpu_plane planes[SLUICE_GPU_MAX_PLANES];
};

/* How rows stand in the memory of a batch: the first view of all `capacity` rows, then the second.
 * A row's bytes, in the order of its views, end at ends[num - 1]. */
struct sluice_gpu_row_views {
    uint64_t capacity;
    uint32_t num;
    uint32_t ends[SLUICE_GPU_MAX_VIEWS];
    /* The size of the one view, to be hashed behind its pixels, if rows of other batches have other
     * sizes; else 0. */
    uint32_t height, width;
};

/* A row to hash, and the hash, as struct sluice_hash128. */
struct sluice_gpu_hash_item {
    uint32_t row, label;
};
struct sluice_gpu_hash {
    uint64_t high, low;
};

/* Words for the weights of an axis: the first input and the number of inputs of each output, then
 * the weights, tap after tap. */
#define SLUICE_GPU_WEIGHTS_LEN(axis) ((uint64_t)(axis)->count * (2 + (uint64_t)(axis)->max_taps))

/* The words that a task of num_outputs outputs reads. */
#define SLUICE_GPU_TASK_WEIGHTS(axis, num_outputs)                                                 \
    ((uint64_t)(num_outputs) *                                                                     \
     (2 + (uint64_t)((axis)->max_taps < (axis)->in_count ? (axis)->max_taps : (axis)->in_count)))

#endif
