#include "image/jpeg/window_internal.h"

static const uint8_t *plane_row(const struct sluice_jpeg_plane *plane, uint32_t row)
{
    return plane->samples + (size_t)(row - plane->first_row * 8) * plane->stride;
}

/* One row of a chroma plane, upsampled to the box's columns: in the plane's own memory, or in
 * window->row[which]. */
static const uint8_t *upsample_row(struct sluice_jpeg_window *window,
                                   const struct sluice_jpeg_plane *plane,
                                   const struct sluice_jpeg_plane *luma, uint32_t y,
                                   const struct sluice_box *box, unsigned which)
{
    const struct sluice_jpeg_window_kernels *kernels = window->kernels;
    const bool is_wide = luma->h == 2, is_tall = luma->v == 2;
    const uint32_t row = is_tall ? y / 2 : y;
    const uint8_t *near = plane_row(plane, row), *far = near;
    /* The second-nearest row is above for even rows, below for odd ones; the edge repeats. */
    if (is_tall && y % 2 == 0 && row > 0)
        far = plane_row(plane, row - 1);
    else if (is_tall && y % 2 == 1 && row + 1 < plane->height)
        far = plane_row(plane, row + 1);

    const uint32_t first = is_wide ? box->left / 2 : box->left;
    const uint32_t last = is_wide ? (box->left + box->width - 1) / 2 : box->left + box->width - 1;
    const size_t len = last - first + 1, offset = first - plane->first_column * 8;
    uint8_t *out = window->row[which];
    if (!is_wide && !is_tall)
        return near + offset;
    uint16_t *sums = window->sums + 1;
    if (!is_wide) {
        kernels->blend(near + offset, far + offset, len, sums);
        kernels->finish_blend(sums, len, y % 2 == 0 ? 1 : 2, out);
        return out;
    }
    /* One column more on either side; the image's edges repeat. */
    const size_t before = first > 0, after = last + 1 < plane->width;
    const size_t from = offset - before, count = len + before + after;
    uint16_t *first_sum = sums - before;
    if (is_tall) {
        kernels->blend(near + from, far + from, count, first_sum);
    } else {
        for (size_t i = 0; i < count; i++)
            first_sum[i] = near[from + i];
    }
    if (!before)
        sums[-1] = sums[0];
    if (!after)
        sums[len] = sums[len - 1];
    if (is_tall)
        kernels->widen(sums, len, 8, 7, 4, out);
    else
        kernels->widen(sums, len, 1, 2, 2, out);
    return out + (box->left & 1);
}

void sluice_jpeg_window_write_pixels(struct sluice_jpeg_window *window,
                                     const struct sluice_box *box, uint8_t *pixels)
{
    const struct sluice_jpeg_plane *luma = &window->planes[0];
    const size_t row_bytes = (size_t)box->width * 3;
    for (uint32_t i = 0; i < box->height; i++) {
        const uint32_t y = box->top + i;
        const uint8_t *luma_row = plane_row(luma, y) + (box->left - luma->first_column * 8);
        uint8_t *out = pixels + i * row_bytes;
        if (window->num_planes == 1) {
            for (uint32_t x = 0; x < box->width; x++)
                out[3 * x] = out[3 * x + 1] = out[3 * x + 2] = luma_row[x];
            continue;
        }
        const uint8_t *cb = upsample_row(window, &window->planes[1], luma, y, box, 0);
        const uint8_t *cr = upsample_row(window, &window->planes[2], luma, y, box, 1);
        window->kernels->ycc_to_rgb(luma_row, cb, cr, box->width, out);
    }
}
