#include "image/jpeg/lane_reader.h"
#include "image/jpeg/sync_scan.h"
#include "image/jpeg/window_internal.h"

/* Finds where the wanted rows of MCUs begin: by the restart markers, where there are any, else by a
 * sync scan (jpeg/sync_scan.h). */

/* MCUs.  If no more than these lie before a row's first wanted one, they are decoded, not skipped:
 * tables of skips would have to be made first. */
#define MAX_READ_BEFORE 4

static bool find_from_segments(struct sluice_jpeg_window *window,
                               const struct sluice_jpeg_source *source)
{
    const struct sluice_jpeg *jpeg = source->jpeg;
    const struct sluice_jpeg_scan *scan = source->scan;
    const struct sluice_jpeg_mcu_range *wanted = &source->wanted;
    const uint32_t interval = jpeg->restart_interval;
    struct sluice_jpeg_point at = {.scan = scan};
    struct sluice_jpeg_reader in = {0};
    uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS] = {0};
    bool has_skips = false;
    for (uint32_t row = wanted->first_row; row < wanted->end_row; row++) {
        const uint32_t row_start = row * jpeg->mcus_across;
        const uint32_t mcu = row_start + wanted->first_column;
        if (mcu / interval != at.segment || row == wanted->first_row) {
            at = (struct sluice_jpeg_point){
                .scan = scan, .segment = mcu / interval, .mcus_left = interval};
            if (at.segment >= scan->num_segments)
                return false;
            start_reader(&in, sluice_jpeg_segment_start(scan, at.segment), 0);
            memset(dc, 0, sizeof(dc));
        }
        const uint8_t *start = sluice_jpeg_segment_start(scan, at.segment);
        const uint8_t *end = sluice_jpeg_segment_end(scan, at.segment);
        const uint32_t before = mcu % interval;
        const uint32_t first =
            before <= MAX_READ_BEFORE && before <= wanted->first_column ? 0 : before;
        for (; interval - at.mcus_left < first; at.mcus_left--) {
            if (!has_skips)
                sluice_jpeg_lanes_make_skips(&window->lanes, jpeg);
            has_skips = true;
            if (!sluice_jpeg_skip_mcu(&window->lanes, jpeg, &in, dc) || in.next > end + 8)
                return false;
        }
        for (unsigned c = 0; c < SLUICE_JPEG_MAX_COMPONENTS; c++)
            at.dc[c] = (int32_t)dc[c];
        at.bit = reader_position(&in, start);
        at.column = wanted->first_column - (before - (interval - at.mcus_left));
        if (at.bit > (size_t)(end - start) * 8)
            return false;
        window->points[row - wanted->first_row] = at;
    }
    return true;
}

bool sluice_jpeg_window_find_points(struct sluice_jpeg_window *window,
                                    const struct sluice_jpeg_source *source)
{
    if (source->jpeg->restart_interval)
        return find_from_segments(window, source);
    const struct sluice_jpeg_mcu_range *wanted = &source->wanted;
    const uint32_t num_rows = wanted->end_row - wanted->first_row;
    struct sluice_jpeg_sync_scan_aim *aims = NULL;
    struct sluice_buf *memory = NULL;
    if (sluice_buf_create(source->pool, num_rows * sizeof(*aims), &memory, NULL) != SLUICE_OK)
        return false;
    aims = (struct sluice_jpeg_sync_scan_aim *)(void *)memory->data;
    for (uint32_t i = 0; i < num_rows; i++)
        aims[i] = (struct sluice_jpeg_sync_scan_aim){.row = wanted->first_row + i,
                                                     .last_column = wanted->first_column};
    sluice_jpeg_lanes_make_skips(&window->lanes, source->jpeg);
    const bool is_good = sluice_jpeg_sync_scan(&window->lanes, source->jpeg, source->scan, aims,
                                               num_rows, source->pool, window->points);
    sluice_buf_unref(memory);
    return is_good;
}
