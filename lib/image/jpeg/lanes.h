#ifndef SLUICE_IMAGE_JPEG_LANES_H
#define SLUICE_IMAGE_JPEG_LANES_H

#include "image/jpeg/entropy.h"
#include "image/jpeg/stretch.h"

#include <stdalign.h>

/* A parallel Huffman reader: several lanes in one thread take turns to read different places of a
 * JPEG scan.  This file has its tables and its state.  The window decoder (jpeg/window.h) and the
 * cropper (jpeg/crop_cut.h) read with it.
 *
 *     jpeg/lane_tables.c  makes tables of steps and of skips from Huffman codes
 *     jpeg/lane_reader.h  reads one step, one skip
 *     jpeg/sync_scan.h    finds where in the scan MCUs begin
 *
 * Threads: a set of lanes belongs to one. */

#define STEP_BITS 11
#define MAX_STEP_BITS 18
#define SKIP_BITS 12
#define MAX_SKIP_BITS 18

/* Entries of the lookup tables.  The index is the next STEP_BITS or SKIP_BITS bits of a block.
 *
 * A step decodes one coefficient.  The end of a block counts as a coefficient of value 0 after the
 * last one, so that every step stores a value.  The index holds the code and the first bit of the
 * value, which is its sign; so the value is a number known from the table plus the bits taken, read
 * as a number.  A block's first step is its DC difference.  The reader loads the parts of an entry
 * one by one: where lanes take turns, loads are cheaper than shifts.
 *
 *     byte 0: bits taken, at most MAX_STEP_BITS; IS_END
 *          1: number of coefficients
 *       2, 3: the number to add to the bits taken
 *
 * A skip passes over all symbols whose codes the index holds; the last one's value may go on behind
 * the index, up to MAX_SKIP_BITS.  If a skip leads past the 64th coefficient, do not take it: its
 * last symbols belong to the next block.  An entry has only the first two bytes, so that the tables
 * of two codings fit the first-level cache.  The only value needed is the DC difference; `dc` has
 * it by the index of the block's first skip.
 *
 * SLOW in byte 1: the index holds no whole symbol, or none at all. */
#define IS_END 64u
#define ADVANCE_SHIFT 8
#define ADD_SHIFT 16
#define SLOW 255u

struct sluice_jpeg_steps {
    uint32_t first[1 << STEP_BITS], rest[1 << STEP_BITS]; /* of a block */
};

struct sluice_jpeg_skips {
    uint16_t first[1 << SKIP_BITS], rest[1 << SKIP_BITS];
    int16_t dc[1 << SKIP_BITS];
};

/* How the blocks of one component are coded. */
struct sluice_jpeg_coding {
    struct sluice_jpeg_steps steps;
    struct sluice_jpeg_skips skips;
    struct sluice_jpeg_ranks dc, ac; /* for codes that are too long for the tables */
};

/* A chunk: the blocks that a lane reads before they are transformed.  It takes fewer bytes of the
 * scan than SLUICE_JPEG_SCAN_SLACK, so that one check for the scan's end after each chunk is
 * enough; and the chunks of all lanes together stay in the first-level cache. */
#define CHUNK_BLOCKS 32
_Static_assert(CHUNK_BLOCKS * 64 * 31 / 8 < SLUICE_JPEG_SCAN_SLACK, "codes of 31 bits at most");
/* Then the chunk's end, the cell that faults lead to, and one more whose `first` can be read. */
#define CHUNK_CELLS (CHUNK_BLOCKS + 3)
#define NUM_LANES 4

/* A block of a chunk, and the tables to read it with.  The next table is `rest`, or at the end of a
 * block the next cell's `first`, which lies IS_END bytes after it. */
struct sluice_jpeg_cell {
    alignas(64) const void *first;
    const struct sluice_jpeg_coding *coding;
    /* A lane that has nothing left to read stores into the last of these. */
    int16_t before[24];
    /* Zero between chunks.  A scanner puts something else into [0]: see jpeg/lane_reader.h. */
    int16_t coefficients[64];
    const void *rest;
    char padding[IS_END - sizeof(const void *)];
};

/* Where a reader is.  The next bit of the scan is the top one of `bits`.  The lowest 1 in `bits` is
 * a sentinel: its position is the number of bits taken since the last load. */
struct sluice_jpeg_reader {
    uint64_t bits;
    const uint8_t *next; /* `bits` was loaded from here */
    uint8_t *cell;
    size_t pos;        /* coefficients read of the block */
    const void *table; /* of steps or skips */
};

/* The start of an MCU in the scan, with the state that a reader needs to begin there. */
struct sluice_jpeg_point {
    const struct sluice_jpeg_scan *scan;
    size_t segment; /* of the scan */
    size_t bit;     /* from the segment's start */
    uint32_t column;
    uint32_t mcus_left; /* in the segment */
    int32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
};

/* One of the readers that take turns.  It reads a chunk, then another. */
struct sluice_jpeg_lane {
    struct sluice_jpeg_cell cells[CHUNK_CELLS];
    struct sluice_jpeg_reader reader;
    const uint8_t *end; /* the cell after the chunk; after all cells: the lane is done */
    uint32_t num_mcus;  /* of the chunk */
    bool is_skipping;   /* it reads skips, not steps */
    uint32_t row, column;
    struct sluice_jpeg_point at; /* all but `bit` and `column` are up to date */
    const uint8_t *segment_start, *segment_end;
    struct sluice_jpeg_stretch stretch; /* used with an index */
    char padding[872];
};

/* The tables and the lanes for the scan of one file. */
struct sluice_jpeg_lanes {
    /* By component; several with the same coding share that of the first of them. */
    struct sluice_jpeg_coding codings[SLUICE_JPEG_MAX_COMPONENTS];
    const struct sluice_jpeg_coding *coding[SLUICE_JPEG_MAX_COMPONENTS];
    /* For steps: maps the number of coefficients read, including this one, to its position in the
     * block. */
    uint8_t place[64 + 32];
    bool has_bmi2;
    /* To read steps, their coefficients must be zero. */
    struct sluice_jpeg_lane lanes[NUM_LANES];
};

/* Enough for skips, in memory of any contents: a scanner writes coefficients before it reads them.
 */
void sluice_jpeg_lanes_init(struct sluice_jpeg_lanes *lanes);

/* Sets which component has which coding, and makes `dc` and `ac` of each coding. */
void sluice_jpeg_lanes_set_codings(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg);

/* Make the tables of steps or of skips of these codings. */
void sluice_jpeg_lanes_make_steps(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg);
void sluice_jpeg_lanes_make_skips(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg);

/* Sets the cells of `lane` up to read steps or skips from the start of an MCU on. */
void sluice_jpeg_lane_init(const struct sluice_jpeg_lanes *lanes, struct sluice_jpeg_lane *lane,
                           const struct sluice_jpeg *jpeg, bool is_skipping);

/* Starts a chunk of `num_mcus` at the reader's position. */
void sluice_jpeg_lane_start_chunk(struct sluice_jpeg_lane *lane, uint32_t num_mcus,
                                  unsigned blocks_in_mcu);

void sluice_jpeg_lane_stop(struct sluice_jpeg_lane *lane);  /* the lane is done */
void sluice_jpeg_lane_clear(struct sluice_jpeg_lane *lane); /* sets the coefficients to zero */

#endif
