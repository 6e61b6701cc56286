/* Image files: header and pixels.  Whatever the bytes, a decode ends in pixels of the
 * announced size or in a status with words, and the probe agrees with it.  A part of the
 * image decodes to the pixels of the whole, or fails as the whole does. */

#include "base/buf.h"
#include "image/codecs/codec.h"

#include "fuzz.h"

static void check_part(struct sluice_codec *codec, const uint8_t *data, size_t size,
                       const struct sluice_image_info *info, sluice_status want,
                       const struct sluice_rgb *all)
{
    /* Anywhere, but the same for the same bytes. */
    uint32_t draw = (uint32_t)size * 2654435761u;
    for (size_t i = 0; i < size; i += 1 + size / 64)
        draw = draw * 31 + data[i];
    struct sluice_box box = {.left = draw % info->width, .top = (draw >> 8) % info->height};
    box.width = 1 + (draw >> 16) % (info->width - box.left);
    box.height = 1 + (draw >> 20) % (info->height - box.top);
    struct sluice_rgb part = {0};
    const sluice_status status =
        sluice_codec_decode_region(codec, data, size, &box, 64 * 1024, NULL, &part, NULL);
    FUZZ_CHECK(status == want);
    if (status != SLUICE_OK)
        return;
    for (uint32_t y = 0; y < box.height; y++) {
        const size_t from = ((size_t)(box.top + y) * all->width + box.left) * 3;
        FUZZ_CHECK(memcmp(part.pixels->data + (size_t)y * box.width * 3, all->pixels->data + from,
                          (size_t)box.width * 3) == 0);
    }
    sluice_buf_unref(part.pixels);
}

/* A mask is an image that decodes, with a number for each pixel. */
static void check_mask(const uint8_t *data, size_t size, const struct sluice_image_info *info,
                       sluice_status want)
{
    struct sluice_buf *values = NULL;
    if ((uint64_t)info->width * info->height > 64 * 1024 ||
        sluice_png_decode_mask(data, size, &values, NULL) != SLUICE_OK)
        return;
    FUZZ_CHECK(want == SLUICE_OK && values->len == (size_t)info->width * info->height);
    sluice_buf_unref(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sluice_codec *codec;
    if (!codec && sluice_codec_create(&codec, NULL) != SLUICE_OK)
        abort();
    struct sluice_image_info info;
    struct sluice_err err = {{0}};
    const sluice_status probe_status = sluice_image_probe(data, size, &info, &err);
    FUZZ_CHECK((probe_status == SLUICE_OK) == (err.text[0] == 0));

    struct sluice_rgb rgb = {0};
    err.text[0] = 0;
    const sluice_status status =
        sluice_codec_decode(codec, data, size, 64 * 1024, NULL, &rgb, &err);
    if (status == SLUICE_OK) {
        if (probe_status != SLUICE_OK || err.text[0] || rgb.width != info.width ||
            rgb.height != info.height || rgb.pixels->len != (size_t)rgb.width * rgb.height * 3)
            abort();
    } else if (!err.text[0] || rgb.pixels) {
        abort();
    }
    if (probe_status == SLUICE_OK)
        check_part(codec, data, size, &info, status, &rgb);
    if (probe_status == SLUICE_OK)
        check_mask(data, size, &info, status);
    sluice_buf_unref(rgb.pixels);
    return 0;
}
