#ifndef SLUICE_IMAGE_CODECS_CODEC_H
#define SLUICE_IMAGE_CODECS_CODEC_H

#include "image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Image files to RGB pixels and back, as Pillow's convert("RGB") gives them.
 *
 * EXIF orientation is ignored, as torchvision does (image/orientation.h reads it); TIFFs come
 * upright, as Pillow has them.  Every size is checked before it is used to allocate; any input
 * makes a call fail at worst.  A decode takes at most 11 bytes of memory for each pixel that the
 * file declares (3 as RGB, 2 for each coefficient of up to 4 components; of TIFFs 2 for each
 * sample), and 32 MB for the padding of images that are thin.  Not counted are the tables of
 * libwebp for lossless files (docs/OPERATIONS.md).
 *
 * Threads: a codec belongs to one thread at a time; the rest is pure. */

struct sluice_buf_pool;

/* Memory that one thread keeps from image to image; no result depends on it. */
struct sluice_codec;
SLUICE_MUST_USE sluice_status sluice_codec_create(struct sluice_codec **codec,
                                                  struct sluice_err *err);
void sluice_codec_destroy(struct sluice_codec *codec); /* NULL is allowed */

/* Decodes the whole image into a new buffer from `pool` (NULL: plain memory).
 * SLUICE_E_UNSUPPORTED: more than max_pixels (0: 178,956,970, Pillow's limit), more scans than
 * an image of this size may have, or more CPU time than it may take (image/tuning.h);
 * SLUICE_E_NO_MEMORY; SLUICE_E_CORRUPT: a file on which Pillow raises, such as any truncated one.
 * *rgb is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_codec_decode(struct sluice_codec *codec, const uint8_t *bytes,
                                                  size_t len, uint64_t max_pixels,
                                                  struct sluice_buf_pool *pool,
                                                  struct sluice_rgb *rgb, struct sluice_err *err);

/* Decodes only a box.  The pixels are those of sluice_codec_decode() within the box, and the same
 * files are refused with the same status.  Reconstructs no more than the box needs where the file
 * allows that (docs/DECODING.md says when).  SLUICE_E_INVALID: the box is empty or not within the
 * image. */
SLUICE_MUST_USE sluice_status sluice_codec_decode_region(
    struct sluice_codec *codec, const uint8_t *bytes, size_t len, const struct sluice_box *box,
    uint64_t max_pixels, struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
    struct sluice_err *err);

/* Sets the index to use from now on (NULL: none), borrowed.  It changes no pixels and has no effect
 * on any file but its own.  If the file was read in parts (is_partial), a decode that the index
 * does not cover is SLUICE_E_CORRUPT. */
struct sluice_jpeg_index;
void sluice_codec_set_index(struct sluice_codec *codec, const struct sluice_jpeg_index *index);

/* Whether an index can make decoding faster on this machine. */
bool sluice_codec_uses_index(void);

/* Decodes a mask, a PNG of one channel of at most 8 bits: *values is a new buffer of width x height
 * numbers as the file stores them, indices of a palette or gray values that are not scaled.
 * SLUICE_E_UNSUPPORTED: another image, or one above Pillow's limit of pixels; the rest as
 * sluice_codec_decode(). */
SLUICE_MUST_USE sluice_status sluice_png_decode_mask(const uint8_t *bytes, size_t len,
                                                     struct sluice_buf **values,
                                                     struct sluice_err *err);

/* Options of the encoder; {0} is a good default (baseline, 4:2:0). */
struct sluice_jpeg_encode_options {
    int quality;        /* 1 .. 100; 0: 90 */
    int h_samp, v_samp; /* luma sampling factors over chroma's; 0: 2 and 2 */
    bool is_progressive;
    bool is_gray;          /* encode luma only */
    bool is_cmyk;          /* an Adobe CMYK file (inverted, no subsampling), for tests */
    bool is_ycck;          /* an Adobe YCCK file (inverted), for tests */
    unsigned restart_rows; /* MCU rows from one restart marker to the next; 0: none */
    bool optimize;         /* optimised Huffman tables */
};

/* Encodes height x width x 3 u8.  *file is a new buffer from plain memory. */
SLUICE_MUST_USE sluice_status sluice_jpeg_encode(const uint8_t *rgb, uint32_t width,
                                                 uint32_t height,
                                                 const struct sluice_jpeg_encode_options *options,
                                                 struct sluice_buf **file, struct sluice_err *err);

/* level: zlib's 0 .. 9. */
SLUICE_MUST_USE sluice_status sluice_png_encode(const uint8_t *rgb, uint32_t width, uint32_t height,
                                                int level, struct sluice_buf **file,
                                                struct sluice_err *err);

#endif
