#include "image/jpeg/crop_write.h"

#include "base/buf.h"
#include "image/image_internal.h"

/* A crop's bytes: its markers, and its bits with stuffing. */

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

bool sluice_jpeg_crop_get_head(const uint8_t head[SLUICE_JPEG_CROP_HEAD],
                               struct sluice_jpeg_crop_box *window)
{
    if (memcmp(head, head_start, sizeof(head_start)) != 0)
        return false;
    const uint8_t *in = head + sizeof(head_start);
    *window = (struct sluice_jpeg_crop_box){
        .full_width = sluice_be16(in),
        .full_height = sluice_be16(in + 2),
        .left = sluice_be16(in + 4),
        .top = sluice_be16(in + 6),
    };
    return true;
}

static uint8_t *put_quant(uint8_t *out, const uint16_t quant[64], unsigned table)
{
    bool is_16_bit = false;
    for (unsigned i = 0; i < 64; i++)
        is_16_bit = is_16_bit || quant[i] > 255;
    *out++ = (uint8_t)((is_16_bit ? 0x10 : 0) | table);
    for (unsigned i = 0; i < 64; i++) {
        if (is_16_bit)
            *out++ = (uint8_t)(quant[i] >> 8);
        *out++ = (uint8_t)quant[i];
    }
    return out;
}

static uint8_t *put_huffman(uint8_t *out, const struct sluice_jpeg_huffman *huffman, unsigned table)
{
    *out++ = (uint8_t)table;
    memcpy(out, huffman->counts + 1, 16);
    memcpy(out + 16, huffman->symbols, huffman->num_symbols);
    return out + 16 + huffman->num_symbols;
}

/* Writes the length of the segment that began at `start`. */
static void close_segment(uint8_t *start, const uint8_t *out)
{
    put16(start + 2, (uint32_t)(out - start) - 2);
}

static uint8_t *put_bytes(uint8_t *out, const void *bytes, size_t len)
{
    memcpy(out, bytes, len);
    return out + len;
}

/* Whether libjpeg would take the three components for something else than YCbCr without JFIF. */
static bool needs_jfif(const struct sluice_jpeg *jpeg)
{
    return jpeg->has_jfif && jpeg->num_components == 3 &&
           (jpeg->has_adobe || (jpeg->components[0].id == 'R' && jpeg->components[1].id == 'G' &&
                                jpeg->components[2].id == 'B'));
}

size_t sluice_jpeg_crop_put_headers(uint8_t headers[SLUICE_JPEG_CROP_MAX_HEADERS],
                                    const struct sluice_jpeg *jpeg,
                                    const struct sluice_jpeg_crop_box *window)
{
    static const uint8_t jfif[] = {0xFF, 0xE0, 0, 16, 'J', 'F', 'I', 'F', 0,
                                   1,    1,    0, 0,  1,   0,   1,   0,   0};
    const uint8_t adobe[] = {0xFF, 0xEE, 0,   14, 'A', 'd', 'o', 'b',
                             'e',  0,    100, 0,  0,   0,   0,   jpeg->adobe_transform};
    const unsigned n = jpeg->num_components;
    uint8_t *out = headers + SLUICE_JPEG_CROP_HEAD;
    sluice_jpeg_crop_put_head(headers, window);
    if (needs_jfif(jpeg))
        out = put_bytes(out, jfif, sizeof(jfif));
    if (jpeg->has_adobe)
        out = put_bytes(out, adobe, sizeof(adobe));
    unsigned quant_made = 0, dc_made = 0, ac_made = 0;
    uint8_t *segment = out;
    out = put16(out, 0xFFDB) + 2;
    for (unsigned c = 0; c < n; c++) {
        const unsigned quant = jpeg->components[c].quant;
        if (!(quant_made >> quant & 1))
            out = put_quant(out, jpeg->quant[quant], quant);
        quant_made |= 1u << quant;
    }
    close_segment(segment, out);
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
    segment = out;
    out = put16(out, 0xFFC4) + 2;
    for (unsigned c = 0; c < n; c++) {
        const unsigned dc = jpeg->components[c].dc, ac = jpeg->components[c].ac;
        if (!(dc_made >> dc & 1))
            out = put_huffman(out, &jpeg->dc[dc], dc);
        if (!(ac_made >> ac & 1))
            out = put_huffman(out, &jpeg->ac[ac], 0x10 | ac);
        dc_made |= 1u << dc;
        ac_made |= 1u << ac;
    }
    close_segment(segment, out);
    out = put16(out, 0xFFDD);
    out = put16(out, 4);
    out = put16(out, jpeg->restart_interval);
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
    return (size_t)(out - headers);
}

uint8_t *sluice_jpeg_put_stuffed(uint8_t *out, const uint8_t *end, const uint8_t *in, size_t len)
{
    const uint8_t *const in_end = in + len;
    /* Eight bytes at a time while there is room. */
    while (in_end - in >= 8 && end - out >= 10) {
        memcpy(out, in, 8);
        const unsigned run = sluice_jpeg_bytes_before_ff(in);
        if (run == 8) {
            in += 8;
            out += 8;
            continue;
        }
        in += run + 1;
        out += run + 1;
        *out++ = 0;
    }
    while (in < in_end) {
        if (end - out < 2)
            return NULL;
        *out++ = *in;
        if (*in++ == 0xFF)
            *out++ = 0;
    }
    return out;
}

uint8_t *sluice_jpeg_put_segments(uint8_t *out, const uint8_t *end,
                                  const struct sluice_jpeg_scan *scan)
{
    const uint8_t *in = scan->data->data;
    for (size_t i = 0; i < scan->num_segments; i++) {
        if (i > 0 && end - out < 2)
            return NULL;
        if (i > 0)
            out = put16(out, 0xFFD0 | ((i - 1) & 7));
        const uint8_t *const in_end = scan->data->data + scan->segment_ends[i];
        out = sluice_jpeg_put_stuffed(out, end, in, (size_t)(in_end - in));
        if (!out)
            return NULL;
        in = in_end;
    }
    return out;
}
