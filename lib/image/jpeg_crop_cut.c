#include "image/jpeg_crop_cut.h"

#include "base/buf.h"
#include "image/jpeg_bit_writer.h"
#include "image/jpeg_index.h"

/* The MCUs of the window are taken over as they are coded: their bits are copied.
 * Only DC differences change, and only where a kept MCU gets another predecessor:
 * at the start of each kept row, and where the file restarts.  With subsampling an MCU at
 * the window's edge may have blocks that the box does not touch: these become blank.
 *
 *     rows above     parsed for their length and DC alone (free where restart
 *                    markers let us jump)
 *     kept rows      left | window | right       parsed | parsed and copied | parsed
 *     rows below     not looked at
 *
 * With an index each kept row is begun at the point before the window, and copied without a look
 * up to the last point in it.
 */

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
    bool has_blanks;                                       /* there are blocks that may be blank, */
    bool has_blanks_in_row, has_blank_left, has_blank_right; /* and where some are, in the row */
    const struct sluice_jpeg_stretch *stretch;               /* the row's, with an index */
    struct sluice_jpeg_bit_writer out;
    uint32_t kept_dc[4]; /* of the last kept block */
};

/* What one AC code says; 0: none is told. */
static unsigned skip_one(unsigned entry)
{
    const unsigned length = entry >> 8, size = entry & 15, run = entry >> 4 & 15;
    if (size == 0 && run < 15)
        return run > 0 ? 0 : AC_END * (entry != 0) | length; /* else of progressive files */
    return length + size > AC_MAX_BITS ? 0 : (run + 1) << 8 | (length + size);
}

/* Up to two codes a lookup.  More would save less than they take to find here. */
static void build_skip(const struct sluice_jpeg_lookup *ac, uint16_t *skip)
{
    const unsigned mask = (1u << SLUICE_JPEG_LOOKUP_BITS) - 1;
    uint16_t ones[1 << SLUICE_JPEG_LOOKUP_BITS];
    for (unsigned index = 0; index <= mask; index++)
        ones[index] = (uint16_t)skip_one(ac->fast[index]);
    for (unsigned index = 0; index <= mask; index++) {
        const unsigned one = ones[index], bits = one & 255;
        unsigned both = one;
        if (bits < SLUICE_JPEG_LOOKUP_BITS && one < AC_END) {
            const unsigned next = index << bits & mask, other = ones[next];
            /* Of the second code only the first bits are known. */
            if (bits + (ac->fast[next] >> 8) <= SLUICE_JPEG_LOOKUP_BITS &&
                bits + (other & 255) <= AC_MAX_BITS)
                both += other;
        }
        skip[index] = (uint16_t)(one ? both : AC_SLOW);
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

/* Writes of 8 bytes, which need not all be there yet: `out` and `base` have room behind. */
static void copy_bits(struct sluice_jpeg_bit_writer *out, const uint8_t *base, size_t from,
                      size_t to)
{
    if (to - from >= 128) {
        /* Up to a whole byte of the output; then words of which each is two of the input's. */
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

/* Whether a row, or a column, of MCUs has blocks that the box does not touch. */
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

/* Goes on at a point of the index, the last one up to column `end`; what lies before it is copied
 * without a look.  False: there is none ahead of `*column`. */
static bool jump(struct walker *walker, uint32_t *column, uint32_t end)
{
    if (!walker->stretch)
        return false;
    const uint8_t *const base = walker->scan->data->data;
    const size_t from = sluice_jpeg_bits_position(&walker->in, base);
    for (unsigned i = SLUICE_JPEG_STRETCH_MARKS; i-- > 0;) {
        const struct sluice_jpeg_mark *mark = &walker->stretch->marks[i];
        if (mark->column <= *column || mark->column > end || mark->bit < from ||
            mark->bit > walker->end_bits)
            continue;
        copy_bits(&walker->out, base, from, mark->bit);
        sluice_jpeg_bits_start(&walker->in, base + mark->bit / 8);
        sluice_jpeg_bits_skip(&walker->in, mark->bit % 8);
        sluice_jpeg_bits_refill(&walker->in);
        for (unsigned c = 0; c < walker->jpeg->num_components; c++)
            walker->dc[c] = walker->kept_dc[c] = (uint32_t)mark->dc[c];
        *column = mark->column;
        return true;
    }
    return false;
}

/* MCUs of one segment and one row.  Where the file's DC differences count from what was kept
 * last, they and all else can be copied as they are. */
static sluice_status keep_mcus(struct walker *walker, uint32_t row, uint32_t column,
                               uint32_t num_mcus, struct sluice_err *err)
{
    const uint8_t *const base = walker->scan->data->data;
    const uint32_t end = column + num_mcus;
    const bool has_blank_end = walker->has_blank_right && end == walker->end_column;
    sluice_status status = SLUICE_OK;
    while (column < end && status == SLUICE_OK) {
        const bool has_blanks = walker->has_blanks_in_row ||
                                (walker->has_blank_left && column == walker->first_column) ||
                                (has_blank_end && column == end - 1);
        if (has_blanks || memcmp(walker->kept_dc, walker->dc, sizeof(walker->dc)) != 0) {
            status = keep_mcu(walker, row, column++, err);
            continue;
        }
        if (jump(walker, &column, has_blank_end ? end - 1 : end))
            continue;
        const uint32_t run = end - column - (has_blank_end ? 1 : 0);
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

/* What of this row may be blank. */
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
        begin_row(walker, row);
        status = walk(walker, row, walker->first_column, num_columns, true, err);
        if (status == SLUICE_OK && row + 1 < walker->end_row)
            status = walk(walker, row, walker->end_column, across - num_columns, false, err);
    }
    return status;
}

/* walk_window() with an index: each row for itself, from the point before the window on. */
static sluice_status walk_indexed(struct walker *walker, const struct sluice_jpeg_cut *cut,
                                  struct sluice_jpeg_stretch *stretch, struct sluice_buf_pool *pool,
                                  struct sluice_err *err)
{
    const uint32_t first = walker->first_column, end = walker->end_column;
    sluice_status status = SLUICE_OK;
    for (uint32_t row = walker->first_row; row < walker->end_row && status == SLUICE_OK; row++) {
        if (!sluice_jpeg_stretch_read(stretch, cut->index, cut->jpeg, cut->bytes, row, first, end,
                                      pool))
            return fail_damaged(err);
        walker->scan = &stretch->scan;
        walker->stretch = stretch;
        walker->segment = 1;
        walker->end_bits = stretch->scan.segment_ends[0] * 8;
        walker->mcus_left = stretch->mcus_left;
        for (unsigned c = 0; c < cut->jpeg->num_components; c++)
            walker->dc[c] = (uint32_t)stretch->dc[c];
        sluice_jpeg_bits_start(&walker->in, stretch->scan.data->data);
        sluice_jpeg_bits_skip(&walker->in, stretch->bit);
        sluice_jpeg_bits_refill(&walker->in);
        begin_row(walker, row);
        status = walk(walker, row, stretch->column, first - stretch->column, false, err);
        if (status == SLUICE_OK)
            status = walk(walker, row, first, end - first, true, err);
    }
    return status;
}

/* Room for the bits of rows [first_row, end_row), before any start of a run grows. */
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

sluice_status sluice_jpeg_cut_mcus(const struct sluice_jpeg_cut *cut, struct sluice_buf_pool *pool,
                                   struct sluice_buf **out, struct sluice_err *err)
{
    struct sluice_jpeg *jpeg = cut->jpeg;
    const uint32_t first_row = cut->window->top / jpeg->mcu_height;
    const uint32_t first_column = cut->window->left / jpeg->mcu_width;
    const uint32_t num_rows = sluice_divide_up(cut->window->height, jpeg->mcu_height);
    const uint32_t num_columns = sluice_divide_up(cut->window->width, jpeg->mcu_width);
    struct sluice_jpeg_scan scan = {0};
    struct sluice_jpeg_stretch stretch = {0};
    struct sluice_buf *tables = NULL, *kept = NULL;
    struct walker walker;
    sluice_status status = SLUICE_OK;
    if (!cut->index)
        status = sluice_jpeg_scan_read(jpeg, pool, &scan, err);
    if (status == SLUICE_OK)
        status = sluice_buf_create(pool, sizeof(struct tables), &tables, err);
    if (status != SLUICE_OK)
        goto done;
    /* A block that is coded again may grow by the longest DC code and its value, 27 bits. */
    size_t num_segments;
    const size_t room = kept_room(cut, &scan, first_row, first_row + num_rows, &num_segments);
    const size_t num_again =
        (2 * (size_t)num_columns + 3 * (size_t)num_rows + num_segments) * jpeg->blocks_in_mcu;
    status =
        sluice_buf_create(pool, room + num_again * 4 + SLUICE_JPEG_SCAN_SLACK + 16, &kept, err);
    if (status == SLUICE_OK)
        status = walker_init(&walker, jpeg, &scan, (struct tables *)(void *)tables->data, err);
    if (status != SLUICE_OK)
        goto done;
    walker.out.next = kept->data;
    walker.box = cut->box;
    walker.first_row = first_row;
    walker.end_row = first_row + num_rows;
    walker.first_column = first_column;
    walker.end_column = first_column + num_columns;
    status =
        cut->index ? walk_indexed(&walker, cut, &stretch, pool, err) : walk_window(&walker, err);
    if (status != SLUICE_OK)
        goto done;
    if (walker.out.count > 0)
        sluice_jpeg_put_bits(&walker.out, (1u << (8 - walker.out.count)) - 1, 8 - walker.out.count);
    kept->len = (size_t)(walker.out.next - kept->data);
    *out = kept;
    kept = NULL;

done:
    sluice_jpeg_scan_clear(&scan);
    sluice_jpeg_stretch_clear(&stretch);
    sluice_buf_unref(tables);
    sluice_buf_unref(kept);
    return status;
}
