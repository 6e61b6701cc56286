#include "image/orientation.h"

#include "base/buf.h"
#include "image/codecs/tiff_directory.h"
#include "image/image_internal.h"

#include <string.h>

bool sluice_orientation_swaps(uint32_t orientation)
{
    return orientation >= 5 && orientation <= 8;
}

/* EXIF, with or without the six bytes that stand before it in a JPEG. */
static uint32_t orientation_in(const uint8_t *exif, size_t len)
{
    struct sluice_tiff_directory directory;
    if (len >= 6 && memcmp(exif, "Exif\0\0", 6) == 0) {
        exif += 6;
        len -= 6;
    }
    if (!sluice_tiff_directory_find(exif, len, &directory))
        return 1;
    const uint32_t found = sluice_tiff_directory_get(&directory, SLUICE_TIFF_ORIENTATION, 1);
    return found >= 1 && found <= 8 ? found : 1;
}

/* The first EXIF segment before the first scan, as Pillow takes it. */
static uint32_t in_jpeg(const uint8_t *bytes, size_t len)
{
    size_t pos = 2;
    struct sluice_jpeg_segment segment;
    while (sluice_jpeg_next_segment(bytes, len, &pos, &segment)) {
        if (segment.marker == 0xDA || !segment.is_whole)
            break;
        if (segment.marker == 0xE1 && segment.len >= 6 && memcmp(segment.body, "Exif\0", 5) == 0)
            return orientation_in(segment.body, segment.len);
    }
    return 1;
}

static uint32_t in_png(const uint8_t *bytes, size_t len)
{
    for (size_t pos = 8; len - pos >= 12;) {
        const size_t chunk_len = sluice_be32(bytes + pos);
        if (chunk_len > len - pos - 12)
            break;
        if (memcmp(bytes + pos + 4, "eXIf", 4) == 0)
            return orientation_in(bytes + pos + 8, chunk_len);
        pos += 12 + chunk_len;
    }
    return 1;
}

static uint32_t in_webp(const uint8_t *bytes, size_t len)
{
    if (memcmp(bytes + 12, "VP8X", 4) != 0)
        return 1;
    for (size_t pos = 12; len - pos >= 8;) {
        const size_t chunk_len = sluice_le32(bytes + pos + 4);
        if (chunk_len > len - pos - 8)
            break;
        if (memcmp(bytes + pos, "EXIF", 4) == 0)
            return orientation_in(bytes + pos + 8, chunk_len);
        pos += 8 + chunk_len;
        pos += pos < len ? chunk_len & 1 : 0;
    }
    return 1;
}

uint32_t sluice_image_orientation(const struct sluice_image_info *info, const uint8_t *bytes,
                                  size_t len)
{
    switch (info->format) {
    case SLUICE_IMAGE_JPEG:
        return in_jpeg(bytes, len);
    case SLUICE_IMAGE_PNG:
        return in_png(bytes, len);
    case SLUICE_IMAGE_WEBP:
        return in_webp(bytes, len);
    default:
        return 1;
    }
}

/* PNGs and WebPs may have their EXIF behind the pixels. */
bool sluice_image_head_has_orientation(const struct sluice_image_info *info, const uint8_t *bytes,
                                       size_t len, uint64_t file_bytes)
{
    if (len >= file_bytes)
        return true;
    if (info->format != SLUICE_IMAGE_JPEG)
        return info->format != SLUICE_IMAGE_PNG && info->format != SLUICE_IMAGE_WEBP;
    size_t pos = 2;
    struct sluice_jpeg_segment segment;
    while (sluice_jpeg_next_segment(bytes, len, &pos, &segment)) {
        if (segment.marker == 0xDA)
            return true;
        if (!segment.is_whole)
            return false;
        if (segment.marker == 0xE1 && segment.len >= 6 && memcmp(segment.body, "Exif\0", 5) == 0)
            return true;
    }
    return false;
}

struct sluice_box sluice_orientation_stored_box(uint32_t orientation, const struct sluice_box *box,
                                                uint32_t width, uint32_t height)
{
    struct sluice_box stored = *box;
    if (sluice_orientation_swaps(orientation))
        stored = (struct sluice_box){box->top, box->left, box->height, box->width};
    /* 2, 3, 7 and 8 turn the columns around, 3, 4, 6 and 7 the rows. */
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        stored.left = width - stored.left - stored.width;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        stored.top = height - stored.top - stored.height;
    return stored;
}

sluice_status sluice_rgb_orient(struct sluice_rgb *rgb, uint32_t orientation,
                                struct sluice_buf_pool *pool, struct sluice_err *err)
{
    if (orientation < 2 || orientation > 8)
        return SLUICE_OK;
    const bool swaps = sluice_orientation_swaps(orientation);
    const uint32_t width = swaps ? rgb->height : rgb->width;
    const uint32_t height = swaps ? rgb->width : rgb->height;
    struct sluice_buf *pixels;
    const sluice_status status = sluice_image_alloc_rgb(pool, width, height, &pixels, err);
    if (status != SLUICE_OK)
        return status;
    /* The stored place of the first upright pixel, and the steps to its neighbours. */
    const struct sluice_box corner = sluice_orientation_stored_box(
        orientation, &(struct sluice_box){.width = 1, .height = 1}, rgb->width, rgb->height);
    const ptrdiff_t stride = (ptrdiff_t)rgb->width * 3;
    const bool is_left =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool is_up = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const ptrdiff_t along = is_left ? -3 : 3, down = is_up ? -stride : stride;
    const ptrdiff_t step = swaps ? down : along, row_step = swaps ? along : down;
    const uint8_t *first =
        rgb->pixels->data + (ptrdiff_t)corner.top * stride + (ptrdiff_t)corner.left * 3;
    uint8_t *out = pixels->data;
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *from = first + (ptrdiff_t)y * row_step;
        for (uint32_t x = 0; x < width; x++, out += 3)
            memcpy(out, from + (ptrdiff_t)x * step, 3);
    }
    sluice_buf_unref(rgb->pixels);
    *rgb = (struct sluice_rgb){width, height, pixels};
    return SLUICE_OK;
}
