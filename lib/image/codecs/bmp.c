/* Windows bitmaps, as Pillow's BmpImagePlugin reads them: 1, 4, 8, 16, 24 and 32 bits, RLE4 and
 * RLE8. */

#include "base/buf.h"
#include "image/codecs/internal.h"

#include <assert.h>
#include <string.h>

#define FILE_HEADER 14u

enum compression { RAW = 0, RLE8 = 1, RLE4 = 2, BITFIELDS = 3 };

struct bmp {
    uint32_t width, height;
    bool is_top_down;
    unsigned bits;       /* of a pixel, and so of a row */
    unsigned index_bits; /* of an index, which may be fewer (below); 0: no palette */
    enum compression compression;
    uint32_t num_colors;
    uint8_t red, green, blue; /* bytes in a pixel of 24 or 32 bits */
    bool is_565;              /* 16 bits: else 5 bits each */
    size_t palette, pixels;   /* positions in the file; the palette may be cut */
    unsigned palette_step;
};

struct layout {
    uint32_t masks[4];
    unsigned bits;
    bool has_alpha_mask; /* whether masks[3] has to be as it stands here */
    uint8_t red, green, blue;
    bool is_565;
};

static sluice_status cut(size_t len, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "BMP cut in its header, at %zu bytes", len);
}

static sluice_status read_masks(struct bmp *bmp, const uint8_t *masks, bool has_alpha_mask,
                                struct sluice_err *err)
{
    static const struct layout known[] = {
        {{0xFF0000, 0xFF00, 0xFF, 0}, 32, true, 2, 1, 0, false},
        {{0xFF000000, 0xFF0000, 0xFF00, 0}, 32, true, 3, 2, 1, false},
        {{0xFF000000, 0xFF0000, 0xFF00, 0xFF}, 32, true, 3, 2, 1, false},
        {{0xFF, 0xFF00, 0xFF0000, 0xFF000000}, 32, true, 0, 1, 2, false},
        {{0xFF0000, 0xFF00, 0xFF, 0xFF000000}, 32, true, 2, 1, 0, false},
        {{0, 0, 0, 0}, 32, true, 2, 1, 0, false},
        {{0xFF0000, 0xFF00, 0xFF, 0}, 24, false, 2, 1, 0, false},
        {{0xF800, 0x7E0, 0x1F, 0}, 16, false, 0, 0, 0, true},
        {{0x7C00, 0x3E0, 0x1F, 0}, 16, false, 0, 0, 0, false},
    };
    uint32_t found[4] = {0};
    for (int i = 0; i < (has_alpha_mask ? 4 : 3); i++)
        found[i] = sluice_le32(masks + 4 * i);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        const struct layout *layout = &known[i];
        if (layout->bits != bmp->bits || memcmp(layout->masks, found, 3 * sizeof(found[0])) != 0 ||
            (layout->has_alpha_mask && layout->masks[3] != found[3]))
            continue;
        bmp->red = layout->red;
        bmp->green = layout->green;
        bmp->blue = layout->blue;
        bmp->is_565 = layout->is_565;
        return SLUICE_OK;
    }
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "BMP of %u bits with masks %x, %x, %x, %x",
                       bmp->bits, found[0], found[1], found[2], found[3]);
}

/* Whether a palette is the grays of its own indices: Pillow then takes the pixels for gray ones,
 * and those of two colours for single bits, whatever the header says of them. */
static bool is_gray_ramp(const struct bmp *bmp, const uint8_t *bytes, size_t len)
{
    for (uint32_t i = 0; i < bmp->num_colors; i++) {
        const size_t at = bmp->palette + (size_t)i * bmp->palette_step;
        const uint8_t value = (uint8_t)(bmp->num_colors == 2 && i == 1 ? 255 : i);
        if (at + 3 > len || bytes[at] != value || bytes[at + 1] != value || bytes[at + 2] != value)
            return false;
    }
    return true;
}

static sluice_status read_palette(struct bmp *bmp, const uint8_t *bytes, size_t len,
                                  struct sluice_err *err)
{
    if (bmp->num_colors < 1 || bmp->num_colors > 65536)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "BMP of %u colours", bmp->num_colors);
    bmp->index_bits = bmp->compression == RAW ? bmp->bits : 8;
    const bool is_gray = is_gray_ramp(bmp, bytes, len);
    if (is_gray)
        bmp->index_bits = bmp->num_colors == 2 ? 1 : 8;
    if ((!is_gray && bmp->num_colors > 256) ||
        bmp->index_bits > bmp->bits * (bmp->compression ? 8u : 1u) ||
        (bmp->compression != RAW && bmp->index_bits != 8))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "BMP of %u bits with %u colours", bmp->bits,
                           bmp->num_colors);
    return SLUICE_OK;
}

static sluice_status read_header(const uint8_t *bytes, size_t len, struct bmp *bmp,
                                 struct sluice_err *err)
{
    if (len < FILE_HEADER + 4)
        return cut(len, err);
    *bmp = (struct bmp){.red = 2, .green = 1, .blue = 0};
    const uint32_t size = sluice_le32(bytes + FILE_HEADER);
    const uint8_t *header = bytes + FILE_HEADER + 4;
    if (size != 12 && size != 40 && size != 64 && size != 108 && size != 124)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "BMP with a header of %u bytes", size);
    if (len < FILE_HEADER + size)
        return cut(len, err);
    size_t at = FILE_HEADER + size;
    uint32_t compression = RAW;
    if (size == 12) {
        bmp->width = sluice_le16(header);
        bmp->height = sluice_le16(header + 2);
        bmp->bits = sluice_le16(header + 6);
        bmp->palette_step = 3;
    } else {
        bmp->is_top_down = header[7] == 0xFF;
        bmp->width = sluice_le32(header);
        bmp->height = sluice_le32(header + 4);
        if (bmp->is_top_down)
            bmp->height = 0u - bmp->height;
        bmp->bits = sluice_le16(header + 10);
        compression = sluice_le32(header + 12);
        bmp->num_colors = sluice_le32(header + 28);
        bmp->palette_step = 4;
    }
    if (bmp->width == 0 || bmp->height == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "BMP of %u x %u pixels", bmp->width, bmp->height);
    const unsigned bits = bmp->bits;
    if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "BMP of %u bits a pixel", bits);
    if (compression > BITFIELDS || (compression == BITFIELDS && bits < 16) ||
        ((compression == RLE8 || compression == RLE4) && bits > 8))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "BMP of %u bits with compression %u", bits,
                           compression);
    bmp->compression = (enum compression)compression;
    if (compression == BITFIELDS) {
        const bool is_behind = size == 40;
        if (is_behind && len < at + 12)
            return cut(len, err);
        const sluice_status status =
            read_masks(bmp, is_behind ? bytes + at : header + 36, !is_behind, err);
        if (status != SLUICE_OK)
            return status;
        at += is_behind ? 12 : 0;
    }
    if (bmp->num_colors == 0)
        bmp->num_colors = bits < 32 ? 1u << bits : 0;
    bmp->palette = at;
    if (bits <= 8) {
        const sluice_status status = read_palette(bmp, bytes, len, err);
        if (status != SLUICE_OK)
            return status;
        at += (size_t)bmp->num_colors * bmp->palette_step;
    }
    bmp->pixels = sluice_le32(bytes + 10);
    /* Some files give the end of the header in place of the end of the palette. */
    if (bmp->pixels == FILE_HEADER + size && bits <= 8)
        bmp->pixels += (size_t)4 * bmp->num_colors;
    if (bmp->pixels == 0)
        bmp->pixels = at < len ? at : len;
    return SLUICE_OK;
}

static sluice_status probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err)
{
    struct bmp bmp;
    const sluice_status status = read_header(bytes, len, &bmp, err);
    if (status != SLUICE_OK)
        return status;
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_BMP,
        .width = bmp.width,
        .height = bmp.height,
        .num_components = bmp.index_bits ? 1 : 3,
        .h_samp = 1,
        .v_samp = 1,
    };
    return SLUICE_OK;
}

/* 5 or 6 bits to 8, as Pillow has it. */
static uint8_t widen(unsigned value, unsigned max)
{
    return (uint8_t)(value * 255 / max);
}

static void unpack_row(const struct bmp *bmp, const uint8_t *row, const uint8_t (*lut)[3],
                       uint8_t *rgb)
{
    const uint32_t width = bmp->width;
    if (bmp->index_bits) {
        const unsigned bits = bmp->index_bits, mask = (1u << bits) - 1;
        for (uint32_t x = 0; x < width; x++) {
            const size_t bit = (size_t)x * bits;
            memcpy(rgb + 3 * (size_t)x, lut[row[bit >> 3] >> (8 - bits - (bit & 7)) & mask], 3);
        }
    } else if (bmp->bits == 16) {
        for (size_t x = 0; x < width; x++) {
            const unsigned v = sluice_le16(row + 2 * x), shift = bmp->is_565 ? 6 : 5;
            rgb[3 * x] = widen(v >> (5 + shift) & 31, 31);
            rgb[3 * x + 1] = widen(v >> 5 & ((1u << shift) - 1), (1u << shift) - 1);
            rgb[3 * x + 2] = widen(v & 31, 31);
        }
    } else {
        const size_t step = bmp->bits / 8;
        for (size_t x = 0; x < width; x++) {
            rgb[3 * x] = row[step * x + bmp->red];
            rgb[3 * x + 1] = row[step * x + bmp->green];
            rgb[3 * x + 2] = row[step * x + bmp->blue];
        }
    }
}

/* Where the run-length decoder writes: indices in the file's order of rows. */
struct run_writer {
    uint8_t *indices;
    size_t at, len;
};

static void put_index(struct run_writer *out, uint8_t index)
{
    if (out->at < out->len)
        out->indices[out->at] = index;
    out->at++;
}

static void put_zeros(struct run_writer *out, size_t count)
{
    if (out->at < out->len) {
        const size_t room = out->len - out->at;
        memset(out->indices + out->at, 0, count < room ? count : room);
    }
    out->at += count;
}

/* Fills the plane of indices, or less if the data ends before.  Follows Pillow where that differs
 * from the format: an odd run of literal RLE4 pixels loses its last one, a run ends with its row,
 * and the position of a skip's distances. */
static size_t unpack_runs(const struct bmp *bmp, const uint8_t *bytes, size_t len, uint8_t *indices)
{
    const bool is_rle4 = bmp->compression == RLE4;
    const size_t width = bmp->width;
    assert(width > 0);
    struct run_writer out = {.indices = indices, .len = width * bmp->height};
    size_t pos = bmp->pixels < len ? bmp->pixels : len, x = 0;
    while (out.at < out.len && len - pos >= 2) {
        const unsigned count = bytes[pos], value = bytes[pos + 1];
        pos += 2;
        if (count > 0) {
            const size_t run = x + count <= width ? count : x < width ? width - x : 0;
            for (size_t i = 0; i < run; i++)
                put_index(&out, (uint8_t)(!is_rle4 ? value : i % 2 == 0 ? value >> 4 : value & 15));
            x += run;
        } else if (value == 0) {
            put_zeros(&out, (width - out.at % width) % width);
            x = 0;
        } else if (value == 1) {
            break;
        } else if (value == 2) {
            /* A skip.  Pillow reads its columns and rows from the two bytes after the usual ones.
             */
            if (len - pos < 4)
                break;
            put_zeros(&out, bytes[pos + 2] + bytes[pos + 3] * width);
            x = out.at % width;
            pos += 4;
        } else {
            const size_t wanted = is_rle4 ? value / 2 : value;
            const size_t num_bytes = wanted < len - pos ? wanted : len - pos;
            for (size_t i = 0; i < num_bytes; i++) {
                if (is_rle4) {
                    put_index(&out, bytes[pos + i] >> 4);
                    put_index(&out, bytes[pos + i] & 15);
                } else {
                    put_index(&out, bytes[pos + i]);
                }
            }
            pos += num_bytes;
            if (num_bytes < wanted)
                break;
            x += value;
            if (pos % 2 != 0 && pos < len)
                pos++;
        }
    }
    return out.at < out.len ? out.at : out.len;
}

/* The bytes of the file are sufficient for this many pixels at least; checked before any memory is
 * taken for them.  Two bytes of RLE stand for at most 255 rows and 255 pixels. */
static sluice_status check_length(const struct bmp *bmp, size_t len, struct sluice_err *err)
{
    const uint64_t left = bmp->pixels < len ? len - bmp->pixels : 0;
    bool is_cut;
    if (bmp->compression == RAW || bmp->compression == BITFIELDS) {
        const uint64_t stride = ((uint64_t)bmp->width * bmp->bits + 31) / 32 * 4;
        const unsigned bits = bmp->index_bits ? bmp->index_bits : bmp->bits;
        is_cut = left < stride * (bmp->height - 1) + ((uint64_t)bmp->width * bits + 7) / 8;
    } else {
        is_cut = left / 2 * 256 < bmp->height;
    }
    return is_cut ? sluice_fail(err, SLUICE_E_CORRUPT, "BMP cut in its pixels, at %zu bytes", len)
                  : SLUICE_OK;
}

static void fill_lut(const struct bmp *bmp, const uint8_t *bytes, size_t len, uint8_t lut[256][3])
{
    for (unsigned i = 0; i < 256; i++)
        memset(lut[i], (int)i, 3);
    if (bmp->index_bits == 0)
        return;
    if (bmp->num_colors <= 256 && !is_gray_ramp(bmp, bytes, len)) {
        for (uint32_t i = 0; i < bmp->num_colors; i++) {
            const size_t at = bmp->palette + (size_t)i * bmp->palette_step;
            if (at + bmp->palette_step > len)
                break;
            lut[i][0] = bytes[at + 2];
            lut[i][1] = bytes[at + 1];
            lut[i][2] = bytes[at];
        }
    } else if (bmp->index_bits == 1) {
        memset(lut[1], 255, 3);
    }
}

static sluice_status decode_to(const struct bmp *bmp, const uint8_t *bytes, size_t len,
                               uint8_t *rgb, struct sluice_err *err)
{
    uint8_t lut[256][3];
    fill_lut(bmp, bytes, len, lut);
    const size_t num_pixels = (size_t)bmp->width * bmp->height;
    const bool is_rle = bmp->compression == RLE8 || bmp->compression == RLE4;
    if (is_rle) {
        uint8_t *indices = rgb + 2 * num_pixels;
        const size_t filled = unpack_runs(bmp, bytes, len, indices);
        if (filled < num_pixels)
            return sluice_fail(err, SLUICE_E_CORRUPT, "BMP with runs for %zu of %zu pixels", filled,
                               num_pixels);
        if (!bmp->is_top_down)
            sluice_image_flip_rows(indices, bmp->width, bmp->height);
        sluice_image_widen_indices(rgb, num_pixels, (const uint8_t(*)[3])lut);
        return SLUICE_OK;
    }
    const size_t stride = ((size_t)bmp->width * bmp->bits + 31) / 32 * 4;
    for (size_t y = 0; y < bmp->height; y++) {
        const size_t to = bmp->is_top_down ? y : bmp->height - 1 - y;
        unpack_row(bmp, bytes + bmp->pixels + y * stride, (const uint8_t(*)[3])lut,
                   rgb + to * bmp->width * 3);
    }
    return SLUICE_OK;
}

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    struct bmp bmp;
    sluice_status status = read_header(bytes, len, &bmp, err);
    if (status == SLUICE_OK)
        status = check_length(&bmp, len, err);
    struct sluice_buf *pixels = NULL;
    if (status == SLUICE_OK)
        status = sluice_image_alloc_rgb(pool, info->width, info->height, &pixels, err);
    if (status == SLUICE_OK)
        status = decode_to(&bmp, bytes, len, pixels->data, err);
    if (status == SLUICE_OK)
        *rgb = (struct sluice_rgb){info->width, info->height, pixels};
    else
        sluice_buf_unref(pixels);
    return status;
}

const struct sluice_image_type sluice_image_bmp = {.probe = probe, .decode = decode};
