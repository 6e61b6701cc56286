#ifndef SLUICE_IMAGE_JPEG_WINDOW_H
#define SLUICE_IMAGE_JPEG_WINDOW_H

#include "image/image.h"
#include "image/jpeg/window_kernels.h"

/* A JPEG decoder of our own for the most common kinds of JPEG.  It reconstructs only a box.
 *
 * Without an index or restart markers, a sync scan (jpeg/sync_scan.h) passes over all MCUs up to
 * the last row needed, to find where the box's rows begin.  Then these rows are decoded; only the
 * box's blocks are transformed, and only its pixels are upsampled and converted.  docs/DECODING.md
 *
 * Covers gray and YCbCr files with chroma sampled 1x1 and luma 1x1, 2x1, 1x2 or 2x2 that
 * jpeg/entropy.h covers, if the part that is read is not damaged.  libjpeg-turbo accepts every file
 * that this decoder accepts, and decodes it to the same pixels.
 *
 * Threads: one at a time for each window. */

struct sluice_buf_pool;
struct sluice_jpeg; /* jpeg/entropy.h */
struct sluice_jpeg_index;
struct sluice_jpeg_window; /* tables and planes, kept from one image to the next */

SLUICE_MUST_USE sluice_status sluice_jpeg_window_create(struct sluice_jpeg_window **window,
                                                        struct sluice_err *err);
void sluice_jpeg_window_destroy(struct sluice_jpeg_window *window); /* NULL is allowed */

/* Decodes the box's pixels to a new buffer from `pool`.  With an `index` (may be NULL) only the MCU
 * rows needed are read, and the pixels are the same; the index of another file has no effect, or
 * with is_partial is SLUICE_E_CORRUPT.  SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: this decoder
 * declines the file, which need not be bad; SLUICE_E_NO_MEMORY; SLUICE_E_INVALID: the box is empty
 * or not within the image.  *rgb is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_jpeg_window_decode(
    struct sluice_jpeg_window *window, const struct sluice_jpeg_window_kernels *kernels,
    const uint8_t *bytes, size_t len, const struct sluice_box *box,
    const struct sluice_jpeg_index *index, struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
    struct sluice_err *err);

/* Whether the inverse DCT and the conversion of colours here give libjpeg's results, whatever the
 * sampling of luma: sizes, sums of DC and quantisers are in the range for that, and the file is
 * gray or YCbCr with chroma sampled 1x1.  For other decoders that must give the same pixels. */
bool sluice_jpeg_window_can_transform(const struct sluice_jpeg *jpeg);

#endif
