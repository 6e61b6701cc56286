#include "image/jpeg/stretch.h"

#include "base/array.h"
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static bool push_segment(struct sluice_jpeg_stretch *stretch, size_t end)
{
    struct sluice_jpeg_scan *scan = &stretch->scan;
    if (!sluice_array_reserve(&scan->segment_ends, &stretch->segment_capacity,
                              scan->num_segments + 1, sizeof(*scan->segment_ends)))
        return false;
    scan->segment_ends[scan->num_segments++] = end;
    return true;
}

/* Appends [in, end) without stuffing.  `segment` is that of the first byte; it tells which restart
 * markers must come. */
static bool unstuff(struct sluice_jpeg_stretch *stretch, const struct sluice_jpeg *jpeg,
                    const uint8_t *in, const uint8_t *end, uint32_t segment)
{
    uint8_t *const start = stretch->data, *out = start + stretch->len;
    while (in < end) {
        /* Excess bytes are overwritten by the next. */
        const size_t run = sluice_jpeg_copy_before_ff(out, in, (size_t)(end - in));
        in += run;
        out += run;
        if (in == end)
            break;
        const uint8_t *mark = in++;
        while (in < end && *in == 0xFF)
            in++;
        if (in == end)
            return false;
        if (*in == 0) {
            if (in - mark != 1)
                return false;
            *out++ = 0xFF;
        } else if (jpeg->restart_interval == 0 || *in != 0xD0 + segment++ % 8 ||
                   !push_segment(stretch, (size_t)(out - start))) {
            return false;
        }
        in++;
    }
    stretch->len = (size_t)(out - start);
    return true;
}

/* There must be room for it. */
static void push_mark(struct sluice_jpeg_stretch *stretch, const struct sluice_jpeg_index *index,
                      const struct sluice_jpeg_index_point *point, uint32_t column, size_t bit)
{
    struct sluice_jpeg_mark *mark = &stretch->marks[stretch->num_marks++];
    *mark = (struct sluice_jpeg_mark){.column = column, .bit = bit};
    for (unsigned c = 0; c < index->num_components; c++)
        mark->dc[c] = point->dc[c];
}

/* Unstuffs a row from point `first` up to point `last`, and sets the marks. */
static bool unstuff_marked(struct sluice_jpeg_stretch *stretch,
                           const struct sluice_jpeg_index *index, const struct sluice_jpeg *jpeg,
                           const uint8_t *bytes, const uint8_t *end, uint32_t row, uint32_t first,
                           uint32_t last)
{
    const struct sluice_jpeg_index_point *points =
        &index->points[(size_t)row * index->points_across];
    const size_t *len = &stretch->len;
    const uint8_t *from = bytes + points[first].offset;
    uint32_t inside = stretch->has_all_marks || last - 1 == first ? first + 1 : last - 1;
    if (!sluice_array_reserve(&stretch->marks, &stretch->mark_capacity, last - inside + 1,
                              sizeof(*stretch->marks)))
        return false;
    for (; inside < last; inside++) {
        const struct sluice_jpeg_index_point *inner = &points[inside];
        if (!unstuff(stretch, jpeg, from, bytes + inner->offset, 0))
            return false;
        push_mark(stretch, index, inner, inside * index->step, *len * 8 + inner->bit);
        from = bytes + inner->offset;
    }
    if (!unstuff(stretch, jpeg, from, end, 0))
        return false;
    /* The next point after the row's last is the next row's first. */
    if (last < index->points_across || row + 1 < index->mcus_down) {
        const struct sluice_jpeg_index_point *behind = &points[last];
        const uint32_t column =
            last < index->points_across ? last * index->step : index->mcus_across;
        push_mark(stretch, index, behind, column, *len * 8 - (behind->bit ? 8u - behind->bit : 0));
    }
    return true;
}

/* Room for these bytes in the stretch's own memory. */
static bool reserve_data(struct sluice_jpeg_stretch *stretch, size_t bytes,
                         struct sluice_buf_pool *pool)
{
    const size_t room = bytes + SLUICE_JPEG_SCAN_SLACK;
    if (stretch->scan.data && stretch->scan.data->capacity >= room)
        return true;
    sluice_buf_unref(stretch->scan.data);
    stretch->scan.data = NULL;
    if (sluice_buf_create(pool, room + room / 2, &stretch->scan.data, NULL) != SLUICE_OK)
        return false;
    memset(stretch->scan.data->data, 0, stretch->scan.data->capacity);
    return true;
}

bool sluice_jpeg_stretch_read(struct sluice_jpeg_stretch *stretch,
                              const struct sluice_jpeg_index *index, const struct sluice_jpeg *jpeg,
                              const uint8_t *bytes, uint32_t row, uint32_t first_column,
                              uint32_t end_column, struct sluice_buf_pool *pool)
{
    const uint32_t first = first_column / index->step;
    const uint32_t last = (end_column - 1) / index->step + 1;
    const struct sluice_jpeg_index_point *point =
        &index->points[(size_t)row * index->points_across + first];
    const uint32_t end = sluice_jpeg_index_end_before(index, bytes, row, last);
    if (end > index->scan_end || !sluice_jpeg_index_has_row(index, bytes, row))
        return false;
    if (!stretch->into && !reserve_data(stretch, end - point->offset, pool))
        return false;
    stretch->data = stretch->into ? stretch->into : stretch->scan.data->data;
    stretch->len = 0;
    stretch->column = first * index->step;
    stretch->bit = point->bit;
    for (unsigned c = 0; c < index->num_components; c++)
        stretch->dc[c] = point->dc[c];
    const uint32_t interval = jpeg->restart_interval;
    const uint32_t mcu = row * index->mcus_across + stretch->column;
    stretch->mcus_left = interval ? interval - mcu % interval : UINT32_MAX;
    stretch->scan.num_segments = 0;
    stretch->num_marks = 0;
    if (interval ? !unstuff(stretch, jpeg, bytes + point->offset, bytes + end, mcu / interval)
                 : !unstuff_marked(stretch, index, jpeg, bytes, bytes + end, row, first, last))
        return false;
    if (!stretch->into)
        stretch->scan.data->len = stretch->len;
    return push_segment(stretch, stretch->len);
}

void sluice_jpeg_stretch_clear(struct sluice_jpeg_stretch *stretch)
{
    sluice_buf_unref(stretch->scan.data);
    free(stretch->scan.segment_ends);
    free(stretch->marks);
    *stretch = (struct sluice_jpeg_stretch){0};
}
