#ifndef SLUICE_IMAGE_IMAGE_INTERNAL_H
#define SLUICE_IMAGE_IMAGE_INTERNAL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size limits, buffers and segments of images, and reading of little- and big-endian numbers.
 *
 * Threads: pure functions; a writer belongs to one thread at a time. */

struct sluice_buf;
struct sluice_buf_pool;

#define SLUICE_IMAGE_MAX_SIDE 65535u

/* The pixel limit of Pillow: twice its Image.MAX_IMAGE_PIXELS, where it raises. */
#define SLUICE_IMAGE_MAX_PIXELS 178956970u

/* SLUICE_E_UNSUPPORTED, naming the sizes, unless width x height is within both limits. */
SLUICE_MUST_USE sluice_status sluice_image_check_size(uint32_t width, uint32_t height,
                                                      uint64_t max_pixels, struct sluice_err *err);

/* A new buffer of width x height x 3 bytes, len set; the sizes are checked already. */
SLUICE_MUST_USE sluice_status sluice_image_alloc_rgb(struct sluice_buf_pool *pool, uint32_t width,
                                                     uint32_t height, struct sluice_buf **pixels,
                                                     struct sluice_err *err);

/* Checks a JPEG's frame header for what every decoder here requires: 8 bits, a size that is not 0,
 * 1, 3 or 4 components, sampling factors of 1 to 4.  `body` is the segment after its length. */
SLUICE_MUST_USE sluice_status sluice_jpeg_check_frame(const uint8_t *body, size_t len,
                                                      struct sluice_err *err);

/* A marker segment of a JPEG before its scan. */
struct sluice_jpeg_segment {
    unsigned marker;     /* the byte after 0xFF */
    const uint8_t *body; /* after its length; NULL: the file ends before it */
    size_t len;          /* of the body, as the file says */
    bool is_whole;       /* the file has all of it */
};

/* Finds the next segment from *pos on (initially 2) and moves *pos behind it.  Skips junk between
 * segments, as Pillow and libjpeg do.  False: the end. */
bool sluice_jpeg_next_segment(const uint8_t *bytes, size_t len, size_t *pos,
                              struct sluice_jpeg_segment *segment);

/* An encoder's output in a buffer that grows by doubling.  Zero-initialise. */
struct sluice_image_writer {
    struct sluice_buf *file;
};
SLUICE_MUST_USE sluice_status sluice_image_writer_reserve(struct sluice_image_writer *writer,
                                                          size_t extra, struct sluice_err *err);

/* Turns indices, which fill the last third of `rgb`, into colours. */
void sluice_image_widen_indices(uint8_t *rgb, size_t num_pixels, const uint8_t (*lut)[3]);

/* Turns rows upside down, in place. */
void sluice_image_flip_rows(uint8_t *rows, size_t row_bytes, uint32_t height);

static inline uint32_t sluice_le16(const uint8_t *p)
{
    return (uint32_t)p[1] << 8 | p[0];
}

static inline uint32_t sluice_le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static inline uint32_t sluice_be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t sluice_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

#endif
