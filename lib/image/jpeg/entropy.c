#include "image/jpeg/entropy.h"

#include "base/array.h"
#include "base/buf.h"
#include "image/image_internal.h"

#include <stdlib.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum marker {
    MARKER_SOF0 = 0xC0,
    MARKER_SOF1 = 0xC1,
    MARKER_SOF2 = 0xC2,
    MARKER_DHT = 0xC4,
    MARKER_RST0 = 0xD0,
    MARKER_RST7 = 0xD7,
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
    MARKER_SOS = 0xDA,
    MARKER_DQT = 0xDB,
    MARKER_DRI = 0xDD,
    MARKER_APP0 = 0xE0,
    MARKER_APP14 = 0xEE,
    MARKER_APP15 = 0xEF,
    MARKER_COM = 0xFE,
};

static sluice_status read_dqt(struct sluice_jpeg *jpeg, const uint8_t *body, size_t len,
                              struct sluice_err *err)
{
    while (len > 0) {
        const unsigned is_16_bit = body[0] >> 4, table = body[0] & 15;
        const size_t used = 1 + 64 * (size_t)(is_16_bit + 1);
        if (is_16_bit > 1 || table > 3 || used > len)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG quantisation table is malformed");
        for (unsigned i = 0; i < 64; i++)
            jpeg->quant[table][i] =
                (uint16_t)(is_16_bit ? sluice_be16(body + 1 + 2 * (size_t)i) : body[1 + i]);
        jpeg->has_quant[table] = true;
        body += used;
        len -= used;
    }
    return SLUICE_OK;
}

static sluice_status read_dht(struct sluice_jpeg *jpeg, const uint8_t *body, size_t len,
                              struct sluice_err *err)
{
    while (len > 0) {
        const unsigned table_class = body[0] >> 4, table = body[0] & 15;
        if (table_class > 1 || table > 3 || len < 17)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG Huffman table is malformed");
        struct sluice_jpeg_huffman huffman = {.is_present = true};
        unsigned num_symbols = 0;
        for (unsigned i = 1; i <= 16; i++) {
            huffman.counts[i] = body[i];
            num_symbols += body[i];
        }
        if (num_symbols > 256 || num_symbols > len - 17)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG Huffman table of %u symbols",
                               num_symbols);
        huffman.num_symbols = (uint16_t)num_symbols;
        memcpy(huffman.symbols, body + 17, num_symbols);
        *(table_class ? &jpeg->ac[table] : &jpeg->dc[table]) = huffman;
        body += 17 + num_symbols;
        len -= 17 + num_symbols;
    }
    return SLUICE_OK;
}

static sluice_status read_frame(struct sluice_jpeg *jpeg, const uint8_t *body, size_t len,
                                struct sluice_err *err)
{
    if (jpeg->num_components)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG with two frame headers");
    const sluice_status status = sluice_jpeg_check_frame(body, len, err);
    if (status != SLUICE_OK)
        return status;
    const unsigned num_components = body[5];
    jpeg->height = sluice_be16(body + 1);
    jpeg->width = sluice_be16(body + 3);
    for (unsigned c = 0; c < num_components; c++) {
        const uint8_t *row = body + 6 + 3 * (size_t)c;
        jpeg->components[c] = (struct sluice_jpeg_component){
            .id = row[0],
            .h = row[1] >> 4,
            .v = row[1] & 15,
            .quant = row[2],
        };
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        if (component->quant > 3)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG quantisation table %u",
                               component->quant);
        for (unsigned other = 0; other < c; other++) {
            if (jpeg->components[other].id == component->id)
                return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with two components %u",
                                   component->id);
        }
        jpeg->max_h = component->h > jpeg->max_h ? component->h : jpeg->max_h;
        jpeg->max_v = component->v > jpeg->max_v ? component->v : jpeg->max_v;
    }
    jpeg->num_components = num_components;
    return SLUICE_OK;
}

/* The colour transform follows from these two and the component ids, by the rules
 * of libjpeg, which looks at no more of them than this. */
static void read_app(struct sluice_jpeg *jpeg, unsigned marker, const uint8_t *body, size_t len)
{
    if (marker == MARKER_APP0 && len >= 14 && memcmp(body, "JFIF", 5) == 0)
        jpeg->has_jfif = true;
    if (marker == MARKER_APP14 && len >= 12 && memcmp(body, "Adobe", 5) == 0) {
        jpeg->has_adobe = true;
        jpeg->adobe_transform = body[11];
    }
}

static sluice_status check_huffman(const struct sluice_jpeg_huffman *huffman, bool is_dc,
                                   struct sluice_err *err)
{
    if (!huffman->is_present)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG that lacks a Huffman table");
    uint32_t code = 0;
    for (unsigned length = 1; length <= 16; length++) {
        code = (code << 1) + huffman->counts[length];
        /* The code of all ones is reserved; libjpeg rejects it. */
        if (code >= 1u << length)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG Huffman table has too many codes");
    }
    for (unsigned i = 0; is_dc && i < huffman->num_symbols; i++) {
        if (huffman->symbols[i] > SLUICE_JPEG_MAX_DC_CATEGORY)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with DC category %u",
                               huffman->symbols[i]);
    }
    return SLUICE_OK;
}

static sluice_status read_scan_header(struct sluice_jpeg *jpeg, const uint8_t *body, size_t len,
                                      struct sluice_err *err)
{
    const unsigned n = jpeg->num_components;
    if (n == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan before any frame header");
    if (len < 1 || len != 4 + 2 * (size_t)body[0])
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan header of %zu bytes", len);
    if (body[0] != n)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG scan of %u components out of %u",
                           body[0], n);
    for (unsigned c = 0; c < n; c++) {
        struct sluice_jpeg_component *component = &jpeg->components[c];
        if (body[1 + 2 * c] != component->id)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG scan in another order");
        component->dc = body[2 + 2 * c] >> 4;
        component->ac = body[2 + 2 * c] & 15;
        if (component->dc > 3 || component->ac > 3)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan with Huffman tables %u and %u",
                               component->dc, component->ac);
        if (!jpeg->has_quant[component->quant])
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG that lacks a quantisation table");
        sluice_status status = check_huffman(&jpeg->dc[component->dc], true, err);
        if (status == SLUICE_OK)
            status = check_huffman(&jpeg->ac[component->ac], false, err);
        if (status != SLUICE_OK)
            return status;
    }
    const uint8_t *rest = body + 1 + 2 * (size_t)n;
    if (rest[0] != 0 || rest[1] != 63 || rest[2] != 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG scan of coefficients %u to %u", rest[0],
                           rest[1]);
    return SLUICE_OK;
}

static sluice_status measure_mcus(struct sluice_jpeg *jpeg, struct sluice_err *err)
{
    /* A scan of one component is in blocks, whatever its sampling factors say. */
    const bool is_single = jpeg->num_components == 1;
    jpeg->mcu_width = is_single ? 8 : 8 * jpeg->max_h;
    jpeg->mcu_height = is_single ? 8 : 8 * jpeg->max_v;
    jpeg->mcus_across = (jpeg->width + jpeg->mcu_width - 1) / jpeg->mcu_width;
    jpeg->mcus_down = (jpeg->height + jpeg->mcu_height - 1) / jpeg->mcu_height;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        const unsigned num_blocks = is_single ? 1 : component->h * component->v;
        if (jpeg->max_h % component->h != 0 || jpeg->max_v % component->v != 0)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with fractional sampling");
        if (num_blocks > SLUICE_JPEG_MAX_BLOCKS_IN_MCU - jpeg->blocks_in_mcu)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG with more than %d blocks an MCU",
                               SLUICE_JPEG_MAX_BLOCKS_IN_MCU);
        memset(jpeg->block_component + jpeg->blocks_in_mcu, (int)c, num_blocks);
        jpeg->blocks_in_mcu += num_blocks;
    }
    return SLUICE_OK;
}

static sluice_status read_segment(struct sluice_jpeg *jpeg, unsigned marker, const uint8_t *body,
                                  size_t len, struct sluice_err *err)
{
    switch (marker) {
    case MARKER_SOF1:
        jpeg->is_extended = true;
        return read_frame(jpeg, body, len, err);
    case MARKER_SOF0:
        return read_frame(jpeg, body, len, err);
    case MARKER_DHT:
        return read_dht(jpeg, body, len, err);
    case MARKER_DQT:
        return read_dqt(jpeg, body, len, err);
    case MARKER_DRI:
        if (len != 2)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG restart interval of %zu bytes", len);
        jpeg->restart_interval = sluice_be16(body);
        return SLUICE_OK;
    case MARKER_SOS:
        return read_scan_header(jpeg, body, len, err);
    case MARKER_SOF2:
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG is progressive");
    default:
        if ((marker < MARKER_APP0 || marker > MARKER_APP15) && marker != MARKER_COM)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with marker 0x%02x", marker);
        read_app(jpeg, marker, body, len);
        return SLUICE_OK;
    }
}

sluice_status sluice_jpeg_parse(const uint8_t *bytes, size_t len, struct sluice_jpeg *out,
                                struct sluice_err *err)
{
    if (len < 2 || bytes[0] != 0xFF || bytes[1] != MARKER_SOI)
        return sluice_fail(err, SLUICE_E_CORRUPT, "not a JPEG");
    struct sluice_jpeg jpeg = {0};
    size_t pos = 2;
    unsigned marker = 0;
    while (marker != MARKER_SOS) {
        if (pos < len && bytes[pos] != 0xFF)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with bytes between its markers");
        while (pos < len && bytes[pos] == 0xFF)
            pos++;
        if (len - pos < 3)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut at %zu bytes", len);
        marker = bytes[pos];
        const size_t segment_len = sluice_be16(bytes + pos + 1);
        pos += 3;
        if (segment_len < 2 || segment_len - 2 > len - pos)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG segment 0x%02x of %zu bytes", marker,
                               segment_len);
        const sluice_status status = read_segment(&jpeg, marker, bytes + pos, segment_len - 2, err);
        if (status != SLUICE_OK)
            return status;
        pos += segment_len - 2;
    }
    const sluice_status status = measure_mcus(&jpeg, err);
    if (status != SLUICE_OK)
        return status;
    jpeg.scan = bytes + pos;
    jpeg.scan_len = len - pos;
    *out = jpeg;
    return SLUICE_OK;
}

/* Notes where a segment ends.  The array doubles; the first lives in the struct. */
static sluice_status push_segment(struct sluice_jpeg_scan *scan, size_t *capacity, size_t end,
                                  struct sluice_err *err)
{
    if (!sluice_array_reserve(&scan->segment_ends, capacity, scan->num_segments + 1,
                              sizeof(*scan->segment_ends)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu restart intervals",
                           scan->num_segments + 1);
    scan->segment_ends[scan->num_segments++] = end;
    return SLUICE_OK;
}

size_t sluice_jpeg_copy_before_ff(uint8_t *out, const uint8_t *in, size_t len)
{
    size_t i = 0;
#ifdef __SSE2__
    const __m128i ff = _mm_set1_epi8((char)0xFF);
    for (; len - i >= 16; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(in + i));
        _mm_storeu_si128((__m128i *)(void *)(out + i), bytes);
        const unsigned where = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, ff));
        if (where)
            return i + (unsigned)__builtin_ctz(where);
    }
#endif
    for (; len - i >= 8; i += 8) {
        memcpy(out + i, in + i, 8);
        const unsigned before = sluice_jpeg_bytes_before_ff(in + i);
        if (before < 8)
            return i + before;
    }
    for (; i < len && in[i] != 0xFF; i++)
        out[i] = in[i];
    return i;
}

static sluice_status unstuff(const struct sluice_jpeg *jpeg, struct sluice_jpeg_scan *scan,
                             struct sluice_err *err)
{
    const uint8_t *in = jpeg->scan, *const end = jpeg->scan + jpeg->scan_len;
    uint8_t *out = scan->data->data;
    size_t capacity = 0;
    /* A restart interval has an MCU at least, so that marks cannot ask for more memory than the
     * image has MCUs. */
    const uint64_t num_mcus = (uint64_t)jpeg->mcus_across * jpeg->mcus_down;
    for (;;) {
        const size_t run = sluice_jpeg_copy_before_ff(out, in, (size_t)(end - in));
        in += run;
        out += run;
        if (end - in < 2)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut in its scan");
        if (in[1] == 0) {
            *out++ = 0xFF;
            in += 2;
            continue;
        }
        in++;
        while (in < end && *in == 0xFF)
            in++;
        if (in == end)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut in its scan");
        const unsigned marker = *in++;
        if (marker == MARKER_EOI)
            break;
        if (marker < MARKER_RST0 || marker > MARKER_RST7 || jpeg->restart_interval == 0)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with marker 0x%02x in its scan",
                               marker);
        if (marker != MARKER_RST0 + scan->num_segments % 8)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG restart markers are out of order");
        if (scan->num_segments >= num_mcus)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG of more restart markers than MCUs");
        const sluice_status status =
            push_segment(scan, &capacity, (size_t)(out - scan->data->data), err);
        if (status != SLUICE_OK)
            return status;
    }
    scan->data->len = (size_t)(out - scan->data->data);
    memset(out, 0, SLUICE_JPEG_SCAN_SLACK);
    if (jpeg->restart_interval == 0) {
        scan->num_segments = 1;
        return SLUICE_OK;
    }
    return push_segment(scan, &capacity, scan->data->len, err);
}

sluice_status sluice_jpeg_scan_read(const struct sluice_jpeg *jpeg, struct sluice_buf_pool *pool,
                                    struct sluice_jpeg_scan *out, struct sluice_err *err)
{
    struct sluice_jpeg_scan scan = {0};
    sluice_status status =
        sluice_buf_create(pool, jpeg->scan_len + SLUICE_JPEG_SCAN_SLACK, &scan.data, err);
    if (status == SLUICE_OK)
        status = unstuff(jpeg, &scan, err);
    if (status != SLUICE_OK) {
        sluice_jpeg_scan_clear(&scan);
        return status;
    }
    *out = scan;
    if (!out->segment_ends) {
        out->one_segment_end = out->data->len;
        out->segment_ends = &out->one_segment_end;
    }
    return SLUICE_OK;
}

void sluice_jpeg_scan_clear(struct sluice_jpeg_scan *scan)
{
    sluice_buf_unref(scan->data);
    if (scan->segment_ends != &scan->one_segment_end)
        free(scan->segment_ends);
    *scan = (struct sluice_jpeg_scan){0};
}

void sluice_jpeg_codes_init(struct sluice_jpeg_codes *codes,
                            const struct sluice_jpeg_huffman *huffman)
{
    memset(codes, 0, sizeof(*codes));
    unsigned number = 0;
    uint32_t code = 0;
    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        for (unsigned i = 0; i < huffman->counts[length]; i++, number++, code++) {
            const unsigned symbol = huffman->symbols[number];
            codes->code[symbol] = (uint16_t)code;
            codes->length[symbol] = (uint8_t)length;
        }
    }
}

void sluice_jpeg_ranks_init(struct sluice_jpeg_ranks *ranks,
                            const struct sluice_jpeg_huffman *huffman)
{
    memcpy(ranks->symbols, huffman->symbols, sizeof(ranks->symbols));
    int32_t number = 0, code = 0;
    ranks->limit[0] = 0;
    ranks->offset[0] = 0;
    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        ranks->offset[length] = number - code;
        number += huffman->counts[length];
        code += huffman->counts[length];
        ranks->limit[length] = (uint32_t)code << (16 - length);
    }
    ranks->limit[17] = UINT32_MAX;
}

void sluice_jpeg_lookup_init(struct sluice_jpeg_lookup *lookup,
                             const struct sluice_jpeg_huffman *huffman)
{
    sluice_jpeg_ranks_init(&lookup->ranks, huffman);
    memset(lookup->fast, 0, sizeof(lookup->fast));
    unsigned number = 0;
    uint16_t *at = lookup->fast; /* codes follow each other */
    for (unsigned length = 1; length <= SLUICE_JPEG_LOOKUP_BITS; length++) {
        const uint32_t same = 1u << (SLUICE_JPEG_LOOKUP_BITS - length);
        for (unsigned i = 0; i < huffman->counts[length]; i++, number++) {
            const uint16_t entry = (uint16_t)(length << 8 | huffman->symbols[number]);
            for (uint32_t j = 0; j < same; j++)
                *at++ = entry;
        }
    }
}
