#ifndef SLUICE_IMAGE_JPEG_WINDOW_H
#define SLUICE_IMAGE_JPEG_WINDOW_H

#include "image/image.h"
#include "image/jpeg_window_kernels.h"

/* A decoder of our own for what nearly every JPEG is, which reconstructs nothing but a box.
 *
 * Without an index or restart markers, all MCUs up to the last row needed go through the Huffman
 * decoder once without their values, to find where the box's rows begin; then these rows are read,
 * the box's blocks alone are transformed, its pixels alone upsampled and converted.
 * docs/NUMERICS.md
 *
 * Covers gray and YCbCr files with chroma sampled 1x1 and luma 1x1, 2x1, 1x2 or 2x2, and of
 * those what jpeg_entropy.h covers, without damage in the part that is read.  What it
 * accepts, libjpeg-turbo accepts, and decodes to the same pixels.
 *
 * Threads: one at a time a window. */

struct sluice_buf_pool;
struct sluice_jpeg_index;
struct sluice_jpeg_window; /* tables and planes, kept from one image to the next */

SLUICE_MUST_USE sluice_status sluice_jpeg_window_create(struct sluice_jpeg_window **window,
                                                        struct sluice_err *err);
void sluice_jpeg_window_destroy(struct sluice_jpeg_window *window); /* NULL is allowed */

/* The box's pixels in a new buffer from `pool`.  With an `index` (may be NULL) only the MCU rows
 * needed are read; one that is not this file's is of no effect, or with is_partial
 * SLUICE_E_CORRUPT.  The pixels are the same.  Any
 * failure says that this decoder cannot tell, not that the file is bad: SLUICE_E_UNSUPPORTED or
 * SLUICE_E_CORRUPT, SLUICE_E_NO_MEMORY; SLUICE_E_INVALID: the box is empty or not within the image.
 * *rgb is untouched then. */
SLUICE_MUST_USE sluice_status sluice_jpeg_window_decode(
    struct sluice_jpeg_window *window, const struct sluice_jpeg_window_kernels *kernels,
    const uint8_t *bytes, size_t len, const struct sluice_box *box,
    const struct sluice_jpeg_index *index, struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
    struct sluice_err *err);

#endif
