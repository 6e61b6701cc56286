#ifndef SLUICE_IMAGE_RESIZE_PART_H
#define SLUICE_IMAGE_RESIZE_PART_H

#include "image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The input of a resize (image/resize.h; image/resample.h for all filters but bilinear). */

/* Pillow's filters. */
enum sluice_resize_filter {
    SLUICE_RESIZE_BILINEAR,
    SLUICE_RESIZE_BICUBIC,
    SLUICE_RESIZE_LANCZOS,
    SLUICE_RESIZE_BOX,
    SLUICE_RESIZE_HAMMING,
    SLUICE_RESIZE_NEAREST,
};

struct sluice_image_view {
    const uint8_t *pixels; /* the first pixel of the region; RGB, 3 bytes a pixel */
    size_t stride;         /* bytes from row to row */
    uint32_t width, height;
};

/* A part of a resized image: the pixels of box `out` in the result of resizing in_width x in_height
 * to out_width x out_height.  All sizes 1 .. 65,535; the box is within the result. */
struct sluice_resize_part {
    uint32_t in_width, in_height, out_width, out_height;
    struct sluice_box out;
    enum sluice_resize_filter filter;
    bool is_pillow13; /* the passes are in the order of Pillow 13 (docs/NUMERICS.md) */
};

#endif
