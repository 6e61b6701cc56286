#ifndef SLUICE_IMAGE_JPEG_CROP_LIBJPEG_H
#define SLUICE_IMAGE_JPEG_CROP_LIBJPEG_H

#include "image/image.h"
#include "image/jpeg/crop_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sluice_buf;
struct sluice_buf_pool;

/* Crops through libjpeg-turbo's coefficients, for sluice_jpeg_crop(); optimal_huffman and
 * restart_interval are as in its options.  max_pixels is not 0.  The crop may be larger than the
 * file.
 *
 * Threads: pure. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop_libjpeg(
    const uint8_t *bytes, size_t len, const struct sluice_box *box, bool optimal_huffman,
    uint32_t restart_interval, uint64_t max_pixels, struct sluice_buf_pool *pool,
    struct sluice_buf **crop, struct sluice_jpeg_crop_box *window, struct sluice_err *err);

#endif
