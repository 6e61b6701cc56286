#ifndef SLUICE_IMAGE_CODEC_INTERNAL_H
#define SLUICE_IMAGE_CODEC_INTERNAL_H

#include "image/codec.h"

/* Between codec.c, which knows what a header says, and the one file behind each
 * foreign library.  All are for one thread at a time and share nothing. */

#define SLUICE_IMAGE_MAX_SIDE 65535u

/* The pixel limit of Pillow: twice its Image.MAX_IMAGE_PIXELS, where it raises. */
#define SLUICE_IMAGE_MAX_PIXELS 178956970u

/* SLUICE_E_NO_MEMORY, naming the sizes, unless width x height is within both limits. */
SLUICE_MUST_USE sluice_status sluice_image_check_size(uint32_t width, uint32_t height,
                                                      uint64_t max_pixels, struct sluice_err *err);

/* A new buffer of width x height x 3 bytes, len set; the sizes are checked already. */
SLUICE_MUST_USE sluice_status sluice_image_alloc_rgb(struct sluice_buf_pool *pool, uint32_t width,
                                                     uint32_t height, struct sluice_buf **pixels,
                                                     struct sluice_err *err);

static inline bool sluice_box_is_within(const struct sluice_box *box, uint32_t width,
                                        uint32_t height)
{
    return box->width >= 1 && box->width <= width && box->left <= width - box->width &&
           box->height >= 1 && box->height <= height && box->top <= height - box->height;
}

/* Bytes that an encoder writes, in a buffer that doubles.  Zero-initialise. */
struct sluice_image_writer {
    struct sluice_buf *file;
};
SLUICE_MUST_USE sluice_status sluice_image_writer_reserve(struct sluice_image_writer *writer,
                                                          size_t extra, struct sluice_err *err);

/* Deliberately without a decompressor kept open: libjpeg leaves the tables of one
 * image in place for the next, and a file that lacks its own would then decode
 * differently after another predecessor. */
struct sluice_codec {
    uint8_t *row; /* one row in the file's own colours (CMYK) */
    size_t row_capacity;
    struct sluice_jpeg_window *window;
    const struct sluice_jpeg_index *index; /* borrowed, or NULL */
};

/* At least `bytes` bytes at codec->row, contents undefined. */
SLUICE_MUST_USE sluice_status sluice_codec_reserve_row(struct sluice_codec *codec, size_t bytes,
                                                       struct sluice_err *err);

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

/* Whether the entropy-coded data from `bytes` on, restart markers included, ends in EOI.
 * A decoder that has come this far can only go on to its end: it passes over damage in
 * the data, and what follows EOI is never read. */
bool sluice_jpeg_scan_ends_in_eoi(const uint8_t *bytes, size_t len);

SLUICE_MUST_USE sluice_status sluice_png_decode(const struct sluice_image_info *info,
                                                const uint8_t *bytes, size_t len,
                                                struct sluice_buf_pool *pool,
                                                struct sluice_rgb *rgb, struct sluice_err *err);

static inline uint32_t sluice_be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t sluice_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

#endif
