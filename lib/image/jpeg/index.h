#ifndef SLUICE_IMAGE_JPEG_INDEX_H
#define SLUICE_IMAGE_JPEG_INDEX_H

#include "base/error.h"
#include "base/file.h"
#include "image/image.h"
#include "image/jpeg/entropy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A random-access index of a JPEG: where in the scan its MCU rows begin, so that a reader of some
 * rows need not parse those above.
 *
 * A point is an MCU's first bit and the DC predictors there.  Each row of MCUs has a point at its
 * first MCU and, on demand, one every `step` MCUs.  An index is made from the whole file.  It holds
 * the file's length and time, a hash of its headers and a hash of each row's bytes, which is
 * compared when the row is read.  So a reader detects a changed file, and reads only the headers,
 * the rows it needs and the end of the scan.
 *
 * Neither a malicious file nor a malicious index can break memory safety.  But a forged index can
 * give wrong pixels without an error: take indexes from the same source as the files.
 *
 * Threads: pure functions; an index may be shared. */

struct sluice_buf;
struct sluice_buf_pool;

#define SLUICE_JPEG_INDEX_AUTO_STEP UINT32_MAX

struct sluice_jpeg_index_point {
    uint32_t offset; /* in the file, of the byte that holds the first bit */
    uint8_t bit;     /* in that byte; 0: the top one */
    int16_t dc[SLUICE_JPEG_MAX_COMPONENTS];
};

struct sluice_jpeg_index {
    uint64_t file_len;
    int64_t mtime_ns;              /* 0: not known */
    uint64_t head_hash;            /* of the bytes before scan_start */
    uint32_t scan_start, scan_end; /* scan_end: the marker EOI */
    uint32_t width, height, mcu_width, mcu_height;
    uint32_t mcus_across, mcus_down; /* they follow from the sizes above */
    uint32_t step;                   /* MCUs from a point to the next in its row */
    uint32_t points_across;
    unsigned num_components;
    struct sluice_jpeg_index_point *points; /* mcus_down x points_across; owned */
    uint32_t *row_hashes;                   /* mcus_down; owned */

    /* Set by a reader that has read only sluice_jpeg_index_parts() of the file: decoders and
     * cutters then fail instead of falling back on the whole file.  Not written. */
    bool is_partial;
};

/* `step` 0: one point a row; SLUICE_JPEG_INDEX_AUTO_STEP: the least step from 8 MCUs on with which
 * a row has at most 8 points.  SLUICE_E_UNSUPPORTED, SLUICE_E_CORRUPT: jpeg/entropy.h does not
 * cover the file to its last bit.  *index is untouched on failure. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_build(const uint8_t *bytes, size_t len,
                                                      int64_t mtime_ns, uint32_t step,
                                                      struct sluice_jpeg_index *index,
                                                      struct sluice_err *err);
void sluice_jpeg_index_clear(struct sluice_jpeg_index *index); /* idempotent; fine on {0} */
/* Clears and frees; NULL is fine. */
void sluice_jpeg_index_destroy(struct sluice_jpeg_index *index);

/* Writes an index as bytes (docs/DECODING.md has the format), and parses it.  SLUICE_E_CORRUPT: the
 * bytes are invalid or contradict themselves. */
SLUICE_MUST_USE sluice_status sluice_jpeg_index_write(const struct sluice_jpeg_index *index,
                                                      struct sluice_buf **entry,
                                                      struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_jpeg_index_parse(const uint8_t *entry, size_t len,
                                                      struct sluice_jpeg_index *index,
                                                      struct sluice_err *err);

/* Whether headers and length match the indexed file.  Rows are compared when they are read. */
bool sluice_jpeg_index_fits(const struct sluice_jpeg_index *index, const struct sluice_jpeg *jpeg,
                            const uint8_t *bytes, size_t len);

/* Whether EOI is where the index says, possibly after fill bytes; and the last possible end of the
 * fill bytes.  `bytes` are the file or its parts. */
bool sluice_jpeg_index_has_end(const struct sluice_jpeg_index *index, const uint8_t *bytes);
size_t sluice_jpeg_index_tail_end(const struct sluice_jpeg_index *index);

/* Whether a row's bytes match the index. */
bool sluice_jpeg_index_has_row(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                               uint32_t row);

/* The end of the bytes of the file that hold bits before a row's point, which may be in the middle
 * of a byte; points_across: before the next row. */
uint32_t sluice_jpeg_index_end_before(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                                      uint32_t row, uint32_t point);

/* The rows of MCUs that decoding or cutting this box needs.  The box is within the image. */
void sluice_jpeg_index_rows(const struct sluice_jpeg_index *index, const struct sluice_box *box,
                            uint32_t *first_row, uint32_t *end_row);

/* The bytes [*from, *to) of the file that MCU rows [first_row, end_row) need, in addition to those
 * before scan_start and from scan_end on.  end_row is within the image. */
void sluice_jpeg_index_range(const struct sluice_jpeg_index *index, uint32_t first_row,
                             uint32_t end_row, uint32_t *from, uint32_t *to);

/* The parts of the file that decoding or cutting this box with the index needs, in ascending order.
 * The box is within the image.  Parts with a small gap between them are joined.  Returns the number
 * of parts. */
#define SLUICE_JPEG_INDEX_MAX_PARTS 3
unsigned sluice_jpeg_index_parts(const struct sluice_jpeg_index *index,
                                 const struct sluice_box *box,
                                 struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS]);

#endif
