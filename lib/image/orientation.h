#ifndef SLUICE_IMAGE_ORIENTATION_H
#define SLUICE_IMAGE_ORIENTATION_H

#include "image/image.h"

/* How a camera was held: the orientation of EXIF, 1 .. 8, and what makes such an image upright, as
 * Pillow's ImageOps.exif_transpose does.  Any other number means the same as 1: as it is.
 *
 * Threads: pure functions. */

struct sluice_buf_pool;

/* Whether upright images are as wide as the stored ones are high. */
bool sluice_orientation_swaps(uint32_t orientation);

/* The orientation that a file's metadata give: the EXIF of JPEGs, PNGs and WebPs.  1 where there is
 * none or it cannot be read, and for TIFFs, which are decoded upright. */
uint32_t sluice_image_orientation(const struct sluice_image_info *info, const uint8_t *bytes,
                                  size_t len);

/* The box of the stored image, of width x height pixels, that a box of the upright one comes from.
 */
struct sluice_box sluice_orientation_stored_box(uint32_t orientation, const struct sluice_box *box,
                                                uint32_t width, uint32_t height);

/* Turns the image upright.  Where the result needs new memory, that comes from `pool`, and the old
 * is dropped.  On failure *rgb is as it was. */
SLUICE_MUST_USE sluice_status sluice_rgb_orient(struct sluice_rgb *rgb, uint32_t orientation,
                                                struct sluice_buf_pool *pool,
                                                struct sluice_err *err);

#endif
