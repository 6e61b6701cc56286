#ifndef SLUICE_IMAGE_JPEG_SYNC_SCAN_H
#define SLUICE_IMAGE_JPEG_SYNC_SCAN_H

#include "image/jpeg/lanes.h"

/* Finds where MCUs begin in a JPEG scan that has no restart markers: a parallel sync scan, by the
 * self-synchronisation of Huffman codes (Klein & Wiseman, "Parallel Huffman Decoding with
 * Applications to JPEG Files", The Computer Journal 46(5), 2003).  It reads with tables of skips
 * (jpeg/lanes.h): of all values, only DC differences are decoded and summed up.
 *
 * Threads: one at a time for each set of lanes. */

struct sluice_buf_pool;

/* skip_mcu moves the reader past one MCU, skip_block past the rest of a block of which `in->pos`
 * coefficients are read.  Both add the DC differences to `dc`.  False: the bits are faulty. */
bool sluice_jpeg_skip_mcu(const struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                          struct sluice_jpeg_reader *in, uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS]);
bool sluice_jpeg_skip_block(const struct sluice_jpeg_coding *coding, struct sluice_jpeg_reader *in,
                            uint32_t *dc);

/* The point to find: in this MCU row, in one of these columns, both included.  The column after the
 * last is the row's end. */
struct sluice_jpeg_sync_scan_aim {
    uint32_t row, first_column, last_column;
};

/* Fills points[i] for aims[i]; num_aims is at least 1.  Aims are in ascending order of their last
 * MCUs.  The scan must have no restart interval.  False: the bits are faulty before the last point,
 * or memory is short. */
bool sluice_jpeg_sync_scan(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                           const struct sluice_jpeg_scan *scan,
                           const struct sluice_jpeg_sync_scan_aim *aims, size_t num_aims,
                           struct sluice_buf_pool *pool, struct sluice_jpeg_point *points);

#endif
