/* WebP; the one door to libwebp and libwebpdemux. */

#include "base/buf.h"
#include "image/codecs/internal.h"

#include <string.h>

static uint32_t le24(const uint8_t *p)
{
    return sluice_le16(p) | (uint32_t)p[2] << 16;
}

/* The size alone, and for this the library is not needed. */
static sluice_status probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err)
{
    if (len < 30)
        return sluice_fail(err, SLUICE_E_CORRUPT, "WebP cut in its header, at %zu bytes", len);
    const uint8_t *chunk = bytes + 20;
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_WEBP, .num_components = 3, .h_samp = 1, .v_samp = 1};
    if (memcmp(bytes + 12, "VP8X", 4) == 0) {
        info->num_components = chunk[0] & 0x10 ? 4 : 3;
        info->width = le24(chunk + 4) + 1;
        info->height = le24(chunk + 7) + 1;
    } else if (memcmp(bytes + 12, "VP8L", 4) == 0 && chunk[0] == 0x2F) {
        const uint32_t bits = sluice_le32(chunk + 1);
        info->num_components = bits >> 28 & 1 ? 4 : 3;
        info->width = (bits & 0x3FFF) + 1;
        info->height = (bits >> 14 & 0x3FFF) + 1;
    } else if (memcmp(bytes + 12, "VP8 ", 4) == 0 && memcmp(chunk + 3, "\x9D\x01\x2A", 3) == 0) {
        info->width = sluice_le16(chunk + 6) & 0x3FFF;
        info->height = sluice_le16(chunk + 8) & 0x3FFF;
    }
    if (info->width == 0 || info->height == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "WebP without the size of an image");
    return SLUICE_OK;
}

#ifdef SLUICE_HAVE_WEBP

#include <webp/decode.h>
#include <webp/demux.h>

/* Pillow looks at the first frame of an animation, which lies on a black and transparent canvas,
 * and drops alpha. */
static sluice_status decode_frame(const struct sluice_image_info *info, const WebPIterator *frame,
                                  struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                                  struct sluice_err *err)
{
    const uint32_t left = (uint32_t)frame->x_offset, top = (uint32_t)frame->y_offset;
    const struct sluice_box box = {left, top, (uint32_t)frame->width, (uint32_t)frame->height};
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "WebP with another libwebp than was built with");
    if (WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input) !=
            VP8_STATUS_OK ||
        config.input.width != frame->width || config.input.height != frame->height ||
        !sluice_box_is_within(&box, info->width, info->height))
        return sluice_fail(err, SLUICE_E_CORRUPT, "WebP with two sizes in its headers");

    struct sluice_buf *pixels = NULL;
    const sluice_status status =
        sluice_image_alloc_rgb(pool, info->width, info->height, &pixels, err);
    if (status != SLUICE_OK)
        return status;
    if (box.width < info->width || box.height < info->height)
        memset(pixels->data, 0, pixels->len);
    const size_t stride = (size_t)info->width * 3, offset = top * stride + (size_t)left * 3;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = pixels->data + offset;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = pixels->len - offset;
    const VP8StatusCode code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    WebPFreeDecBuffer(&config.output);
    if (code == VP8_STATUS_OK) {
        *rgb = (struct sluice_rgb){info->width, info->height, pixels};
        return SLUICE_OK;
    }
    sluice_buf_unref(pixels);
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a WebP decoder");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "WebP with what libwebp does not know");
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return sluice_fail(err, SLUICE_E_CORRUPT, "WebP cut in its pixels");
    default:
        return sluice_fail(err, SLUICE_E_CORRUPT, "WebP with damaged pixels");
    }
}

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    const WebPData data = {bytes, len};
    WebPDemuxer *demuxer = WebPDemux(&data);
    if (!demuxer)
        return sluice_fail(err, SLUICE_E_CORRUPT, "WebP that is cut or damaged");
    WebPIterator frame;
    sluice_status status;
    if (WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH) != info->width ||
        WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT) != info->height)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "WebP with two sizes in its headers");
    else if (!WebPDemuxGetFrame(demuxer, 1, &frame))
        status = sluice_fail(err, SLUICE_E_CORRUPT, "WebP without an image");
    else {
        status = decode_frame(info, &frame, pool, rgb, err);
        WebPDemuxReleaseIterator(&frame);
    }
    WebPDemuxDelete(demuxer);
    return status;
}

#else

static sluice_status decode(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err)
{
    (void)info, (void)bytes, (void)len, (void)pool, (void)rgb;
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a WebP file, and this build is without libwebp");
}

#endif

const struct sluice_image_type sluice_image_webp = {.probe = probe, .decode = decode};
