#ifndef SLUICE_IMAGE_JPEG_CROP_CUT_H
#define SLUICE_IMAGE_JPEG_CROP_CUT_H

#include "image/jpeg_crop_plan.h"
#include "image/jpeg_entropy.h"

/* The coded blocks of a window, cut out of their scan bit by bit.
 *
 * Threads: pure functions. */

struct sluice_buf_pool;
struct sluice_jpeg_index;

/* What is cut out of what. */
struct sluice_jpeg_cut {
    struct sluice_jpeg *jpeg; /* its tables become those of the crop */
    const uint8_t *bytes;     /* of the file */
    const struct sluice_jpeg_crop_box *window;
    const struct sluice_box *box;
    const struct sluice_jpeg_index *index; /* it fits the file; NULL: the whole scan is read */
};

/* The bits of the window's MCUs, a segment for each row of them, whose last byte is filled up with
 * ones.  There is room for SLUICE_JPEG_SCAN_SLACK bytes behind them, which may be anything.  *jpeg
 * is of no use after a failure, which with an index says that the file must be read without. */
SLUICE_MUST_USE sluice_status sluice_jpeg_cut_mcus(const struct sluice_jpeg_cut *cut,
                                                   struct sluice_buf_pool *pool,
                                                   struct sluice_jpeg_scan *kept,
                                                   struct sluice_err *err);

#endif
