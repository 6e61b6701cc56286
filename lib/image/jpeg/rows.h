#ifndef SLUICE_IMAGE_JPEG_ROWS_H
#define SLUICE_IMAGE_JPEG_ROWS_H

#include "base/error.h"
#include "image/image.h"
#include "image/jpeg/index.h"

#include <stddef.h>
#include <stdint.h>

/* JPEG rows: the bytes of an indexed JPEG that decoding a box needs, sent without the rest. Nothing
 * is decoded or recoded.
 *
 *     | the file before its scan | the rows of MCUs | EOI | their points in the index | 4: how many
 *                                                                                       bytes these
 *
 * The bytes before the points are a JPEG with missing rows.  sluice_jpeg_rows_open() gives the
 * index with which decoders and cutters find the rows present; they fail if they need others.
 * docs/DECODING.md has the format of the points.
 *
 * The promise: a box of the rows decodes to the file's own pixels.  Packing accepts only rows whose
 * bytes match the index, and only files that both the CPU's window decoder and the GPU's cover.
 * Opening is safe with any bytes; its memory is bounded by a multiple of their length.
 *
 * Threads: pure functions. */

struct sluice_buf;
struct sluice_buf_pool;

/* Limit of the packed size, in percent of the file.  Above 100 because, even where the box needs
 * nearly all rows, the points cost less than the search of the whole scan that they spare the
 * receiver. */
#define SLUICE_JPEG_ROWS_MAX_PERCENT 106

/* The points of all rows of the image, at 16 bytes each, may take at most this many bytes more than
 * the packed length. */
#define SLUICE_JPEG_ROWS_MAX_POINT_BYTES (64u << 10)

/* Replaces *file (the whole file, or the parts of sluice_jpeg_index_parts()) with the rows that
 * `box` needs, in place or, if there is not enough room, in a new buffer from `pool` (may be NULL).
 * The box is within the image; the caller has the only reference.
 *
 * SLUICE_E_AGAIN: the result would exceed its limit.  SLUICE_E_UNSUPPORTED: such files are not sent
 * as rows.  SLUICE_E_CORRUPT: the bytes do not match the index.  *file is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_jpeg_rows_pack(const struct sluice_jpeg_index *index,
                                                    const struct sluice_box *box,
                                                    struct sluice_buf_pool *pool,
                                                    struct sluice_buf **file,
                                                    struct sluice_err *err);

/* Reads the points of packed rows.  The first *file_len bytes are the JPEG; *index is its index,
 * with is_partial.  Clear it.  SLUICE_E_CORRUPT: invalid bytes. */
SLUICE_MUST_USE sluice_status sluice_jpeg_rows_open(const uint8_t *bytes, size_t len,
                                                    size_t *file_len,
                                                    struct sluice_jpeg_index *index,
                                                    struct sluice_err *err);

#endif
