#ifndef SLUICE_IMAGE_JPEG_RECODE_H
#define SLUICE_IMAGE_JPEG_RECODE_H

#include "image/jpeg_entropy.h"

/* Blocks coded again, with the best tables for them.
 *
 * Threads: pure functions. */

/* Codes a scan again, with tables of `jpeg` replaced by the best for it.  Its segments, of
 * mcus_in_segment MCUs each, are sound by jpeg's tables; as many bytes of any value as
 * SLUICE_JPEG_SCAN_SLACK says follow.  *out is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_jpeg_recode_optimal(
    struct sluice_jpeg *jpeg, const struct sluice_jpeg_scan *in, size_t mcus_in_segment,
    struct sluice_buf_pool *pool, struct sluice_jpeg_scan *out, struct sluice_err *err);

/* The best code of at most 16 bits for symbols that occur so often, without the
 * code of all ones. */
void sluice_jpeg_optimal_huffman(const uint32_t occurrences[256],
                                 struct sluice_jpeg_huffman *huffman);

#endif
