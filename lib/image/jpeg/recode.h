#ifndef SLUICE_IMAGE_JPEG_RECODE_H
#define SLUICE_IMAGE_JPEG_RECODE_H

#include "image/jpeg/entropy.h"

/* Codes blocks again with optimal Huffman tables.
 *
 * Threads: pure functions. */

/* Codes the scan `in` again and replaces the tables of `jpeg` with optimal ones.  Its num_mcus MCUs
 * are in segments of jpeg->restart_interval, the last of which may have fewer, and must be sound by
 * jpeg's tables; SLUICE_JPEG_SCAN_SLACK bytes of any value must follow the data.  *out is untouched
 * on failure. */
SLUICE_MUST_USE sluice_status sluice_jpeg_recode_optimal(
    struct sluice_jpeg *jpeg, const struct sluice_jpeg_scan *in, size_t num_mcus,
    struct sluice_buf_pool *pool, struct sluice_jpeg_scan *out, struct sluice_err *err);

/* An optimal code of at most 16 bits for symbols with these frequencies, which leaves the code of
 * all ones free (T.81, K.2). */
void sluice_jpeg_optimal_huffman(const uint32_t occurrences[256],
                                 struct sluice_jpeg_huffman *huffman);

#endif
