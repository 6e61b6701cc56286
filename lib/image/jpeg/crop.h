#ifndef SLUICE_IMAGE_JPEG_CROP_H
#define SLUICE_IMAGE_JPEG_CROP_H

#include "image/image.h"
#include "image/jpeg/crop_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lossless JPEG cropping: a part of a JPEG as a smaller JPEG, cut without decoding it.
 *
 * The promise: decoded by libjpeg-turbo, the result gives inside the box the very
 * pixels that the whole file gives there.  The result holds the MCUs under the box
 * and a margin for chroma upsampling, is sequential and Huffman-coded, keeps
 * what decides the colours and drops all other metadata.  A segment of ours at
 * its start says where in which image it stood.
 *
 * A file with any feature that could break the promise is refused: the caller then uses the file
 * itself.
 *
 * Threads: pure functions. */

struct sluice_buf;
struct sluice_buf_pool;
struct sluice_jpeg_index;

#define SLUICE_JPEG_MAX_RESTART_INTERVAL 65535

/* Which code cuts.  The two single routes are for tests and for measuring. */
enum sluice_jpeg_crop_route {
    SLUICE_JPEG_CROP_BY_ANY, /* our entropy layer, else libjpeg-turbo's coefficients */
    SLUICE_JPEG_CROP_BY_OURS,
    SLUICE_JPEG_CROP_BY_LIBJPEG,
};

struct sluice_jpeg_crop_options {
    /* Huffman tables made for the crop: some 2 % smaller, for one more pass over it. */
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

/* *crop is a new buffer from `pool` (NULL: plain memory).  `options` NULL: all {0}.
 * SLUICE_E_AGAIN: a crop would not be smaller than the file.  SLUICE_E_INVALID:
 * the box is empty or not inside the image.  SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: what
 * cannot be cut with certainty (a truncated or damaged file, arithmetic coding, an unfinished
 * progression).  *crop and *window are untouched on failure; `window` may be NULL. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop(
    const uint8_t *bytes, size_t len, const struct sluice_box *box,
    const struct sluice_jpeg_crop_options *options, struct sluice_buf_pool *pool,
    struct sluice_buf **crop, struct sluice_jpeg_crop_box *window, struct sluice_err *err);

/* Reads the window from a crop's own segment.  SLUICE_E_CORRUPT: not such a crop, or its sizes
 * contradict each other.  On success the window is inside the image, which is at most
 * 65,535 x 65,535, and as large as the JPEG's frame header says. */
SLUICE_MUST_USE sluice_status sluice_jpeg_crop_window(const uint8_t *bytes, size_t len,
                                                      struct sluice_jpeg_crop_box *window,
                                                      struct sluice_err *err);

#endif
