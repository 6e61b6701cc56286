#include "image/jpeg/crop_cut.h"

#include "base/buf.h"
#include "image/jpeg/bit_writer.h"
#include "image/jpeg/index.h"
#include "image/jpeg/lane_reader.h"
#include "image/jpeg/sync_scan.h"

#include <stdlib.h>

/* A lossless crop: the coded bits of the window's MCUs are copied.
 *
 * Only DC differences change, and only where a kept MCU gets another predecessor: at the start of
 * each kept row and of each segment of the crop, and where the file restarts.  With subsampling an
 * MCU at the window's edge may have blocks that the box does not touch: these become blank.
 *
 *     rows above     skipped
 *     kept rows      left | window | right       skipped | copied | skipped
 *     rows below     not read
 *
 * Skipping is parsing without decoding.  A sync scan (jpeg/sync_scan.h) first finds two points in
 * each row, one before the window and one near its end; then the row is read from the first point
 * and copied up to the second.  An index gives such points as well.  In a file with restart
 * intervals all intervals but the last one before a row are passed over unread, and the rest is
 * parsed MCU by MCU. */

struct block {
    const struct sluice_jpeg_coding *coding;
    const struct sluice_jpeg_codes *dc_codes;
    unsigned component;
    bool may_be_blank;
    uint32_t left, top; /* pixels in the MCU, if it may be blank */
    uint16_t end_code;  /* end of block */
    uint8_t end_length;
};

struct tables {
    struct sluice_jpeg_lanes lanes;
    struct sluice_jpeg_codes dc_codes[4], ac_codes[4];
};

struct walker {
    const struct sluice_jpeg *jpeg;
    const struct sluice_jpeg_scan *scan;
    struct sluice_jpeg_lanes *lanes;
    struct sluice_jpeg_reader in;
    size_t segment;     /* the next one */
    size_t end_bits;    /* end of the segment that is read */
    uint32_t mcus_left; /* in that segment */
    uint32_t dc[4];     /* unsigned, because a file may make them overflow */
    struct block blocks[SLUICE_JPEG_MAX_BLOCKS_IN_MCU];
    unsigned num_blocks;

    const struct sluice_box *box;
    uint32_t first_row, end_row, first_column, end_column; /* MCUs of the window */
    /* Whether any block may become blank; and where in the current row some do. */
    bool has_blanks;
    bool has_blanks_in_row, has_blank_left, has_blank_right;
    const struct sluice_jpeg_mark *marks; /* of the current row, by column; those not passed yet */
    size_t num_marks;
    struct sluice_jpeg_scan *kept;
    struct sluice_jpeg_bit_writer out;
    uint32_t kept_dc[4]; /* of the last kept block of the segment */
    uint32_t kept_interval;
    uint32_t kept_left; /* MCUs that the crop's segment still takes */
};

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

/* The walker reads with the file's tables; the tables of `jpeg` become those of the crop. */
static sluice_status walker_init(struct walker *walker, struct sluice_jpeg *jpeg,
                                 const struct sluice_jpeg_scan *scan, struct tables *tables,
                                 struct sluice_err *err)
{
    *walker = (struct walker){
        .jpeg = jpeg, .scan = scan, .lanes = &tables->lanes, .num_blocks = jpeg->blocks_in_mcu};
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
        walker->blocks[b] = (struct block){
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
        walker->has_blanks = walker->has_blanks || walker->blocks[b].may_be_blank;
    }
    return SLUICE_OK;
}

/* Reads the DC difference of a block; false: an invalid code. */
static bool read_dc(struct sluice_jpeg_reader *in, const struct block *block, uint32_t *dc)
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

static sluice_status fail_damaged(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan is damaged");
}

/* Skips MCUs of one segment. */
static sluice_status pass_mcus(struct walker *walker, uint32_t num_mcus, struct sluice_err *err)
{
    const uint8_t *const base = walker->scan->data->data;
    for (uint32_t i = 0; i < num_mcus; i++) {
        if (!sluice_jpeg_skip_mcu(walker->lanes, walker->jpeg, &walker->in, walker->dc) ||
            reader_position(&walker->in, base) > walker->end_bits)
            return fail_damaged(err);
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

/* Whether a row, or a column, of MCUs has unneeded blocks. */
static bool has_blank_row(const struct walker *walker, uint32_t row)
{
    const struct sluice_box *box = walker->box;
    for (unsigned b = 0; b < walker->num_blocks; b++) {
        const uint32_t top = row * walker->jpeg->mcu_height + walker->blocks[b].top;
        if (walker->blocks[b].may_be_blank &&
            (top >= box->top + box->height || top + 8 <= box->top))
            return true;
    }
    return false;
}

static bool has_blank_column(const struct walker *walker, uint32_t column)
{
    const struct sluice_box *box = walker->box;
    for (unsigned b = 0; b < walker->num_blocks; b++) {
        const uint32_t left = column * walker->jpeg->mcu_width + walker->blocks[b].left;
        if (walker->blocks[b].may_be_blank &&
            (left >= box->left + box->width || left + 8 <= box->left))
            return true;
    }
    return false;
}

/* Keeps one MCU and codes its DC differences again, from the last kept blocks.  Unneeded blocks
 * become blank: no difference, no coefficients. */
static sluice_status keep_mcu(struct walker *walker, uint32_t row, uint32_t column,
                              struct sluice_err *err)
{
    const uint8_t *const base = walker->scan->data->data;
    struct sluice_jpeg_reader *in = &walker->in;
    for (unsigned b = 0; b < walker->num_blocks; b++) {
        const struct block *block = &walker->blocks[b];
        const unsigned c = block->component;
        if (!read_dc(in, block, &walker->dc[c]))
            return fail_damaged(err);
        const size_t from = reader_position(in, base);
        if (!sluice_jpeg_skip_block(block->coding, in, &walker->dc[c]))
            return fail_damaged(err);
        const size_t to = reader_position(in, base);
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

/* Moves on to the last mark up to column `end` and copies all before it without parsing.  False: no
 * mark lies after `*column`. */
static bool jump(struct walker *walker, uint32_t *column, uint32_t end)
{
    const uint8_t *const base = walker->scan->data->data;
    const size_t from = reader_position(&walker->in, base);
    const struct sluice_jpeg_mark *last = NULL;
    for (; walker->num_marks > 0 && walker->marks->column <= end; walker->marks++) {
        walker->num_marks--;
        const struct sluice_jpeg_mark *mark = walker->marks;
        if (mark->column > *column && mark->bit >= from && mark->bit <= walker->end_bits)
            last = mark;
    }
    if (!last)
        return false;
    copy_bits(&walker->out, base, from, last->bit);
    start_reader(&walker->in, base, last->bit);
    for (unsigned c = 0; c < walker->jpeg->num_components; c++)
        walker->dc[c] = walker->kept_dc[c] = (uint32_t)last->dc[c];
    *column = last->column;
    return true;
}

/* Begins a segment of the crop: its DC predictors are zero. */
static void begin_kept_segment(struct walker *walker)
{
    memset(walker->kept_dc, 0, sizeof(walker->kept_dc));
    walker->kept_left = walker->kept_interval;
}

static void end_kept_segment(struct walker *walker)
{
    struct sluice_jpeg_bit_writer *out = &walker->out;
    if (out->count > 0)
        sluice_jpeg_put_bits(out, (1u << (8 - out->count)) - 1, 8 - out->count);
    struct sluice_jpeg_scan *kept = walker->kept;
    kept->segment_ends[kept->num_segments++] = (size_t)(out->next - kept->data->data);
}

/* Copies MCUs up to column `end` as they are. */
static sluice_status copy_mcus(struct walker *walker, uint32_t *column, uint32_t end,
                               struct sluice_err *err)
{
    const uint8_t *const base = walker->scan->data->data;
    const size_t from = reader_position(&walker->in, base);
    const sluice_status status = pass_mcus(walker, end - *column, err);
    if (status != SLUICE_OK)
        return status;
    copy_bits(&walker->out, base, from, reader_position(&walker->in, base));
    memcpy(walker->kept_dc, walker->dc, sizeof(walker->dc));
    *column = end;
    return SLUICE_OK;
}

/* Keeps MCUs of one segment of the file and one row.  While the DC predictors of file and crop are
 * the same, all bits are copied as they are. */
static sluice_status keep_mcus(struct walker *walker, uint32_t row, uint32_t column,
                               uint32_t num_mcus, struct sluice_err *err)
{
    const uint32_t end = column + num_mcus;
    const uint32_t blank_from =
        walker->has_blank_right && end == walker->end_column ? end - 1 : end;
    while (column < end) {
        const uint32_t from = column;
        const uint32_t segment_end =
            walker->kept_left < end - column ? column + walker->kept_left : end;
        const uint32_t stop = segment_end < blank_from ? segment_end : blank_from;
        const bool has_blanks = walker->has_blanks_in_row ||
                                (walker->has_blank_left && column == walker->first_column) ||
                                column == blank_from;
        sluice_status status = SLUICE_OK;
        if (has_blanks || memcmp(walker->kept_dc, walker->dc, sizeof(walker->dc)) != 0)
            status = keep_mcu(walker, row, column++, err);
        else if (!jump(walker, &column, stop))
            status = copy_mcus(walker, &column, stop, err);
        if (status != SLUICE_OK)
            return status;
        walker->kept_left -= column - from;
        if (walker->kept_left == 0) {
            end_kept_segment(walker);
            begin_kept_segment(walker);
        }
    }
    return SLUICE_OK;
}

/* Begins a row: finds out where in it blocks become blank. */
static void begin_row(struct walker *walker, uint32_t row)
{
    if (!walker->has_blanks)
        return;
    walker->has_blanks_in_row = has_blank_row(walker, row);
    walker->has_blank_left = has_blank_column(walker, walker->first_column);
    walker->has_blank_right = has_blank_column(walker, walker->end_column - 1);
}

static sluice_status next_segment(struct walker *walker, struct sluice_err *err)
{
    const struct sluice_jpeg_scan *scan = walker->scan;
    if (walker->segment == scan->num_segments)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG has too few restart markers");
    start_reader(&walker->in, sluice_jpeg_segment_start(scan, walker->segment), 0);
    walker->end_bits = scan->segment_ends[walker->segment] * 8;
    walker->segment++;
    walker->mcus_left = walker->jpeg->restart_interval
                            ? walker->jpeg->restart_interval
                            : walker->jpeg->mcus_across * walker->jpeg->mcus_down;
    memset(walker->dc, 0, sizeof(walker->dc));
    return SLUICE_OK;
}

/* Keeps the next num_mcus, which lie in `row` from `column` on, or skips them. */
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
        else if (run < walker->mcus_left) /* else the next MCU comes after a restart */
            status = pass_mcus(walker, run, err);
        if (status != SLUICE_OK)
            return status;
        walker->mcus_left -= run;
        num_mcus -= run;
        column += run;
    }
    return SLUICE_OK;
}

/* Reads a file that has restart markers. */
static sluice_status walk_segments(struct walker *walker, struct sluice_err *err)
{
    const uint32_t across = walker->jpeg->mcus_across;
    const uint32_t num_columns = walker->end_column - walker->first_column;
    sluice_status status =
        walk(walker, 0, 0, walker->first_row * across + walker->first_column, false, err);
    for (uint32_t row = walker->first_row; row < walker->end_row && status == SLUICE_OK; row++) {
        begin_row(walker, row);
        status = walk(walker, row, walker->first_column, num_columns, true, err);
        if (status == SLUICE_OK && row + 1 < walker->end_row)
            status = walk(walker, row, walker->end_column, across - num_columns, false, err);
    }
    return status;
}

/* Where reading a row begins. */
struct start {
    const struct sluice_jpeg_scan *scan;
    size_t bit; /* in the scan's first segment */
    uint32_t column, mcus_left;
    const int32_t *dc;
};

/* Reads one row. */
static sluice_status walk_row(struct walker *walker, uint32_t row, const struct start *start,
                              const struct sluice_jpeg_mark *marks, size_t num_marks,
                              struct sluice_err *err)
{
    const uint32_t first = walker->first_column;
    walker->scan = start->scan;
    walker->marks = marks;
    walker->num_marks = num_marks;
    walker->segment = 1;
    walker->end_bits = start->scan->segment_ends[0] * 8;
    walker->mcus_left = start->mcus_left;
    for (unsigned c = 0; c < walker->jpeg->num_components; c++)
        walker->dc[c] = (uint32_t)start->dc[c];
    start_reader(&walker->in, start->scan->data->data, start->bit);
    begin_row(walker, row);
    sluice_status status = walk(walker, row, start->column, first - start->column, false, err);
    if (status == SLUICE_OK)
        status = walk(walker, row, first, walker->end_column - first, true, err);
    return status;
}

static sluice_status walk_indexed(struct walker *walker, const struct sluice_jpeg_cut *cut,
                                  struct sluice_jpeg_stretch *stretch, struct sluice_buf_pool *pool,
                                  struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (uint32_t row = walker->first_row; row < walker->end_row && status == SLUICE_OK; row++) {
        if (!sluice_jpeg_stretch_read(stretch, cut->index, cut->jpeg, cut->bytes, row,
                                      walker->first_column, walker->end_column, pool))
            return fail_damaged(err);
        const struct start start = {.scan = &stretch->scan,
                                    .bit = stretch->bit,
                                    .column = stretch->column,
                                    .mcus_left = stretch->mcus_left,
                                    .dc = stretch->dc};
        status = walk_row(walker, row, &start, stretch->marks, stretch->num_marks, err);
    }
    return status;
}

/* A shorter segment is parsed whole: most of it is coded again, and points would take memory. */
#define LEAST_INTERVAL_TO_AIM_AT 4

/* Puts the aims of one row, in which the crop's segment still takes `kept_left` MCUs: where the row
 * is read from, the ends of segments, and the end of what is copied.  Returns their number. */
static size_t aim_at_row(const struct walker *walker, uint32_t row, uint32_t kept_left,
                         struct sluice_jpeg_sync_scan_aim *aims)
{
    uint32_t column = walker->first_column, end = walker->end_column;
    /* A column with unneeded blocks must be parsed, so the last point comes before it. */
    if (end - 1 > column && has_blank_column(walker, end - 1))
        end--;
    size_t num_aims = 0;
    aims[num_aims++] = (struct sluice_jpeg_sync_scan_aim){row, 0, column};
    if (walker->kept_interval >= LEAST_INTERVAL_TO_AIM_AT) {
        for (; end - column > kept_left; kept_left = walker->kept_interval) {
            column += kept_left;
            aims[num_aims++] = (struct sluice_jpeg_sync_scan_aim){row, column, column};
        }
    }
    aims[num_aims++] = (struct sluice_jpeg_sync_scan_aim){row, column + 1, end};
    return num_aims;
}

/* MCUs that the segment still takes after these. */
static uint32_t kept_left_after(const struct walker *walker, uint64_t num_mcus)
{
    return walker->kept_interval - (uint32_t)(num_mcus % walker->kept_interval);
}

/* Reads from points that a sync scan found. */
static sluice_status walk_by_sync_scan(struct walker *walker, const struct sluice_jpeg_scan *scan,
                                       struct sluice_buf_pool *pool, struct sluice_err *err)
{
    const uint32_t num_rows = walker->end_row - walker->first_row;
    const uint32_t num_columns = walker->end_column - walker->first_column;
    size_t in_row = 2;
    if (walker->kept_interval >= LEAST_INTERVAL_TO_AIM_AT)
        in_row += num_columns / walker->kept_interval + 1;
    struct sluice_buf *memory = NULL;
    struct sluice_jpeg_point *points;
    struct sluice_jpeg_mark *marks;
    struct sluice_jpeg_sync_scan_aim *aims;
    const size_t most = num_rows * in_row;
    sluice_status status = sluice_buf_create(
        pool, most * (sizeof(*points) + sizeof(*aims)) + in_row * sizeof(*marks), &memory, err);
    if (status != SLUICE_OK)
        return status;
    points = (struct sluice_jpeg_point *)(void *)memory->data;
    marks = (struct sluice_jpeg_mark *)(void *)(points + most);
    aims = (struct sluice_jpeg_sync_scan_aim *)(void *)(marks + in_row);
    size_t num_aims = 0;
    for (uint32_t i = 0; i < num_rows; i++)
        num_aims += aim_at_row(walker, walker->first_row + i,
                               kept_left_after(walker, (uint64_t)i * num_columns), aims + num_aims);
    if (!sluice_jpeg_sync_scan(walker->lanes, walker->jpeg, scan, aims, num_aims, pool, points))
        status = fail_damaged(err);
    for (size_t p = 0; p < num_aims && status == SLUICE_OK;) {
        const uint32_t row = aims[p].row;
        const struct sluice_jpeg_point *from = &points[p++];
        const struct start start = {.scan = scan,
                                    .bit = from->bit,
                                    .column = from->column,
                                    .mcus_left = from->mcus_left,
                                    .dc = from->dc};
        size_t num_marks = 0;
        for (; p < num_aims && aims[p].row == row; p++) {
            struct sluice_jpeg_mark *mark = &marks[num_marks++];
            *mark = (struct sluice_jpeg_mark){.column = points[p].column, .bit = points[p].bit};
            memcpy(mark->dc, points[p].dc, sizeof(mark->dc));
        }
        status = walk_row(walker, row, &start, marks, num_marks, err);
    }
    sluice_buf_unref(memory);
    return status;
}

/* An upper bound of the bytes of rows [first_row, end_row), as long as no block is coded again. */
static size_t kept_room(const struct sluice_jpeg_cut *cut, const struct sluice_jpeg_scan *scan,
                        uint32_t first_row, uint32_t end_row, size_t *num_segments)
{
    if (!cut->index) {
        *num_segments = scan->num_segments;
        return scan->data->len;
    }
    const uint32_t interval = cut->jpeg->restart_interval;
    const size_t num_mcus = (size_t)(end_row - first_row) * cut->jpeg->mcus_across;
    *num_segments = 2 + (interval ? num_mcus / interval : 0);
    uint32_t from, to;
    sluice_jpeg_index_range(cut->index, first_row, end_row, &from, &to);
    return to - from + 2 * (size_t)(end_row - first_row); /* rows may meet in a byte */
}

/* Allocates an empty scan. */
static sluice_status make_room(struct sluice_jpeg_scan *kept, size_t bytes, size_t num_segments,
                               struct sluice_buf_pool *pool, struct sluice_err *err)
{
    kept->segment_ends = malloc(num_segments * sizeof(*kept->segment_ends));
    if (!kept->segment_ends)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu segments", num_segments);
    return sluice_buf_create(pool, bytes + SLUICE_JPEG_SCAN_SLACK, &kept->data, err);
}

sluice_status sluice_jpeg_cut_mcus(const struct sluice_jpeg_cut *cut, struct sluice_buf_pool *pool,
                                   struct sluice_jpeg_scan *out, struct sluice_err *err)
{
    struct sluice_jpeg *jpeg = cut->jpeg;
    const uint32_t first_row = cut->window->top / jpeg->mcu_height;
    const uint32_t first_column = cut->window->left / jpeg->mcu_width;
    const uint32_t num_rows = sluice_divide_up(cut->window->height, jpeg->mcu_height);
    const uint32_t num_columns = sluice_divide_up(cut->window->width, jpeg->mcu_width);
    struct sluice_jpeg_scan scan = {0}, kept = {0};
    struct sluice_jpeg_stretch stretch = {0};
    struct sluice_buf *tables = NULL;
    struct walker walker;
    sluice_status status = SLUICE_OK;
    if (!cut->index)
        status = sluice_jpeg_scan_read(jpeg, pool, &scan, err);
    if (status == SLUICE_OK)
        status = sluice_buf_create(pool, sizeof(struct tables), &tables, err);
    if (status != SLUICE_OK)
        goto done;
    /* A block that is coded again may grow by the longest DC code and its value, 27 bits; and a
     * segment's last byte is filled up. */
    size_t num_segments;
    const size_t room = kept_room(cut, &scan, first_row, first_row + num_rows, &num_segments);
    const size_t num_kept =
        1 + ((size_t)num_rows * num_columns - 1) / cut->restart_interval; /* segments */
    const size_t num_again =
        (2 * (size_t)num_columns + 3 * (size_t)num_rows + num_segments + num_kept) *
        jpeg->blocks_in_mcu;
    status = make_room(&kept, room + num_again * 4 + num_kept + 16, num_kept, pool, err);
    if (status == SLUICE_OK)
        status = walker_init(&walker, jpeg, &scan, (struct tables *)(void *)tables->data, err);
    if (status != SLUICE_OK)
        goto done;
    walker.kept = &kept;
    walker.out.next = kept.data->data;
    walker.box = cut->box;
    walker.first_row = first_row;
    walker.end_row = first_row + num_rows;
    walker.first_column = first_column;
    walker.end_column = first_column + num_columns;
    walker.kept_interval = cut->restart_interval;
    begin_kept_segment(&walker);
    stretch.has_all_marks = cut->restart_interval < num_columns;
    if (cut->index)
        status = walk_indexed(&walker, cut, &stretch, pool, err);
    else if (jpeg->restart_interval)
        status = walk_segments(&walker, err);
    else
        status = walk_by_sync_scan(&walker, &scan, pool, err);
    if (status != SLUICE_OK)
        goto done;
    if (walker.kept_left < walker.kept_interval)
        end_kept_segment(&walker);
    kept.data->len = (size_t)(walker.out.next - kept.data->data);
    *out = kept;
    kept = (struct sluice_jpeg_scan){0};

done:
    sluice_jpeg_scan_clear(&scan);
    sluice_jpeg_scan_clear(&kept);
    sluice_jpeg_stretch_clear(&stretch);
    sluice_buf_unref(tables);
    return status;
}
