#include "image/jpeg_window.h"

#include "base/buf.h"
#include "base/checked.h"
#include "image/codec_internal.h"
#include "image/jpeg_entropy.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_BITS SLUICE_JPEG_LOOKUP_BITS
#define TABLE_LEN (1u << INDEX_BITS)

/* libjpeg refuses larger images. */
#define MAX_SIDE 65500u

/* What the next bits of a block's AC part hold, as far as INDEX_BITS of them tell.
 *
 * A step is one or two coefficients and possibly the end of the block.  `advance1`, then
 * `advance2` more coefficients on is where the values belong.  With one coefficient the second
 * is the first again, and an end alone is a zero after the last coefficient: so both are
 * always stored.  An advance of SLOW: the symbol or its value is longer than the index. */
struct step {
    int16_t value1, value2;
    uint8_t advance1, advance2;
    uint8_t num_bits;
    uint8_t is_end;
};
#define SLOW 64

/* The same where values are not wanted: all symbols that the bits hold.
 * advance << 16 | is_end << 8 | num_bits. */
#define LEAP_END 0x100u

struct ac_table {
    struct step steps[TABLE_LEN];
    uint32_t leaps[TABLE_LEN];
    struct sluice_jpeg_lookup lookup;
};

/* difference << 16 | num_bits; 0: longer than the index */
struct dc_table {
    uint32_t steps[TABLE_LEN];
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
    int32_t quant[64]; /* zigzag order */
};

struct sluice_jpeg_window {
    struct ac_table ac[4];
    struct dc_table dc[4];
    struct plane planes[3];
    unsigned num_planes;
    alignas(32) int16_t coefficients[64]; /* zero between blocks */
    uint8_t place[64 + 16];               /* zigzag order to where a coefficient is stored */
    struct sluice_jpeg_bits in;
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

/* The value of `size` bits at `shift` bits from the top of an index. */
static int32_t value_in_index(uint32_t index, unsigned shift, unsigned size)
{
    return sluice_jpeg_extend((uint64_t)index << (64 - INDEX_BITS) << shift, size);
}

/* The first symbol of an index; num_bits 0: it or its value does not fit. */
struct symbol {
    uint8_t num_bits, advance;
    bool is_end;
    int16_t value;
};

static struct symbol symbol_at(const struct sluice_jpeg_lookup *lookup, uint32_t index)
{
    const unsigned entry = lookup->fast[index];
    const unsigned length = entry >> 8, size = entry & 15, run = entry >> 4 & 15;
    if (entry == 0 || length + size > INDEX_BITS)
        return (struct symbol){0};
    if (size == 0)
        return (struct symbol){
            .num_bits = (uint8_t)length, .advance = run == 15 ? 16 : 0, .is_end = run != 15};
    return (struct symbol){.num_bits = (uint8_t)(length + size),
                           .advance = (uint8_t)(run + 1),
                           .value = (int16_t)value_in_index(index, length, size)};
}

static void make_ac_table(struct ac_table *table, const struct sluice_jpeg_huffman *huffman)
{
    sluice_jpeg_lookup_init(&table->lookup, huffman);
    struct symbol symbols[TABLE_LEN];
    for (uint32_t index = 0; index < TABLE_LEN; index++)
        symbols[index] = symbol_at(&table->lookup, index);
    for (uint32_t index = 0; index < TABLE_LEN; index++) {
        const struct symbol first = symbols[index];
        struct step step = {.advance1 = SLOW};
        unsigned num_bits = first.num_bits, advance = first.advance;
        bool is_end = first.is_end;
        if (first.num_bits > 0) {
            step = (struct step){
                .value1 = first.value,
                .value2 = first.value,
                .advance1 = first.is_end ? 1 : first.advance,
                .num_bits = first.num_bits,
                .is_end = first.is_end,
            };
            /* A run of 16 zeroes is left to the slow way, as it stores nothing. */
            if (first.advance == 16 && first.value == 0)
                step = (struct step){.advance1 = SLOW};
        }
        for (unsigned n = 1; num_bits > 0 && !is_end; n++) {
            const struct symbol next = symbols[index << num_bits & (TABLE_LEN - 1)];
            if (next.num_bits == 0 || num_bits + next.num_bits > INDEX_BITS)
                break;
            num_bits += next.num_bits;
            advance += next.advance;
            is_end = next.is_end;
            if (n == 1 && step.advance1 != SLOW && (next.is_end || next.value != 0)) {
                step.num_bits = (uint8_t)num_bits;
                step.is_end = is_end;
                if (!is_end) {
                    step.value2 = next.value;
                    step.advance2 = next.advance;
                }
            }
        }
        table->steps[index] = step;
        table->leaps[index] =
            num_bits ? advance << 16 | (is_end ? LEAP_END : 0) | num_bits : (uint32_t)SLOW << 16;
    }
}

static void make_dc_table(struct dc_table *table, const struct sluice_jpeg_huffman *huffman)
{
    sluice_jpeg_lookup_init(&table->lookup, huffman);
    for (uint32_t index = 0; index < TABLE_LEN; index++) {
        const unsigned entry = table->lookup.fast[index];
        const unsigned length = entry >> 8, size = entry & 255;
        table->steps[index] = 0;
        if (entry != 0 && length + size <= INDEX_BITS)
            table->steps[index] =
                (uint32_t)value_in_index(index, length, size) << 16 | (length + size);
    }
}

/* The difference of the next DC; false: no code begins here.  After a refill. */
static inline bool read_dc(struct sluice_jpeg_bits *in, const struct dc_table *table, int32_t *dc)
{
    const uint32_t step = table->steps[in->bits >> (64 - INDEX_BITS)];
    if (__builtin_expect(step != 0, 1)) {
        *dc += (int32_t)step >> 16;
        sluice_jpeg_bits_skip(in, step & 255);
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

/* One symbol in full, of at most 31 bits; *k is the last coefficient before and after it. */
enum symbol_kind { SYMBOL_BAD, SYMBOL_END, SYMBOL_ZEROES, SYMBOL_VALUE };
static enum symbol_kind read_symbol(struct sluice_jpeg_bits *in,
                                    const struct sluice_jpeg_lookup *lookup, unsigned *k,
                                    int32_t *value)
{
    const unsigned entry = sluice_jpeg_bits_peek_symbol(in, lookup);
    const unsigned size = entry & 15, run = entry >> 4 & 15;
    if (entry == 0)
        return SYMBOL_BAD;
    sluice_jpeg_bits_skip(in, entry >> 8);
    if (size == 0 && run != 15)
        return SYMBOL_END;
    *k += run + 1;
    if (*k > 63)
        return SYMBOL_BAD;
    if (size == 0)
        return SYMBOL_ZEROES;
    *value = sluice_jpeg_extend(in->bits, size);
    sluice_jpeg_bits_skip(in, size);
    return SYMBOL_VALUE;
}

/* Passes over a block's coefficients but for its DC. */
static inline bool skip_block(struct sluice_jpeg_bits *in, struct plane *plane)
{
    sluice_jpeg_bits_refill(in);
    if (!read_dc(in, plane->dc_table, &plane->dc))
        return false;
    const struct ac_table *table = plane->ac_table;
    unsigned k = 0;
    for (;;) {
        sluice_jpeg_bits_refill(in);
        /* Two leaps of 11 bits leave the 31 that one symbol can have. */
        for (unsigned i = 0; i < 2; i++) {
            const uint32_t leap = table->leaps[in->bits >> (64 - INDEX_BITS)];
            if (__builtin_expect(k + (leap >> 16) > 62, 0))
                break; /* its last symbols may belong to the next block */
            k += leap >> 16;
            sluice_jpeg_bits_skip(in, leap & 255);
            if (leap & LEAP_END)
                return true;
        }
        const uint32_t leap = table->leaps[in->bits >> (64 - INDEX_BITS)];
        if (__builtin_expect(k + (leap >> 16) <= 62, 1))
            continue;
        int32_t value;
        const enum symbol_kind kind = read_symbol(in, &table->lookup, &k, &value);
        if (kind == SYMBOL_BAD)
            return false;
        if (kind == SYMBOL_END || k == 63)
            return true;
    }
}

/* Reads a block, times its quantisers, to window->coefficients.  *has_ac: there is more than
 * the DC. */
static inline bool read_block(struct sluice_jpeg_window *window, struct sluice_jpeg_bits *in,
                              struct plane *plane, bool *has_ac)
{
    int16_t *coefficients = window->coefficients;
    const uint8_t *place = window->place;
    const int32_t *quant = plane->quant;
    sluice_jpeg_bits_refill(in);
    if (!read_dc(in, plane->dc_table, &plane->dc) || plane->dc > INT16_MAX || plane->dc < INT16_MIN)
        return false;
    const int32_t dc = plane->dc * quant[0];
    /* Ones' complement magnitudes, or-ed: above the limit, which is all ones, if any is. */
    uint32_t magnitudes = (uint32_t)(dc ^ dc >> 31);
    coefficients[0] = (int16_t)dc;

    const struct ac_table *table = plane->ac_table;
    unsigned k = 0;
    for (;;) {
        sluice_jpeg_bits_refill(in);
        bool is_slow = false;
        for (unsigned i = 0; i < 2; i++) {
            const struct step step = table->steps[in->bits >> (64 - INDEX_BITS)];
            const unsigned k1 = k + step.advance1, k2 = k1 + step.advance2;
            if (__builtin_expect(k2 > 62, 0)) {
                is_slow = true;
                break;
            }
            sluice_jpeg_bits_skip(in, step.num_bits);
            const int32_t value1 = step.value1 * quant[k1], value2 = step.value2 * quant[k2];
            magnitudes |= (uint32_t)(value1 ^ value1 >> 31) | (uint32_t)(value2 ^ value2 >> 31);
            coefficients[place[k1]] = (int16_t)value1;
            coefficients[place[k2]] = (int16_t)value2;
            k = k2;
            if (step.is_end)
                goto end;
        }
        if (!is_slow)
            continue;
        int32_t value;
        const enum symbol_kind kind = read_symbol(in, &table->lookup, &k, &value);
        if (kind == SYMBOL_BAD)
            return false;
        if (kind == SYMBOL_VALUE) {
            value *= quant[k];
            magnitudes |= (uint32_t)(value ^ value >> 31);
            coefficients[place[k]] = (int16_t)value;
        }
        if (kind == SYMBOL_END || k == 63)
            break;
    }
end:
    *has_ac = k > 1 || coefficients[place[1]] != 0;
    return magnitudes <= SLUICE_JPEG_MAX_COEFFICIENT;
}

/* A block without AC has one value, as jidctint.c's passes make of it. */
static bool fill_block(int32_t dc, uint8_t *out, size_t stride)
{
    const int32_t value = (dc + 4) >> 3;
    if (value < -512 || value > 511)
        return false;
    const int32_t sample = value + 128;
    const int fill = sample < 0 ? 0 : sample > 255 ? 255 : sample;
    for (unsigned y = 0; y < 8; y++)
        memset(out + y * stride, fill, 8);
    return true;
}

static bool reconstruct_block(struct sluice_jpeg_window *window, struct plane *plane, uint32_t row,
                              uint32_t column, struct sluice_jpeg_bits *in)
{
    bool has_ac = false;
    if (!read_block(window, in, plane, &has_ac))
        return false;
    uint8_t *out = plane->samples + (size_t)(row - plane->first_row) * 8 * plane->stride +
                   (size_t)(column - plane->first_column) * 8;
    if (!has_ac)
        return fill_block(window->coefficients[0], out, plane->stride);
    const bool is_good = window->kernels->inverse_dct(window->coefficients, out, plane->stride);
    memset(window->coefficients, 0, sizeof(window->coefficients));
    return is_good;
}

/* The blocks of one MCU, each reconstructed or not. */
static bool read_mcu(struct sluice_jpeg_window *window, uint32_t mcu_row, uint32_t mcu_column,
                     struct sluice_jpeg_bits *in)
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

static bool skip_mcu(struct sluice_jpeg_window *window, struct sluice_jpeg_bits *in)
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
static bool is_within_segment(const struct cursor *cursor, const struct sluice_jpeg_bits *in)
{
    return sluice_jpeg_bits_position(in, cursor->start) <=
           (size_t)(cursor->end - cursor->start) * 8;
}

static bool next_segment(struct sluice_jpeg_window *window, struct cursor *cursor,
                         uint32_t restart_interval, struct sluice_jpeg_bits *in)
{
    const struct sluice_jpeg_scan *scan = cursor->scan;
    if ((cursor->start && !is_within_segment(cursor, in)) || cursor->segment >= scan->num_segments)
        return false;
    const uint8_t *data = scan->data->data;
    cursor->start = data + (cursor->segment ? scan->segment_ends[cursor->segment - 1] : 0);
    cursor->end = data + scan->segment_ends[cursor->segment];
    cursor->segment++;
    cursor->mcus_left = restart_interval ? restart_interval : UINT32_MAX;
    for (unsigned c = 0; c < window->num_planes; c++)
        window->planes[c].dc = 0;
    sluice_jpeg_bits_start(in, cursor->start);
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

static bool read_scan(struct sluice_jpeg_window *window, const struct sluice_jpeg *jpeg,
                      const struct sluice_jpeg_scan *scan)
{
    const struct mcu_range wanted = wanted_mcus(window);
    struct cursor cursor = {.scan = scan};
    struct sluice_jpeg_bits in = {0};
    for (uint32_t row = 0; row < wanted.end_row; row++) {
        const bool is_wanted_row = row >= wanted.first_row;
        const uint32_t columns = row + 1 == wanted.end_row ? wanted.end_column : jpeg->mcus_across;
        for (uint32_t column = 0; column < columns; column++) {
            if (cursor.mcus_left == 0 &&
                !next_segment(window, &cursor, jpeg->restart_interval, &in))
                return false;
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
            plane->quant[k] = jpeg->quant[component->quant][k];
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
                                        const struct sluice_box *box, struct sluice_buf_pool *pool,
                                        struct sluice_rgb *rgb, struct sluice_err *err)
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
    status = sluice_jpeg_scan_read(&jpeg, pool, &scan, err);
    if (status != SLUICE_OK)
        return status;
    make_tables(window, &jpeg);
    window->kernels = kernels;
    if (!read_scan(window, &jpeg, &scan)) {
        memset(window->coefficients, 0, sizeof(window->coefficients));
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
