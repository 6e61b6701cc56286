#ifndef SLUICE_IMAGE_JPEG_LANE_READER_H
#define SLUICE_IMAGE_JPEG_LANE_READER_H

#include "base/buf.h"
#include "image/jpeg/lanes.h"

#include <stddef.h>
#include <string.h>

/* The inner loops of the parallel Huffman reader: one step, one skip.
 *
 * A single reader waits for each lookup before it knows where the next code begins.  So several
 * lanes take turns in one loop, which does not branch on the bits, but for rare ones.  All is
 * inline, because it is compiled for more than one instruction set. */

/* A table of entries that take no bits and no coefficients, for a lane at its chunk's end. */
extern const uint32_t sluice_jpeg_nowhere[1 << SKIP_BITS];

#define ALWAYS_INLINE inline __attribute__((always_inline))

static ALWAYS_INLINE void refill(struct sluice_jpeg_reader *in)
{
    const unsigned taken = (unsigned)__builtin_ctzll(in->bits);
    in->next += taken >> 3;
    in->bits = (sluice_jpeg_load64(in->next) | 1) << (taken & 7);
}

static inline void start_reader(struct sluice_jpeg_reader *in, const uint8_t *bytes, size_t bit)
{
    in->next = bytes + bit / 8;
    in->bits = (sluice_jpeg_load64(in->next) | 1) << bit % 8;
}

static inline size_t reader_position(const struct sluice_jpeg_reader *in, const uint8_t *base)
{
    return (size_t)(in->next - base) * 8 + (unsigned)__builtin_ctzll(in->bits);
}

/* Byte i of an entry, counted from the lowest. */
static ALWAYS_INLINE uint8_t part(const uint32_t *entry, unsigned i)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return ((const uint8_t *)entry)[i];
#else
    return ((const uint8_t *)entry)[3 - i];
#endif
}

/* A symbol whose code is taken and whose value is not. */
struct sluice_jpeg_symbol {
    unsigned run, size;
    bool is_sound, is_end;
};

static inline struct sluice_jpeg_symbol take_symbol(struct sluice_jpeg_reader *in,
                                                    const struct sluice_jpeg_coding *coding)
{
    const bool is_dc = in->pos == 0;
    const unsigned found = sluice_jpeg_ranks_find(is_dc ? &coding->dc : &coding->ac, in->bits, 1);
    const unsigned run = is_dc ? 0 : found >> 4 & 15, size = found & 15;
    in->bits <<= found >> 8;
    return (struct sluice_jpeg_symbol){
        .run = run,
        .size = size,
        .is_sound = found != 0,
        .is_end = !is_dc && size == 0 && run != 15,
    };
}

_Static_assert(offsetof(struct sluice_jpeg_cell, rest) + IS_END == sizeof(struct sluice_jpeg_cell),
               "the next cell's first table");

/* Index of the cell that a reader goes to at a fault: after the end of every chunk. */
#define FAULTY (CHUNK_BLOCKS + 1)

static inline void fail(struct sluice_jpeg_reader *in, struct sluice_jpeg_lane *lane)
{
    in->cell = (uint8_t *)&lane->cells[FAULTY];
    in->pos = 0;
    in->table = sluice_jpeg_nowhere;
}

/* Reads one symbol of any length.  If `place` is NULL, coefficients stay in the order of the file.
 */
static ALWAYS_INLINE void take_slowly(struct sluice_jpeg_reader *in, struct sluice_jpeg_lane *lane,
                                      const uint8_t *place, int32_t add_to_value)
{
    struct sluice_jpeg_cell *cell = (struct sluice_jpeg_cell *)(void *)in->cell;
    refill(in);
    const struct sluice_jpeg_symbol symbol = take_symbol(in, cell->coding);
    const size_t pos = in->pos + symbol.run + 1;
    if (!symbol.is_sound || (!symbol.is_end && pos > 64)) {
        fail(in, lane);
        return;
    }
    if (symbol.is_end) {
        in->pos = 64;
    } else {
        /* A run of 16 zeroes is 15 and a coefficient that is zero. */
        in->pos = pos;
        cell->coefficients[place ? place[pos] : pos - 1] =
            (int16_t)(sluice_jpeg_extend(in->bits, symbol.size) + add_to_value);
        in->bits <<= symbol.size;
    }
    refill(in);
    in->table = cell->rest;
    if (in->pos == 64) {
        in->cell += sizeof(*cell);
        in->pos = 0;
        in->table = cell[1].first;
    }
}

static __attribute__((noinline)) struct sluice_jpeg_reader
step_slowly(struct sluice_jpeg_reader reader, struct sluice_jpeg_lane *lane, const uint8_t *place)
{
    take_slowly(&reader, lane, place, 0);
    return reader;
}

/* A scanner stores in a block's first coefficient the index of the block's first skip; or, if that
 * symbol was read slowly, the DC difference plus SLOW_DC, which is larger than any index. */
#define SLOW_DC (3 << SKIP_BITS)

static __attribute__((noinline)) struct sluice_jpeg_reader
skip_slowly(struct sluice_jpeg_reader reader, struct sluice_jpeg_lane *lane)
{
    take_slowly(&reader, lane, NULL, SLOW_DC);
    return reader;
}

static inline int32_t dc_of_scanner(const struct sluice_jpeg_cell *cell)
{
    const uint16_t left = (uint16_t)cell->coefficients[0];
    return left < 1 << SKIP_BITS ? cell->coding->skips.dc[left] : left - SLOW_DC;
}

/* Selects the next table and cell without a branch, because a processor cannot predict where blocks
 * end.  In assembler: compilers would make a branch of it, and selecting by arithmetic takes
 * longer; every step waits for this one. */
static ALWAYS_INLINE void go_on(struct sluice_jpeg_reader *in, size_t taken, size_t pos)
{
    const struct sluice_jpeg_cell *cell = (const struct sluice_jpeg_cell *)(const void *)in->cell;
    const void *table = cell->rest;
    size_t end = taken | pos; /* IS_END is set at an end-of-block code and where pos is 64 */
#ifdef __x86_64__
    __asm__("and %[is_end], %k[end]\n\tcmovne %[first], %[table]\n\tcmovne %[zero], %[pos]"
            : [end] "+r"(end), [table] "+r"(table), [pos] "+r"(pos)
            : [is_end] "i"(IS_END), [first] "m"(cell[1].first), [zero] "r"((size_t)0)
            : "cc");
#else
    end &= IS_END;
    table = end ? cell[1].first : table;
    pos = end ? 0 : pos;
#endif
    in->cell += end * (sizeof(*cell) / IS_END);
    in->table = table;
    in->pos = pos;
}

/* `in_order`: coefficients stay in the order of the file. */
static ALWAYS_INLINE void step(struct sluice_jpeg_reader *in, struct sluice_jpeg_lane *lane,
                               const uint8_t *place, bool in_order)
{
    const uint32_t *entry = (const uint32_t *)in->table + (in->bits >> (64 - STEP_BITS));
    const size_t taken = part(entry, 0), pos = in->pos + part(entry, 1);
    if (__builtin_expect(pos > 64, 0)) {
        *in = step_slowly(*in, lane, place);
        return;
    }
    const uint16_t value = (uint16_t)((in->bits >> (-taken & 63)) + (*entry >> ADD_SHIFT));
    in->bits <<= taken & 63;
    const size_t coefficients = offsetof(struct sluice_jpeg_cell, coefficients);
    uint8_t *at = in_order ? in->cell + (coefficients - sizeof(value)) + sizeof(value) * pos
                           : in->cell + coefficients + sizeof(value) * place[pos];
    memcpy(at, &value, sizeof(value));
    go_on(in, taken, pos);
}

/* One skip; see SLOW_DC for what it stores. */
static ALWAYS_INLINE void skip(struct sluice_jpeg_reader *in, struct sluice_jpeg_lane *lane)
{
    const uint64_t index = in->bits >> (64 - SKIP_BITS);
    const uint32_t taken = ((const uint16_t *)in->table)[index];
    const size_t pos = in->pos + (taken >> ADVANCE_SHIFT);
    if (__builtin_expect(pos > 64, 0)) {
        *in = skip_slowly(*in, lane);
        return;
    }
    in->bits <<= taken & 63;
    const uint16_t left = (uint16_t)index;
    memcpy(in->cell + offsetof(struct sluice_jpeg_cell, coefficients) + 2 * in->pos, &left,
           sizeof(left));
    go_on(in, taken, pos);
}

#endif
