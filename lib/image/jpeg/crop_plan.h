#ifndef SLUICE_IMAGE_JPEG_CROP_PLAN_H
#define SLUICE_IMAGE_JPEG_CROP_PLAN_H

#include "image/image.h"

/* Chooses the window of a crop: the part of a JPEG that the crop holds.
 *
 * Threads: pure functions. */

/* The window that a crop holds. */
struct sluice_jpeg_crop_box {
    uint32_t full_width, full_height; /* of the whole image */
    uint32_t left, top, width, height;
};

static inline uint32_t sluice_divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* The facts that determine the window of a box. */
struct sluice_jpeg_grid {
    uint32_t width, height;              /* of the image */
    uint32_t mcu_width, mcu_height;      /* a window begins at multiples of these */
    unsigned min_h, max_h, min_v, max_v; /* sampling factors over the components */
};

/* SLUICE_E_INVALID: the box is not inside the image. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop_plan(const struct sluice_jpeg_grid *grid,
                                                    const struct sluice_box *box,
                                                    struct sluice_jpeg_crop_box *window,
                                                    struct sluice_err *err);

#endif
