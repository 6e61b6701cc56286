#ifndef SLUICE_IMAGE_JPEG_LANES_H
#define SLUICE_IMAGE_JPEG_LANES_H

#include "image/jpeg_entropy.h"
#include "image/jpeg_index.h"

#include <stdalign.h>

/* Reading a scan in several places at a time: the tables and the state of the readers, for who
 * decodes a window and for who cuts one out.
 *
 *     jpeg_lane_tables.c  Huffman codes to tables of steps and leaps
 *     jpeg_lane_reader.h  a step, a leap
 *     jpeg_leap.c         where in the scan an MCU begins
 *
 * Threads: a set of lanes belongs to one. */

#define STEP_BITS 11
#define MAX_STEP_BITS 18
#define LEAP_BITS 12
#define MAX_LEAP_BITS 18

/* What the next bits of a block hold, as far as the index into a table tells.
 *
 * A step is one coefficient or the end of the block, which is a zero after the last coefficient,
 * so that a value can always be stored.  The code and its value's first bit, which says whether
 * it is negative, are all known: what the bits taken differ from the value by, as numbers.  A
 * block's first step is the difference of its DC.  The four bytes are loaded one by one, for loads
 * are cheaper than shifts where many readers take turns.
 *
 *     byte 0: bits taken, at most MAX_STEP_BITS; IS_END
 *          1: coefficients to go on by
 *       2, 3: what to add to the bits taken
 *
 * A leap is as many symbols as LEAP_BITS hold the codes of, even if the last one's value goes on
 * behind them, up to MAX_LEAP_BITS.  One that goes past 64 is wrong: its last part belongs to the
 * next block.  It has the first two bytes alone, so that the tables of two codings fit the
 * first-level cache; of the values the DC's difference is wanted, which `dc` tells afterwards, by
 * the index of the block's first leap.
 *
 * SLOW in byte 1: a symbol that does not fit, or no symbol. */
#define IS_END 64u
#define ADVANCE_SHIFT 8
#define ADD_SHIFT 16
#define SLOW 255u

struct sluice_jpeg_steps {
    uint32_t first[1 << STEP_BITS], rest[1 << STEP_BITS]; /* of a block */
};

struct sluice_jpeg_leaps {
    uint16_t first[1 << LEAP_BITS], rest[1 << LEAP_BITS];
    int16_t dc[1 << LEAP_BITS];
};

/* How the blocks of one component are coded. */
struct sluice_jpeg_coding {
    struct sluice_jpeg_steps steps;
    struct sluice_jpeg_leaps leaps;
    struct sluice_jpeg_ranks dc, ac; /* for what is too long for those */
};

/* Blocks that a lane reads before they are transformed.  Their bits are fewer than
 * SLUICE_JPEG_SCAN_SLACK bytes, so that a look at the end after each chunk is enough; and the
 * chunks of all lanes that are read at once stay in the first-level cache. */
#define CHUNK_BLOCKS 32
_Static_assert(CHUNK_BLOCKS * 64 * 31 / 8 < SLUICE_JPEG_SCAN_SLACK, "codes of 31 bits at most");
#define CHUNK_CELLS (CHUNK_BLOCKS + 3) /* its end, where faults lead, and one to look at */
#define NUM_LANES 4

/* A block of a chunk.  Of the tables that may follow in it or behind it, `rest` and the next
 * cell's `first`, the one is as far from the other as IS_END says. */
struct sluice_jpeg_cell {
    alignas(64) const void *first;
    const struct sluice_jpeg_coding *coding;
    int16_t before[24];       /* what leads nowhere is stored in the last of these */
    int16_t coefficients[64]; /* zero between chunks; [0] of a leaper: see jpeg_lane_reader.h */
    const void *rest;
    char padding[IS_END - sizeof(const void *)];
};

/* Where a reader is.  The next bit is the top one of `bits`; the lowest one that is
 * set is none of the stream's, and says how many were taken. */
struct sluice_jpeg_reader {
    uint64_t bits;
    const uint8_t *next; /* what `bits` was loaded from */
    uint8_t *cell;
    size_t pos;        /* coefficients read of its block */
    const void *table; /* of steps or leaps */
};

/* A point in the scan from which MCUs are read. */
struct sluice_jpeg_point {
    const struct sluice_jpeg_scan *scan;
    size_t segment; /* of the scan */
    size_t bit;     /* from the segment's start */
    uint32_t column;
    uint32_t mcus_left; /* in the segment */
    int32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
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

/* What reads the scan of a file. */
struct sluice_jpeg_lanes {
    struct sluice_jpeg_coding codings[SLUICE_JPEG_MAX_COMPONENTS]; /* of the first that has them */
    const struct sluice_jpeg_coding *coding[SLUICE_JPEG_MAX_COMPONENTS]; /* by component */
    uint8_t place[64 + 32]; /* for steps: coefficients read, its own included, to one's place */
    bool has_bmi2;
    struct sluice_jpeg_lane lanes[NUM_LANES]; /* for steps, whose coefficients are zero */
};

/* For leaps alone, in memory of any contents: leapers write coefficients before they read them. */
void sluice_jpeg_lanes_init(struct sluice_jpeg_lanes *lanes);

/* Which coding is whose, and what is too long for tables. */
void sluice_jpeg_lanes_set_codings(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg);

/* Makes the tables of these codings: those of steps, or of leaps. */
void sluice_jpeg_lanes_make_steps(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg);
void sluice_jpeg_lanes_make_leaps(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg);

/* Goes through `lane` from the start of an MCU on, by tables of steps or of leaps. */
void sluice_jpeg_lane_init(const struct sluice_jpeg_lanes *lanes, struct sluice_jpeg_lane *lane,
                           const struct sluice_jpeg *jpeg, bool is_leaping);

/* A chunk of so many MCUs, from where the reader is. */
void sluice_jpeg_lane_start_chunk(struct sluice_jpeg_lane *lane, uint32_t num_mcus,
                                  unsigned blocks_in_mcu);

void sluice_jpeg_lane_stop(struct sluice_jpeg_lane *lane);  /* nothing is left to do */
void sluice_jpeg_lane_clear(struct sluice_jpeg_lane *lane); /* the coefficients */

#endif
