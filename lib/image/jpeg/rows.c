#include "image/jpeg/rows.h"

#include "base/buf.h"
#include "base/hash.h"
#include "image/jpeg/index_bytes.h"

#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define LEN_BYTES 4
#define POINT_BYTES 16

/* Which part of a file it is. */
struct rows {
    const struct sluice_jpeg_index *index;
    uint32_t first, end; /* rows of MCUs */
    uint32_t from, to;   /* their bytes */
};

static uint64_t num_points_of(const struct sluice_jpeg_index *index)
{
    return (uint64_t)index->mcus_down * index->points_across;
}

static bool has_room(uint64_t num_points, size_t len)
{
    return num_points * POINT_BYTES <= (uint64_t)SLUICE_JPEG_ROWS_MAX_POINT_BYTES + len;
}

/* Sampling that every decoder of rows covers.  What the index does not tell (as of quantisers) the
 * receiver finds out. */
static bool is_covered(const struct sluice_jpeg_index *index)
{
    return index->mcu_width <= 16 && index->mcu_height <= 16 &&
           (index->num_components == 1 || index->num_components == 3) &&
           (index->mcu_width == 8 || index->width > 4);
}

static sluice_status check_rows(const struct rows *rows, const uint8_t *bytes,
                                struct sluice_err *err)
{
    const struct sluice_jpeg_index *index = rows->index;
    bool is_right = sluice_hash64(bytes, index->scan_start) == index->head_hash &&
                    sluice_jpeg_index_has_end(index, bytes);
    for (uint32_t row = rows->first; is_right && row < rows->end; row++)
        is_right = sluice_jpeg_index_has_row(index, bytes, row);
    return is_right ? SLUICE_OK
                    : sluice_fail(err, SLUICE_E_CORRUPT, "JPEG is not as it was indexed");
}

static sluice_status write_points(const struct rows *rows, struct sluice_buf **entry,
                                  struct sluice_err *err)
{
    const struct sluice_jpeg_index *index = rows->index;
    const size_t num_rows = rows->end - rows->first;
    const sluice_status status =
        sluice_buf_create(NULL,
                          32 + 8 * SLUICE_INDEX_MAX_VARINT + 4 * num_rows +
                              (num_rows * index->points_across + 1) * SLUICE_INDEX_MAX_POINT,
                          entry, err);
    if (status != SLUICE_OK)
        return status;
    uint8_t *out = (*entry)->data;
    *out++ = VERSION;
    *out++ = (uint8_t)index->num_components;
    *out++ = (uint8_t)(index->mcu_width / 8);
    *out++ = (uint8_t)(index->mcu_height / 8);
    out = sluice_index_put_fixed(out, index->head_hash, 8);
    out = sluice_index_put_varint(out, index->scan_start);
    out = sluice_index_put_varint(out, rows->to - rows->from);
    out = sluice_index_put_varint(out, index->width);
    out = sluice_index_put_varint(out, index->height);
    out = sluice_index_put_varint(out, index->step);
    out = sluice_index_put_varint(out, rows->first);
    out = sluice_index_put_varint(out, num_rows);
    struct sluice_jpeg_index_point last = {.offset = rows->from};
    const struct sluice_jpeg_index_point *point =
        &index->points[(size_t)rows->first * index->points_across];
    for (uint32_t row = rows->first; row < rows->end; row++) {
        out = sluice_index_put_fixed(out, index->row_hashes[row], 4);
        for (uint32_t k = 0; k < index->points_across; k++)
            out = sluice_index_put_point(out, point++, index->num_components, &last);
    }
    if (rows->end < index->mcus_down) /* where the last row ends */
        out = sluice_index_put_point(out, point, index->num_components, &last);
    (*entry)->len = (size_t)(out - (*entry)->data);
    return SLUICE_OK;
}

/* Puts the parts and the points side by side in `out`, which may be the file: nothing moves up. */
static void put_together(const struct rows *rows, const uint8_t *bytes,
                         const struct sluice_buf *entry, uint8_t *out)
{
    const struct sluice_jpeg_index *index = rows->index;
    const size_t rows_len = rows->to - rows->from;
    const size_t tail_len = sluice_jpeg_index_tail_end(index) - index->scan_end;
    memmove(out, bytes, index->scan_start);
    out += index->scan_start;
    memmove(out, bytes + rows->from, rows_len);
    out += rows_len;
    memmove(out, bytes + index->scan_end, tail_len);
    out += tail_len;
    memcpy(out, entry->data, entry->len);
    (void)sluice_index_put_fixed(out + entry->len, entry->len, LEN_BYTES);
}

sluice_status sluice_jpeg_rows_pack(const struct sluice_jpeg_index *index,
                                    const struct sluice_box *box, struct sluice_buf_pool *pool,
                                    struct sluice_buf **file, struct sluice_err *err)
{
    struct sluice_buf *in = *file, *out = in, *entry = NULL;
    if (index->file_len != in->len)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG of another length than its index says");
    if (!is_covered(index))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG of a sampling that goes as it is");
    struct rows rows = {.index = index};
    sluice_jpeg_index_rows(index, box, &rows.first, &rows.end);
    sluice_jpeg_index_range(index, rows.first, rows.end, &rows.from, &rows.to);
    sluice_status status = check_rows(&rows, in->data, err);
    if (status == SLUICE_OK)
        status = write_points(&rows, &entry, err);
    if (status != SLUICE_OK)
        return status;
    const size_t len = index->scan_start + (rows.to - rows.from) +
                       (sluice_jpeg_index_tail_end(index) - index->scan_end) + entry->len +
                       LEN_BYTES;
    if ((uint64_t)len * 100 > (uint64_t)in->len * SLUICE_JPEG_ROWS_MAX_PERCENT ||
        !has_room(num_points_of(index), len))
        status =
            sluice_fail(err, SLUICE_E_AGAIN, "rows of a JPEG and their points have %zu bytes", len);
    else if (len > in->capacity)
        status = sluice_buf_create(pool, len, &out, err);
    if (status == SLUICE_OK) {
        put_together(&rows, in->data, entry, out->data);
        out->len = len;
        if (out != in)
            sluice_buf_unref(in);
        *file = out;
    }
    sluice_buf_unref(entry);
    return status;
}

/* --- and back --- */

static sluice_status contradicts(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "rows of a JPEG whose points contradict them");
}

static bool get_head(struct sluice_index_reader *in, size_t file_len,
                     struct sluice_jpeg_index *index, struct rows *rows)
{
    const uint64_t version = sluice_index_get_fixed(in, 1);
    index->num_components = (unsigned)sluice_index_get_fixed(in, 1);
    index->mcu_width = 8 * (uint32_t)sluice_index_get_fixed(in, 1);
    index->mcu_height = 8 * (uint32_t)sluice_index_get_fixed(in, 1);
    index->head_hash = sluice_index_get_fixed(in, 8);
    index->scan_start = (uint32_t)sluice_index_get_varint(in, file_len);
    index->scan_end = index->scan_start + (uint32_t)sluice_index_get_varint(in, file_len);
    index->width = (uint32_t)sluice_index_get_varint(in, UINT16_MAX);
    index->height = (uint32_t)sluice_index_get_varint(in, UINT16_MAX);
    index->step = (uint32_t)sluice_index_get_varint(in, UINT16_MAX);
    rows->first = (uint32_t)sluice_index_get_varint(in, UINT16_MAX);
    rows->end = rows->first + (uint32_t)sluice_index_get_varint(in, UINT16_MAX);
    if (in->is_bad || version != VERSION || index->width < 1 || index->height < 1 ||
        index->mcu_width < 8 || index->mcu_height < 8 || !is_covered(index) || index->step < 1 ||
        index->scan_end > file_len - 2 || rows->end == rows->first)
        return false;
    index->file_len = file_len;
    index->mcus_across = (index->width + index->mcu_width - 1) / index->mcu_width;
    index->mcus_down = (index->height + index->mcu_height - 1) / index->mcu_height;
    index->points_across = (index->mcus_across + index->step - 1) / index->step;
    return rows->end <= index->mcus_down;
}

/* The points of rows that did not come: before the scan's first bit, or at its end, so that no part
 * between two of them has a negative length.  Their hashes are those of no bytes, inverted. */
static bool get_points(struct sluice_index_reader *in, const struct rows *rows,
                       struct sluice_jpeg_index *index)
{
    const struct sluice_jpeg_index_point end = {.offset = index->scan_end};
    struct sluice_jpeg_index_point last = {.offset = index->scan_start}, *point = index->points;
    const uint32_t of_nothing = ~(uint32_t)sluice_hash64("", 0);
    bool is_first = true;
    for (uint32_t row = 0; row < index->mcus_down; row++) {
        const bool is_here = row >= rows->first && row < rows->end;
        index->row_hashes[row] = is_here ? (uint32_t)sluice_index_get_fixed(in, 4) : of_nothing;
        for (uint32_t k = 0; k < index->points_across; k++) {
            const bool has_come = is_here || (row == rows->end && k == 0);
            if (has_come && !sluice_index_get_point(in, index->num_components, is_first,
                                                    index->scan_end, &last))
                return false;
            is_first = is_first && !has_come;
            *point++ = has_come || row < rows->first ? last : end;
        }
    }
    return !in->is_bad && in->at == in->end;
}

sluice_status sluice_jpeg_rows_open(const uint8_t *bytes, size_t len, size_t *file_len,
                                    struct sluice_jpeg_index *out, struct sluice_err *err)
{
    if (len < LEN_BYTES)
        return contradicts(err);
    struct sluice_index_reader tail = {.at = bytes + len - LEN_BYTES, .end = bytes + len};
    const size_t entry_len = (size_t)sluice_index_get_fixed(&tail, LEN_BYTES);
    if (entry_len > len - LEN_BYTES || len - LEN_BYTES - entry_len < 2)
        return contradicts(err);
    const size_t jpeg_len = len - LEN_BYTES - entry_len;
    struct sluice_index_reader in = {.at = bytes + jpeg_len, .end = bytes + jpeg_len + entry_len};
    struct sluice_jpeg_index index = {.is_partial = true};
    struct rows rows = {.index = &index};
    if (!get_head(&in, jpeg_len, &index, &rows) || !has_room(num_points_of(&index), len))
        return contradicts(err);
    index.points = calloc((size_t)num_points_of(&index), sizeof(*index.points));
    index.row_hashes = calloc(index.mcus_down, sizeof(*index.row_hashes));
    sluice_status status = SLUICE_OK;
    if (!index.points || !index.row_hashes)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the points of a JPEG");
    else if (!get_points(&in, &rows, &index))
        status = contradicts(err);
    if (status != SLUICE_OK) {
        sluice_jpeg_index_clear(&index);
        return status;
    }
    *file_len = jpeg_len;
    *out = index;
    return SLUICE_OK;
}
