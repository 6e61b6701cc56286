#include "image/jpeg/crop_cut.h"

#include "base/buf.h"
#include "image/jpeg/crop_mcus.h"
#include "image/jpeg/index.h"
#include "image/jpeg/sync_scan.h"

#include <stdlib.h>

/* A lossless crop: the coded bits of the window's MCUs are copied (crop_mcus.h).
 *
 *     rows above     skipped
 *     kept rows      left | window | right       skipped | copied | skipped
 *     rows below     not read
 *
 * A sync scan (jpeg/sync_scan.h) first finds two points in each row, one before the window and one
 * near its end; then the row is read from the first point and copied up to the second.  An index
 * gives such points as well.  In a file with restart intervals all intervals but the last one
 * before a row are passed over unread, and the rest is parsed MCU by MCU. */

struct walker {
    struct sluice_jpeg_cutter cutter;
    const struct sluice_jpeg *jpeg;
    const struct sluice_jpeg_scan *scan;
    size_t segment;                                        /* the next one */
    uint32_t mcus_left;                                    /* in the one that is read */
    uint32_t first_row, end_row, first_column, end_column; /* MCUs of the window */
};

static sluice_status next_segment(struct walker *walker, struct sluice_err *err)
{
    const struct sluice_jpeg_scan *scan = walker->scan;
    if (walker->segment == scan->num_segments)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG has too few restart markers");
    const size_t start = walker->segment ? scan->segment_ends[walker->segment - 1] : 0;
    sluice_jpeg_cutter_read(&walker->cutter, scan, walker->segment++, start * 8, NULL);
    walker->mcus_left = walker->jpeg->restart_interval
                            ? walker->jpeg->restart_interval
                            : walker->jpeg->mcus_across * walker->jpeg->mcus_down;
    return SLUICE_OK;
}

/* Keeps the next num_mcus, which lie in `row` from `column` on, or skips them. */
static sluice_status walk(struct walker *walker, uint32_t row, uint32_t column, uint32_t num_mcus,
                          bool is_kept, struct sluice_err *err)
{
    while (num_mcus > 0) {
        if (walker->mcus_left == 0) {
            const sluice_status status = next_segment(walker, err);
            if (status != SLUICE_OK)
                return status;
        }
        const uint32_t run = num_mcus < walker->mcus_left ? num_mcus : walker->mcus_left;
        sluice_status status = SLUICE_OK;
        if (is_kept)
            status = sluice_jpeg_cutter_keep(&walker->cutter, row, column, run, err);
        else if (run < walker->mcus_left) /* else the next MCU comes after a restart */
            status = sluice_jpeg_cutter_skip(&walker->cutter, run, err);
        if (status != SLUICE_OK)
            return status;
        walker->mcus_left -= run;
        num_mcus -= run;
        column += run;
    }
    return SLUICE_OK;
}

/* Reads a file that has restart markers. */
static sluice_status walk_segments(struct walker *walker, struct sluice_err *err)
{
    const uint32_t across = walker->jpeg->mcus_across;
    const uint32_t num_columns = walker->end_column - walker->first_column;
    sluice_status status =
        walk(walker, 0, 0, walker->first_row * across + walker->first_column, false, err);
    for (uint32_t row = walker->first_row; row < walker->end_row && status == SLUICE_OK; row++) {
        sluice_jpeg_cutter_begin_row(&walker->cutter, row);
        status = walk(walker, row, walker->first_column, num_columns, true, err);
        if (status == SLUICE_OK && row + 1 < walker->end_row)
            status = walk(walker, row, walker->end_column, across - num_columns, false, err);
    }
    return status;
}

/* Where reading a row begins. */
struct start {
    const struct sluice_jpeg_scan *scan;
    size_t bit; /* in the scan's first segment */
    uint32_t column, mcus_left;
    const int32_t *dc;
};

/* Reads one row. */
static sluice_status walk_row(struct walker *walker, uint32_t row, const struct start *start,
                              const struct sluice_jpeg_mark *marks, size_t num_marks,
                              struct sluice_err *err)
{
    const uint32_t first = walker->first_column;
    walker->scan = start->scan;
    walker->segment = 1;
    walker->mcus_left = start->mcus_left;
    walker->cutter.marks = marks;
    walker->cutter.num_marks = num_marks;
    sluice_jpeg_cutter_read(&walker->cutter, start->scan, 0, start->bit, start->dc);
    sluice_jpeg_cutter_begin_row(&walker->cutter, row);
    sluice_status status = walk(walker, row, start->column, first - start->column, false, err);
    if (status == SLUICE_OK)
        status = walk(walker, row, first, walker->end_column - first, true, err);
    return status;
}

static sluice_status walk_indexed(struct walker *walker, const struct sluice_jpeg_cut *cut,
                                  struct sluice_jpeg_stretch *stretch, struct sluice_buf_pool *pool,
                                  struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (uint32_t row = walker->first_row; row < walker->end_row && status == SLUICE_OK; row++) {
        if (!sluice_jpeg_stretch_read(stretch, cut->index, cut->jpeg, cut->bytes, row,
                                      walker->first_column, walker->end_column, pool))
            return sluice_jpeg_fail_damaged(err);
        const struct start start = {.scan = &stretch->scan,
                                    .bit = stretch->bit,
                                    .column = stretch->column,
                                    .mcus_left = stretch->mcus_left,
                                    .dc = stretch->dc};
        status = walk_row(walker, row, &start, stretch->marks, stretch->num_marks, err);
    }
    return status;
}

/* A shorter segment is parsed whole: most of it is coded again, and points would take memory. */
#define LEAST_INTERVAL_TO_AIM_AT 4

/* Puts the aims of one row, in which the crop's segment still takes `kept_left` MCUs: where the row
 * is read from, the ends of segments, and the end of what is copied.  Returns their number. */
static size_t aim_at_row(const struct walker *walker, uint32_t row, uint32_t kept_left,
                         struct sluice_jpeg_sync_scan_aim *aims)
{
    uint32_t column = walker->first_column, end = walker->end_column;
    /* A column with unneeded blocks must be parsed, so the last point comes before it. */
    if (end - 1 > column && sluice_jpeg_cutter_has_blank_column(&walker->cutter, end - 1))
        end--;
    size_t num_aims = 0;
    aims[num_aims++] = (struct sluice_jpeg_sync_scan_aim){row, 0, column};
    if (walker->cutter.kept_interval >= LEAST_INTERVAL_TO_AIM_AT) {
        for (; end - column > kept_left; kept_left = walker->cutter.kept_interval) {
            column += kept_left;
            aims[num_aims++] = (struct sluice_jpeg_sync_scan_aim){row, column, column};
        }
    }
    aims[num_aims++] = (struct sluice_jpeg_sync_scan_aim){row, column + 1, end};
    return num_aims;
}

/* MCUs that the segment still takes after these. */
static uint32_t kept_left_after(const struct walker *walker, uint64_t num_mcus)
{
    return walker->cutter.kept_interval - (uint32_t)(num_mcus % walker->cutter.kept_interval);
}

/* Reads from points that a sync scan found. */
static sluice_status walk_by_sync_scan(struct walker *walker, const struct sluice_jpeg_scan *scan,
                                       struct sluice_buf_pool *pool, struct sluice_err *err)
{
    const uint32_t num_rows = walker->end_row - walker->first_row;
    const uint32_t num_columns = walker->end_column - walker->first_column;
    size_t in_row = 2;
    if (walker->cutter.kept_interval >= LEAST_INTERVAL_TO_AIM_AT)
        in_row += num_columns / walker->cutter.kept_interval + 1;
    struct sluice_buf *memory = NULL;
    struct sluice_jpeg_point *points;
    struct sluice_jpeg_mark *marks;
    struct sluice_jpeg_sync_scan_aim *aims;
    const size_t most = num_rows * in_row;
    sluice_status status = sluice_buf_create(
        pool, most * (sizeof(*points) + sizeof(*aims)) + in_row * sizeof(*marks), &memory, err);
    if (status != SLUICE_OK)
        return status;
    points = (struct sluice_jpeg_point *)(void *)memory->data;
    marks = (struct sluice_jpeg_mark *)(void *)(points + most);
    aims = (struct sluice_jpeg_sync_scan_aim *)(void *)(marks + in_row);
    size_t num_aims = 0;
    for (uint32_t i = 0; i < num_rows; i++)
        num_aims += aim_at_row(walker, walker->first_row + i,
                               kept_left_after(walker, (uint64_t)i * num_columns), aims + num_aims);
    if (!sluice_jpeg_sync_scan(walker->cutter.lanes, walker->jpeg, scan, aims, num_aims, pool,
                               points))
        status = sluice_jpeg_fail_damaged(err);
    for (size_t p = 0; p < num_aims && status == SLUICE_OK;) {
        const uint32_t row = aims[p].row;
        const struct sluice_jpeg_point *from = &points[p++];
        const struct start start = {.scan = scan,
                                    .bit = from->bit,
                                    .column = from->column,
                                    .mcus_left = from->mcus_left,
                                    .dc = from->dc};
        size_t num_marks = 0;
        for (; p < num_aims && aims[p].row == row; p++) {
            struct sluice_jpeg_mark *mark = &marks[num_marks++];
            *mark = (struct sluice_jpeg_mark){.column = points[p].column, .bit = points[p].bit};
            memcpy(mark->dc, points[p].dc, sizeof(mark->dc));
        }
        status = walk_row(walker, row, &start, marks, num_marks, err);
    }
    sluice_buf_unref(memory);
    return status;
}

/* An upper bound of the bytes of rows [first_row, end_row), as long as no block is coded again. */
static size_t kept_room(const struct sluice_jpeg_cut *cut, const struct sluice_jpeg_scan *scan,
                        uint32_t first_row, uint32_t end_row, size_t *num_segments)
{
    if (!cut->index) {
        *num_segments = scan->num_segments;
        return scan->data->len;
    }
    const uint32_t interval = cut->jpeg->restart_interval;
    const size_t num_mcus = (size_t)(end_row - first_row) * cut->jpeg->mcus_across;
    *num_segments = 2 + (interval ? num_mcus / interval : 0);
    uint32_t from, to;
    sluice_jpeg_index_range(cut->index, first_row, end_row, &from, &to);
    return to - from + 2 * (size_t)(end_row - first_row); /* rows may meet in a byte */
}

/* Allocates an empty scan. */
static sluice_status make_room(struct sluice_jpeg_scan *kept, size_t bytes, size_t num_segments,
                               struct sluice_buf_pool *pool, struct sluice_err *err)
{
    kept->segment_ends = malloc(num_segments * sizeof(*kept->segment_ends));
    if (!kept->segment_ends)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu segments", num_segments);
    return sluice_buf_create(pool, bytes + SLUICE_JPEG_SCAN_SLACK, &kept->data, err);
}

sluice_status sluice_jpeg_cut_mcus(const struct sluice_jpeg_cut *cut, struct sluice_buf_pool *pool,
                                   struct sluice_jpeg_scan *out, struct sluice_err *err)
{
    struct sluice_jpeg *jpeg = cut->jpeg;
    const uint32_t first_row = cut->window->top / jpeg->mcu_height;
    const uint32_t first_column = cut->window->left / jpeg->mcu_width;
    const uint32_t num_rows = sluice_divide_up(cut->window->height, jpeg->mcu_height);
    const uint32_t num_columns = sluice_divide_up(cut->window->width, jpeg->mcu_width);
    struct sluice_jpeg_scan scan = {0}, kept = {0};
    struct sluice_jpeg_stretch stretch = {0};
    struct sluice_buf *tables = NULL;
    struct walker walker = {.jpeg = jpeg,
                            .scan = &scan,
                            .first_row = first_row,
                            .end_row = first_row + num_rows,
                            .first_column = first_column,
                            .end_column = first_column + num_columns};
    struct sluice_jpeg_cutter *cutter = &walker.cutter;
    sluice_status status = SLUICE_OK;
    if (!cut->index)
        status = sluice_jpeg_scan_read(jpeg, pool, &scan, err);
    if (status == SLUICE_OK)
        status = sluice_buf_create(pool, sizeof(struct sluice_jpeg_cut_tables), &tables, err);
    if (status != SLUICE_OK)
        goto done;
    /* A block that is coded again may grow by the longest DC code and its value, 27 bits; and a
     * segment's last byte is filled up. */
    size_t num_segments;
    const size_t room = kept_room(cut, &scan, first_row, first_row + num_rows, &num_segments);
    const size_t num_kept =
        1 + ((size_t)num_rows * num_columns - 1) / cut->restart_interval; /* segments */
    const size_t num_again =
        (2 * (size_t)num_columns + 3 * (size_t)num_rows + num_segments + num_kept) *
        jpeg->blocks_in_mcu;
    status = make_room(&kept, room + num_again * 4 + num_kept + 16, num_kept, pool, err);
    if (status == SLUICE_OK)
        status = sluice_jpeg_cutter_init(
            cutter, jpeg, (struct sluice_jpeg_cut_tables *)(void *)tables->data, err);
    if (status != SLUICE_OK)
        goto done;
    cutter->kept = &kept;
    cutter->out.next = kept.data->data;
    cutter->box = cut->box;
    cutter->first_column = walker.first_column;
    cutter->end_column = walker.end_column;
    cutter->kept_interval = cut->restart_interval;
    sluice_jpeg_cutter_begin_segment(cutter);
    stretch.has_all_marks = cut->restart_interval < num_columns;
    if (cut->index)
        status = walk_indexed(&walker, cut, &stretch, pool, err);
    else if (jpeg->restart_interval)
        status = walk_segments(&walker, err);
    else
        status = walk_by_sync_scan(&walker, &scan, pool, err);
    if (status != SLUICE_OK)
        goto done;
    if (cutter->kept_left < cutter->kept_interval)
        sluice_jpeg_cutter_end_segment(cutter);
    kept.data->len = (size_t)(cutter->out.next - kept.data->data);
    *out = kept;
    kept = (struct sluice_jpeg_scan){0};

done:
    sluice_jpeg_scan_clear(&scan);
    sluice_jpeg_scan_clear(&kept);
    sluice_jpeg_stretch_clear(&stretch);
    sluice_buf_unref(tables);
    return status;
}
