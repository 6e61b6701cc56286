#ifndef SLUICE_IMAGE_CODECS_INTERNAL_H
#define SLUICE_IMAGE_CODECS_INTERNAL_H

#include "image/codecs/codec.h"
#include "image/image_internal.h"

/* Formats, for codec.c and probe.c.
 *
 * Threads: one at a time for each codec; nothing else is shared. */

/* It keeps no decompressor open, because libjpeg keeps the tables of one image for the next: a file
 * without tables of its own would then decode differently after different predecessors. */
struct sluice_codec {
    uint8_t *row; /* one row in the file's own colours (CMYK) */
    size_t row_capacity;
    struct sluice_jpeg_window *window;
    const struct sluice_jpeg_index *index; /* borrowed, or NULL */
};

/* Decodes a whole image for sluice_codec_decode(), which has checked format, header and max_pixels.
 */
SLUICE_MUST_USE sluice_status sluice_jpeg_decode(struct sluice_codec *codec, const uint8_t *bytes,
                                                 size_t len, uint64_t max_pixels,
                                                 struct sluice_buf_pool *pool,
                                                 struct sluice_rgb *rgb, struct sluice_err *err);

/* Decodes a box, which lies within the image of the header, of a JPEG file.  True:
 * sluice_jpeg_decode() would succeed and give these pixels.  False: that is not certain, and the
 * caller must decode the whole file; *rgb is untouched. */
bool sluice_jpeg_decode_region(const struct sluice_image_info *info, const uint8_t *bytes,
                               size_t len, const struct sluice_box *box,
                               struct sluice_buf_pool *pool, struct sluice_rgb *rgb);

/* A format, in a file of its own; some are doors to foreign libraries. */
struct sluice_image_type {
    /* Parses the header for sluice_image_probe(), which has checked the first bytes. */
    sluice_status (*probe)(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err);
    /* Decodes the image that the header describes; its sizes are checked.  NULL: of a JPEG, see
     * sluice_jpeg_decode(). */
    sluice_status (*decode)(const struct sluice_image_info *info, const uint8_t *bytes, size_t len,
                            struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                            struct sluice_err *err);
};

extern const struct sluice_image_type sluice_image_bmp, sluice_image_gif, sluice_image_jpeg,
    sluice_image_png, sluice_image_pnm, sluice_image_tiff, sluice_image_webp;

#endif
