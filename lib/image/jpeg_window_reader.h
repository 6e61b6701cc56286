#ifndef SLUICE_IMAGE_JPEG_WINDOW_READER_H
#define SLUICE_IMAGE_JPEG_WINDOW_READER_H

#include "base/buf.h"
#include "image/jpeg_window_internal.h"

#include <string.h>

/* Reading with steps and leaps in several places of a scan at a time.
 *
 * One reader has to wait for each lookup before it knows where the next one is, so several take
 * turns in one loop, and nothing in it branches on what the bits are, unless they are rare ones.
 * All is inline, for it is compiled for more than one instruction set. */

/* Steps that lead nowhere, for a lane at the end of its chunk. */
extern const uint32_t sluice_jpeg_nowhere[1 << STEP_BITS];

#define ALWAYS_INLINE inline __attribute__((always_inline))

static inline const uint8_t *segment_start(const struct sluice_jpeg_scan *scan, size_t segment)
{
    return scan->data->data + (segment ? scan->segment_ends[segment - 1] : 0);
}

static inline const uint8_t *segment_end(const struct sluice_jpeg_scan *scan, size_t segment)
{
    return scan->data->data + scan->segment_ends[segment];
}

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

/* `block` of a reader that met with a fault: behind the end of every chunk. */
#define FAULTY ((CHUNK_BLOCKS + 1) * 64)

static inline void fail(struct sluice_jpeg_reader *in)
{
    in->block = FAULTY;
    in->pos = 0;
    in->table = sluice_jpeg_nowhere;
}

static __attribute__((noinline)) struct sluice_jpeg_reader
step_slowly(struct sluice_jpeg_reader reader, struct sluice_jpeg_lane *lane, const uint8_t *place)
{
    struct sluice_jpeg_reader *in = &reader;
    const struct sluice_jpeg_slot *slot = &lane->slots[in->block / 64];
    refill(in);
    const struct sluice_jpeg_bits bits = {.bits = in->bits};
    const unsigned entry =
        sluice_jpeg_bits_peek_symbol(&bits, in->pos ? &slot->coding->ac : &slot->coding->dc);
    const unsigned size = entry & 15, run = in->pos ? entry >> 4 & 15 : 0;
    if (entry == 0) {
        fail(in);
        return reader;
    }
    in->bits <<= entry >> 8;
    if (in->pos && size == 0 && run != 15) {
        in->pos = 64;
    } else {
        in->pos += run + 1;
        if (in->pos > 64) {
            fail(in);
            return reader;
        }
        /* A run of 16 zeroes, too, ends in a coefficient: one that is zero. */
        lane->coefficients[in->block + place[in->pos]] =
            (int16_t)sluice_jpeg_extend(in->bits, size);
        in->bits <<= size;
    }
    refill(in);
    in->table = slot->rest;
    if (in->pos == 64) {
        in->block += 64;
        in->pos = 0;
        in->table = slot->next_first;
    }
    return reader;
}

/* Nothing here depends on a guess about the bits but that they are no rare ones: the end of a
 * block is a matter of selecting the next table and place. */
static ALWAYS_INLINE void step(struct sluice_jpeg_reader *in, struct sluice_jpeg_lane *lane,
                               const uint8_t *place)
{
    const uint32_t entry = in->table[in->bits >> (64 - STEP_BITS)];
    const size_t first = in->pos + (entry >> FIRST_SHIFT & FIRST_MASK);
    const size_t both = in->pos + (entry >> BOTH_SHIFT & BOTH_MASK);
    if (__builtin_expect(both > 64, 0)) {
        *in = step_slowly(*in, lane, place);
        return;
    }
    in->bits <<= entry & NUM_BITS_MASK;
    int16_t *coefficients = lane->coefficients + in->block;
    coefficients[place[both]] =
        (int16_t)((int32_t)(entry << (32 - VALUE2_BITS - VALUE2_SHIFT)) >> (32 - VALUE2_BITS));
    coefficients[place[first]] = (int16_t)((int32_t)entry >> VALUE1_SHIFT);
    const size_t end = (entry | both) & IS_END; /* or the 64th coefficient */
    in->pos = both & (size_t)((ptrdiff_t)(end - IS_END) >> 8);
    memcpy(&in->table, (const uint8_t *)lane->slots + in->block * 2 + end, sizeof(in->table));
    in->block += end;
}

/* The same for leaps, of which nothing is kept but the DC's difference, where its block begins. */
static ALWAYS_INLINE void leap(struct sluice_jpeg_reader *in, struct sluice_jpeg_lane *lane,
                               const uint8_t *place)
{
    const uint32_t entry = in->table[in->bits >> (64 - LEAP_BITS)];
    const size_t pos = in->pos + (entry >> ADVANCE_SHIFT & ADVANCE_MASK);
    if (__builtin_expect(pos > 64, 0)) {
        *in = step_slowly(*in, lane, place);
        return;
    }
    in->bits <<= entry & NUM_BITS_MASK;
    lane->coefficients[in->block + in->pos] = (int16_t)(entry >> DC_SHIFT);
    const size_t end = (entry | pos) & IS_END;
    in->pos = pos & (size_t)((ptrdiff_t)(end - IS_END) >> 8);
    memcpy(&in->table, (const uint8_t *)lane->slots + in->block * 2 + end, sizeof(in->table));
    in->block += end;
}

/* Goes through `lane` from the start of an MCU on, by tables of steps or of leaps. */
void sluice_jpeg_lane_init(struct sluice_jpeg_window *window, struct sluice_jpeg_lane *lane,
                           const struct sluice_jpeg *jpeg, bool is_leaping);

/* A chunk of so many MCUs, from where the reader is. */
void sluice_jpeg_lane_start_chunk(struct sluice_jpeg_lane *lane, uint32_t num_mcus,
                                  unsigned blocks_in_mcu);

#endif
