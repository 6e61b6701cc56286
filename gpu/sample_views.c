#include "gpu/sample.h"

#include "gpu/tuning.h"
#include "image/image_internal.h"

#include <math.h>

uint64_t sluice_gpu_row_bytes(const struct sluice_gpu_limits *limits)
{
    uint64_t bytes = 0;
    if (limits->most_row_bytes > 0)
        return limits->most_row_bytes;
    for (uint32_t v = 0; v < limits->num_views; v++)
        bytes += (uint64_t)limits->views[v].width * limits->views[v].height * 3;
    return bytes;
}

struct sluice_gpu_row_views sluice_gpu_row_views_of(const struct sluice_gpu_limits *limits)
{
    struct sluice_gpu_row_views views = {.capacity = limits->max_samples, .num = limits->num_views};
    uint32_t end = 0;
    for (uint32_t v = 0; v < limits->num_views; v++)
        views.ends[v] = end += limits->views[v].width * limits->views[v].height * 3;
    return views;
}

/* most_row_bytes: of limits. */
static bool is_size_of(const struct sluice_box *out, const struct sluice_gpu_view_size *size,
                       uint64_t most_row_bytes)
{
    if (most_row_bytes == 0)
        return out->width == size->width && out->height == size->height;
    return out->width <= size->width && out->height <= size->height &&
           (uint64_t)out->width * out->height * 3 <= most_row_bytes;
}

static sluice_status check_request(const struct sluice_gpu_view_size *size, uint64_t most_row_bytes,
                                   const struct sluice_gpu_request *request, struct sluice_err *err)
{
    const struct sluice_resize_part *part = &request->part;
    const bool is_size = part->in_width >= 1 && part->in_width <= SLUICE_IMAGE_MAX_SIDE &&
                         part->in_height >= 1 && part->in_height <= SLUICE_IMAGE_MAX_SIDE &&
                         part->out_width <= SLUICE_IMAGE_MAX_SIDE &&
                         part->out_height <= SLUICE_IMAGE_MAX_SIDE;
    if (!is_size || !is_size_of(&part->out, size, most_row_bytes) ||
        !sluice_box_is_within(&part->out, part->out_width, part->out_height))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a resize to %u x %u pixels in a batch of %u x %u", part->out.width,
                           part->out.height, size->width, size->height);
    return SLUICE_OK;
}

sluice_status sluice_gpu_requests_check(const struct sluice_gpu_limits *limits,
                                        const struct sluice_gpu_request *requests,
                                        struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (uint32_t v = 0; v < limits->num_views && status == SLUICE_OK; v++)
        status = check_request(&limits->views[v], limits->most_row_bytes, &requests[v], err);
    return status;
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Inputs that a filter reads to each side at scale 1. */
static double support_of(uint32_t filter)
{
    return filter == SLUICE_RESIZE_BICUBIC ? 2.0 : 1.0;
}

static double support_on(const struct sluice_gpu_axis *axis)
{
    const double scale = (double)axis->in / axis->out;
    return support_of(axis->filter) * (scale < 1.0 ? 1.0 : scale);
}

static struct sluice_gpu_axis make_axis(enum sluice_resize_filter filter, uint32_t in,
                                        uint32_t in_from, uint32_t in_count, uint32_t out,
                                        uint32_t from, uint32_t count)
{
    struct sluice_gpu_axis axis = {
        .in = in,
        .in_from = in_from,
        .in_count = in_count,
        .out = out,
        .from = from,
        .count = count,
        .filter = filter,
    };
    axis.max_taps = (uint32_t)ceil(support_on(&axis)) * 2 + 1;
    return axis;
}

/* An upper bound of the inputs of num_outputs neighbouring outputs, rounded up to fours. */
static uint64_t inputs_of(const struct sluice_gpu_axis *axis, uint32_t num_outputs)
{
    const double scale = (double)axis->in / axis->out;
    const uint64_t inputs =
        (uint64_t)ceil(num_outputs * scale) + 2 * (uint64_t)ceil(support_on(axis)) + 3;
    return (inputs < axis->in_count ? inputs : axis->in_count) + 6;
}

/* Whether num_columns columns fit a task of the pass across. */
static bool fit_across(const struct sluice_gpu_axis *axis, uint32_t num_columns)
{
    return inputs_of(axis, num_columns) <= SLUICE_GPU_ACROSS_PIXELS &&
           SLUICE_GPU_TASK_WEIGHTS(axis, num_columns) <= SLUICE_GPU_ACROSS_PIXELS;
}

static sluice_status plan_resize(struct sluice_gpu_view *view,
                                 const struct sluice_gpu_request *request, struct sluice_err *err)
{
    const struct sluice_resize_part *part = &request->part;
    const struct sluice_box *out = &part->out, in = sluice_resize_part_input(part);
    if (in.width != request->box.width || in.height != request->box.height)
        return sluice_fail(err, SLUICE_E_INVALID, "a box of %u x %u pixels for a part of %u x %u",
                           request->box.width, request->box.height, in.width, in.height);
    if (part->filter != SLUICE_RESIZE_BILINEAR && part->filter != SLUICE_RESIZE_BICUBIC)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a filter that the CPU must run");
    view->across = make_axis(part->filter, part->in_width, in.left, in.width, part->out_width,
                             out->left, out->width);
    view->down = make_axis(part->filter, part->in_height, in.top, in.height, part->out_height,
                           out->top, out->height);
    uint32_t columns = out->width;
    while (columns > 1 && !fit_across(&view->across, columns))
        columns = (columns + 1) / 2;
    if (!fit_across(&view->across, columns))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%u columns from %u are too few",
                           part->out_width, part->in_width);
    const uint64_t inputs = inputs_of(&view->across, columns);
    uint32_t rows = SLUICE_GPU_MAX_ROWS_AT_ONCE;
    while (rows > 1 && rows * inputs > SLUICE_GPU_ACROSS_PIXELS)
        rows /= 2;
    view->columns_at_once = columns;
    view->rows_at_once = rows;
    view->across_tasks = divide_up(in.height, rows) * divide_up(out->width, columns);
    view->is_flipped = request->is_flipped;
    view->left = request->box.left;
    view->top = request->box.top;
    return SLUICE_OK;
}

/* Words of scratch memory that a kernel takes on an image of this size. */
static uint64_t scratch_words_of(uint32_t kernel, uint32_t width, uint32_t height)
{
    const uint64_t num = (uint64_t)width * height;
    switch (kernel) {
    case SLUICE_KERNEL_SHARPEN:
    case SLUICE_KERNEL_BOX_BLUR:
        return num;
    case SLUICE_KERNEL_GAUSSIAN: /* its sums across, float32 */
        return 3 * num;
    case SLUICE_KERNEL_WARP: /* with the source of each column and row */
        return num + width + height;
    default:
        return 0;
    }
}

static sluice_status plan_calls(struct sluice_gpu_view *view,
                                const struct sluice_kernel_calls *calls, struct sluice_err *err)
{
    const uint8_t *bytes = calls ? (const uint8_t *)calls->bytes : NULL;
    uint64_t most = 0;
    for (uint32_t at = 0; calls && at < calls->num_bytes;) {
        const struct sluice_kernel_call *call =
            (const struct sluice_kernel_call *)(const void *)(bytes + at);
        const uint64_t words = scratch_words_of(call->kernel, view->across.count, view->down.count);
        most = words > most ? words : most;
        at += call->bytes;
    }
    if (most > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "an image that the CPU must work on");
    view->calls_bytes = calls ? calls->num_bytes : 0;
    view->scratch_words = (uint32_t)most;
    return SLUICE_OK;
}

sluice_status sluice_gpu_plan_views(struct sluice_gpu_plan *plan,
                                    const struct sluice_gpu_request *requests,
                                    struct sluice_err *err)
{
    uint32_t row_at = 0;
    sluice_status status = SLUICE_OK;
    for (uint32_t v = 0; v < plan->sample.num_views && status == SLUICE_OK; v++) {
        struct sluice_gpu_view *view = &plan->views[v];
        plan->calls[v] = requests[v].calls;
        status = plan_resize(view, &requests[v], err);
        if (status == SLUICE_OK)
            status = plan_calls(view, requests[v].calls, err);
        view->row_at = row_at;
        row_at += view->across.count * view->down.count * 3;
    }
    return status;
}
