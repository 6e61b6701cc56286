#ifndef SLUICE_IMAGE_JPEG_INDEX_BYTES_H
#define SLUICE_IMAGE_JPEG_INDEX_BYTES_H

#include "image/jpeg/index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Coding of the points and numbers of an index, for index files (jpeg/index.c) and for the points
 * sent with JPEG rows (jpeg/rows.c).  docs/DECODING.md has both formats.
 *
 * Threads: pure functions. */

#define SLUICE_INDEX_MAX_VARINT 10
/* As a varint a delta of bits takes up to 5 bytes, a DC delta up to 3. */
#define SLUICE_INDEX_MAX_POINT (5 + 3 * SLUICE_JPEG_MAX_COMPONENTS)

static inline uint8_t *sluice_index_put_fixed(uint8_t *out, uint64_t value, unsigned len)
{
    for (unsigned i = 0; i < len; i++)
        *out++ = (uint8_t)(value >> 8 * i);
    return out;
}

static inline uint8_t *sluice_index_put_varint(uint8_t *out, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *out++ = (uint8_t)(value | 128);
    *out++ = (uint8_t)value;
    return out;
}

struct sluice_index_reader {
    const uint8_t *at, *end;
    bool is_bad; /* set by the first fault; later values are 0 */
};

static inline uint64_t sluice_index_get_fixed(struct sluice_index_reader *in, unsigned len)
{
    uint64_t value = 0;
    in->is_bad = in->is_bad || (size_t)(in->end - in->at) < len;
    for (unsigned i = 0; i < len && !in->is_bad; i++)
        value |= (uint64_t)*in->at++ << 8 * i;
    return value;
}

static inline uint64_t sluice_index_get_varint(struct sluice_index_reader *in, uint64_t most)
{
    uint64_t value = 0;
    const uint8_t *at = in->at;
    for (unsigned shift = 0; shift < 63 && at < in->end && !in->is_bad; shift += 7) {
        const uint64_t byte = *at++;
        value |= (byte & 127) << shift;
        if (byte < 128) {
            in->at = at;
            in->is_bad = value > most;
            return in->is_bad ? 0 : value;
        }
    }
    in->is_bad = true;
    return 0;
}

/* Writes a point as its difference from the one before, *last, and sets *last to it. */
static inline uint8_t *sluice_index_put_point(uint8_t *out,
                                              const struct sluice_jpeg_index_point *point,
                                              unsigned num_components,
                                              struct sluice_jpeg_index_point *last)
{
    out = sluice_index_put_varint(out, (uint64_t)point->offset * 8 + point->bit -
                                           ((uint64_t)last->offset * 8 + last->bit));
    for (unsigned c = 0; c < num_components; c++) {
        const int32_t delta = point->dc[c] - last->dc[c];
        out = sluice_index_put_varint(out, delta < 0 ? 2 * (uint64_t) - (int64_t)delta - 1
                                                     : 2 * (uint64_t)delta);
    }
    *last = *point;
    return out;
}

/* Reads the next point into *last.  It must lie before `end` and, unless it is the first, behind
 * the last one.  False: it does not, or the bytes end. */
static inline bool sluice_index_get_point(struct sluice_index_reader *in, unsigned num_components,
                                          bool is_first, uint32_t end,
                                          struct sluice_jpeg_index_point *last)
{
    const uint64_t step = sluice_index_get_varint(in, (uint64_t)UINT32_MAX * 8);
    const uint64_t bit = (uint64_t)last->offset * 8 + last->bit + step;
    /* The zero after a stuffed 0xFF must lie before the end as well. */
    if (in->is_bad || (!is_first && step == 0) || bit / 8 >= end) {
        in->is_bad = true;
        return false;
    }
    last->offset = (uint32_t)(bit / 8);
    last->bit = bit % 8;
    for (unsigned c = 0; c < num_components; c++) {
        const int64_t delta = (int64_t)sluice_index_get_varint(in, UINT32_MAX >> 8);
        const int64_t dc = last->dc[c] + (delta & 1 ? -((delta + 1) / 2) : delta / 2);
        in->is_bad = in->is_bad || dc > INT16_MAX || dc < INT16_MIN;
        if (in->is_bad)
            return false;
        last->dc[c] = (int16_t)dc;
    }
    return true;
}

#endif
