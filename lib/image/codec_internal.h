#ifndef SLUICE_IMAGE_CODEC_INTERNAL_H
#define SLUICE_IMAGE_CODEC_INTERNAL_H

#include "image/codec.h"
#include "image/image_internal.h"
#include "image/jpeg_crop_plan.h"

/* Between codec.c, which chooses, and the one file behind each foreign library.  All are for one
 * thread at a time and share nothing. */

/* Deliberately without a decompressor kept open: libjpeg leaves the tables of one
 * image in place for the next, and a file that lacks its own would then decode
 * differently after another predecessor. */
struct sluice_codec {
    uint8_t *row; /* one row in the file's own colours (CMYK) */
    size_t row_capacity;
    struct sluice_jpeg_window *window;
    const struct sluice_jpeg_index *index; /* borrowed, or NULL */
};

/* Decode behind sluice_codec_decode(): the format is known, the header was found
 * sound and within max_pixels. */
SLUICE_MUST_USE sluice_status sluice_jpeg_decode(struct sluice_codec *codec, const uint8_t *bytes,
                                                 size_t len, uint64_t max_pixels,
                                                 struct sluice_buf_pool *pool,
                                                 struct sluice_rgb *rgb, struct sluice_err *err);

/* The box, which lies within the announced image, of a JPEG file.  False: this way cannot
 * tell what the whole file decodes to, and the caller must decode all of it; *rgb is
 * untouched then.  True: sluice_jpeg_decode() would succeed with these pixels. */
bool sluice_jpeg_decode_region(const struct sluice_image_info *info, const uint8_t *bytes,
                               size_t len, const struct sluice_box *box,
                               struct sluice_buf_pool *pool, struct sluice_rgb *rgb);

/* Behind sluice_jpeg_crop(), through the coefficients, with tables made for the crop or not;
 * max_pixels is not 0.  Does not look at whether the crop is smaller. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop_libjpeg(
    const uint8_t *bytes, size_t len, const struct sluice_box *box, bool has_best_tables,
    uint64_t max_pixels, struct sluice_buf_pool *pool, struct sluice_buf **crop,
    struct sluice_jpeg_crop_box *window, struct sluice_err *err);

SLUICE_MUST_USE sluice_status sluice_png_decode(const struct sluice_image_info *info,
                                                const uint8_t *bytes, size_t len,
                                                struct sluice_buf_pool *pool,
                                                struct sluice_rgb *rgb, struct sluice_err *err);

#endif
