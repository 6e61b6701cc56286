/* The entropy layer against libjpeg-turbo's coefficients, and what it refuses. */

#include "image/jpeg/entropy.h"

#include "base/buf.h"
#include "base/rng.h"

#include "jpeg_support.h"
#include "support/test.h"

static const uint8_t natural_order[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

struct tables {
    struct sluice_jpeg_lookup dc[4], ac[4];
};

/* One block, by the book; false where a code is none. */
static bool read_block(struct sluice_jpeg_bits *in, const struct sluice_jpeg_lookup *dc_table,
                       const struct sluice_jpeg_lookup *ac_table, int *dc, int16_t block[64])
{
    memset(block, 0, 128);
    unsigned symbol = sluice_jpeg_bits_peek_symbol(in, dc_table);
    if (!symbol)
        return false;
    sluice_jpeg_bits_skip(in, symbol >> 8);
    *dc += sluice_jpeg_extend(in->bits, symbol & 255);
    sluice_jpeg_bits_skip(in, symbol & 255);
    block[0] = (int16_t)*dc;
    for (unsigned k = 1; k < 64; k++) {
        sluice_jpeg_bits_refill(in);
        symbol = sluice_jpeg_bits_peek_symbol(in, ac_table);
        if (!symbol)
            return false;
        sluice_jpeg_bits_skip(in, symbol >> 8);
        const unsigned run = symbol >> 4 & 15, size = symbol & 15;
        if (size == 0 && run < 15)
            break;
        k += run;
        if (k > 63)
            return false;
        if (size > 0)
            block[natural_order[k]] = (int16_t)sluice_jpeg_extend(in->bits, size);
        sluice_jpeg_bits_skip(in, size);
    }
    sluice_jpeg_bits_refill(in);
    return true;
}

/* Decodes all blocks and compares those that libjpeg-turbo keeps. */
static void compare(const uint8_t *bytes, size_t len)
{
    struct sluice_err err = {{0}};
    struct sluice_jpeg jpeg;
    struct sluice_jpeg_scan scan;
    struct jpeg_test_coefficients want;
    REQUIRE_OK(sluice_jpeg_parse(bytes, len, &jpeg, &err));
    REQUIRE_OK(sluice_jpeg_scan_read(&jpeg, NULL, &scan, &err));
    CU_ASSERT_FATAL(jpeg_test_read_coefficients(bytes, len, &want));
    CU_ASSERT_EQUAL(want.num_components, jpeg.num_components);
    CU_ASSERT_EQUAL(want.width, jpeg.width);
    CU_ASSERT_EQUAL(want.height, jpeg.height);

    struct tables *tables = calloc(1, sizeof(*tables));
    CU_ASSERT_FATAL(tables != NULL);
    for (unsigned c = 0; c < jpeg.num_components; c++) {
        sluice_jpeg_lookup_init(&tables->dc[c], &jpeg.dc[jpeg.components[c].dc]);
        sluice_jpeg_lookup_init(&tables->ac[c], &jpeg.ac[jpeg.components[c].ac]);
    }
    const size_t num_mcus = (size_t)jpeg.mcus_across * jpeg.mcus_down;
    const size_t interval = jpeg.restart_interval ? jpeg.restart_interval : num_mcus;
    CU_ASSERT_EQUAL_FATAL(scan.num_segments, (num_mcus + interval - 1) / interval);
    struct sluice_jpeg_bits in = {0};
    int dc[4] = {0};
    size_t num_compared = 0, num_wrong = 0;
    for (size_t mcu = 0; mcu < num_mcus; mcu++) {
        const size_t segment = mcu / interval;
        if (mcu % interval == 0) {
            sluice_jpeg_bits_start(&in, scan.data->data +
                                            (segment ? scan.segment_ends[segment - 1] : 0));
            memset(dc, 0, sizeof(dc));
        }
        unsigned block_in_component[4] = {0};
        for (unsigned b = 0; b < jpeg.blocks_in_mcu; b++) {
            const unsigned c = jpeg.block_component[b];
            const bool is_single = jpeg.num_components == 1;
            const unsigned h = is_single ? 1 : jpeg.components[c].h;
            const unsigned v = is_single ? 1 : jpeg.components[c].v;
            const unsigned i = block_in_component[c]++;
            const size_t x = mcu % jpeg.mcus_across * h + i % h;
            const size_t y = mcu / jpeg.mcus_across * v + i / h;
            int16_t block[64];
            CU_ASSERT_FATAL(read_block(&in, &tables->dc[c], &tables->ac[c], &dc[c], block));
            if (x >= want.wide[c] || y >= want.high[c])
                continue;
            num_compared++;
            num_wrong += memcmp(block, want.blocks[c][y * want.wide[c] + x], sizeof(block)) != 0;
        }
        CU_ASSERT_FATAL(sluice_jpeg_bits_position(&in, scan.data->data) <=
                        scan.segment_ends[segment] * 8);
    }
    CU_ASSERT(num_compared > 0);
    CU_ASSERT_EQUAL(num_wrong, 0);
    /* Fewer than 8 bits fill up the last byte. */
    CU_ASSERT(scan.data->len * 8 - sluice_jpeg_bits_position(&in, scan.data->data) < 8);
    free(tables);
    jpeg_test_free_coefficients(&want);
    sluice_jpeg_scan_clear(&scan);
}

TEST(symbols_give_the_coefficients_of_libjpeg)
{
    static const uint16_t sizes[][2] = {{1, 1}, {8, 8}, {17, 9}, {97, 53}, {3, 200}, {160, 96}};
    for (size_t i = 0; i < jpeg_test_num_options; i++) {
        if (jpeg_test_options[i].is_progressive)
            continue;
        for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++) {
            struct sluice_buf *file =
                jpeg_test_file(sizes[s][0], sizes[s][1], i, &jpeg_test_options[i]);
            compare(file->data, file->len);
            sluice_buf_unref(file);
        }
    }
}

static struct sluice_buf *small_file(const struct sluice_jpeg_encode_options *options)
{
    static const struct sluice_jpeg_encode_options defaults = {0};
    return jpeg_test_file(64, 48, 1, options ? options : &defaults);
}

static sluice_status read_all(const uint8_t *bytes, size_t len, struct sluice_err *err)
{
    struct sluice_jpeg jpeg;
    struct sluice_jpeg_scan scan = {0};
    sluice_status status = sluice_jpeg_parse(bytes, len, &jpeg, err);
    if (status == SLUICE_OK)
        status = sluice_jpeg_scan_read(&jpeg, NULL, &scan, err);
    sluice_jpeg_scan_clear(&scan);
    sluice_jpeg_scan_clear(&scan);
    return status;
}

/* The first marker of that kind. */
static uint8_t *find_marker(struct sluice_buf *file, unsigned marker)
{
    size_t pos = 2;
    while (pos + 4 <= file->len) {
        if (file->data[pos + 1] == marker)
            return file->data + pos;
        pos += 2 + ((size_t)file->data[pos + 2] << 8 | file->data[pos + 3]);
    }
    CU_FAIL_FATAL("no such marker");
    return NULL;
}

TEST(refuses_every_cut)
{
    struct sluice_buf *file = small_file(&(struct sluice_jpeg_encode_options){.restart_rows = 1});
    CHECK_OK(read_all(file->data, file->len, NULL));
    for (size_t len = 0; len < file->len; len++) {
        /* Memory of exactly that size, so that a read behind it is seen. */
        uint8_t *cut = malloc(len ? len : 1);
        memcpy(cut, file->data, len);
        struct sluice_err err = {{0}};
        CU_ASSERT_NOT_EQUAL(read_all(cut, len, &err), SLUICE_OK);
        CU_ASSERT(err.text[0] != 0);
        free(cut);
    }
    sluice_buf_unref(file);
}

TEST(leaves_to_libjpeg_what_it_does_not_cover)
{
    struct sluice_buf *file =
        small_file(&(struct sluice_jpeg_encode_options){.is_progressive = true});
    CU_ASSERT_EQUAL(read_all(file->data, file->len, NULL), SLUICE_E_UNSUPPORTED);
    sluice_buf_unref(file);

    struct {
        unsigned marker;
        size_t offset;
        uint8_t value;
    } const changes[] = {
        {0xC0, 4, 12},   /* precision */
        {0xC0, 1, 0xC9}, /* arithmetic coding */
        {0xC0, 6, 0},    /* with [5] = 0: height from DNL */
        {0xC0, 9, 2},    /* components */
        {0xC0, 11, 0x51} /* sampling */,
        {0xC0, 12, 4},   /* quantisation table */
        {0xC0, 13, 1},   /* the id of component 0 again */
        {0xC4, 1, 0xDC}, /* DNL in place of a Huffman table */
        {0xDA, 4, 2},    /* components of the scan */
        {0xDA, 5, 7},    /* component id */
        {0xDA, 6, 0x40}, /* Huffman table */
        {0xDA, 6, 0x22}, /* one that is not there */
        {0xDA, 11, 1},   /* first coefficient */
        {0xDB, 4, 0x20}, /* precision */
        {0xC4, 5, 3},    /* three codes of one bit */
        {0xC4, 21, 12},  /* DC category */
        {0xE0, 1, 0x01}, /* TEM */
        {0xE0, 0, 0x00}, /* junk */
        {0xE0, 2, 0xFF}, /* longer than the file */
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(changes); i++) {
        file = small_file(NULL);
        uint8_t *marker = find_marker(file, changes[i].marker);
        marker[changes[i].offset] = changes[i].value;
        struct sluice_err err = {{0}};
        const sluice_status status = read_all(file->data, file->len, &err);
        CU_ASSERT(status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_CORRUPT);
        CU_ASSERT(err.text[0] != 0);
        sluice_buf_unref(file);
    }
}

TEST(refuses_unexpected_markers_in_the_scan)
{
    const struct sluice_jpeg_encode_options with_restarts = {.restart_rows = 1};
    struct sluice_buf *file = small_file(&with_restarts);
    uint8_t *sos = find_marker(file, 0xDA);
    uint8_t *restart = sos;
    while (restart[0] != 0xFF || restart[1] != 0xD0)
        restart++;
    restart[1] = 0xD3; /* out of order */
    CU_ASSERT_EQUAL(read_all(file->data, file->len, NULL), SLUICE_E_CORRUPT);
    restart[1] = 0xDC; /* DNL */
    CU_ASSERT_EQUAL(read_all(file->data, file->len, NULL), SLUICE_E_UNSUPPORTED);
    restart[1] = 0xD0;
    CHECK_OK(read_all(file->data, file->len, NULL));
    uint8_t *dri = find_marker(file, 0xDD);
    dri[4] = dri[5] = 0; /* no interval, but markers */
    CU_ASSERT_EQUAL(read_all(file->data, file->len, NULL), SLUICE_E_UNSUPPORTED);
    sluice_buf_unref(file);
}

TEST(says_what_decides_the_colours)
{
    struct sluice_jpeg jpeg;
    struct sluice_buf *file = small_file(NULL);
    CHECK_OK(sluice_jpeg_parse(file->data, file->len, &jpeg, NULL));
    CU_ASSERT(jpeg.has_jfif && !jpeg.has_adobe);
    find_marker(file, 0xE0)[4] = 'j';
    CHECK_OK(sluice_jpeg_parse(file->data, file->len, &jpeg, NULL));
    CU_ASSERT(!jpeg.has_jfif && !jpeg.has_adobe);
    sluice_buf_unref(file);
    file = small_file(&(struct sluice_jpeg_encode_options){.is_ycck = true});
    CHECK_OK(sluice_jpeg_parse(file->data, file->len, &jpeg, NULL));
    CU_ASSERT(!jpeg.has_jfif && jpeg.has_adobe && jpeg.adobe_transform == 2);
    sluice_buf_unref(file);
}

TEST(codes_and_lookup_agree_up_to_16_bits)
{
    /* One code of each length: 0, 10, 110, ... */
    struct sluice_jpeg_huffman huffman = {.is_present = true, .num_symbols = 16};
    for (unsigned i = 1; i <= 16; i++) {
        huffman.counts[i] = 1;
        huffman.symbols[i - 1] = (uint8_t)(i * 13);
    }
    struct sluice_jpeg_codes codes;
    static struct sluice_jpeg_lookup lookup;
    sluice_jpeg_codes_init(&codes, &huffman);
    sluice_jpeg_lookup_init(&lookup, &huffman);
    unsigned num_codes = 0;
    for (unsigned symbol = 0; symbol < 256; symbol++) {
        const unsigned length = codes.length[symbol];
        if (length == 0)
            continue;
        num_codes++;
        const struct sluice_jpeg_bits in = {.bits = (uint64_t)codes.code[symbol] << (64 - length)};
        CU_ASSERT_EQUAL(sluice_jpeg_bits_peek_symbol(&in, &lookup), length << 8 | symbol);
    }
    CU_ASSERT_EQUAL(num_codes, 16);
    const struct sluice_jpeg_bits ones = {.bits = UINT64_MAX};
    CU_ASSERT_EQUAL(sluice_jpeg_bits_peek_symbol(&ones, &lookup), 0);
}

TEST(extends_values_as_the_standard_says)
{
    CU_ASSERT_EQUAL(sluice_jpeg_extend(UINT64_MAX, 0), 0);
    CU_ASSERT_EQUAL(sluice_jpeg_extend(0, 0), 0);
    CU_ASSERT_EQUAL(sluice_jpeg_extend(0, 1), -1);
    CU_ASSERT_EQUAL(sluice_jpeg_extend(1ull << 63, 1), 1);
    CU_ASSERT_EQUAL(sluice_jpeg_extend(0, 11), -2047);
    CU_ASSERT_EQUAL(sluice_jpeg_extend(0x3FFull << 53, 11), -1024);
    CU_ASSERT_EQUAL(sluice_jpeg_extend(1ull << 63, 11), 1024);
    CU_ASSERT_EQUAL(sluice_jpeg_extend(UINT64_MAX, 15), 32767);
}

TEST(takes_bits_across_refills)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    uint8_t bytes[256 + 8] = {0};
    for (size_t i = 0; i < 256; i++)
        bytes[i] = (uint8_t)sluice_rng_u32(&rng);
    struct sluice_jpeg_bits in;
    sluice_jpeg_bits_start(&in, bytes);
    size_t position = 0;
    while (position + 64 < 256 * 8) {
        const unsigned take = 1 + sluice_rng_below(&rng, 56);
        uint64_t want = 0;
        for (unsigned i = 0; i < take; i++)
            want = want << 1 | (bytes[(position + i) / 8] >> (7 - (position + i) % 8) & 1);
        CU_ASSERT_EQUAL(in.bits >> (64 - take), want);
        sluice_jpeg_bits_skip(&in, take);
        position += take;
        CU_ASSERT_EQUAL(sluice_jpeg_bits_position(&in, bytes), position);
        sluice_jpeg_bits_refill(&in);
        CU_ASSERT_EQUAL(sluice_jpeg_bits_position(&in, bytes), position);
    }
}
