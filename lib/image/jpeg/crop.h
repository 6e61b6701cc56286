#ifndef SLUICE_IMAGE_JPEG_CROP_H
#define SLUICE_IMAGE_JPEG_CROP_H

#include "image/image.h"
#include "image/jpeg/crop_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lossless JPEG cropping: a part of a JPEG as a smaller JPEG, cut without decoding it.
 *
 * The promise: libjpeg-turbo decodes the result to the same pixels inside the box as the whole
 * file.  The result contains the MCUs under the box and a margin for chroma upsampling.  It is
 * sequential and Huffman-coded, keeps the metadata that determine colours and drops all other
 * metadata.  A segment of ours at its start has the size of the whole image and the window's
 * origin.
 *
 * Files with a feature that could break the promise are rejected; the caller then uses the file
 * itself.
 *
 * Threads: pure functions. */

struct sluice_buf;
struct sluice_buf_pool;
struct sluice_jpeg_index;

#define SLUICE_JPEG_MAX_RESTART_INTERVAL 65535

/* The code that cuts.  The two single routes are for tests and measurements. */
enum sluice_jpeg_crop_route {
    SLUICE_JPEG_CROP_BY_ANY, /* our entropy layer, else libjpeg-turbo's coefficients */
    SLUICE_JPEG_CROP_BY_OURS,
    SLUICE_JPEG_CROP_BY_LIBJPEG,
};

struct sluice_jpeg_crop_options {
    /* Optimal Huffman tables for the crop: about 2 % smaller, for one more pass over it. */
    bool optimal_huffman;
    /* MCUs from one restart marker to the next, whatever their row, so that a decoder with many
     * threads can begin at each; at most SLUICE_JPEG_MAX_RESTART_INTERVAL, else SLUICE_E_INVALID.
     * 0: a row of the crop's MCUs. */
    uint32_t restart_interval;
    uint64_t max_pixels; /* of the whole image; 0: the codec's limit */
    bool allow_larger;   /* a crop even if it is not smaller than the file (for tests) */
    enum sluice_jpeg_crop_route route;
    /* The file's index, or NULL.  With it only the MCU rows needed are read; the crop is the same.
     * The index of another file has no effect, or with is_partial is SLUICE_E_CORRUPT. */
    const struct sluice_jpeg_index *index;
};

/* *crop is a new buffer from `pool` (NULL: plain memory).  `options` NULL: all {0}. SLUICE_E_AGAIN:
 * a crop would not be smaller than the file.  SLUICE_E_INVALID: the box is empty or not inside the
 * image.  SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: the file cannot be cut with certainty (it is
 * truncated or damaged, has arithmetic coding or an unfinished progression).  *crop and *window are
 * untouched on failure; `window` may be NULL. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop(
    const uint8_t *bytes, size_t len, const struct sluice_box *box,
    const struct sluice_jpeg_crop_options *options, struct sluice_buf_pool *pool,
    struct sluice_buf **crop, struct sluice_jpeg_crop_box *window, struct sluice_err *err);

/* Reads the window from a crop's own segment.  SLUICE_E_CORRUPT: not a crop, or its sizes
 * contradict each other.  On success the window is inside the image, which is at most 65,535 x
 * 65,535, and as large as the JPEG's frame header says. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop_window(const uint8_t *bytes, size_t len,
                                                      struct sluice_jpeg_crop_box *window,
                                                      struct sluice_err *err);

#endif
