#ifndef SLUICE_IMAGE_PACK_H
#define SLUICE_IMAGE_PACK_H

#include "base/error.h"
#include "image/codec.h"

#include <stddef.h>
#include <stdint.h>

/* RGB pixels, losslessly coded: every pixel is predicted from its neighbours and zstd
 * codes what the prediction missed (docs/NUMERICS.md has the format).  What is unpacked
 * equals what was packed, byte for byte; about half the bytes for a photograph.
 *
 * Bytes from outside can make unpacking fail, never more.
 *
 * Threads: a packer belongs to one thread at a time. */

/* What one thread keeps from one image to the next: memory, and nothing that a result
 * could depend on.  What packing and unpacking need is made on their first call. */
struct sluice_packer;
SLUICE_MUST_USE sluice_status sluice_packer_create(struct sluice_packer **packer,
                                                   struct sluice_err *err);
void sluice_packer_destroy(struct sluice_packer *packer); /* NULL is allowed */

/* Packs width x height pixels (each 1 .. 65,535), rows packed, into a new buffer from
 * `pool` (NULL: plain memory).  `level`: 0 is the fastest, 1 .. 19 are zstd's and rarely pay
 * for photographs.  SLUICE_E_AGAIN: it would not be smaller than the pixels, so send those;
 * SLUICE_E_INVALID: a size of 0 or above the limit. */
SLUICE_MUST_USE sluice_status sluice_pack_rgb(struct sluice_packer *packer, const uint8_t *pixels,
                                              uint32_t width, uint32_t height, int level,
                                              struct sluice_buf_pool *pool,
                                              struct sluice_buf **packed, struct sluice_err *err);

/* The pixels again, in a new buffer from `pool`.  SLUICE_E_NO_MEMORY: more than max_pixels
 * (0: the codec's limit) or no memory; SLUICE_E_UNSUPPORTED: of a later version;
 * SLUICE_E_CORRUPT: anything else that was not packed here.  *rgb is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_unpack_rgb(struct sluice_packer *packer, const uint8_t *bytes,
                                                size_t len, uint64_t max_pixels,
                                                struct sluice_buf_pool *pool,
                                                struct sluice_rgb *rgb, struct sluice_err *err);

#endif
