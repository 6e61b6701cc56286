#include "image/jpeg_crop.h"

#include "base/buf.h"
#include "image/codec_internal.h"
#include "image/jpeg_crop_internal.h"
#include "image/jpeg_index.h"

#include <stdlib.h>

/* The MCUs of the window are taken over as they are coded: their bits are copied.
 * Only DC differences change, and only where a kept MCU gets another predecessor:
 * at the start of each kept row, and where the file restarts.  With subsampling an MCU at
 * the window's edge may have blocks that the box does not touch: these become blank.
 *
 *     rows above     parsed for their length and DC alone (free where restart
 *                    markers let us jump)
 *     kept rows      left | window | right       parsed | parsed and copied | parsed
 *     rows below     not looked at
 */

/* --- the window --- */

/* A pixel of libjpeg's smooth upsampling is made of two samples a direction, except
 * at the image's edges, where the nearer counts alone.  So only the outermost
 * column and row of pixels differ at an edge that the window has and the image
 * has not: one pixel of margin keeps them out of the box. */
#define UPSAMPLING_MARGIN 1

/* Upsampling is not smooth for components of up to two columns. */
#define PLAIN_UPSAMPLING_COLUMNS 2

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static void plan_axis(uint32_t from, uint32_t count, uint32_t size, uint32_t step, uint32_t margin,
                      uint32_t *begin, uint32_t *end)
{
    const uint32_t first = from > margin ? from - margin : 0;
    const uint32_t last = size - from - count > margin ? from + count + margin : size;
    *begin = first / step * step;
    *end = last <= size - size % step ? divide_up(last, step) * step : size;
}

sluice_status sluice_jpeg_crop_plan(const struct sluice_jpeg_grid *grid,
                                    const struct sluice_box *box,
                                    struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    if (box->width < 1 || box->height < 1 || box->left >= grid->width || box->top >= grid->height ||
        box->width > grid->width - box->left || box->height > grid->height - box->top)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a box of %u x %u at %u, %u is not inside %u x %u", box->width,
                           box->height, box->left, box->top, grid->width, grid->height);
    const uint32_t margin_x = grid->min_h < grid->max_h ? UPSAMPLING_MARGIN : 0;
    const uint32_t margin_y = grid->min_v < grid->max_v ? UPSAMPLING_MARGIN : 0;
    uint32_t left, right, top, bottom;
    plan_axis(box->left, box->width, grid->width, grid->mcu_width, margin_x, &left, &right);
    plan_axis(box->top, box->height, grid->height, grid->mcu_height, margin_y, &top, &bottom);

    /* A window on the image's last columns alone may be too narrow to be smooth. */
    const uint32_t columns = divide_up((right - left) * grid->min_h, grid->max_h);
    if (left > 0 && columns <= PLAIN_UPSAMPLING_COLUMNS)
        left -= grid->mcu_width;
    *window = (struct sluice_jpeg_crop_box){
        .full_width = grid->width,
        .full_height = grid->height,
        .left = left,
        .top = top,
        .width = right - left,
        .height = bottom - top,
    };
    return SLUICE_OK;
}

static const uint8_t head_start[] = {0xFF, 0xD8, 0xFF, 0xE9, 0,   18,   'S',
                                     'l',  'u',  'i',  'c',  'e', '\0', 1};

static uint8_t *put16(uint8_t *out, uint32_t value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
    return out + 2;
}

void sluice_jpeg_crop_put_head(uint8_t head[SLUICE_JPEG_CROP_HEAD],
                               const struct sluice_jpeg_crop_box *window)
{
    memcpy(head, head_start, sizeof(head_start));
    uint8_t *out = head + sizeof(head_start);
    out = put16(out, window->full_width);
    out = put16(out, window->full_height);
    out = put16(out, window->left);
    put16(out, window->top);
}

sluice_status sluice_jpeg_crop_window(const uint8_t *bytes, size_t len,
                                      struct sluice_jpeg_crop_box *out, struct sluice_err *err)
{
    if (len < SLUICE_JPEG_CROP_HEAD || memcmp(bytes, head_start, sizeof(head_start)) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "not a crop of a JPEG");
    const uint8_t *in = bytes + sizeof(head_start);
    struct sluice_jpeg_crop_box window = {
        .full_width = sluice_be16(in),
        .full_height = sluice_be16(in + 2),
        .left = sluice_be16(in + 4),
        .top = sluice_be16(in + 6),
    };
    struct sluice_image_info info;
    if (sluice_image_probe(bytes, len, &info, err) != SLUICE_OK)
        return SLUICE_E_CORRUPT;
    window.width = info.width;
    window.height = info.height;
    if (window.left + window.width > window.full_width ||
        window.top + window.height > window.full_height)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "a crop of %u x %u at %u, %u is not inside %u x %u", window.width,
                           window.height, window.left, window.top, window.full_width,
                           window.full_height);
    *out = window;
    return SLUICE_OK;
}

/* --- walking the scan --- */

/* What the next SLUICE_JPEG_LOOKUP_BITS bits say of AC codes, as many whole ones as they
 * show: (coefficients << 8 | bits).  A lookup ends early at an end of block,
 * which adds AC_END; AC_SLOW stands where not even one code is told. */
#define AC_END (128u << 8)
#define AC_SLOW (255u << 8)
#define AC_MAX_BITS 18 /* so that three lookups fit one refill of 56 */

struct tables {
    struct sluice_jpeg_lookup dc[4], ac[4];
    uint16_t skip[4][1 << SLUICE_JPEG_LOOKUP_BITS];
    struct sluice_jpeg_codes dc_codes[4], ac_codes[4];
};

struct block {
    const struct sluice_jpeg_lookup *dc, *ac;
    const uint16_t *skip;
    const struct sluice_jpeg_codes *dc_codes;
    unsigned component;
    bool may_be_blank;
    uint32_t left, top; /* pixels in the MCU, if it may be blank */
    uint16_t end_code;  /* end of block */
    uint8_t end_length;
};

struct walker {
    const struct sluice_jpeg *jpeg;
    const struct sluice_jpeg_scan *scan;
    struct sluice_jpeg_bits in;
    size_t segment;     /* the next one */
    size_t end_bits;    /* of the segment being read */
    uint32_t mcus_left; /* in it */
    uint32_t dc[4];     /* unsigned, as files may make them overflow */
    struct block blocks[SLUICE_JPEG_MAX_BLOCKS_IN_MCU];
    unsigned num_blocks;

    const struct sluice_box *box;
    uint32_t first_row, end_row, first_column, end_column; /* MCUs of the window */
    bool has_blanks; /* MCUs at the window's edges may have blocks that are not needed */
    struct sluice_jpeg_bit_writer out;
    uint32_t kept_dc[4]; /* of the last kept block */
};

static void build_skip(const struct sluice_jpeg_lookup *ac, uint16_t *skip)
{
    const unsigned mask = (1u << SLUICE_JPEG_LOOKUP_BITS) - 1;
    for (unsigned index = 0; index <= mask; index++) {
        unsigned bits = 0, coefficients = 0, end = 0;
        while (bits < SLUICE_JPEG_LOOKUP_BITS) {
            const unsigned entry = ac->fast[index << bits & mask];
            const unsigned length = entry >> 8, size = entry & 15, run = entry >> 4 & 15;
            if (entry == 0 || bits + length > SLUICE_JPEG_LOOKUP_BITS ||
                bits + length + size > AC_MAX_BITS || coefficients + run + 1 > 62)
                break;
            if (size == 0 && run < 15) {
                if (run > 0) /* a code of progressive files */
                    break;
                bits += length;
                end = AC_END;
                break;
            }
            bits += length + size;
            coefficients += run + 1;
        }
        skip[index] = (uint16_t)(bits ? end | coefficients << 8 | bits : AC_SLOW);
    }
}

/* DC differences of kept blocks may have categories that an optimised table
 * lacks.  Longer codes than the longest find room behind it, for the code of all
 * ones is free: each takes all ones but the last.  False if 16 bits do not suffice. */
static bool complete_dc_table(struct sluice_jpeg_huffman *huffman)
{
    uint16_t present = 0;
    for (unsigned i = 0; i < huffman->num_symbols; i++)
        present |= (uint16_t)(1u << huffman->symbols[i]);
    unsigned length = 16;
    while (length > 1 && huffman->counts[length] == 0)
        length--;
    uint32_t code = 0; /* the first free one of that length */
    for (unsigned i = 1; i <= length; i++)
        code = (code << 1) + huffman->counts[i];
    for (unsigned category = 0; category <= SLUICE_JPEG_MAX_DC_CATEGORY; category++) {
        if (present >> category & 1)
            continue;
        while (length <= 16 && code + 1 >= 1u << length) {
            code <<= 1;
            length++;
        }
        if (length > 16 || huffman->num_symbols == 256)
            return false;
        huffman->counts[length]++;
        huffman->symbols[huffman->num_symbols++] = (uint8_t)category;
        code++;
    }
    return true;
}

/* Reads with the tables that the file has; those of jpeg become those of the crop. */
static sluice_status walker_init(struct walker *walker, struct sluice_jpeg *jpeg,
                                 const struct sluice_jpeg_scan *scan, struct tables *tables,
                                 struct sluice_err *err)
{
    *walker = (struct walker){.jpeg = jpeg, .scan = scan, .num_blocks = jpeg->blocks_in_mcu};
    unsigned dc_made = 0, ac_made = 0;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const unsigned dc = jpeg->components[c].dc, ac = jpeg->components[c].ac;
        if (!(dc_made >> dc & 1)) {
            sluice_jpeg_lookup_init(&tables->dc[dc], &jpeg->dc[dc]);
            if (!complete_dc_table(&jpeg->dc[dc]))
                return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG whose DC table is full");
            sluice_jpeg_codes_init(&tables->dc_codes[dc], &jpeg->dc[dc]);
        }
        if (!(ac_made >> ac & 1)) {
            sluice_jpeg_lookup_init(&tables->ac[ac], &jpeg->ac[ac]);
            sluice_jpeg_codes_init(&tables->ac_codes[ac], &jpeg->ac[ac]);
            build_skip(&tables->ac[ac], tables->skip[ac]);
        }
        dc_made |= 1u << dc;
        ac_made |= 1u << ac;
    }
    unsigned seen[SLUICE_JPEG_MAX_COMPONENTS] = {0};
    for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++) {
        const unsigned component = jpeg->block_component[b];
        const unsigned dc = jpeg->components[component].dc, ac = jpeg->components[component].ac;
        const unsigned h = jpeg->components[component].h, v = jpeg->components[component].v;
        const unsigned number = seen[component]++;
        const uint8_t end_length = tables->ac_codes[ac].length[0];
        walker->blocks[b] = (struct block){
            .dc = &tables->dc[dc],
            .ac = &tables->ac[ac],
            .skip = tables->skip[ac],
            .dc_codes = &tables->dc_codes[dc],
            .component = component,
            .may_be_blank = jpeg->num_components > 1 && h == jpeg->max_h && v == jpeg->max_v &&
                            h * v > 1 && end_length > 0,
            .left = number % h * 8,
            .top = number / h * 8,
            .end_code = tables->ac_codes[ac].code[0],
            .end_length = end_length,
        };
        walker->has_blanks = walker->has_blanks || walker->blocks[b].may_be_blank;
    }
    return SLUICE_OK;
}

/* Steps over the AC codes of one block; false where a code is none.  At least 56
 * bits are at hand before and after. */
static inline bool skip_ac(struct sluice_jpeg_bits *in, const struct block *block)
{
    const unsigned shift = 64 - SLUICE_JPEG_LOOKUP_BITS;
    const uint16_t *skip = block->skip;
    unsigned k = 1, entry;
    for (;;) {
        for (int i = 0; i < 3; i++) {
            entry = skip[in->bits >> shift];
            if (k + (entry >> 8) > 63)
                goto careful;
            k += entry >> 8;
            sluice_jpeg_bits_skip(in, entry & 255);
        }
        sluice_jpeg_bits_refill(in);
        continue;

    careful:
        if (entry >= AC_END && entry < AC_SLOW && k + ((entry - AC_END) >> 8) <= 63) {
            sluice_jpeg_bits_skip(in, entry & 255);
            sluice_jpeg_bits_refill(in);
            return true;
        }
        /* One code alone: a long one, or one near the block's end. */
        sluice_jpeg_bits_refill(in);
        const unsigned symbol = sluice_jpeg_bits_peek_symbol(in, block->ac);
        const unsigned size = symbol & 15, run = symbol >> 4 & 15;
        sluice_jpeg_bits_skip(in, (symbol >> 8) + size);
        sluice_jpeg_bits_refill(in);
        if (size == 0 && run < 15)
            return symbol != 0 && run == 0;
        k += run + 1;
        if (k > 63)
            return k == 64;
    }
}

/* Takes the DC difference of a block; false where the code is none. */
static inline bool read_dc(struct sluice_jpeg_bits *in, const struct block *block, uint32_t *dc)
{
    const unsigned symbol = sluice_jpeg_bits_peek_symbol(in, block->dc);
    const unsigned length = symbol >> 8, size = symbol & 15;
    *dc += (uint32_t)sluice_jpeg_extend(in->bits << length, size);
    sluice_jpeg_bits_skip(in, length + size);
    return symbol != 0;
}

static sluice_status fail_damaged(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan is damaged");
}

/* Parses MCUs of one segment. */
static sluice_status pass_mcus(struct walker *walker, uint32_t num_mcus, struct sluice_err *err)
{
    const uint8_t *const base = walker->scan->data->data;
    struct sluice_jpeg_bits in = walker->in;
    for (uint32_t i = 0; i < num_mcus; i++) {
        for (unsigned b = 0; b < walker->num_blocks; b++) {
            const struct block *block = &walker->blocks[b];
            if (!read_dc(&in, block, &walker->dc[block->component]))
                return fail_damaged(err);
            sluice_jpeg_bits_refill(&in);
            if (!skip_ac(&in, block))
                return fail_damaged(err);
        }
        if (sluice_jpeg_bits_position(&in, base) > walker->end_bits)
            return fail_damaged(err);
    }
    walker->in = in;
    return SLUICE_OK;
}

static void copy_bits(struct sluice_jpeg_bit_writer *out, const uint8_t *base, size_t from,
                      size_t to)
{
    for (; to - from >= 56; from += 56)
        sluice_jpeg_put_bits(out, sluice_jpeg_load64(base + from / 8) << (from & 7) >> 8, 56);
    const unsigned rest = (unsigned)(to - from);
    if (rest > 0)
        sluice_jpeg_put_bits(out, sluice_jpeg_load64(base + from / 8) << (from & 7) >> (64 - rest),
                             rest);
}

static bool put_dc(struct sluice_jpeg_bit_writer *out, const struct sluice_jpeg_codes *codes,
                   int32_t difference)
{
    if (difference < -2047 || difference > 2047)
        return false;
    const uint32_t magnitude = (uint32_t)(difference < 0 ? -difference : difference);
    const unsigned size = magnitude ? 32 - (unsigned)__builtin_clz(magnitude) : 0;
    const uint32_t value = difference < 0 ? ~magnitude & ((1u << size) - 1) : magnitude;
    sluice_jpeg_put_bits(out, (uint64_t)codes->code[size] << size | value,
                         codes->length[size] + size);
    return true;
}

/* Whether the box touches the block in the middle of an MCU that lies at these pixels.  Only
 * components of full size may be without need: others serve pixels beside the block. */
static bool is_needed(const struct walker *walker, const struct block *block, uint32_t mcu_left,
                      uint32_t mcu_top)
{
    if (!block->may_be_blank)
        return true;
    const struct sluice_box *box = walker->box;
    const uint32_t left = mcu_left + block->left, top = mcu_top + block->top;
    return left < box->left + box->width && left + 8 > box->left && top < box->top + box->height &&
           top + 8 > box->top;
}

/* One MCU whose DC differences are coded again, as they count from the last kept blocks.
 * Blocks that nobody needs become blank: no difference, no coefficients. */
static sluice_status keep_mcu(struct walker *walker, uint32_t row, uint32_t column,
                              struct sluice_err *err)
{
    const uint8_t *const base = walker->scan->data->data;
    struct sluice_jpeg_bits *in = &walker->in;
    for (unsigned b = 0; b < walker->num_blocks; b++) {
        const struct block *block = &walker->blocks[b];
        const unsigned c = block->component;
        if (!read_dc(in, block, &walker->dc[c]))
            return fail_damaged(err);
        const size_t from = sluice_jpeg_bits_position(in, base);
        sluice_jpeg_bits_refill(in);
        if (!skip_ac(in, block))
            return fail_damaged(err);
        const size_t to = sluice_jpeg_bits_position(in, base);
        if (to > walker->end_bits)
            return fail_damaged(err);
        if (!is_needed(walker, block, column * walker->jpeg->mcu_width,
                       row * walker->jpeg->mcu_height)) {
            (void)put_dc(&walker->out, block->dc_codes, 0);
            sluice_jpeg_put_bits(&walker->out, block->end_code, block->end_length);
            continue;
        }
        if (!put_dc(&walker->out, block->dc_codes, (int32_t)(walker->dc[c] - walker->kept_dc[c])))
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG whose DC values leap");
        copy_bits(&walker->out, base, from, to);
        walker->kept_dc[c] = walker->dc[c];
    }
    return SLUICE_OK;
}

/* MCUs of one segment and one row.  Where the file's DC differences count from what was kept
 * last, they and all else can be copied as they are. */
static sluice_status keep_mcus(struct walker *walker, uint32_t row, uint32_t column,
                               uint32_t num_mcus, struct sluice_err *err)
{
    const uint8_t *const base = walker->scan->data->data;
    const uint32_t end = column + num_mcus;
    const bool is_edge_row = row == walker->first_row || row == walker->end_row - 1;
    sluice_status status = SLUICE_OK;
    while (column < end && status == SLUICE_OK) {
        const bool is_edge =
            is_edge_row || column == walker->first_column || column == walker->end_column - 1;
        if ((is_edge && walker->has_blanks) ||
            memcmp(walker->kept_dc, walker->dc, sizeof(walker->dc)) != 0) {
            status = keep_mcu(walker, row, column++, err);
            continue;
        }
        uint32_t run = end - column;
        if (walker->has_blanks && end == walker->end_column)
            run--;
        const size_t from = sluice_jpeg_bits_position(&walker->in, base);
        status = pass_mcus(walker, run, err);
        if (status != SLUICE_OK)
            return status;
        copy_bits(&walker->out, base, from, sluice_jpeg_bits_position(&walker->in, base));
        memcpy(walker->kept_dc, walker->dc, sizeof(walker->dc));
        column += run;
    }
    return status;
}

static sluice_status next_segment(struct walker *walker, struct sluice_err *err)
{
    const struct sluice_jpeg_scan *scan = walker->scan;
    if (walker->segment == scan->num_segments)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG has too few restart markers");
    sluice_jpeg_bits_start(&walker->in,
                           scan->data->data +
                               (walker->segment ? scan->segment_ends[walker->segment - 1] : 0));
    walker->end_bits = scan->segment_ends[walker->segment] * 8;
    walker->segment++;
    walker->mcus_left = walker->jpeg->restart_interval
                            ? walker->jpeg->restart_interval
                            : walker->jpeg->mcus_across * walker->jpeg->mcus_down;
    memset(walker->dc, 0, sizeof(walker->dc));
    return SLUICE_OK;
}

/* The next num_mcus are kept, and lie in `row` from `column` on, or are passed. */
static sluice_status walk(struct walker *walker, uint32_t row, uint32_t column, uint32_t num_mcus,
                          bool is_kept, struct sluice_err *err)
{
    while (num_mcus > 0) {
        if (walker->mcus_left == 0) {
            const sluice_status status = next_segment(walker, err);
            if (status != SLUICE_OK)
                return status;
        }
        const uint32_t run = num_mcus < walker->mcus_left ? num_mcus : walker->mcus_left;
        sluice_status status = SLUICE_OK;
        if (is_kept)
            status = keep_mcus(walker, row, column, run, err);
        else if (run < walker->mcus_left) /* else the next one to read is behind a restart */
            status = pass_mcus(walker, run, err);
        if (status != SLUICE_OK)
            return status;
        walker->mcus_left -= run;
        num_mcus -= run;
        column += run;
    }
    return SLUICE_OK;
}

static sluice_status walk_window(struct walker *walker, struct sluice_err *err)
{
    const uint32_t across = walker->jpeg->mcus_across;
    const uint32_t num_columns = walker->end_column - walker->first_column;
    sluice_status status =
        walk(walker, 0, 0, walker->first_row * across + walker->first_column, false, err);
    for (uint32_t row = walker->first_row; row < walker->end_row && status == SLUICE_OK; row++) {
        status = walk(walker, row, walker->first_column, num_columns, true, err);
        if (status == SLUICE_OK && row + 1 < walker->end_row)
            status = walk(walker, row, walker->end_column, across - num_columns, false, err);
    }
    return status;
}

/* --- the crop --- */

/* Writes markers; the memory is large enough for the most there can be. */
#define MAX_HEADERS                                                                                \
    (SLUICE_JPEG_CROP_HEAD + 18 + 16 + 4 * (5 + 128) + 8 * (5 + 16 + 256) + 4 + 6 + 3 * 4 + 4 +    \
     4 + 2 * 4)

static uint8_t *put_dqt(uint8_t *out, const uint16_t quant[64], unsigned table)
{
    bool is_16_bit = false;
    for (unsigned i = 0; i < 64; i++)
        is_16_bit = is_16_bit || quant[i] > 255;
    out = put16(out, 0xFFDB);
    out = put16(out, is_16_bit ? 2 + 1 + 128 : 2 + 1 + 64);
    *out++ = (uint8_t)((is_16_bit ? 0x10 : 0) | table);
    for (unsigned i = 0; i < 64; i++) {
        if (is_16_bit)
            *out++ = (uint8_t)(quant[i] >> 8);
        *out++ = (uint8_t)quant[i];
    }
    return out;
}

static uint8_t *put_dht(uint8_t *out, const struct sluice_jpeg_huffman *huffman, unsigned table)
{
    out = put16(out, 0xFFC4);
    out = put16(out, 2u + 1 + 16 + huffman->num_symbols);
    *out++ = (uint8_t)table;
    memcpy(out, huffman->counts + 1, 16);
    memcpy(out + 16, huffman->symbols, huffman->num_symbols);
    return out + 16 + huffman->num_symbols;
}

static uint8_t *put_bytes(uint8_t *out, const void *bytes, size_t len)
{
    memcpy(out, bytes, len);
    return out + len;
}

static uint8_t *put_headers(uint8_t *out, const struct sluice_jpeg *jpeg,
                            const struct sluice_jpeg_crop_box *window)
{
    static const uint8_t jfif[] = {0xFF, 0xE0, 0, 16, 'J', 'F', 'I', 'F', 0,
                                   1,    1,    0, 0,  1,   0,   1,   0,   0};
    const uint8_t adobe[] = {0xFF, 0xEE, 0,   14, 'A', 'd', 'o', 'b',
                             'e',  0,    100, 0,  0,   0,   0,   jpeg->adobe_transform};
    const unsigned n = jpeg->num_components;
    sluice_jpeg_crop_put_head(out, window);
    out += SLUICE_JPEG_CROP_HEAD;
    if (jpeg->has_jfif)
        out = put_bytes(out, jfif, sizeof(jfif));
    if (jpeg->has_adobe)
        out = put_bytes(out, adobe, sizeof(adobe));
    unsigned quant_made = 0, dc_made = 0, ac_made = 0;
    for (unsigned c = 0; c < n; c++) {
        const unsigned quant = jpeg->components[c].quant;
        if (!(quant_made >> quant & 1))
            out = put_dqt(out, jpeg->quant[quant], quant);
        quant_made |= 1u << quant;
    }
    out = put16(out, jpeg->is_extended ? 0xFFC1 : 0xFFC0);
    out = put16(out, 8 + 3 * n);
    *out++ = 8;
    out = put16(out, window->height);
    out = put16(out, window->width);
    *out++ = (uint8_t)n;
    for (unsigned c = 0; c < n; c++) {
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        *out++ = component->id;
        *out++ = (uint8_t)(component->h << 4 | component->v);
        *out++ = component->quant;
    }
    for (unsigned c = 0; c < n; c++) {
        const unsigned dc = jpeg->components[c].dc, ac = jpeg->components[c].ac;
        if (!(dc_made >> dc & 1))
            out = put_dht(out, &jpeg->dc[dc], dc);
        if (!(ac_made >> ac & 1))
            out = put_dht(out, &jpeg->ac[ac], 0x10 | ac);
        dc_made |= 1u << dc;
        ac_made |= 1u << ac;
    }
    out = put16(out, 0xFFDA);
    out = put16(out, 6 + 2 * n);
    *out++ = (uint8_t)n;
    for (unsigned c = 0; c < n; c++) {
        *out++ = jpeg->components[c].id;
        *out++ = (uint8_t)(jpeg->components[c].dc << 4 | jpeg->components[c].ac);
    }
    *out++ = 0;
    *out++ = 63;
    *out++ = 0;
    return out;
}

/* Bits to file bytes: a zero follows each 0xFF.  NULL if `end` is in the way. */
static uint8_t *put_stuffed(uint8_t *out, const uint8_t *end, const uint8_t *in, size_t len)
{
    const uint8_t *const in_end = in + len;
    while (in < in_end) {
        const uint8_t *mark = memchr(in, 0xFF, (size_t)(in_end - in));
        const size_t run = (size_t)((mark ? mark + 1 : in_end) - in);
        if ((size_t)(end - out) < run + 1)
            return NULL;
        memcpy(out, in, run);
        in += run;
        out += run;
        if (mark)
            *out++ = 0;
    }
    return out;
}

struct job {
    struct sluice_jpeg jpeg; /* with the tables of the crop, in the end */
    struct sluice_jpeg_scan scan;
    struct sluice_jpeg_stretch stretch;    /* of the row at hand, with an index */
    const struct sluice_jpeg_index *index; /* or NULL; it fits the file */
    struct sluice_jpeg_crop_box window;
    struct sluice_buf *tables, *kept, *recoded, *crop;
};

/* walk_window() with an index: each row for itself, from the point before the window on. */
static sluice_status walk_indexed(struct walker *walker, struct job *job, const uint8_t *bytes,
                                  struct sluice_buf_pool *pool, struct sluice_err *err)
{
    struct sluice_jpeg_stretch *stretch = &job->stretch;
    const uint32_t first = walker->first_column, end = walker->end_column;
    sluice_status status = SLUICE_OK;
    for (uint32_t row = walker->first_row; row < walker->end_row && status == SLUICE_OK; row++) {
        if (!sluice_jpeg_stretch_read(stretch, job->index, &job->jpeg, bytes, row, first, end,
                                      pool))
            return fail_damaged(err);
        walker->scan = &stretch->scan;
        walker->segment = 1;
        walker->end_bits = stretch->scan.segment_ends[0] * 8;
        walker->mcus_left = stretch->mcus_left;
        for (unsigned c = 0; c < job->jpeg.num_components; c++)
            walker->dc[c] = (uint32_t)stretch->dc[c];
        sluice_jpeg_bits_start(&walker->in, stretch->scan.data->data);
        sluice_jpeg_bits_skip(&walker->in, stretch->bit);
        sluice_jpeg_bits_refill(&walker->in);
        status = walk(walker, row, stretch->column, first - stretch->column, false, err);
        if (status == SLUICE_OK)
            status = walk(walker, row, first, end - first, true, err);
    }
    return status;
}

/* Room for the bits of rows [first_row, first_row + num_rows), before any start of a run grows. */
static size_t kept_room(const struct job *job, uint32_t first_row, uint32_t num_rows,
                        size_t *num_segments)
{
    if (!job->index) {
        *num_segments = job->scan.num_segments;
        return job->scan.data->len;
    }
    const struct sluice_jpeg *jpeg = &job->jpeg;
    const size_t num_mcus = (size_t)num_rows * jpeg->mcus_across;
    *num_segments = 2 + (jpeg->restart_interval ? num_mcus / jpeg->restart_interval : 0);
    uint32_t from, to;
    sluice_jpeg_index_range(job->index, first_row, first_row + num_rows, &from, &to);
    return to - from + 2 * (size_t)num_rows; /* rows may meet in a byte */
}

/* The kept MCUs' bits, as whole bytes, to job->kept. */
static sluice_status cut(struct job *job, const uint8_t *bytes, const struct sluice_box *box,
                         struct sluice_buf_pool *pool, struct sluice_err *err)
{
    struct sluice_jpeg *jpeg = &job->jpeg;
    const struct sluice_jpeg_crop_box *window = &job->window;
    const uint32_t first_row = window->top / jpeg->mcu_height;
    const uint32_t first_column = window->left / jpeg->mcu_width;
    const uint32_t num_rows = divide_up(window->height, jpeg->mcu_height);

    sluice_status status = sluice_buf_create(pool, sizeof(struct tables), &job->tables, err);
    if (status != SLUICE_OK)
        return status;
    /* A block that is coded again may grow by the longest DC code and its value, 27 bits. */
    const size_t num_columns = divide_up(window->width, jpeg->mcu_width);
    size_t num_segments;
    const size_t room = kept_room(job, first_row, num_rows, &num_segments);
    const size_t num_again =
        (2 * num_columns + 3 * (size_t)num_rows + num_segments) * jpeg->blocks_in_mcu;
    status = sluice_buf_create(pool, room + num_again * 4 + SLUICE_JPEG_SCAN_SLACK + 16, &job->kept,
                               err);
    if (status != SLUICE_OK)
        return status;

    struct walker walker;
    status =
        walker_init(&walker, jpeg, &job->scan, (struct tables *)(void *)job->tables->data, err);
    if (status != SLUICE_OK)
        return status;
    walker.out.next = job->kept->data;
    walker.box = box;
    walker.first_row = first_row;
    walker.end_row = first_row + num_rows;
    walker.first_column = first_column;
    walker.end_column = first_column + divide_up(window->width, jpeg->mcu_width);
    status = job->index ? walk_indexed(&walker, job, bytes, pool, err) : walk_window(&walker, err);
    if (status != SLUICE_OK)
        return status;
    if (walker.out.count > 0)
        sluice_jpeg_put_bits(&walker.out, (1u << (8 - walker.out.count)) - 1, 8 - walker.out.count);
    job->kept->len = (size_t)(walker.out.next - job->kept->data);
    return SLUICE_OK;
}

/* Any failure: the whole scan must be read. */
static sluice_status cut_indexed(struct job *job, const uint8_t *bytes, size_t len,
                                 const struct sluice_box *box,
                                 const struct sluice_jpeg_index *index,
                                 struct sluice_buf_pool *pool)
{
    if (!index || !sluice_jpeg_index_fits(index, &job->jpeg, bytes, len))
        return SLUICE_E_NOT_FOUND;
    const struct sluice_jpeg original = job->jpeg; /* the crop's tables replace its own */
    job->index = index;
    const sluice_status status = cut(job, bytes, box, pool, NULL);
    if (status != SLUICE_OK) {
        sluice_buf_unref(job->tables);
        sluice_buf_unref(job->kept);
        job->tables = job->kept = NULL;
        job->jpeg = original;
        job->index = NULL;
    }
    return status;
}

static sluice_status recode(struct job *job, struct sluice_buf_pool *pool, struct sluice_err *err)
{
    const size_t room = job->kept->len + job->kept->len / 4 + SLUICE_JPEG_RECODE_ROOM;
    sluice_status status = sluice_buf_create(pool, room, &job->recoded, err);
    if (status != SLUICE_OK)
        return status;
    memset(job->kept->data + job->kept->len, 0, SLUICE_JPEG_SCAN_SLACK);
    const size_t num_mcus = (size_t)divide_up(job->window.width, job->jpeg.mcu_width) *
                            divide_up(job->window.height, job->jpeg.mcu_height);
    status = sluice_jpeg_recode_optimal(&job->jpeg, num_mcus, job->kept->data, job->recoded->data,
                                        room, &job->recoded->len, err);
    return status;
}

static sluice_status assemble(struct job *job, size_t file_len, bool allow_larger,
                              struct sluice_buf_pool *pool, struct sluice_err *err)
{
    const struct sluice_buf *bits = job->recoded ? job->recoded : job->kept;
    uint8_t headers[MAX_HEADERS];
    const size_t headers_len = (size_t)(put_headers(headers, &job->jpeg, &job->window) - headers);
    const size_t most = headers_len + 2 * bits->len + 3;
    /* One byte less than the file at most; put_stuffed() asks for one more than it needs. */
    const size_t room = allow_larger || most < file_len ? most : file_len;
    if (headers_len + bits->len + 2 >= room && !allow_larger)
        return sluice_fail(err, SLUICE_E_AGAIN, "a crop would not be smaller");
    sluice_status status = sluice_buf_create(pool, room, &job->crop, err);
    if (status != SLUICE_OK)
        return status;
    uint8_t *out = put_bytes(job->crop->data, headers, headers_len);
    out = put_stuffed(out, job->crop->data + room - 2, bits->data, bits->len);
    if (!out)
        return sluice_fail(err, SLUICE_E_AGAIN, "a crop would not be smaller");
    out = put16(out, 0xFFD9);
    job->crop->len = (size_t)(out - job->crop->data);
    if (job->crop->len >= file_len && !allow_larger)
        return sluice_fail(err, SLUICE_E_AGAIN, "a crop would not be smaller");
    return SLUICE_OK;
}

/* Whether DC differences could add up beyond 32 bits, which libjpeg takes for an error
 * wherever in the file it is.  It takes 67 megapixels. */
static bool may_overflow(const struct sluice_jpeg *jpeg)
{
    const uint64_t num_blocks = (uint64_t)jpeg->mcus_across * jpeg->mcus_down * jpeg->blocks_in_mcu;
    return num_blocks * 2047 > INT32_MAX;
}

/* Whether what was not read must not be looked at. */
static bool is_partial(const struct sluice_jpeg_crop_options *options)
{
    return options->index && options->index->is_partial;
}

static sluice_status crop_ourselves(struct job *job, const uint8_t *bytes, size_t len,
                                    const struct sluice_box *box,
                                    const struct sluice_jpeg_crop_options *options,
                                    uint64_t max_pixels, struct sluice_buf_pool *pool,
                                    struct sluice_err *err)
{
    struct sluice_jpeg *jpeg = &job->jpeg;
    sluice_status status = sluice_jpeg_parse(bytes, len, jpeg, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_image_check_size(jpeg->width, jpeg->height, max_pixels, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_jpeg_grid grid = {
        .width = jpeg->width,
        .height = jpeg->height,
        .mcu_width = jpeg->mcu_width,
        .mcu_height = jpeg->mcu_height,
        .min_h = jpeg->max_h,
        .max_h = jpeg->max_h,
        .min_v = jpeg->max_v,
        .max_v = jpeg->max_v,
    };
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        grid.min_h = component->h < grid.min_h ? component->h : grid.min_h;
        grid.min_v = component->v < grid.min_v ? component->v : grid.min_v;
    }
    status = sluice_jpeg_crop_plan(&grid, box, &job->window, err);
    if (status != SLUICE_OK)
        return status;
    const bool is_whole = job->window.width == jpeg->width && job->window.height == jpeg->height;
    if (is_whole && !options->optimal_huffman && !options->allow_larger)
        return sluice_fail(err, SLUICE_E_AGAIN, "the crop needs the whole image");
    if (may_overflow(jpeg))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG whose DC values may overflow");
    status = cut_indexed(job, bytes, len, box, options->index, pool);
    if (status != SLUICE_OK && is_partial(options))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a part of the JPEG does not do");
    if (status != SLUICE_OK) {
        status = sluice_jpeg_scan_read(jpeg, pool, &job->scan, err);
        if (status == SLUICE_OK)
            status = cut(job, bytes, box, pool, err);
    }
    if (status == SLUICE_OK && options->optimal_huffman)
        status = recode(job, pool, err);
    if (status == SLUICE_OK)
        status = assemble(job, len, options->allow_larger, pool, err);
    return status;
}

sluice_status sluice_jpeg_crop(const uint8_t *bytes, size_t len, const struct sluice_box *box,
                               const struct sluice_jpeg_crop_options *options,
                               struct sluice_buf_pool *pool, struct sluice_buf **crop,
                               struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    static const struct sluice_jpeg_crop_options defaults = {0};
    if (!options)
        options = &defaults;
    const uint64_t max_pixels = options->max_pixels ? options->max_pixels : SLUICE_IMAGE_MAX_PIXELS;
    struct job job = {0};
    struct sluice_err why = {{0}};
    sluice_status status = SLUICE_E_UNSUPPORTED;
    if (options->route != SLUICE_JPEG_CROP_BY_LIBJPEG)
        status = crop_ourselves(&job, bytes, len, box, options, max_pixels, pool, &why);
    if (options->route != SLUICE_JPEG_CROP_BY_OURS && !is_partial(options) &&
        (status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_CORRUPT)) {
        why.text[0] = 0;
        status = sluice_jpeg_crop_libjpeg(bytes, len, box, options, max_pixels, pool, &job.crop,
                                          &job.window, &why);
        if (status == SLUICE_OK && job.crop->len >= len && !options->allow_larger)
            status = sluice_fail(&why, SLUICE_E_AGAIN, "a crop would not be smaller");
    }
    sluice_jpeg_scan_clear(&job.scan);
    sluice_jpeg_stretch_clear(&job.stretch);
    sluice_buf_unref(job.tables);
    sluice_buf_unref(job.kept);
    sluice_buf_unref(job.recoded);
    if (status != SLUICE_OK) {
        sluice_buf_unref(job.crop);
        return sluice_fail(err, status, "%s", why.text);
    }
    *crop = job.crop;
    if (window)
        *window = job.window;
    return SLUICE_OK;
}
