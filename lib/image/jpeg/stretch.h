#ifndef SLUICE_IMAGE_JPEG_STRETCH_H
#define SLUICE_IMAGE_JPEG_STRETCH_H

#include "image/jpeg/index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bits of a part of an MCU row, found by the file's index without reading the bits before it.
 *
 * Threads: a stretch belongs to one thread at a time. */

/* A point within a stretch, or at its end. */
struct sluice_jpeg_mark {
    uint32_t column;
    size_t bit; /* from the start of the stretch's data */
    int32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
};

/* A part of an MCU row, unstuffed. */
struct sluice_jpeg_stretch {
    /* The bits of this part alone; they begin in the middle of a segment.  Bytes of an earlier
     * part, not zeroes, may follow the data: a reader of sound data does not get there. */
    struct sluice_jpeg_scan scan;
    /* Set by the caller, or NULL: memory for the data, with room for as many bytes as the file has
     * of the part.  `scan` has no data then.  Borrowed. */
    uint8_t *into;
    uint8_t *data; /* the bits: `into`, or scan's data */
    size_t len;
    size_t segment_capacity;
    uint32_t column;    /* the MCU that it begins with */
    uint32_t mcus_left; /* in its first segment; UINT32_MAX: no restart interval */
    unsigned bit;       /* of the first byte */
    int32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
    /* By column: the last point within the part, and the first after it; with has_all_marks every
     * point within it.  Only without restart intervals.  A wrong index may put a mark before or
     * after its column's first bit. */
    struct sluice_jpeg_mark *marks; /* owned */
    unsigned num_marks;
    size_t mark_capacity;
    bool has_all_marks; /* set by the caller before it reads */
};

/* Unstuffs MCUs [first_column, end_column) of a row, beginning at the last point up to
 * first_column. The index must fit the file.  False: the row's bytes do not match the index, or
 * memory is short. `stretch` is {0} at first and may be used again. */
bool sluice_jpeg_stretch_read(struct sluice_jpeg_stretch *stretch,
                              const struct sluice_jpeg_index *index, const struct sluice_jpeg *jpeg,
                              const uint8_t *bytes, uint32_t row, uint32_t first_column,
                              uint32_t end_column, struct sluice_buf_pool *pool);
void sluice_jpeg_stretch_clear(struct sluice_jpeg_stretch *stretch); /* idempotent; fine on {0} */

#endif
