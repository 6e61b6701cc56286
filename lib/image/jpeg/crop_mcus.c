#include "image/jpeg/crop_mcus.h"

#include "base/buf.h"
#include "image/jpeg/lane_reader.h"
#include "image/jpeg/sync_scan.h"

/* Appends the DC categories that an optimised table lacks, as the DC differences of kept blocks may
 * have any.  In a JPEG table the code of all ones is free, so there is room for codes longer than
 * the longest: ones and a final zero.  False if that takes more than 16 bits. */
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

/* Whether the table has codes for end-of-band runs.  Baseline files have no such runs, and
 * decoders might not agree on what they mean. */
static bool has_end_runs(const struct sluice_jpeg_huffman *ac)
{
    for (unsigned i = 0; i < ac->num_symbols; i++) {
        const unsigned size = ac->symbols[i] & 15, run = ac->symbols[i] >> 4;
        if (size == 0 && run > 0 && run < 15)
            return true;
    }
    return false;
}

sluice_status sluice_jpeg_cutter_init(struct sluice_jpeg_cutter *cutter, struct sluice_jpeg *jpeg,
                                      struct sluice_jpeg_cut_tables *tables, struct sluice_err *err)
{
    *cutter = (struct sluice_jpeg_cutter){
        .jpeg = jpeg, .lanes = &tables->lanes, .num_blocks = jpeg->blocks_in_mcu};
    sluice_jpeg_lanes_init(&tables->lanes);
    sluice_jpeg_lanes_set_codings(&tables->lanes, jpeg);
    sluice_jpeg_lanes_make_skips(&tables->lanes, jpeg);
    unsigned dc_made = 0, ac_made = 0;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const unsigned dc = jpeg->components[c].dc, ac = jpeg->components[c].ac;
        if (!(dc_made >> dc & 1)) {
            if (!complete_dc_table(&jpeg->dc[dc]))
                return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG whose DC table is full");
            sluice_jpeg_codes_init(&tables->dc_codes[dc], &jpeg->dc[dc]);
        }
        if (!(ac_made >> ac & 1)) {
            if (has_end_runs(&jpeg->ac[ac]))
                return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with ends of many blocks");
            sluice_jpeg_codes_init(&tables->ac_codes[ac], &jpeg->ac[ac]);
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
        cutter->blocks[b] = (struct sluice_jpeg_cut_block){
            .coding = tables->lanes.coding[component],
            .dc_codes = &tables->dc_codes[dc],
            .component = component,
            .may_be_blank = jpeg->num_components > 1 && h == jpeg->max_h && v == jpeg->max_v &&
                            h * v > 1 && end_length > 0,
            .left = number % h * 8,
            .top = number / h * 8,
            .end_code = tables->ac_codes[ac].code[0],
            .end_length = end_length,
        };
        cutter->has_blanks = cutter->has_blanks || cutter->blocks[b].may_be_blank;
    }
    return SLUICE_OK;
}

/* Reads the DC difference of a block; false: an invalid code. */
static bool read_dc(struct sluice_jpeg_reader *in, const struct sluice_jpeg_cut_block *block,
                    uint32_t *dc)
{
    in->pos = 0;
    refill(in);
    const struct sluice_jpeg_symbol symbol = take_symbol(in, block->coding);
    *dc += (uint32_t)sluice_jpeg_extend(in->bits, symbol.size);
    in->bits <<= symbol.size;
    in->pos = 1;
    refill(in);
    return symbol.is_sound;
}

sluice_status sluice_jpeg_fail_damaged(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan is damaged");
}

sluice_status sluice_jpeg_cutter_skip(struct sluice_jpeg_cutter *cutter, uint32_t num_mcus,
                                      struct sluice_err *err)
{
    const uint8_t *const base = cutter->base;
    for (uint32_t i = 0; i < num_mcus; i++) {
        if (!sluice_jpeg_skip_mcu(cutter->lanes, cutter->jpeg, &cutter->in, cutter->dc) ||
            reader_position(&cutter->in, base) > cutter->end_bits)
            return sluice_jpeg_fail_damaged(err);
    }
    return SLUICE_OK;
}

/* Copies bits [from, to).  Reads and writes 8 bytes at a time, also past the end: `base` and `out`
 * must have that room. */
static void copy_bits(struct sluice_jpeg_bit_writer *out, const uint8_t *base, size_t from,
                      size_t to)
{
    if (to - from >= 128) {
        /* First up to a whole byte of the output, then words, each joined from two of the input. */
        const unsigned first = 8 - out->count;
        sluice_jpeg_put_bits(out, sluice_jpeg_load64(base + from / 8) << (from & 7) >> (64 - first),
                             first);
        from += first;
        const uint8_t *in = base + from / 8;
        const unsigned shift = from & 7;
        for (; to - from >= 64; from += 64, in += 8, out->next += 8) {
            uint64_t word = sluice_jpeg_load64(in) << shift | in[8] >> (8 - shift);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            word = __builtin_bswap64(word);
#endif
            memcpy(out->next, &word, sizeof(word));
        }
    }
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

/* Whether the crop needs this block of the MCU at these pixels.  Only a block of a component at
 * full size may be unneeded, if the box does not touch it: the others affect pixels next to the
 * block. */
static bool is_needed(const struct sluice_jpeg_cutter *cutter,
                      const struct sluice_jpeg_cut_block *block, uint32_t mcu_left,
                      uint32_t mcu_top)
{
    if (!block->may_be_blank)
        return true;
    const struct sluice_box *box = cutter->box;
    const uint32_t left = mcu_left + block->left, top = mcu_top + block->top;
    return left < box->left + box->width && left + 8 > box->left && top < box->top + box->height &&
           top + 8 > box->top;
}

/* Whether a row of MCUs has unneeded blocks. */
static bool has_blank_row(const struct sluice_jpeg_cutter *cutter, uint32_t row)
{
    const struct sluice_box *box = cutter->box;
    for (unsigned b = 0; b < cutter->num_blocks; b++) {
        const uint32_t top = row * cutter->jpeg->mcu_height + cutter->blocks[b].top;
        if (cutter->blocks[b].may_be_blank &&
            (top >= box->top + box->height || top + 8 <= box->top))
            return true;
    }
    return false;
}

bool sluice_jpeg_cutter_has_blank_column(const struct sluice_jpeg_cutter *cutter, uint32_t column)
{
    const struct sluice_box *box = cutter->box;
    for (unsigned b = 0; b < cutter->num_blocks; b++) {
        const uint32_t left = column * cutter->jpeg->mcu_width + cutter->blocks[b].left;
        if (cutter->blocks[b].may_be_blank &&
            (left >= box->left + box->width || left + 8 <= box->left))
            return true;
    }
    return false;
}

/* Keeps one MCU and codes its DC differences again, from the last kept blocks.  Unneeded blocks
 * become blank: no difference, no coefficients. */
static sluice_status keep_mcu(struct sluice_jpeg_cutter *cutter, uint32_t row, uint32_t column,
                              struct sluice_err *err)
{
    const uint8_t *const base = cutter->base;
    struct sluice_jpeg_reader *in = &cutter->in;
    for (unsigned b = 0; b < cutter->num_blocks; b++) {
        const struct sluice_jpeg_cut_block *block = &cutter->blocks[b];
        const unsigned c = block->component;
        if (!read_dc(in, block, &cutter->dc[c]))
            return sluice_jpeg_fail_damaged(err);
        const size_t from = reader_position(in, base);
        if (!sluice_jpeg_skip_block(block->coding, in, &cutter->dc[c]))
            return sluice_jpeg_fail_damaged(err);
        const size_t to = reader_position(in, base);
        if (to > cutter->end_bits)
            return sluice_jpeg_fail_damaged(err);
        if (!is_needed(cutter, block, column * cutter->jpeg->mcu_width,
                       row * cutter->jpeg->mcu_height)) {
            (void)put_dc(&cutter->out, block->dc_codes, 0);
            sluice_jpeg_put_bits(&cutter->out, block->end_code, block->end_length);
            continue;
        }
        if (!put_dc(&cutter->out, block->dc_codes, (int32_t)(cutter->dc[c] - cutter->kept_dc[c])))
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG whose DC values leap");
        copy_bits(&cutter->out, base, from, to);
        cutter->kept_dc[c] = cutter->dc[c];
    }
    return SLUICE_OK;
}

/* Moves on to the last mark up to column `end` and copies all before it without parsing.  False: no
 * mark lies after `*column`. */
static bool jump(struct sluice_jpeg_cutter *cutter, uint32_t *column, uint32_t end)
{
    const uint8_t *const base = cutter->base;
    const size_t from = reader_position(&cutter->in, base);
    const struct sluice_jpeg_mark *last = NULL;
    for (; cutter->num_marks > 0 && cutter->marks->column <= end; cutter->marks++) {
        cutter->num_marks--;
        const struct sluice_jpeg_mark *mark = cutter->marks;
        if (mark->column > *column && mark->bit >= from && mark->bit <= cutter->end_bits)
            last = mark;
    }
    if (!last)
        return false;
    copy_bits(&cutter->out, base, from, last->bit);
    start_reader(&cutter->in, base, last->bit);
    for (unsigned c = 0; c < cutter->jpeg->num_components; c++)
        cutter->dc[c] = cutter->kept_dc[c] = (uint32_t)last->dc[c];
    *column = last->column;
    return true;
}

void sluice_jpeg_cutter_begin_segment(struct sluice_jpeg_cutter *cutter)
{
    memset(cutter->kept_dc, 0, sizeof(cutter->kept_dc));
    cutter->kept_left = cutter->kept_interval;
}

void sluice_jpeg_cutter_end_segment(struct sluice_jpeg_cutter *cutter)
{
    struct sluice_jpeg_bit_writer *out = &cutter->out;
    if (out->count > 0)
        sluice_jpeg_put_bits(out, (1u << (8 - out->count)) - 1, 8 - out->count);
    struct sluice_jpeg_scan *kept = cutter->kept;
    kept->segment_ends[kept->num_segments++] = (size_t)(out->next - kept->data->data);
}

/* Copies MCUs up to column `end` as they are. */
static sluice_status copy_mcus(struct sluice_jpeg_cutter *cutter, uint32_t *column, uint32_t end,
                               struct sluice_err *err)
{
    const uint8_t *const base = cutter->base;
    const size_t from = reader_position(&cutter->in, base);
    const sluice_status status = sluice_jpeg_cutter_skip(cutter, end - *column, err);
    if (status != SLUICE_OK)
        return status;
    copy_bits(&cutter->out, base, from, reader_position(&cutter->in, base));
    memcpy(cutter->kept_dc, cutter->dc, sizeof(cutter->dc));
    *column = end;
    return SLUICE_OK;
}

sluice_status sluice_jpeg_cutter_keep(struct sluice_jpeg_cutter *cutter, uint32_t row,
                                      uint32_t column, uint32_t num_mcus, struct sluice_err *err)
{
    const uint32_t end = column + num_mcus;
    const uint32_t blank_from =
        cutter->has_blank_right && end == cutter->end_column ? end - 1 : end;
    while (column < end) {
        const uint32_t from = column;
        const uint32_t segment_end =
            cutter->kept_left < end - column ? column + cutter->kept_left : end;
        const uint32_t stop = segment_end < blank_from ? segment_end : blank_from;
        const bool has_blanks = cutter->has_blanks_in_row ||
                                (cutter->has_blank_left && column == cutter->first_column) ||
                                column == blank_from;
        sluice_status status = SLUICE_OK;
        if (has_blanks || memcmp(cutter->kept_dc, cutter->dc, sizeof(cutter->dc)) != 0)
            status = keep_mcu(cutter, row, column++, err);
        else if (!jump(cutter, &column, stop))
            status = copy_mcus(cutter, &column, stop, err);
        if (status != SLUICE_OK)
            return status;
        cutter->kept_left -= column - from;
        if (cutter->kept_left == 0) {
            sluice_jpeg_cutter_end_segment(cutter);
            sluice_jpeg_cutter_begin_segment(cutter);
        }
    }
    return SLUICE_OK;
}

void sluice_jpeg_cutter_read(struct sluice_jpeg_cutter *cutter, const struct sluice_jpeg_scan *scan,
                             size_t segment, size_t bit, const int32_t *dc)
{
    cutter->base = scan->data->data;
    cutter->end_bits = scan->segment_ends[segment] * 8;
    start_reader(&cutter->in, cutter->base, bit);
    for (unsigned c = 0; c < cutter->jpeg->num_components; c++)
        cutter->dc[c] = dc ? (uint32_t)dc[c] : 0;
}

void sluice_jpeg_cutter_begin_row(struct sluice_jpeg_cutter *cutter, uint32_t row)
{
    if (!cutter->has_blanks)
        return;
    cutter->has_blanks_in_row = has_blank_row(cutter, row);
    cutter->has_blank_left = sluice_jpeg_cutter_has_blank_column(cutter, cutter->first_column);
    cutter->has_blank_right = sluice_jpeg_cutter_has_blank_column(cutter, cutter->end_column - 1);
}
