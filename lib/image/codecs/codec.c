#include "image/codecs/codec.h"

#include "base/buf.h"
#include "image/codecs/internal.h"
#include "image/jpeg/index.h"
#include "image/jpeg/window.h"

#include <stdlib.h>
#include <string.h>

sluice_status sluice_codec_create(struct sluice_codec **out, struct sluice_err *err)
{
    struct sluice_codec *codec = calloc(1, sizeof(*codec));
    if (!codec)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a codec");
    const sluice_status status = sluice_jpeg_window_create(&codec->window, err);
    if (status != SLUICE_OK) {
        free(codec);
        return status;
    }
    *out = codec;
    return SLUICE_OK;
}

void sluice_codec_destroy(struct sluice_codec *codec)
{
    if (!codec)
        return;
    sluice_jpeg_window_destroy(codec->window);
    free(codec->row);
    free(codec);
}

/* Reads the header and refuses an image of more than max_pixels. */
static sluice_status probe_within(const uint8_t *bytes, size_t len, uint64_t max_pixels,
                                  struct sluice_image_info *info, struct sluice_err *err)
{
    const sluice_status status = sluice_image_probe(bytes, len, info, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_image_check_size(info->width, info->height, max_pixels, err);
}

/* Tries our own decoder; whatever it declines is left to libjpeg-turbo.  Without SIMD kernels it is
 * not tried, because libjpeg-turbo with its own is faster. */
static bool decode_window(struct sluice_codec *codec, const struct sluice_image_info *info,
                          const uint8_t *bytes, size_t len, const struct sluice_box *box,
                          struct sluice_buf_pool *pool, struct sluice_rgb *rgb)
{
    const struct sluice_jpeg_window_kernels *kernels =
        sluice_jpeg_window_kernels_for(sluice_cpu_level());
    return kernels != &sluice_jpeg_window_kernels_c && info->format == SLUICE_IMAGE_JPEG &&
           !info->is_progressive &&
           sluice_jpeg_window_decode(codec->window, kernels, bytes, len, box, codec->index, pool,
                                     rgb, NULL) == SLUICE_OK;
}

bool sluice_codec_uses_index(void)
{
    return sluice_jpeg_window_kernels_for(sluice_cpu_level()) != &sluice_jpeg_window_kernels_c;
}

void sluice_codec_set_index(struct sluice_codec *codec, const struct sluice_jpeg_index *index)
{
    codec->index = index;
}

/* For a file that was read in part: the rest must not be used. */
static sluice_status fail_partial(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "a part of the JPEG does not do");
}

static sluice_status decode_all(struct sluice_codec *codec, const struct sluice_image_info *info,
                                const uint8_t *bytes, size_t len, uint64_t max_pixels,
                                struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                                struct sluice_err *err)
{
    static const struct sluice_image_type *const types[] = {
        [SLUICE_IMAGE_PNG] = &sluice_image_png,   [SLUICE_IMAGE_WEBP] = &sluice_image_webp,
        [SLUICE_IMAGE_BMP] = &sluice_image_bmp,   [SLUICE_IMAGE_GIF] = &sluice_image_gif,
        [SLUICE_IMAGE_TIFF] = &sluice_image_tiff, [SLUICE_IMAGE_PNM] = &sluice_image_pnm,
    };
    if (info->format == SLUICE_IMAGE_JPEG)
        return sluice_jpeg_decode(codec, bytes, len, max_pixels, pool, rgb, err);
    return types[info->format]->decode(info, bytes, len, pool, rgb, err);
}

sluice_status sluice_codec_decode(struct sluice_codec *codec, const uint8_t *bytes, size_t len,
                                  uint64_t max_pixels, struct sluice_buf_pool *pool,
                                  struct sluice_rgb *rgb, struct sluice_err *err)
{
    if (max_pixels == 0)
        max_pixels = SLUICE_IMAGE_MAX_PIXELS;
    struct sluice_image_info info;
    const sluice_status status = probe_within(bytes, len, max_pixels, &info, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_box whole = {.width = info.width, .height = info.height};
    if (decode_window(codec, &info, bytes, len, &whole, pool, rgb))
        return SLUICE_OK;
    if (codec->index && codec->index->is_partial)
        return fail_partial(err);
    return decode_all(codec, &info, bytes, len, max_pixels, pool, rgb, err);
}

/* Moves the box to the start of its image: a copy would be as large again. */
static void cut_box(struct sluice_rgb *rgb, const struct sluice_box *box)
{
    const size_t row_bytes = (size_t)box->width * 3, stride = (size_t)rgb->width * 3;
    uint8_t *to = rgb->pixels->data;
    const uint8_t *from = to + box->top * stride + (size_t)box->left * 3;
    for (uint32_t y = 0; y < box->height; y++)
        memmove(to + y * row_bytes, from + y * stride, row_bytes);
    rgb->width = box->width;
    rgb->height = box->height;
    rgb->pixels->len = row_bytes * box->height;
}

sluice_status sluice_codec_decode_region(struct sluice_codec *codec, const uint8_t *bytes,
                                         size_t len, const struct sluice_box *box,
                                         uint64_t max_pixels, struct sluice_buf_pool *pool,
                                         struct sluice_rgb *rgb, struct sluice_err *err)
{
    if (max_pixels == 0)
        max_pixels = SLUICE_IMAGE_MAX_PIXELS;
    struct sluice_image_info info;
    sluice_status status = probe_within(bytes, len, max_pixels, &info, err);
    if (status != SLUICE_OK)
        return status;
    if (!sluice_box_is_within(box, info.width, info.height))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a box of %u x %u pixels at (%u, %u) of an image of %u x %u", box->width,
                           box->height, box->left, box->top, info.width, info.height);
    if (decode_window(codec, &info, bytes, len, box, pool, rgb))
        return SLUICE_OK;
    if (codec->index && codec->index->is_partial)
        return fail_partial(err);
    const bool is_whole = box->width == info.width && box->height == info.height;
    if (!is_whole && info.format == SLUICE_IMAGE_JPEG && !info.is_progressive &&
        sluice_jpeg_decode_region(&info, bytes, len, box, pool, rgb))
        return SLUICE_OK;

    struct sluice_rgb all;
    status = decode_all(codec, &info, bytes, len, max_pixels, pool, &all, err);
    if (status != SLUICE_OK)
        return status;
    if (!sluice_box_is_within(box, all.width, all.height)) {
        sluice_buf_unref(all.pixels);
        return sluice_fail(err, SLUICE_E_CORRUPT, "image with two sizes in its headers");
    }
    if (box->width < all.width || box->height < all.height)
        cut_box(&all, box);
    *rgb = all;
    return SLUICE_OK;
}
