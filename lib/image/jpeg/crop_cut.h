#ifndef SLUICE_IMAGE_JPEG_CROP_CUT_H
#define SLUICE_IMAGE_JPEG_CROP_CUT_H

#include "image/jpeg/crop_plan.h"
#include "image/jpeg/entropy.h"

/* Cuts the coded blocks of a window out of a scan, bit by bit.
 *
 * Threads: pure functions. */

struct sluice_buf_pool;
struct sluice_jpeg_index;

/* The crop. */
struct sluice_jpeg_cut {
    struct sluice_jpeg *jpeg; /* its tables become those of the crop */
    const uint8_t *bytes;     /* of the file */
    const struct sluice_jpeg_crop_box *window;
    const struct sluice_box *box;
    uint32_t restart_interval;             /* of the crop, in MCUs; at least 1 */
    const struct sluice_jpeg_index *index; /* must fit the file; NULL: reads the whole scan */
};

/* Makes the bits of the window's MCUs: a segment for every restart_interval of them, whatever their
 * row, and one for the rest.  A segment's last byte is filled up with ones.  SLUICE_JPEG_SCAN_SLACK
 * undefined bytes follow.  After a failure do not use *jpeg; if there was an index, try again
 * without it. */
SLUICE_MUST_USE sluice_status sluice_jpeg_cut_mcus(const struct sluice_jpeg_cut *cut,
                                                   struct sluice_buf_pool *pool,
                                                   struct sluice_jpeg_scan *kept,
                                                   struct sluice_err *err);

#endif
