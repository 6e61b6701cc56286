#include "image/image_internal.h"

#include "base/buf.h"
#include "base/checked.h"

#include <string.h>

sluice_status sluice_jpeg_check_frame(const uint8_t *body, size_t len, struct sluice_err *err)
{
    if (len < 6)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG frame header of %zu bytes", len);
    const unsigned precision = body[0], num_components = body[5];
    const uint32_t height = sluice_be16(body + 1), width = sluice_be16(body + 3);
    if (precision != 8)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with %u bits a sample", precision);
    if (width == 0 || height == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG of %u x %u pixels", width, height);
    if (num_components != 1 && num_components != 3 && num_components != 4)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with %u components", num_components);
    if (len != 6 + 3 * (size_t)num_components)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "JPEG frame header of %zu bytes for %u components", len, num_components);
    for (unsigned c = 0; c < num_components; c++) {
        const unsigned h = body[7 + 3 * c] >> 4, v = body[7 + 3 * c] & 15;
        if (h < 1 || h > 4 || v < 1 || v > 4)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG sampling factor %u x %u", h, v);
    }
    return SLUICE_OK;
}

bool sluice_jpeg_next_segment(const uint8_t *bytes, size_t len, size_t *pos,
                              struct sluice_jpeg_segment *segment)
{
    size_t at = *pos;
    unsigned marker = 0;
    /* A stuffed 0xFF, RSTn, SOI and EOI stand alone. */
    while (marker == 0 || (marker >= 0xD0 && marker <= 0xD9)) {
        while (at < len && bytes[at] != 0xFF)
            at++;
        while (at < len && bytes[at] == 0xFF)
            at++;
        if (at >= len)
            return false;
        marker = bytes[at++];
    }
    *segment = (struct sluice_jpeg_segment){.marker = marker, .is_whole = false};
    if (len - at >= 2) {
        const size_t segment_len = sluice_be16(bytes + at);
        segment->body = bytes + at + 2;
        segment->len = segment_len >= 2 ? segment_len - 2 : 0;
        segment->is_whole = segment->len <= len - at - 2;
        *pos = at + 2 + (segment->is_whole ? segment->len : 0);
    }
    return true;
}

void sluice_image_widen_indices(uint8_t *rgb, size_t num_pixels, const uint8_t (*lut)[3])
{
    const uint8_t *indices = rgb + 2 * num_pixels;
    for (size_t i = 0; i < num_pixels; i++)
        memcpy(rgb + 3 * i, lut[indices[i]], 3);
}

void sluice_image_flip_rows(uint8_t *rows, size_t row_bytes, uint32_t height)
{
    for (uint32_t y = 0; y < height / 2; y++) {
        uint8_t *a = rows + y * row_bytes, *b = rows + (height - 1 - y) * row_bytes;
        for (size_t i = 0; i < row_bytes; i++) {
            const uint8_t kept = a[i];
            a[i] = b[i];
            b[i] = kept;
        }
    }
}

sluice_status sluice_image_check_size(uint32_t width, uint32_t height, uint64_t max_pixels,
                                      struct sluice_err *err)
{
    if (width > SLUICE_IMAGE_MAX_SIDE || height > SLUICE_IMAGE_MAX_SIDE)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "image of %u x %u pixels: a side is over %u",
                           width, height, SLUICE_IMAGE_MAX_SIDE);
    if ((uint64_t)width * height > max_pixels)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "image of %u x %u pixels: more than the limit of %llu", width, height,
                           (unsigned long long)max_pixels);
    return SLUICE_OK;
}

sluice_status sluice_image_alloc_rgb(struct sluice_buf_pool *pool, uint32_t width, uint32_t height,
                                     struct sluice_buf **pixels, struct sluice_err *err)
{
    size_t bytes;
    if (!sluice_mul_size((size_t)width * 3, height, &bytes))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "image of %u x %u pixels", width, height);
    struct sluice_buf *buf;
    const sluice_status status = sluice_buf_create(pool, bytes, &buf, err);
    if (status != SLUICE_OK)
        return status;
    buf->len = bytes;
    *pixels = buf;
    return SLUICE_OK;
}

sluice_status sluice_image_writer_reserve(struct sluice_image_writer *writer, size_t extra,
                                          struct sluice_err *err)
{
    const size_t used = writer->file ? writer->file->len : 0;
    if (writer->file && writer->file->capacity - used >= extra)
        return SLUICE_OK;
    size_t wanted;
    if (!sluice_add_size(used, extra, &wanted) || !sluice_add_size(wanted, used, &wanted) ||
        !sluice_add_size(wanted, 16384, &wanted))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an image file");
    struct sluice_buf *larger;
    const sluice_status status = sluice_buf_create(NULL, wanted, &larger, err);
    if (status != SLUICE_OK)
        return status;
    if (writer->file) {
        memcpy(larger->data, writer->file->data, used);
        sluice_buf_unref(writer->file);
    }
    larger->len = used;
    writer->file = larger;
    return SLUICE_OK;
}
