#include "image/jpeg_window.h"

#include "base/buf.h"
#include "base/checked.h"
#include "image/codec_internal.h"
#include "image/jpeg_entropy.h"
#include "image/jpeg_index.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* How many bits index the tables for DC, for steps and for leaps.  Measured: with more, they
 * crowd each other out of the first-level cache and take longer to make than they save. */
#define INDEX_BITS SLUICE_JPEG_LOOKUP_BITS
#define STEP_BITS 11
#define LEAP_BITS 11
#define TABLE_LEN (1u << INDEX_BITS)
#define STEP_TABLE_LEN (1u << STEP_BITS)
#define LEAP_TABLE_LEN (1u << LEAP_BITS)

/* A refill of the reader is good for 56 bits; the last value of a leap may have 15 more than
 * its index. */
#define STEPS_PER_REFILL (56 / STEP_BITS)
#define LEAPS_PER_REFILL (56 / (LEAP_BITS + 15))

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* libjpeg refuses larger images. */
#define MAX_SIDE 65500u

/* What the next bits of a block's AC part hold, as far as STEP_BITS of them tell.  The bits
 * that it uses stand lowest in each entry, where a shift takes its count from.
 *
 * A step is one or two coefficients and possibly the end of the block: `first` and `both` are
 * how many coefficients on their values belong.  With one coefficient, the second stands in the
 * first's place, and an end alone is a zero after the last coefficient; so both can always be
 * stored, the second before the first.  Past the 63rd coefficient: the symbol or its value is
 * longer than the index.
 *
 *     value1:9  value2:5  first:5  both:6  is_end:1  num_bits:6
 *
 * A leap is the same where values are not wanted: all symbols whose codes the bits hold, even
 * if the last one's value goes on behind them.
 *
 *     advance:9  is_end:1  num_bits:6 */
#define NUM_BITS_MASK 63u
#define IS_END 64u
#define BOTH_SHIFT 7
#define FIRST_SHIFT 13
#define VALUE2_SHIFT 18
#define VALUE1_SHIFT 23
#define ADVANCE_SHIFT 7
#define SLOW 63u /* an advance past any block's end */

/* The tables are small: together they should stay in the first-level cache. */
struct ac_table {
    uint32_t steps[STEP_TABLE_LEN];
    uint16_t leaps[LEAP_TABLE_LEN];
    struct sluice_jpeg_lookup lookup;
};

/* difference:10 num_bits:6; 0: longer than the index */
struct dc_table {
    int16_t steps[TABLE_LEN];
    struct sluice_jpeg_lookup lookup;
};

/* Samples of one component: those of the blocks [first_column, end_column) x [first_row, end_row).
 */
struct plane {
    unsigned h, v;
    uint32_t width, height; /* samples of the whole image */
    uint32_t first_column, end_column, first_row, end_row;
    uint8_t *samples;
    size_t stride;
    int32_t dc; /* of the last block */
    const struct dc_table *dc_table;
    const struct ac_table *ac_table;
    alignas(32) int16_t quantisers[64]; /* where the kernels want them */
};

struct sluice_jpeg_window {
    struct ac_table ac[4];
    struct dc_table dc[4];
    struct plane planes[3];
    unsigned num_planes;
    alignas(32) int16_t coefficients[64]; /* zero between blocks */
    uint8_t place[64 + 16];               /* zigzag order to where a coefficient is stored */
    const struct sluice_jpeg_window_kernels *kernels;

    uint8_t *memory; /* planes and the rows of upsampling */
    size_t memory_capacity;
    uint16_t *sums;  /* one before and one after the row */
    uint8_t *row[2]; /* chroma at full width */
};

static const uint8_t natural_order[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

sluice_status sluice_jpeg_window_create(struct sluice_jpeg_window **out, struct sluice_err *err)
{
    struct sluice_jpeg_window *window = aligned_alloc(64, (sizeof(*window) + 63) / 64 * 64);
    if (!window)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a JPEG decoder");
    memset(window, 0, sizeof(*window));
    for (unsigned k = 0; k < 64; k++)
        window->place[k] = sluice_jpeg_coefficient_place[natural_order[k]];
    *out = window;
    return SLUICE_OK;
}

void sluice_jpeg_window_destroy(struct sluice_jpeg_window *window)
{
    if (window)
        free(window->memory);
    free(window);
}

/* A code and what follows it. */
struct code {
    uint32_t bits; /* the code itself */
    unsigned length, size, run;
};

static unsigned list_codes(const struct sluice_jpeg_huffman *huffman, bool is_dc,
                           struct code codes[256])
{
    unsigned number = 0;
    uint32_t bits = 0;
    for (unsigned length = 1; length <= 16; length++, bits <<= 1) {
        for (unsigned i = 0; i < huffman->counts[length]; i++, number++, bits++) {
            const unsigned symbol = huffman->symbols[number];
            codes[number] = (struct code){
                .bits = bits,
                .length = length,
                .size = is_dc ? symbol : symbol & 15,
                .run = is_dc ? 0 : symbol >> 4,
            };
        }
    }
    return number;
}

/* Coefficients that a code goes on by; 0: it ends the block. */
static unsigned advance_of(const struct code *code)
{
    return code->size > 0 || code->run == 15 ? code->run + 1 : 0;
}

/* The i-th of the values of one size; the lower half is negative (T.81, F.2.2.1). */
static int32_t value_of(uint32_t i, unsigned size)
{
    return (int32_t)i - ((int32_t)i < 1 << size >> 1 ? (1 << size) - 1 : 0);
}

/* What a symbol adds to the step that it is the second of, by the bits that begin with it:
 * value2, its advance in `both`, is_end, num_bits. */
static void list_seconds(const struct code *codes, unsigned num_codes,
                         uint32_t seconds[STEP_TABLE_LEN])
{
    memset(seconds, 0, STEP_TABLE_LEN * sizeof(*seconds));
    for (unsigned c = 0; c < num_codes; c++) {
        const struct code *code = &codes[c];
        const unsigned num_bits = code->length + code->size;
        const unsigned advance = advance_of(code);
        /* A run of 16 zeroes stores nothing. */
        if (num_bits > STEP_BITS || code->size > 4 || (code->size == 0 && advance > 0))
            continue;
        const unsigned spare = STEP_BITS - num_bits;
        uint32_t *at = seconds + (code->bits << (STEP_BITS - code->length));
        for (uint32_t i = 0; i < 1u << code->size; i++) {
            const uint32_t second = ((uint32_t)value_of(i, code->size) & 31) << VALUE2_SHIFT |
                                    advance << BOTH_SHIFT | (advance ? 0 : IS_END) | num_bits;
            for (uint32_t same = 0; same < 1u << spare; same++)
                *at++ = second;
        }
    }
}

static void make_steps(const struct code *codes, unsigned num_codes, uint32_t steps[STEP_TABLE_LEN])
{
    uint32_t seconds[STEP_TABLE_LEN];
    list_seconds(codes, num_codes, seconds);
    for (uint32_t index = 0; index < STEP_TABLE_LEN; index++)
        steps[index] = SLOW << BOTH_SHIFT;
    for (unsigned c = 0; c < num_codes; c++) {
        const struct code *code = &codes[c];
        const unsigned num_bits = code->length + code->size;
        unsigned advance = advance_of(code);
        if (num_bits > STEP_BITS || code->size > 8 || (code->size == 0 && advance > 0))
            continue;
        const bool is_end = advance == 0;
        const unsigned spare = STEP_BITS - num_bits;
        advance += is_end;
        const uint32_t first =
            advance << FIRST_SHIFT | advance << BOTH_SHIFT | (is_end ? IS_END : 0) | num_bits;
        uint32_t *at = steps + (code->bits << (STEP_BITS - code->length));
        for (uint32_t i = 0; i < 1u << code->size; i++) {
            const uint32_t value = (uint32_t)value_of(i, code->size) << VALUE1_SHIFT;
            for (uint32_t rest = 0; rest < 1u << spare; rest++) {
                const uint32_t second = seconds[rest << num_bits];
                const bool fits = !is_end && (second & NUM_BITS_MASK) <= spare;
                *at++ = (value | first) + (fits ? second : 0);
            }
        }
    }
}

/* Leaps of 0, 1, 2, .. bits, each a symbol and then a shorter leap. */
static void make_leaps(const struct code *codes, unsigned num_codes, uint16_t leaps[LEAP_TABLE_LEN])
{
    uint16_t all[2 * LEAP_TABLE_LEN] = {0}; /* those of n bits stand from 1 << n on */
    for (unsigned n = 1; n <= LEAP_BITS; n++) {
        for (unsigned c = 0; c < num_codes && codes[c].length <= n; c++) {
            const struct code *code = &codes[c];
            const unsigned num_bits = code->length + code->size;
            const unsigned advance = advance_of(code);
            const uint16_t first =
                (uint16_t)(advance << ADVANCE_SHIFT | (advance ? 0 : IS_END) | num_bits);
            uint16_t *at = all + (1u << n) + (code->bits << (n - code->length));
            /* Behind the end, or a value that needs more bits, comes the leap of no bits. */
            const uint32_t len = 1u << (n - code->length);
            const uint32_t rest_len = advance && num_bits < n ? 1u << (n - num_bits) : 1;
            const uint16_t *rests = all + rest_len;
            for (uint32_t i = 0; i < len; i++)
                at[i] = (uint16_t)(first + rests[i & (rest_len - 1)]);
        }
    }
    for (uint32_t index = 0; index < LEAP_TABLE_LEN; index++) {
        const uint16_t leap = all[LEAP_TABLE_LEN + index];
        leaps[index] = leap ? leap : SLOW << ADVANCE_SHIFT;
    }
}

static void make_ac_table(struct ac_table *table, const struct sluice_jpeg_huffman *huffman)
{
    struct code codes[256];
    const unsigned num_codes = list_codes(huffman, false, codes);
    sluice_jpeg_lookup_init(&table->lookup, huffman);
    make_steps(codes, num_codes, table->steps);
    make_leaps(codes, num_codes, table->leaps);
}

static void make_dc_table(struct dc_table *table, const struct sluice_jpeg_huffman *huffman)
{
    struct code codes[256];
    const unsigned num_codes = list_codes(huffman, true, codes);
    sluice_jpeg_lookup_init(&table->lookup, huffman);
    memset(table->steps, 0, sizeof(table->steps));
    for (unsigned c = 0; c < num_codes; c++) {
        const struct code *code = &codes[c];
        const unsigned num_bits = code->length + code->size;
        if (num_bits > INDEX_BITS || code->size > 9)
            continue;
        int16_t *at = table->steps + (code->bits << (INDEX_BITS - code->length));
        for (uint32_t i = 0; i < 1u << code->size; i++) {
            const int32_t step = value_of(i, code->size) * 64 + (int32_t)num_bits;
            for (uint32_t same = 0; same < 1u << (INDEX_BITS - num_bits); same++)
                *at++ = (int16_t)step;
        }
    }
}

/* The difference of the next DC; false: no code begins here.  After a refill. */
static ALWAYS_INLINE bool read_dc(struct sluice_jpeg_bits *in, const struct dc_table *table,
                                  int32_t *dc)
{
    const int32_t step = table->steps[in->bits >> (64 - INDEX_BITS)];
    if (__builtin_expect(step != 0, 1)) {
        *dc += step >> 6;
        sluice_jpeg_bits_skip(in, (unsigned)step & NUM_BITS_MASK);
        return true;
    }
    const unsigned entry = sluice_jpeg_bits_peek_symbol(in, &table->lookup);
    if (entry == 0)
        return false;
    const unsigned size = entry & 15;
    sluice_jpeg_bits_skip(in, entry >> 8);
    *dc += sluice_jpeg_extend(in->bits, size);
    sluice_jpeg_bits_skip(in, size);
    return true;
}

/* peek_symbol for codes longer than its index, out of the way. */
static __attribute__((noinline)) unsigned find_long_code(uint64_t bits,
                                                         const struct sluice_jpeg_lookup *lookup)
{
    const struct sluice_jpeg_bits in = {.bits = bits};
    return sluice_jpeg_bits_peek_symbol(&in, lookup);
}

/* One symbol in full, of which the reader takes the code alone; the value is `size` bits. */
enum symbol_kind { SYMBOL_BAD, SYMBOL_END, SYMBOL_COEFFICIENT };
static ALWAYS_INLINE enum symbol_kind read_symbol(struct sluice_jpeg_bits *in,
                                                  const struct sluice_jpeg_lookup *lookup,
                                                  unsigned *k, unsigned *size)
{
    sluice_jpeg_bits_refill(in);
    unsigned entry = lookup->fast[in->bits >> (64 - SLUICE_JPEG_LOOKUP_BITS)];
    if (entry == 0)
        entry = find_long_code(in->bits, lookup);
    if (entry == 0)
        return SYMBOL_BAD;
    sluice_jpeg_bits_skip(in, entry >> 8);
    *size = entry & 15;
    const unsigned run = entry >> 4 & 15;
    if (*size == 0 && run != 15)
        return SYMBOL_END;
    *k += run + 1;
    return *k > 63 ? SYMBOL_BAD : SYMBOL_COEFFICIENT;
}

/* Passes over a block's coefficients but for its DC. */
static ALWAYS_INLINE bool skip_block(struct sluice_jpeg_bits *in, struct plane *plane)
{
    sluice_jpeg_bits_refill(in);
    if (!read_dc(in, plane->dc_table, &plane->dc))
        return false;
    const struct ac_table *table = plane->ac_table;
    unsigned k = 0, size;
    for (;;) {
        sluice_jpeg_bits_refill(in);
#pragma GCC unroll 8
        for (unsigned i = 0; i < LEAPS_PER_REFILL; i++) {
            const unsigned leap = table->leaps[in->bits >> (64 - LEAP_BITS)];
            if (__builtin_expect(k + (leap >> ADVANCE_SHIFT) > 62, 0))
                goto slow; /* the last of its symbols may belong to the next block */
            k += leap >> ADVANCE_SHIFT;
            sluice_jpeg_bits_skip(in, leap & NUM_BITS_MASK);
            if (leap & IS_END)
                return true;
        }
        continue;
    slow:
        switch (read_symbol(in, &table->lookup, &k, &size)) {
        case SYMBOL_BAD:
            return false;
        case SYMBOL_END:
            return true;
        case SYMBOL_COEFFICIENT:
            sluice_jpeg_bits_skip(in, size);
            if (k == 63)
                return true;
        }
    }
}

/* Reads a block to window->coefficients.  *has_ac: there is more than
 * the DC. */
static ALWAYS_INLINE bool read_block(struct sluice_jpeg_window *window, struct sluice_jpeg_bits *in,
                                     struct plane *plane, bool *has_ac)
{
    int16_t *coefficients = window->coefficients;
    const uint8_t *place = window->place;
    sluice_jpeg_bits_refill(in);
    if (!read_dc(in, plane->dc_table, &plane->dc) || plane->dc > INT16_MAX || plane->dc < INT16_MIN)
        return false;
    coefficients[0] = (int16_t)plane->dc;

    const struct ac_table *table = plane->ac_table;
    unsigned k = 0, size;
    for (;;) {
        sluice_jpeg_bits_refill(in);
#pragma GCC unroll 8
        for (unsigned i = 0; i < STEPS_PER_REFILL; i++) {
            const uint32_t step = table->steps[in->bits >> (64 - STEP_BITS)];
            const unsigned k1 = k + (step >> FIRST_SHIFT & 31), k2 = k + (step >> BOTH_SHIFT & 63);
            if (__builtin_expect(k2 > 62, 0))
                goto slow;
            sluice_jpeg_bits_skip(in, step & NUM_BITS_MASK);
            coefficients[place[k2]] = (int16_t)((int32_t)(step << (27 - VALUE2_SHIFT)) >> 27);
            coefficients[place[k1]] = (int16_t)((int32_t)step >> VALUE1_SHIFT);
            k = k2;
            if (step & IS_END)
                goto end;
        }
        continue;
    slow:
        switch (read_symbol(in, &table->lookup, &k, &size)) {
        case SYMBOL_BAD:
            return false;
        case SYMBOL_END:
            goto end;
        case SYMBOL_COEFFICIENT:
            coefficients[place[k]] = (int16_t)sluice_jpeg_extend(in->bits, size);
            sluice_jpeg_bits_skip(in, size);
            if (k == 63)
                goto end;
        }
    }
end:
    *has_ac = k > 1 || coefficients[place[1]] != 0;
    return true;
}

/* A block without AC has one value, as jidctint.c's passes make of it. */
static bool fill_block(int32_t dc, uint8_t *out, size_t stride)
{
    const int32_t value = (dc + 4) >> 3;
    if (dc < -16384 / 4 || value > 511)
        return false;
    const int32_t sample = value + 128;
    const int fill = sample < 0 ? 0 : sample > 255 ? 255 : sample;
    for (unsigned y = 0; y < 8; y++)
        memset(out + y * stride, fill, 8);
    return true;
}

static ALWAYS_INLINE bool reconstruct_block(struct sluice_jpeg_window *window, struct plane *plane,
                                            uint32_t row, uint32_t column,
                                            struct sluice_jpeg_bits *in)
{
    bool has_ac = false;
    if (!read_block(window, in, plane, &has_ac))
        return false;
    uint8_t *out = plane->samples + (size_t)(row - plane->first_row) * 8 * plane->stride +
                   (size_t)(column - plane->first_column) * 8;
    if (!has_ac)
        return fill_block(window->coefficients[0] * plane->quantisers[0], out, plane->stride);
    const bool is_good =
        window->kernels->inverse_dct(window->coefficients, plane->quantisers, out, plane->stride);
    memset(window->coefficients, 0, sizeof(window->coefficients));
    return is_good;
}

/* The blocks of one MCU, each reconstructed or not. */
static ALWAYS_INLINE bool read_mcu(struct sluice_jpeg_window *window, uint32_t mcu_row,
                                   uint32_t mcu_column, struct sluice_jpeg_bits *in)
{
    for (unsigned c = 0; c < window->num_planes; c++) {
        struct plane *plane = &window->planes[c];
        for (unsigned y = 0; y < plane->v; y++) {
            const uint32_t row = mcu_row * plane->v + y;
            for (unsigned x = 0; x < plane->h; x++) {
                const uint32_t column = mcu_column * plane->h + x;
                const bool is_wanted = row >= plane->first_row && row < plane->end_row &&
                                       column >= plane->first_column && column < plane->end_column;
                if (is_wanted ? !reconstruct_block(window, plane, row, column, in)
                              : !skip_block(in, plane))
                    return false;
            }
        }
    }
    return true;
}

static ALWAYS_INLINE bool skip_mcu(struct sluice_jpeg_window *window, struct sluice_jpeg_bits *in)
{
    for (unsigned c = 0; c < window->num_planes; c++) {
        struct plane *plane = &window->planes[c];
        for (unsigned i = plane->h * plane->v; i > 0; i--) {
            if (!skip_block(in, plane))
                return false;
        }
    }
    return true;
}

/* Where in the scan the reader is. */
struct cursor {
    const struct sluice_jpeg_scan *scan;
    size_t segment;             /* the next one */
    uint32_t mcus_left;         /* in the current segment; 0 at its end */
    const uint8_t *start, *end; /* of the current segment */
};

/* What was read lies within the segment, to the bit. */
static ALWAYS_INLINE bool is_within_segment(const struct cursor *cursor,
                                            const struct sluice_jpeg_bits *in)
{
    return sluice_jpeg_bits_position(in, cursor->start) <=
           (size_t)(cursor->end - cursor->start) * 8;
}

/* Reading starts again at cursor->start. */
static bool next_segment(struct sluice_jpeg_window *window, struct cursor *cursor,
                         uint32_t restart_interval)
{
    const struct sluice_jpeg_scan *scan = cursor->scan;
    if (cursor->segment >= scan->num_segments)
        return false;
    const uint8_t *data = scan->data->data;
    cursor->start = data + (cursor->segment ? scan->segment_ends[cursor->segment - 1] : 0);
    cursor->end = data + scan->segment_ends[cursor->segment];
    cursor->segment++;
    cursor->mcus_left = restart_interval ? restart_interval : UINT32_MAX;
    for (unsigned c = 0; c < window->num_planes; c++)
        window->planes[c].dc = 0;
    return true;
}

/* The MCU rows and columns that hold a block of some plane's window. */
struct mcu_range {
    uint32_t first_row, end_row, first_column, end_column;
};

static struct mcu_range wanted_mcus(const struct sluice_jpeg_window *window)
{
    struct mcu_range range = {UINT32_MAX, 0, UINT32_MAX, 0};
    for (unsigned c = 0; c < window->num_planes; c++) {
        const struct plane *plane = &window->planes[c];
        const uint32_t first_row = plane->first_row / plane->v;
        const uint32_t end_row = (plane->end_row - 1) / plane->v + 1;
        const uint32_t first_column = plane->first_column / plane->h;
        const uint32_t end_column = (plane->end_column - 1) / plane->h + 1;
        range.first_row = first_row < range.first_row ? first_row : range.first_row;
        range.end_row = end_row > range.end_row ? end_row : range.end_row;
        range.first_column = first_column < range.first_column ? first_column : range.first_column;
        range.end_column = end_column > range.end_column ? end_column : range.end_column;
    }
    return range;
}

static ALWAYS_INLINE bool read_scan_inline(struct sluice_jpeg_window *window,
                                           const struct sluice_jpeg *jpeg,
                                           const struct sluice_jpeg_scan *scan)
{
    const struct mcu_range wanted = wanted_mcus(window);
    struct cursor cursor = {.scan = scan};
    struct sluice_jpeg_bits in = {0};
    for (uint32_t row = 0; row < wanted.end_row; row++) {
        const bool is_wanted_row = row >= wanted.first_row;
        const uint32_t columns = row + 1 == wanted.end_row ? wanted.end_column : jpeg->mcus_across;
        for (uint32_t column = 0; column < columns; column++) {
            if (cursor.mcus_left == 0) {
                if ((cursor.start && !is_within_segment(&cursor, &in)) ||
                    !next_segment(window, &cursor, jpeg->restart_interval))
                    return false;
                sluice_jpeg_bits_start(&in, cursor.start);
            }
            cursor.mcus_left -= jpeg->restart_interval > 0;
            const bool is_wanted =
                is_wanted_row && column >= wanted.first_column && column < wanted.end_column;
            if (!(is_wanted ? read_mcu(window, row, column, &in) : skip_mcu(window, &in)))
                return false;
            /* Rough, but enough to stay within the zeroes after the data. */
            if (in.next > cursor.end + 8)
                return false;
        }
    }
    return is_within_segment(&cursor, &in);
}

/* The same from an index's points, each row for itself. */
static ALWAYS_INLINE bool read_rows_inline(struct sluice_jpeg_window *window,
                                           const struct sluice_jpeg *jpeg, const uint8_t *bytes,
                                           const struct sluice_jpeg_index *index,
                                           struct sluice_jpeg_stretch *stretch,
                                           struct sluice_buf_pool *pool)
{
    const struct mcu_range wanted = wanted_mcus(window);
    for (uint32_t row = wanted.first_row; row < wanted.end_row; row++) {
        if (!sluice_jpeg_stretch_read(stretch, index, jpeg, bytes, row, wanted.first_column,
                                      wanted.end_column, pool))
            return false;
        const uint8_t *data = stretch->scan.data->data;
        struct cursor cursor = {
            .scan = &stretch->scan,
            .segment = 1,
            .mcus_left = stretch->mcus_left,
            .start = data,
            .end = data + stretch->scan.segment_ends[0],
        };
        struct sluice_jpeg_bits in;
        sluice_jpeg_bits_start(&in, data);
        sluice_jpeg_bits_skip(&in, stretch->bit);
        for (unsigned c = 0; c < window->num_planes; c++)
            window->planes[c].dc = stretch->dc[c];
        for (uint32_t column = stretch->column; column < wanted.end_column; column++) {
            if (cursor.mcus_left == 0) {
                if (!is_within_segment(&cursor, &in) ||
                    !next_segment(window, &cursor, jpeg->restart_interval))
                    return false;
                sluice_jpeg_bits_start(&in, cursor.start);
            }
            cursor.mcus_left -= jpeg->restart_interval > 0;
            const bool is_wanted = column >= wanted.first_column;
            if (!(is_wanted ? read_mcu(window, row, column, &in) : skip_mcu(window, &in)))
                return false;
            if (in.next > cursor.end + 8)
                return false;
        }
        if (!is_within_segment(&cursor, &in))
            return false;
    }
    return true;
}

/* What there is to read: all of a scan, or rows by way of an index. */
struct source {
    const struct sluice_jpeg *jpeg;
    const struct sluice_jpeg_scan *scan;   /* or NULL, and then: */
    const struct sluice_jpeg_index *index; /* it fits the file */
    const uint8_t *bytes;                  /* of the file */
    struct sluice_jpeg_stretch *stretch;
    struct sluice_buf_pool *pool;
};

static ALWAYS_INLINE bool read_source_inline(struct sluice_jpeg_window *window,
                                             const struct source *source)
{
    if (source->scan)
        return read_scan_inline(window, source->jpeg, source->scan);
    return read_rows_inline(window, source->jpeg, source->bytes, source->index, source->stretch,
                            source->pool);
}

static bool read_source_plain(struct sluice_jpeg_window *window, const struct source *source)
{
    return read_source_inline(window, source);
}

#ifdef SLUICE_HAVE_X86_KERNELS
/* Shifts by a count in any register, which the chain from lookup to lookup consists of. */
static __attribute__((target("bmi,bmi2"))) bool read_source_bmi2(struct sluice_jpeg_window *window,
                                                                 const struct source *source)
{
    return read_source_inline(window, source);
}
#endif

static bool read_source(struct sluice_jpeg_window *window, const struct source *source)
{
    bool is_good;
#ifdef SLUICE_HAVE_X86_KERNELS
    if (window->kernels != &sluice_jpeg_window_kernels_c && __builtin_cpu_supports("bmi2"))
        is_good = read_source_bmi2(window, source);
    else
#endif
        is_good = read_source_plain(window, source);
    if (!is_good)
        memset(window->coefficients, 0, sizeof(window->coefficients));
    return is_good;
}

static bool read_indexed(struct sluice_jpeg_window *window, const struct sluice_jpeg *jpeg,
                         const uint8_t *bytes, size_t len, const struct sluice_jpeg_index *index,
                         struct sluice_buf_pool *pool)
{
    if (!index || !sluice_jpeg_index_fits(index, jpeg, bytes, len))
        return false;
    struct sluice_jpeg_stretch stretch = {0};
    const struct source source = {
        .jpeg = jpeg, .index = index, .bytes = bytes, .stretch = &stretch, .pool = pool};
    const bool is_read = read_source(window, &source);
    sluice_jpeg_stretch_clear(&stretch);
    return is_read;
}

static bool is_ycc(const struct sluice_jpeg *jpeg)
{
    if (jpeg->has_jfif)
        return true;
    if (jpeg->has_adobe)
        return jpeg->adobe_transform != 0;
    const struct sluice_jpeg_component *components = jpeg->components;
    return components[0].id != 'R' || components[1].id != 'G' || components[2].id != 'B';
}

static bool is_covered(const struct sluice_jpeg *jpeg)
{
    if (jpeg->width > MAX_SIDE || jpeg->height > MAX_SIDE)
        return false;
    /* libjpeg adds DC differences in 32 bits. */
    const uint64_t num_blocks = (uint64_t)jpeg->mcus_across * jpeg->mcus_down * jpeg->blocks_in_mcu;
    if (num_blocks * ((1u << SLUICE_JPEG_MAX_DC_CATEGORY) - 1) > INT32_MAX)
        return false;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        for (unsigned k = 0; k < 64; k++) {
            const uint16_t quantiser = jpeg->quant[jpeg->components[c].quant][k];
            if (quantiser < 1 || quantiser > SLUICE_JPEG_MAX_QUANTISER)
                return false;
        }
    }
    if (jpeg->num_components == 1)
        return true;
    if (jpeg->num_components != 3 || !is_ycc(jpeg))
        return false;
    const struct sluice_jpeg_component *components = jpeg->components;
    if (components[0].h > 2 || components[0].v > 2 || components[1].h != 1 ||
        components[1].v != 1 || components[2].h != 1 || components[2].v != 1)
        return false;
    /* Chroma of one or two columns is not upsampled by the triangle filter. */
    return components[0].h == 1 || (jpeg->width + 1) / 2 > 2;
}

/* The samples [first, end) of one axis that pixels [from, from + len) need. */
static void needed_samples(uint32_t from, uint32_t len, unsigned factor, uint32_t count,
                           uint32_t *first, uint32_t *end)
{
    const uint32_t last = (from + len - 1) / factor;
    *first = from / factor;
    *end = last + 1;
    if (factor > 1) {
        *first -= *first > 0;
        *end += *end < count;
    }
}

static void place_planes(struct sluice_jpeg_window *window, const struct sluice_jpeg *jpeg,
                         const struct sluice_box *box)
{
    window->num_planes = jpeg->num_components;
    for (unsigned c = 0; c < window->num_planes; c++) {
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        struct plane *plane = &window->planes[c];
        const bool is_single = window->num_planes == 1;
        plane->h = is_single ? 1 : component->h;
        plane->v = is_single ? 1 : component->v;
        const unsigned across = is_single ? 1 : jpeg->max_h / component->h;
        const unsigned down = is_single ? 1 : jpeg->max_v / component->v;
        plane->width = (jpeg->width + across - 1) / across;
        plane->height = (jpeg->height + down - 1) / down;
        uint32_t first, end;
        needed_samples(box->left, box->width, across, plane->width, &first, &end);
        plane->first_column = first / 8;
        plane->end_column = (end - 1) / 8 + 1;
        needed_samples(box->top, box->height, down, plane->height, &first, &end);
        plane->first_row = first / 8;
        plane->end_row = (end - 1) / 8 + 1;
        for (unsigned k = 0; k < 64; k++)
            plane->quantisers[window->place[k]] = (int16_t)jpeg->quant[component->quant][k];
    }
}

static sluice_status reserve_memory(struct sluice_jpeg_window *window, const struct sluice_box *box,
                                    struct sluice_err *err)
{
    size_t bytes = 0;
    for (unsigned c = 0; c < window->num_planes; c++) {
        struct plane *plane = &window->planes[c];
        plane->stride = (size_t)(plane->end_column - plane->first_column) * 8;
        bytes += plane->stride * (plane->end_row - plane->first_row) * 8;
    }
    const size_t row_bytes = ((size_t)box->width + 2 + 63) / 64 * 64;
    const size_t samples_bytes = (bytes + 63) / 64 * 64;
    bytes = samples_bytes + 4 * row_bytes + 64;
    if (bytes > window->memory_capacity) {
        uint8_t *memory = malloc(bytes);
        if (!memory)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes of samples",
                               bytes);
        free(window->memory);
        window->memory = memory;
        window->memory_capacity = bytes;
    }
    uint8_t *at = window->memory;
    for (unsigned c = 0; c < window->num_planes; c++) {
        struct plane *plane = &window->planes[c];
        plane->samples = at;
        at += plane->stride * (plane->end_row - plane->first_row) * 8;
    }
    at = window->memory + samples_bytes;
    window->row[0] = at;
    window->row[1] = at + row_bytes;
    window->sums = (uint16_t *)(void *)(at + 2 * row_bytes);
    return SLUICE_OK;
}

static void make_tables(struct sluice_jpeg_window *window, const struct sluice_jpeg *jpeg)
{
    unsigned made_dc = 0, made_ac = 0;
    for (unsigned c = 0; c < window->num_planes; c++) {
        const unsigned dc = jpeg->components[c].dc, ac = jpeg->components[c].ac;
        if (!(made_dc >> dc & 1))
            make_dc_table(&window->dc[dc], &jpeg->dc[dc]);
        if (!(made_ac >> ac & 1))
            make_ac_table(&window->ac[ac], &jpeg->ac[ac]);
        made_dc |= 1u << dc;
        made_ac |= 1u << ac;
        window->planes[c].dc_table = &window->dc[dc];
        window->planes[c].ac_table = &window->ac[ac];
    }
}

static const uint8_t *plane_row(const struct plane *plane, uint32_t row)
{
    return plane->samples + (size_t)(row - plane->first_row * 8) * plane->stride;
}

/* One row of a chroma plane at the box's columns and full resolution: the plane's own memory
 * or window->row[which]. */
static const uint8_t *upsample_row(struct sluice_jpeg_window *window, const struct plane *plane,
                                   const struct plane *luma, uint32_t y,
                                   const struct sluice_box *box, unsigned which)
{
    const struct sluice_jpeg_window_kernels *kernels = window->kernels;
    const bool is_wide = luma->h == 2, is_tall = luma->v == 2;
    const uint32_t row = is_tall ? y / 2 : y;
    const uint8_t *near = plane_row(plane, row), *far = near;
    /* The nearer row of the other side: above for even rows; the edge repeats. */
    if (is_tall && y % 2 == 0 && row > 0)
        far = plane_row(plane, row - 1);
    else if (is_tall && y % 2 == 1 && row + 1 < plane->height)
        far = plane_row(plane, row + 1);

    const uint32_t first = is_wide ? box->left / 2 : box->left;
    const uint32_t last = is_wide ? (box->left + box->width - 1) / 2 : box->left + box->width - 1;
    const size_t len = last - first + 1, offset = first - plane->first_column * 8;
    uint8_t *out = window->row[which];
    if (!is_wide && !is_tall)
        return near + offset;
    uint16_t *sums = window->sums + 1;
    if (!is_wide) {
        kernels->blend(near + offset, far + offset, len, sums);
        kernels->finish_blend(sums, len, y % 2 == 0 ? 1 : 2, out);
        return out;
    }
    /* A column on either side, which the image's edges repeat. */
    const size_t before = first > 0, after = last + 1 < plane->width;
    const size_t from = offset - before, count = len + before + after;
    uint16_t *first_sum = sums - before;
    if (is_tall) {
        kernels->blend(near + from, far + from, count, first_sum);
    } else {
        for (size_t i = 0; i < count; i++)
            first_sum[i] = near[from + i];
    }
    if (!before)
        sums[-1] = sums[0];
    if (!after)
        sums[len] = sums[len - 1];
    if (is_tall)
        kernels->widen(sums, len, 8, 7, 4, out);
    else
        kernels->widen(sums, len, 1, 2, 2, out);
    return out + (box->left & 1);
}

static void write_pixels(struct sluice_jpeg_window *window, const struct sluice_box *box,
                         uint8_t *pixels)
{
    const struct plane *luma = &window->planes[0];
    const size_t row_bytes = (size_t)box->width * 3;
    for (uint32_t i = 0; i < box->height; i++) {
        const uint32_t y = box->top + i;
        const uint8_t *luma_row = plane_row(luma, y) + (box->left - luma->first_column * 8);
        uint8_t *out = pixels + i * row_bytes;
        if (window->num_planes == 1) {
            for (uint32_t x = 0; x < box->width; x++)
                out[3 * x] = out[3 * x + 1] = out[3 * x + 2] = luma_row[x];
            continue;
        }
        const uint8_t *cb = upsample_row(window, &window->planes[1], luma, y, box, 0);
        const uint8_t *cr = upsample_row(window, &window->planes[2], luma, y, box, 1);
        window->kernels->ycc_to_rgb(luma_row, cb, cr, box->width, out);
    }
}

sluice_status sluice_jpeg_window_decode(struct sluice_jpeg_window *window,
                                        const struct sluice_jpeg_window_kernels *kernels,
                                        const uint8_t *bytes, size_t len,
                                        const struct sluice_box *box,
                                        const struct sluice_jpeg_index *index,
                                        struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                                        struct sluice_err *err)
{
    struct sluice_jpeg jpeg;
    sluice_status status = sluice_jpeg_parse(bytes, len, &jpeg, err);
    if (status != SLUICE_OK)
        return status;
    if (!is_covered(&jpeg))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG that libjpeg-turbo must decode");
    if (!sluice_box_is_within(box, jpeg.width, jpeg.height))
        return sluice_fail(err, SLUICE_E_INVALID, "a box outside the image");

    struct sluice_buf *pixels = NULL;
    struct sluice_jpeg_scan scan = {0};
    place_planes(window, &jpeg, box);
    status = reserve_memory(window, box, err);
    if (status != SLUICE_OK)
        return status;
    make_tables(window, &jpeg);
    window->kernels = kernels;
    if (!read_indexed(window, &jpeg, bytes, len, index, pool)) {
        if (index && index->is_partial)
            return sluice_fail(err, SLUICE_E_CORRUPT, "a part of the JPEG does not do");
        status = sluice_jpeg_scan_read(&jpeg, pool, &scan, err);
        if (status == SLUICE_OK &&
            !read_source(window, &(struct source){.jpeg = &jpeg, .scan = &scan}))
            status = sluice_fail(err, SLUICE_E_CORRUPT, "JPEG with a fault in its scan");
    }
    if (status == SLUICE_OK)
        status = sluice_image_alloc_rgb(pool, box->width, box->height, &pixels, err);
    if (status == SLUICE_OK) {
        write_pixels(window, box, pixels->data);
        *rgb = (struct sluice_rgb){.width = box->width, .height = box->height, .pixels = pixels};
    }
    sluice_jpeg_scan_clear(&scan);
    return status;
}
