/* The first frame of a GIF, as Pillow's GifImagePlugin and GifDecode.c read it. */

#include "base/buf.h"
#include "image/codecs/internal.h"

#include <string.h>

#define SCREEN_HEADER 13u
#define MAX_CODE_BITS 12u
#define NUM_CODES (1u << MAX_CODE_BITS)

struct gif {
    uint32_t width, height; /* of the screen, as wide and high as the frame asks for */
    uint32_t left, top, frame_width, frame_height;
    const uint8_t *palette; /* or NULL: gray */
    unsigned num_colors;
    uint8_t fill; /* index of what the frame leaves */
    bool is_interlaced;
    uint8_t code_bits; /* of a pixel's code */
    size_t data;       /* position of the first block */
};

static sluice_status cut(size_t len, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "GIF cut before its pixels, at %zu bytes", len);
}

/* A palette that holds the grays of its indices stands for none. */
static bool is_gray_ramp(const uint8_t *palette, unsigned num_colors)
{
    for (unsigned i = 0; i < num_colors; i++) {
        if (palette[3 * i] != i || palette[3 * i + 1] != i || palette[3 * i + 2] != i)
            return false;
    }
    return true;
}

static sluice_status read_palette(struct gif *gif, const uint8_t *bytes, size_t len, unsigned flags,
                                  size_t *pos, struct sluice_err *err)
{
    if (!(flags & 0x80))
        return SLUICE_OK;
    const unsigned num_colors = 2u << (flags & 7);
    if (len - *pos < 3 * (size_t)num_colors)
        return cut(len, err);
    const bool is_gray = is_gray_ramp(bytes + *pos, num_colors);
    gif->palette = is_gray ? NULL : bytes + *pos;
    gif->num_colors = is_gray ? 0 : num_colors;
    *pos += 3 * (size_t)num_colors;
    return SLUICE_OK;
}

/* `pos` stands at an extension's label. */
static sluice_status read_extension(struct gif *gif, const uint8_t *bytes, size_t len, size_t *pos,
                                    struct sluice_err *err)
{
    if (len - *pos < 2)
        return cut(len, err);
    const bool is_control = bytes[*pos] == 0xF9;
    size_t at = *pos + 1;
    for (bool is_first = true;; is_first = false) {
        if (at >= len || len - at - 1 < bytes[at])
            return cut(len, err);
        const unsigned block = bytes[at];
        if (is_control && is_first) {
            if (block < 4)
                return sluice_fail(err, SLUICE_E_CORRUPT, "GIF with a control block of %u bytes",
                                   block);
            if (bytes[at + 1] & 1)
                gif->fill = bytes[at + 4];
        }
        at += 1 + block;
        if (block == 0)
            break;
    }
    *pos = at;
    return SLUICE_OK;
}

/* `pos` stands behind the comma. */
static sluice_status read_frame(struct gif *gif, const uint8_t *bytes, size_t len, size_t pos,
                                struct sluice_err *err)
{
    if (len - pos < 9)
        return cut(len, err);
    const uint8_t *frame = bytes + pos;
    gif->left = sluice_le16(frame);
    gif->top = sluice_le16(frame + 2);
    gif->frame_width = sluice_le16(frame + 4);
    gif->frame_height = sluice_le16(frame + 6);
    gif->is_interlaced = frame[8] & 0x40;
    if (gif->left == 0 && gif->frame_width == 0) { /* to Pillow, the whole screen */
        gif->top = 0;
        gif->frame_width = gif->width;
        gif->frame_height = gif->height;
    }
    if (gif->frame_width == 0 || gif->frame_height == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "GIF with a frame of %u x %u pixels",
                           gif->frame_width, gif->frame_height);
    if (gif->left + gif->frame_width > gif->width)
        gif->width = gif->left + gif->frame_width;
    if (gif->top + gif->frame_height > gif->height)
        gif->height = gif->top + gif->frame_height;
    pos += 9;
    const sluice_status status = read_palette(gif, bytes, len, frame[8], &pos, err);
    if (status != SLUICE_OK)
        return status;
    if (pos >= len)
        return cut(len, err);
    gif->code_bits = bytes[pos];
    gif->data = pos + 1;
    if (gif->code_bits > MAX_CODE_BITS)
        return sluice_fail(err, SLUICE_E_CORRUPT, "GIF with codes of %u bits", gif->code_bits);
    return SLUICE_OK;
}

static sluice_status read_header(const uint8_t *bytes, size_t len, struct gif *gif,
                                 struct sluice_err *err)
{
    if (len < SCREEN_HEADER)
        return cut(len, err);
    *gif = (struct gif){.width = sluice_le16(bytes + 6), .height = sluice_le16(bytes + 8)};
    size_t pos = SCREEN_HEADER;
    sluice_status status = read_palette(gif, bytes, len, bytes[10], &pos, err);
    while (status == SLUICE_OK) {
        if (pos >= len)
            return cut(len, err);
        const uint8_t tag = bytes[pos++];
        if (tag == ';')
            return sluice_fail(err, SLUICE_E_CORRUPT, "GIF without an image");
        if (tag == ',')
            return read_frame(gif, bytes, len, pos, err);
        if (tag == '!')
            status = read_extension(gif, bytes, len, &pos, err);
        /* Pillow passes over other bytes between the blocks. */
    }
    return status;
}

static sluice_status probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err)
{
    struct gif gif;
    const sluice_status status = read_header(bytes, len, &gif, err);
    if (status != SLUICE_OK)
        return status;
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_GIF,
        .width = gif.width,
        .height = gif.height,
        .num_components = 1,
        .h_samp = 1,
        .v_samp = 1,
    };
    return SLUICE_OK;
}

/* The codes of a frame, as bits of the blocks' bytes; lowest first. */
struct code_reader {
    const uint8_t *at, *end;
    size_t left_in_block;
    uint32_t bits;
    unsigned num_bits;
};

/* False: the data has ended.  A block is read only if all of it is there. */
static bool next_code(struct code_reader *reader, unsigned code_bits, unsigned *code)
{
    while (reader->num_bits < code_bits) {
        if (reader->left_in_block == 0) {
            const size_t left = (size_t)(reader->end - reader->at);
            if (left < 1 || left < 1 + (size_t)reader->at[0])
                return false;
            reader->left_in_block = *reader->at++;
            continue;
        }
        reader->bits |= (uint32_t)*reader->at++ << reader->num_bits;
        reader->num_bits += 8;
        reader->left_in_block--;
    }
    *code = reader->bits & ((1u << code_bits) - 1);
    reader->bits >>= code_bits;
    reader->num_bits -= code_bits;
    return true;
}

/* Where the next pixel goes.  Interlaced rows come in four passes. */
struct cursor {
    uint8_t *plane;
    size_t stride;
    uint32_t x, y, width, height, step;
    unsigned pass;
    bool is_full;
};

static void put_pixel(struct cursor *cursor, uint8_t value)
{
    static const uint8_t starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    cursor->plane[cursor->y * cursor->stride + cursor->x] = value;
    if (++cursor->x < cursor->width)
        return;
    cursor->x = 0;
    cursor->y += cursor->step;
    while (cursor->y >= cursor->height) {
        if (cursor->step == 1 || cursor->pass == 3) {
            cursor->is_full = true;
            return;
        }
        cursor->pass++;
        cursor->y = starts[cursor->pass];
        cursor->step = steps[cursor->pass];
    }
}

/* Strings of pixels: a code is a string's code with one pixel behind it. */
struct strings {
    uint16_t prefix[NUM_CODES];
    uint8_t last[NUM_CODES];
    uint8_t text[NUM_CODES];
};

static sluice_status unpack_codes(const struct gif *gif, const uint8_t *bytes, size_t len,
                                  struct cursor *cursor, struct sluice_err *err)
{
    struct strings strings;
    struct code_reader reader = {.at = bytes + gif->data, .end = bytes + len};
    const unsigned clear = 1u << gif->code_bits;
    unsigned next = clear + 2, code_bits = gif->code_bits + 1u, previous = 0, code;
    uint8_t first = 0; /* pixel of the string before */
    bool is_begun = false;
    while (!cursor->is_full && next_code(&reader, code_bits, &code)) {
        if (code == clear) {
            next = clear + 2;
            code_bits = gif->code_bits + 1u;
            is_begun = false;
            continue;
        }
        if (code == clear + 1)
            return sluice_fail(err, SLUICE_E_CORRUPT, "GIF that ends before its last pixel");
        if (!is_begun) {
            if (code > clear)
                return sluice_fail(err, SLUICE_E_CORRUPT, "GIF with an impossible code");
            first = (uint8_t)code;
            previous = code;
            is_begun = true;
            put_pixel(cursor, first);
            continue;
        }
        if (code > next)
            return sluice_fail(err, SLUICE_E_CORRUPT, "GIF with an impossible code");
        const unsigned given = code;
        size_t from = sizeof(strings.text);
        if (code == next) { /* of the string that this code makes: the last with its own first */
            strings.text[--from] = first;
            code = previous;
        }
        while (code >= clear) {
            if (from == 0 || code >= NUM_CODES)
                return sluice_fail(err, SLUICE_E_CORRUPT, "GIF with an impossible code");
            strings.text[--from] = strings.last[code];
            code = strings.prefix[code];
        }
        first = (uint8_t)code;
        if (next < NUM_CODES) {
            strings.last[next] = first;
            strings.prefix[next] = (uint16_t)previous;
            if (next == (1u << code_bits) - 1 && code_bits < MAX_CODE_BITS)
                code_bits++;
            next++;
        }
        previous = given;
        put_pixel(cursor, first);
        while (from < sizeof(strings.text) && !cursor->is_full)
            put_pixel(cursor, strings.text[from++]);
    }
    return cursor->is_full
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_CORRUPT, "GIF cut in its pixels, at %zu bytes", len);
}

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    struct gif gif;
    sluice_status status = read_header(bytes, len, &gif, err);
    struct sluice_buf *pixels = NULL;
    if (status == SLUICE_OK)
        status = sluice_image_alloc_rgb(pool, info->width, info->height, &pixels, err);
    if (status == SLUICE_OK) {
        const size_t num_pixels = (size_t)gif.width * gif.height;
        uint8_t *plane = pixels->data + 2 * num_pixels;
        memset(plane, gif.fill, num_pixels);
        struct cursor cursor = {
            .plane = plane + (size_t)gif.top * gif.width + gif.left,
            .stride = gif.width,
            .width = gif.frame_width,
            .height = gif.frame_height,
            .step = gif.is_interlaced ? 8 : 1,
        };
        status = unpack_codes(&gif, bytes, len, &cursor, err);
        uint8_t lut[256][3];
        for (unsigned i = 0; i < 256; i++)
            memset(lut[i], (int)i, 3);
        if (gif.palette)
            memcpy(lut, gif.palette, 3 * (size_t)gif.num_colors);
        sluice_image_widen_indices(pixels->data, num_pixels, (const uint8_t(*)[3])lut);
    }
    if (status == SLUICE_OK)
        *rgb = (struct sluice_rgb){info->width, info->height, pixels};
    else
        sluice_buf_unref(pixels);
    return status;
}

const struct sluice_image_type sluice_image_gif = {.probe = probe, .decode = decode};
