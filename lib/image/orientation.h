#ifndef SLUICE_IMAGE_ORIENTATION_H
#define SLUICE_IMAGE_ORIENTATION_H

#include "image/image.h"

/* EXIF orientation, 1 .. 8: how the camera was held.  Turns images upright as Pillow's
 * ImageOps.exif_transpose does.  Any other number counts as 1: already upright.
 *
 * Threads: pure functions. */

struct sluice_buf_pool;

/* Whether turning the image upright swaps its width and height. */
bool sluice_orientation_swaps(uint32_t orientation);

/* The orientation that a file's metadata give: the EXIF of JPEGs, PNGs and WebPs.  1 if it is
 * missing or unreadable, and for TIFFs, which are decoded upright. */
uint32_t sluice_image_orientation(const struct sluice_image_info *info, const uint8_t *bytes,
                                  size_t len);

/* Whether the first `len` bytes of a file of file_bytes bytes settle its orientation: then
 * sluice_image_orientation() gives for them what it gives for the whole file. */
bool sluice_image_head_has_orientation(const struct sluice_image_info *info, const uint8_t *bytes,
                                       size_t len, uint64_t file_bytes);

/* Maps a box of the upright image to the box of the stored image of width x height pixels. */
struct sluice_box sluice_orientation_stored_box(uint32_t orientation, const struct sluice_box *box,
                                                uint32_t width, uint32_t height);

/* Turns the image upright.  If the result needs new memory, takes it from `pool` and drops the old
 * buffer.  *rgb is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_rgb_orient(struct sluice_rgb *rgb, uint32_t orientation,
                                                struct sluice_buf_pool *pool,
                                                struct sluice_err *err);

#endif
