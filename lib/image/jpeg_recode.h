#ifndef SLUICE_IMAGE_JPEG_RECODE_H
#define SLUICE_IMAGE_JPEG_RECODE_H

#include "image/jpeg_entropy.h"

/* Blocks coded again, with the best tables for them.
 *
 * Threads: pure functions. */

/* Codes num_mcus MCUs again, with tables of `jpeg` replaced by the best for them.  The
 * bits at `in` (SLUICE_JPEG_SCAN_SLACK bytes behind in_len) are sound by jpeg's tables,
 * without restart markers.  `out` has room for in_len + SLUICE_JPEG_RECODE_ROOM bytes; *out_len
 * counts whole bytes, the last filled up with ones. */
#define SLUICE_JPEG_RECODE_ROOM 64
SLUICE_MUST_USE sluice_status sluice_jpeg_recode_optimal(struct sluice_jpeg *jpeg, size_t num_mcus,
                                                         const uint8_t *in, uint8_t *out,
                                                         size_t room, size_t *out_len,
                                                         struct sluice_err *err);

/* The best code of at most 16 bits for symbols that occur so often, without the
 * code of all ones. */
void sluice_jpeg_optimal_huffman(const uint32_t occurrences[256],
                                 struct sluice_jpeg_huffman *huffman);

#endif
