#ifndef SLUICE_IMAGE_JPEG_WINDOW_INTERNAL_H
#define SLUICE_IMAGE_JPEG_WINDOW_INTERNAL_H

#include "image/image.h"
#include "image/jpeg_entropy.h"
#include "image/jpeg_index.h"
#include "image/jpeg_window_kernels.h"

#include <stdalign.h>

/* The window decoder's parts, in the order in which a file passes through them:
 *
 *     jpeg_window.c         what is covered, and where its samples go
 *     jpeg_window_tables.c  Huffman codes to tables of steps and leaps
 *     jpeg_window_points.c  where in the scan the rows begin
 *     jpeg_window_rows.c    bits to samples
 *     jpeg_window_pixels.c  samples to pixels */

#define STEP_BITS 10
#define MAX_STEP_BITS 18
#define LEAP_BITS 12
#define MAX_LEAP_BITS 18

/* What the next bits of a block hold, as far as STEP_BITS of them tell.  An entry is four bytes
 * that are loaded one by one, for loads are cheaper than shifts where many readers take turns.
 *
 * A step is one coefficient or the end of the block, which is a zero after the last coefficient,
 * so that a value can always be stored.  The code and its value's first bit, which says whether
 * it is negative, are all known: what the bits taken differ from the value by, as numbers.
 *
 *     byte 0: bits taken, at most MAX_STEP_BITS; IS_END
 *          1: coefficients to go on by
 *       2, 3: what to add to the bits taken
 *
 * A block's first step is the difference of its DC.
 *
 * A leap is as many symbols as LEAP_BITS hold the codes of, even if the last one's value goes on
 * behind them, up to MAX_LEAP_BITS; of the values only the DC's difference is wanted.  One that
 * goes past 64 is wrong: its last part belongs to the next block.
 *
 *     byte 0: bits taken, IS_END
 *          1: coefficients to go on by
 *       2, 3: the DC's difference
 *
 * SLOW in byte 1: a symbol that does not fit, or no symbol. */
#define IS_END 64u
#define ADVANCE_SHIFT 8
#define ADD_SHIFT 16
#define DC_SHIFT 16
#define SLOW 255u

struct sluice_jpeg_steps {
    uint32_t first[1 << STEP_BITS], rest[1 << STEP_BITS]; /* of a block */
};

struct sluice_jpeg_leaps {
    uint32_t first[1 << LEAP_BITS], rest[1 << LEAP_BITS];
};

/* How the blocks of one component are coded. */
struct sluice_jpeg_coding {
    struct sluice_jpeg_steps steps;
    struct sluice_jpeg_leaps leaps;
    struct sluice_jpeg_ranks dc, ac; /* for what is too long for those */
};

/* Samples of one component: those of the blocks [first_column, end_column) x
 * [first_row, end_row). */
struct sluice_jpeg_plane {
    unsigned h, v;
    uint32_t width, height; /* samples of the whole image */
    uint32_t first_column, end_column, first_row, end_row;
    uint8_t *samples;
    size_t stride;
    const struct sluice_jpeg_coding *coding; /* of this plane or an earlier one */
    alignas(64) int16_t quantisers[64];      /* where the kernels want them */
};

/* --- lanes --- */

/* Blocks that a lane reads before they are transformed.  Their bits are fewer than
 * SLUICE_JPEG_SCAN_SLACK bytes, so that a look at the end after each chunk is enough; and the
 * chunks of all lanes stay in the first-level cache. */
#define CHUNK_BLOCKS 16
#define CHUNK_CELLS (CHUNK_BLOCKS + 3) /* its end, where faults lead, and one to look at */
#define NUM_LANES 4

/* A block of a chunk.  Of the tables that may follow in it or behind it, `rest` and the next
 * cell's `first`, the one is as far from the other as IS_END says. */
struct sluice_jpeg_cell {
    alignas(64) const uint32_t *first;
    const struct sluice_jpeg_coding *coding;
    int16_t before[24];       /* what leads nowhere is stored in the last of these */
    int16_t coefficients[64]; /* zero between chunks */
    const uint32_t *rest;
    char padding[IS_END - sizeof(const uint32_t *)];
};

/* Where a reader is.  The next bit is the top one of `bits`; the lowest one that is
 * set is none of the stream's, and says how many were taken. */
struct sluice_jpeg_reader {
    uint64_t bits;
    const uint8_t *next; /* what `bits` was loaded from */
    uint8_t *cell;
    size_t pos;            /* coefficients read of its block */
    const uint32_t *table; /* of steps or leaps */
};

/* A point in the scan from which MCUs are read. */
struct sluice_jpeg_point {
    const struct sluice_jpeg_scan *scan;
    size_t segment; /* of the scan */
    size_t bit;     /* from the segment's start */
    uint32_t column;
    uint32_t mcus_left; /* in the segment */
    int32_t dc[3];
};

/* The start of an MCU, as found by one that leaps through the scan. */
struct sluice_jpeg_leap_mark {
    size_t bit;     /* from the scan's start */
    uint32_t dc[3]; /* the sum of the differences from the reader's start on */
};

/* A reader of a chunk at a time. */
struct sluice_jpeg_lane {
    struct sluice_jpeg_cell cells[CHUNK_CELLS];
    struct sluice_jpeg_reader reader;
    const uint8_t *end; /* the cell behind the chunk; behind all of them: nothing is left to do */
    uint32_t num_mcus;  /* of the chunk */
    bool is_leaping;    /* rather than stepping */
    uint32_t row, column;
    struct sluice_jpeg_point at; /* but for `bit` and `column` */
    const uint8_t *segment_start, *segment_end;
    struct sluice_jpeg_stretch stretch; /* with an index */
    char padding[832];
};

struct sluice_jpeg_window {
    struct sluice_jpeg_coding codings[3]; /* of the first plane that uses them */
    struct sluice_jpeg_plane planes[3];
    unsigned num_planes;
    uint8_t place[64 + 32]; /* coefficients read, its own included, to where one is stored */
    const struct sluice_jpeg_window_kernels *kernels;
    struct sluice_jpeg_lane lanes[NUM_LANES];

    uint8_t *memory; /* planes, rows of upsampling and points */
    size_t memory_capacity;
    uint16_t *sums;                   /* one before and one after the row */
    uint8_t *row[2];                  /* chroma at full width */
    struct sluice_jpeg_point *points; /* one for each MCU row needed */
    struct sluice_jpeg_leap_mark *marks;
    size_t marks_capacity;
};

/* Makes the tables of the planes' codings: those of steps, or of leaps, which find_points needs. */
void sluice_jpeg_window_make_steps(struct sluice_jpeg_window *window,
                                   const struct sluice_jpeg *jpeg);
void sluice_jpeg_window_make_leaps(struct sluice_jpeg_window *window,
                                   const struct sluice_jpeg *jpeg);

/* The MCU rows and columns that hold a block of some plane's window. */
struct sluice_jpeg_mcu_range {
    uint32_t first_row, end_row, first_column, end_column;
};

/* What there is to read: all of a scan, or rows by way of an index. */
struct sluice_jpeg_source {
    const struct sluice_jpeg *jpeg;
    struct sluice_jpeg_mcu_range wanted;
    const struct sluice_jpeg_scan *scan;   /* or NULL, and then: */
    const struct sluice_jpeg_index *index; /* it fits the file */
    const uint8_t *bytes;                  /* of the file */
    struct sluice_buf_pool *pool;
};

/* Fills window->points: from each a row's MCUs from wanted->first_column on, or from some before,
 * can be read.  False: there is a fault before the last of them, or no memory. */
bool sluice_jpeg_window_find_points(struct sluice_jpeg_window *window,
                                    const struct sluice_jpeg_source *source);

/* Fills the planes.  False: there is a fault in what was read, or something on which builds of
 * libjpeg-turbo may differ. */
bool sluice_jpeg_window_read(struct sluice_jpeg_window *window,
                             const struct sluice_jpeg_source *source);

/* The box's pixels from the planes, three bytes each, row after row. */
void sluice_jpeg_window_write_pixels(struct sluice_jpeg_window *window,
                                     const struct sluice_box *box, uint8_t *pixels);

#endif
