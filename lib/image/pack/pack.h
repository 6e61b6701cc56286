#ifndef SLUICE_IMAGE_PACK_PACK_H
#define SLUICE_IMAGE_PACK_PACK_H

#include "base/error.h"
#include "image/codecs/codec.h"

#include <stddef.h>
#include <stdint.h>

/* Lossless predictive coding of RGB pixels: each pixel is predicted from its neighbours (the median
 * predictor of LOCO-I), and zstd codes the residuals (docs/NUMERICS.md has the format).  Unpacking
 * restores the same bytes.  A photograph takes about half the bytes.
 *
 * Unpacking is safe with any bytes.
 *
 * Threads: a packer belongs to one thread at a time. */

/* Memory that one thread keeps from image to image; no result depends on it.  The first call of
 * packing and of unpacking allocates its memory. */
struct sluice_packer;
SLUICE_MUST_USE sluice_status sluice_packer_create(struct sluice_packer **packer,
                                                   struct sluice_err *err);
void sluice_packer_destroy(struct sluice_packer *packer); /* NULL is allowed */

/* Packs width x height pixels (each 1 .. 65,535), rows packed, into a new buffer from `pool` (NULL:
 * plain memory).  `level`: 0 is the fastest, 1 .. 19 are zstd's and rarely pay for photographs.
 * SLUICE_E_AGAIN: the result would not be smaller than the pixels, so send the pixels;
 * SLUICE_E_INVALID: a size of 0 or above the limit. */
SLUICE_MUST_USE sluice_status sluice_pack_rgb(struct sluice_packer *packer, const uint8_t *pixels,
                                              uint32_t width, uint32_t height, int level,
                                              struct sluice_buf_pool *pool,
                                              struct sluice_buf **packed, struct sluice_err *err);

/* Unpacks to a new buffer from `pool`.  SLUICE_E_UNSUPPORTED: more than max_pixels (0: the codec's
 * limit), or a later version; SLUICE_E_NO_MEMORY; SLUICE_E_CORRUPT: any other bytes that are not in
 * the format.  *rgb is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_unpack_rgb(struct sluice_packer *packer, const uint8_t *bytes,
                                                size_t len, uint64_t max_pixels,
                                                struct sluice_buf_pool *pool,
                                                struct sluice_rgb *rgb, struct sluice_err *err);

#endif
