#ifndef SLUICE_IMAGE_JPEG_ROWS_H
#define SLUICE_IMAGE_JPEG_ROWS_H

#include "base/error.h"
#include "image/image.h"
#include "image/jpeg/index.h"

#include <stddef.h>
#include <stdint.h>

/* The part of an indexed JPEG that decoding a box of it needs, as bytes that travel without the
 * rest: nothing is decoded or coded for that.
 *
 *     | the file before its scan | the rows of MCUs | EOI | their points in the index | 4: how many
 *                                                                                       bytes these
 *
 * The bytes before the points are a JPEG that lacks rows.  With the index that opening gives,
 * decoders and cutters find the rows that are there, and fail where they want others.
 * docs/DECODING.md has the format of the points.
 *
 * The promise: a box of the rows decodes to the file's own pixels.  Packing takes only rows whose
 * bytes are those that were indexed, and only files of a kind that this CPU's window decoder and
 * the GPU's both cover.  Opening is safe with any bytes, and allocates no more than a multiple of
 * what came.
 *
 * Threads: pure functions. */

struct sluice_buf;
struct sluice_buf_pool;

/* Of the file: what is packed has at most so much.  More than all of it where the box needs nearly
 * all rows, as their points spare the receiver more than they cost: a search in the whole scan. */
#define SLUICE_JPEG_ROWS_MAX_PERCENT 106

/* What the points of all rows of the image take, those included that did not come, at 16 bytes
 * each: so many more bytes at most than came. */
#define SLUICE_JPEG_ROWS_MAX_POINT_BYTES (64u << 10)

/* Turns *file, all of it or the parts that sluice_jpeg_index_parts() says, into what `box` needs:
 * in place, or where that has no room in a new buffer from `pool` (may be NULL).  The box is within
 * the image; the caller has the only reference.
 *
 * SLUICE_E_AGAIN: that would be larger than it may be.  SLUICE_E_UNSUPPORTED: not a
 * kind of file that is sent so.  SLUICE_E_CORRUPT: the bytes are not those that were indexed.  The
 * file is as it was then. */
SLUICE_MUST_USE sluice_status sluice_jpeg_rows_pack(const struct sluice_jpeg_index *index,
                                                    const struct sluice_box *box,
                                                    struct sluice_buf_pool *pool,
                                                    struct sluice_buf **file,
                                                    struct sluice_err *err);

/* Reads the points of what was packed: the first *file_len bytes are the JPEG, and *index is its
 * index, with is_partial, to be cleared.  SLUICE_E_CORRUPT: not such bytes. */
SLUICE_MUST_USE sluice_status sluice_jpeg_rows_open(const uint8_t *bytes, size_t len,
                                                    size_t *file_len,
                                                    struct sluice_jpeg_index *index,
                                                    struct sluice_err *err);

#endif
