#ifndef SLUICE_IMAGE_JPEG_LEAP_H
#define SLUICE_IMAGE_JPEG_LEAP_H

#include "image/jpeg_lanes.h"

/* Where in a scan MCUs begin, found by the tables of leaps.
 *
 * Threads: as of the lanes. */

struct sluice_buf_pool;

/* Goes behind an MCU, or what is left of a block of which `in->pos` coefficients are read, and adds
 * the differences of DCs to `dc`.  False: there is a fault. */
bool sluice_jpeg_skip_mcu(const struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                          struct sluice_jpeg_reader *in, uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS]);
bool sluice_jpeg_skip_block(const struct sluice_jpeg_coding *coding, struct sluice_jpeg_reader *in,
                            uint32_t *dc);

/* For each of these rows of MCUs a point in it, at `first_column` or before, and if there is an
 * `end_column`, which is larger, another one behind `first_column`, up to the end. */
struct sluice_jpeg_leap_aim {
    uint32_t first_row, end_row, first_column, end_column;
};

/* Fills `points`, in their order in the scan, which has no restart interval.  False: there is a
 * fault before the last of them, or no memory. */
bool sluice_jpeg_leap_to(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                         const struct sluice_jpeg_scan *scan,
                         const struct sluice_jpeg_leap_aim *aim, struct sluice_buf_pool *pool,
                         struct sluice_jpeg_point *points);

#endif
