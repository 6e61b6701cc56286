#include "image/jpeg/crop_plan.h"

/* libjpeg's smooth ("fancy") upsampling makes a pixel from two samples in each direction, but at
 * the image's edge from the nearer one alone.  So where the window has an edge that the image has
 * not, only the outermost column or row of pixels differs: one pixel of margin keeps it out of the
 * box. */
#define UPSAMPLING_MARGIN 1

/* Upsampling is not smooth for components of up to two columns. */
#define PLAIN_UPSAMPLING_COLUMNS 2

static void plan_axis(uint32_t from, uint32_t count, uint32_t size, uint32_t step, uint32_t margin,
                      uint32_t *begin, uint32_t *end)
{
    const uint32_t first = from > margin ? from - margin : 0;
    const uint32_t last = size - from - count > margin ? from + count + margin : size;
    *begin = first / step * step;
    *end = last <= size - size % step ? sluice_divide_up(last, step) * step : size;
}

sluice_status sluice_jpeg_crop_plan(const struct sluice_jpeg_grid *grid,
                                    const struct sluice_box *box,
                                    struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    if (box->width < 1 || box->height < 1 || box->left >= grid->width || box->top >= grid->height ||
        box->width > grid->width - box->left || box->height > grid->height - box->top)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a box of %u x %u at %u, %u is not inside %u x %u", box->width,
                           box->height, box->left, box->top, grid->width, grid->height);
    const uint32_t margin_x = grid->min_h < grid->max_h ? UPSAMPLING_MARGIN : 0;
    const uint32_t margin_y = grid->min_v < grid->max_v ? UPSAMPLING_MARGIN : 0;
    uint32_t left, right, top, bottom;
    plan_axis(box->left, box->width, grid->width, grid->mcu_width, margin_x, &left, &right);
    plan_axis(box->top, box->height, grid->height, grid->mcu_height, margin_y, &top, &bottom);

    /* A window at the image's right edge may be too narrow for smooth upsampling. */
    const uint32_t columns = sluice_divide_up((right - left) * grid->min_h, grid->max_h);
    if (left > 0 && columns <= PLAIN_UPSAMPLING_COLUMNS)
        left -= grid->mcu_width;
    *window = (struct sluice_jpeg_crop_box){
        .full_width = grid->width,
        .full_height = grid->height,
        .left = left,
        .top = top,
        .width = right - left,
        .height = bottom - top,
    };
    return SLUICE_OK;
}
