/* Decode, and stages that resample a box of their input, with decode before them or not. */

#include "op/run_region.h"
#include "op/form.h"
#include "op/pixels.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/kernels/kernels.h"
#include "image/orientation.h"
#include "image/pack/pack.h"

#include <assert.h>
#include <string.h>

void sluice_sample_advance(struct sluice_sample *sample, unsigned ops_done, enum sluice_kind kind,
                           struct sluice_size size, struct sluice_buf *data)
{
    sluice_buf_unref(sample->data);
    sample->data = data;
    sample->ops_done = ops_done;
    sample->kind = kind;
    sample->width = size.width;
    sample->height = size.height;
    sample->channels = 3;
    sample->coding = NULL;
}

static bool has_side_over_limit(struct sluice_size size)
{
    return size.width > SLUICE_MAX_IMAGE_SIDE || size.height > SLUICE_MAX_IMAGE_SIDE;
}

static sluice_status check_result(const struct sluice_op *op, const struct sluice_scratch *scratch,
                                  struct sluice_size size, struct sluice_err *err)
{
    if (has_side_over_limit(size) || (uint64_t)size.width * size.height > scratch->max_pixels)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "%s would give %u x %u pixels, over the limit", op->type->name,
                           size.width, size.height);
    return SLUICE_OK;
}

sluice_status sluice_make_result(const struct sluice_op *op, struct sluice_scratch *scratch,
                                 struct sluice_size size, uint8_t **out, struct sluice_buf **data,
                                 struct sluice_err *err)
{
    const sluice_status status = check_result(op, scratch, size, err);
    if (status || *out)
        return status;
    const size_t bytes = (size_t)size.width * size.height * 3;
    const sluice_status made = sluice_buf_create(scratch->pool, bytes, data, err);
    if (made)
        return made;
    (*data)->len = bytes;
    *out = (*data)->data;
    return SLUICE_OK;
}

uint32_t sluice_file_orientation(const struct sluice_pipeline *pipeline, const uint8_t *bytes,
                                 size_t len)
{
    struct sluice_image_info info;
    if (!sluice_pipeline_is_upright(pipeline) ||
        sluice_image_probe(bytes, len, &info, NULL) != SLUICE_OK)
        return 1;
    return sluice_image_orientation(&info, bytes, len);
}

sluice_status sluice_run_decode(const struct sluice_pipeline *pipeline,
                                struct sluice_scratch *scratch, struct sluice_sample *sample,
                                struct sluice_err *err)
{
    struct sluice_rgb rgb;
    const struct sluice_buf *file = sample->data;
    sluice_codec_set_index(scratch->codec, sluice_scratch_index(scratch, sample));
    sluice_status status = sluice_codec_decode(scratch->codec, file->data, file->len,
                                               scratch->max_pixels, scratch->pool, &rgb, err);
    if (status)
        return status;
    status = sluice_rgb_orient(&rgb, sluice_file_orientation(pipeline, file->data, file->len),
                               scratch->pool, err);
    if (status) {
        sluice_buf_unref(rgb.pixels);
        return status;
    }
    sluice_sample_advance(sample, 1, SLUICE_KIND_U8, (struct sluice_size){rgb.width, rgb.height},
                          rgb.pixels);
    return SLUICE_OK;
}

/* A stage's resamples, drawn for one sample. */
struct drawn_stage {
    struct sluice_resample joined; /* all of them as one */
    struct sluice_size made[2];    /* the size that each gives */
};

/* Draws ops [op, end), which are one resample or two that join, for an image of this size. */
static struct drawn_stage draw_stage(const struct sluice_pipeline *pipeline, unsigned op,
                                     unsigned end, const struct sluice_draw_key *key,
                                     struct sluice_size in)
{
    union sluice_drawn first, second;
    sluice_op_draw(&pipeline->ops[op], key, in, &first);
    struct drawn_stage drawn = {.joined = first.resample, .made = {first.resample.out}};
    if (op + 1 == end)
        return drawn;
    sluice_op_draw(&pipeline->ops[op + 1], key, first.resample.out, &second);
    drawn.made[1] = second.resample.out;
    const bool is_joined = sluice_resample_join(&first.resample, &second.resample, &drawn.joined);
    assert(is_joined); /* can_join() of pipeline_parse.c */
    (void)is_joined;
    return drawn;
}

/* Whether each result of the ops [op, end) keeps within the limits, and the size to which they
 * resize; the error names the first that does not. */
static sluice_status check_drawn(const struct sluice_pipeline *pipeline, unsigned op, unsigned end,
                                 const struct drawn_stage *drawn,
                                 const struct sluice_scratch *scratch, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (unsigned i = op; status == SLUICE_OK && i < end; i++)
        status = check_result(&pipeline->ops[i], scratch, drawn->made[i - op], err);
    const struct sluice_size to = drawn->joined.to;
    if (status == SLUICE_OK && has_side_over_limit(to))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "%s would resize to %u x %u pixels, over the limit",
                           pipeline->ops[op].type->name, to.width, to.height);
    return status;
}

static struct sluice_resize_part part_of(const struct sluice_resample *resample)
{
    return (struct sluice_resize_part){
        .in_width = resample->from.width,
        .in_height = resample->from.height,
        .out_width = resample->to.width,
        .out_height = resample->to.height,
        .out = resample->keep,
        .filter = resample->filter,
    };
}

static bool keeps_all(const struct sluice_resample *resample)
{
    return resample->keep.width == resample->to.width &&
           resample->keep.height == resample->to.height;
}

static bool is_padded(const struct sluice_resample *resample)
{
    return resample->keep.width != resample->out.width ||
           resample->keep.height != resample->out.height;
}

/* The box of its input whose pixels a resample reads. */
static struct sluice_box input_of(const struct sluice_resample *resample)
{
    struct sluice_box box = resample->from;
    /* All of a result depends on all of the box, but for nearest. */
    if (!keeps_all(resample) || resample->filter == SLUICE_RESIZE_NEAREST) {
        const struct sluice_resize_part part = part_of(resample);
        box = sluice_resize_part_input(&part);
        box.left += resample->from.left;
        box.top += resample->from.top;
    }
    return box;
}

/* The union of the boxes that the views need. */
static bool boxes_of_views(const struct sluice_pipeline *pipeline,
                           const struct sluice_draw_key *key, struct sluice_size size,
                           struct sluice_box *box)
{
    struct sluice_box all = {0};
    for (unsigned i = 0; i < pipeline->num_views; i++) {
        struct sluice_box one;
        if (!sluice_file_crop_box(pipeline->views[i], key, size, &one))
            return false;
        all = i == 0 ? one : sluice_box_union(&all, &one);
    }
    *box = all;
    return true;
}

bool sluice_file_crop_box(const struct sluice_pipeline *pipeline, const struct sluice_draw_key *key,
                          struct sluice_size size, struct sluice_box *box)
{
    if (pipeline->views[0])
        return boxes_of_views(pipeline, key, size, box);
    const struct drawn_stage drawn =
        draw_stage(pipeline, sluice_first_op(pipeline), pipeline->stage_end[0], key, size);
    if (has_side_over_limit(drawn.joined.to))
        return false;
    *box = input_of(&drawn.joined);
    return true;
}

/* The part of the image that the sample's file holds; the image is upright if the pipeline says so:
 * all of it, or the part that a cut left.  Files that have to be turned are not cut. */
static sluice_status find_window(const struct sluice_pipeline *pipeline,
                                 const struct sluice_scratch *scratch,
                                 const struct sluice_sample *sample,
                                 struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    const struct sluice_buf *file = sample->data;
    if (!sluice_sample_is_window(sample)) {
        struct sluice_image_info info;
        const sluice_status status = sluice_image_probe(file->data, file->len, &info, err);
        if (status != SLUICE_OK)
            return status;
        const bool is_turned =
            sluice_orientation_swaps(sluice_file_orientation(pipeline, file->data, file->len));
        const uint32_t width = is_turned ? info.height : info.width;
        const uint32_t height = is_turned ? info.width : info.height;
        *window = (struct sluice_jpeg_crop_box){
            .width = width, .height = height, .full_width = width, .full_height = height};
        return SLUICE_OK;
    }
    const sluice_status status = sluice_jpeg_crop_window(file->data, file->len, window, err);
    if (status == SLUICE_OK &&
        (uint64_t)window->full_width * window->full_height > scratch->max_pixels)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "image of %u x %u pixels is over the limit",
                           window->full_width, window->full_height);
    return status;
}

sluice_status sluice_file_image_size(const struct sluice_pipeline *pipeline,
                                     const struct sluice_scratch *scratch,
                                     const struct sluice_sample *sample, struct sluice_size *size,
                                     struct sluice_err *err)
{
    struct sluice_jpeg_crop_box window;
    const sluice_status status = find_window(pipeline, scratch, sample, &window, err);
    if (status == SLUICE_OK)
        *size = (struct sluice_size){window.full_width, window.full_height};
    return status;
}

sluice_status sluice_check_crop(const struct sluice_pipeline *pipeline,
                                const struct sluice_scratch *scratch,
                                const struct sluice_draw_key *key, struct sluice_size size,
                                struct sluice_err *err)
{
    const unsigned first = sluice_first_op(pipeline), end = pipeline->stage_end[0];
    const struct drawn_stage drawn = draw_stage(pipeline, first, end, key, size);
    return check_drawn(pipeline, first, end, &drawn, scratch, err);
}

static bool is_within(const struct sluice_box *box, const struct sluice_jpeg_crop_box *window)
{
    return box->left >= window->left && box->top >= window->top &&
           box->left + box->width <= window->left + window->width &&
           box->top + box->height <= window->top + window->height;
}

/* From the image's coordinates to those of the file, and its pixels. */
static sluice_status decode_box(const struct sluice_pipeline *pipeline,
                                struct sluice_scratch *scratch, const struct sluice_sample *sample,
                                const struct sluice_jpeg_crop_box *window, struct sluice_box box,
                                struct sluice_rgb *rgb, struct sluice_err *err)
{
    if (!is_within(&box, window))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a file is cut for another crop");
    box.left -= window->left;
    box.top -= window->top;
    const struct sluice_buf *file = sample->data;
    const uint32_t orientation = sluice_sample_is_window(sample)
                                     ? 1
                                     : sluice_file_orientation(pipeline, file->data, file->len);
    const bool is_turned = sluice_orientation_swaps(orientation);
    box =
        sluice_orientation_stored_box(orientation, &box, is_turned ? window->height : window->width,
                                      is_turned ? window->width : window->height);
    sluice_codec_set_index(scratch->codec, sluice_sample_is_window(sample)
                                               ? NULL
                                               : sluice_scratch_index(scratch, sample));
    struct sluice_rgb stored;
    sluice_status status =
        sluice_codec_decode_region(scratch->codec, file->data, file->len, &box, scratch->max_pixels,
                                   scratch->pool, &stored, err);
    if (status)
        return status;
    status = sluice_rgb_orient(&stored, orientation, scratch->pool, err);
    if (status)
        sluice_buf_unref(stored.pixels);
    else
        *rgb = stored;
    return status;
}

sluice_status sluice_read_file_region(const struct sluice_pipeline *pipeline,
                                      struct sluice_scratch *scratch,
                                      const struct sluice_sample *sample,
                                      struct sluice_region *region, struct sluice_err *err)
{
    struct sluice_jpeg_crop_box window;
    const sluice_status status = find_window(pipeline, scratch, sample, &window, err);
    if (status)
        return status;
    struct sluice_region found = {.image = {window.full_width, window.full_height}};
    if (!sluice_file_crop_box(pipeline, &sample->key, found.image, &found.box))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the crop of an image of %u x %u pixels is over the limit",
                           found.image.width, found.image.height);
    const sluice_status decoded =
        decode_box(pipeline, scratch, sample, &window, found.box, &found.rgb, err);
    if (decoded == SLUICE_OK)
        *region = found;
    return decoded;
}

void sluice_copy_rgb(const struct sluice_image_view *in, bool flip, uint8_t *out, size_t out_stride)
{
    const struct sluice_kernels *kernels = sluice_kernels_for(sluice_cpu_level());
    const size_t width = in->width;
    for (uint32_t y = 0; y < in->height; y++) {
        const uint8_t *from = in->pixels + y * in->stride;
        uint8_t *to = out + y * out_stride;
        if (flip)
            kernels->flip_row(from, width, to);
        else
            memcpy(to, from, width * 3);
    }
}

/* The pixel of [0, count) that pads a position outside. */
static int64_t fold(enum sluice_padding_mode mode, int64_t at, int64_t count)
{
    if (mode == SLUICE_PADDING_EDGE || count == 1)
        return at < 0 ? 0 : at < count ? at : count - 1;
    const int64_t edge = mode == SLUICE_PADDING_REFLECT; /* the outer pixel comes once */
    const int64_t period = 2 * (count - edge);
    at %= period;
    at += at < 0 ? period : 0;
    return at < count ? at : period - 1 + edge - at;
}

/* Pixels [at, at + count) of a line are the image's from `from` on.  Returns the position in the
 * line of the pixel that stands for pixel i. */
struct line {
    uint32_t at, from, in;
};
static uint32_t source_of(const struct sluice_padding *padding, const struct line *line, uint32_t i)
{
    const int64_t around = padding->around;
    const int64_t padded =
        fold(padding->mode, (int64_t)i - line->at + line->from + around, line->in + 2 * around);
    const int64_t pixel = fold(padding->mode, padded - around, line->in);
    return (uint32_t)(pixel - line->from + line->at);
}

/* Pads the result around its copied pixels: first the rows at both sides, then whole rows. */
static void pad(const struct sluice_resample *resample, bool flip, uint8_t *out)
{
    const struct sluice_padding *padding = &resample->padding;
    const struct sluice_size size = resample->out;
    const struct line across = {resample->left, resample->from.left, padding->in.width};
    const struct line down = {resample->top, resample->from.top, padding->in.height};
    const size_t stride = (size_t)size.width * 3;
    for (uint32_t y = resample->top; y < resample->top + resample->keep.height; y++) {
        uint8_t *row = out + y * stride;
        for (uint32_t x = 0; x < size.width; x++) {
            if (x == resample->left)
                x += resample->keep.width;
            if (x >= size.width)
                break;
            const uint32_t source = source_of(padding, &across, x);
            memcpy(row + 3 * (size_t)(flip ? size.width - 1 - x : x),
                   row + 3 * (size_t)(flip ? size.width - 1 - source : source), 3);
        }
    }
    for (uint32_t y = 0; y < size.height; y++) {
        if (y < resample->top || y >= resample->top + resample->keep.height)
            memcpy(out + y * stride, out + source_of(padding, &down, y) * stride, stride);
    }
}

static void fill(uint8_t *out, size_t num_pixels, const uint8_t color[3])
{
    if (color[0] == color[1] && color[0] == color[2]) {
        memset(out, color[0], num_pixels * 3);
        return;
    }
    for (size_t i = 0; i < num_pixels; i++)
        memcpy(out + 3 * i, color, 3);
}

/* Copies the view to its place in the result, which is padded elsewhere. */
static void place(const struct sluice_resample *resample, const struct sluice_image_view *view,
                  bool flip, uint8_t *out)
{
    const struct sluice_size size = resample->out;
    const size_t out_stride = (size_t)size.width * 3;
    const bool is_constant = resample->padding.mode == SLUICE_PADDING_CONSTANT;
    if (is_padded(resample) && is_constant)
        fill(out, (size_t)size.width * size.height, resample->padding.color);
    const uint32_t left = flip ? size.width - resample->left - view->width : resample->left;
    sluice_copy_rgb(view, flip, out + resample->top * out_stride + (size_t)left * 3, out_stride);
    if (is_padded(resample) && !is_constant)
        pad(resample, flip, out);
}

/* Resizes the view into memory of its own, and then places it. */
static sluice_status letterbox(const struct sluice_resample *resample,
                               const struct sluice_resize_part *part,
                               struct sluice_scratch *scratch, const struct sluice_image_view *view,
                               bool flip, uint8_t *out, struct sluice_err *err)
{
    const struct sluice_box keep = resample->keep;
    struct sluice_buf *resized = NULL;
    sluice_status status =
        sluice_buf_create(scratch->pool, (size_t)keep.width * keep.height * 3, &resized, err);
    if (status)
        return status;
    status = sluice_resize_rgb_part(scratch->resizer, part, view, false, resized->data, err);
    if (status == SLUICE_OK) {
        const struct sluice_image_view fitted = {.pixels = resized->data,
                                                 .stride = (size_t)keep.width * 3,
                                                 .width = keep.width,
                                                 .height = keep.height};
        place(resample, &fitted, flip, out);
    }
    sluice_buf_unref(resized);
    return status;
}

/* Resamples the view, which is input_of(resample). */
static sluice_status apply(const struct sluice_resample *resample, bool is_copy,
                           enum sluice_numerics numerics, struct sluice_scratch *scratch,
                           const struct sluice_image_view *view, bool flip, uint8_t *out,
                           struct sluice_err *err)
{
    if (is_copy) {
        place(resample, view, flip, out);
        return SLUICE_OK;
    }
    struct sluice_resize_part part = part_of(resample);
    part.is_pillow13 = numerics == SLUICE_NUMERICS_PILLOW13;
    if (is_padded(resample))
        return letterbox(resample, &part, scratch, view, flip, out, err);
    if (keeps_all(resample) && part.filter == SLUICE_RESIZE_BILINEAR && !part.is_pillow13)
        return sluice_resize_rgb(scratch->resizer, view, resample->to.width, resample->to.height,
                                 flip, out, err);
    return sluice_resize_rgb_part(scratch->resizer, &part, view, flip, out, err);
}

sluice_status sluice_run_resample(const struct sluice_pipeline *pipeline,
                                  struct sluice_scratch *scratch, struct sluice_sample *sample,
                                  const struct sluice_stage *stage, uint8_t *out,
                                  struct sluice_err *err)
{
    const struct sluice_region *region = stage->region;
    const bool is_file = sample->ops_done == 0;
    struct sluice_size in = {sample->width, sample->height};
    struct sluice_jpeg_crop_box window;
    sluice_status status = SLUICE_OK;
    if (is_file) {
        status = find_window(pipeline, scratch, sample, &window, err);
        if (status)
            return status;
        in = (struct sluice_size){window.full_width, window.full_height};
    }
    const unsigned first = stage->first, end = stage->resample_end;
    const struct drawn_stage drawn = draw_stage(pipeline, first, end, &sample->key, in);
    struct sluice_err over = {0};
    const sluice_status limits = check_drawn(pipeline, first, end, &drawn, scratch, &over);
    if (limits != SLUICE_OK) {
        /* Decodes first: damage in the file counts more. */
        if (is_file && !sluice_sample_is_window(sample))
            status = sluice_run_decode(pipeline, scratch, sample, err);
        return status ? status : sluice_fail(err, limits, "%s", over.text);
    }

    const struct sluice_resample resample = drawn.joined;
    const struct sluice_box box = input_of(&resample);
    struct sluice_image_view view = {.width = box.width, .height = box.height};
    struct sluice_rgb rgb = {0};
    if (is_file)
        status = decode_box(pipeline, scratch, sample, &window, box, &rgb, err);
    else if (sample->coding)
        status = sample->coding->read_box(scratch, sample, &box, &rgb, err);
    if (status)
        return status;
    if (rgb.pixels) {
        view.pixels = rgb.pixels->data;
        view.stride = (size_t)rgb.width * 3;
    } else if (region) {
        view.stride = (size_t)region->box.width * 3;
        view.pixels = region->rgb.pixels->data + (box.top - region->box.top) * view.stride +
                      (size_t)(box.left - region->box.left) * 3;
    } else {
        view.stride = (size_t)in.width * 3;
        view.pixels = sample->data->data + box.top * view.stride + (size_t)box.left * 3;
    }
    struct sluice_buf *data = NULL;
    const struct sluice_op *last = &pipeline->ops[end - 1];
    status = sluice_make_result(last, scratch, resample.out, &out, &data, err);
    if (status == SLUICE_OK)
        status = apply(&resample, pipeline->ops[first].type->is_copy, pipeline->numerics, scratch,
                       &view, stage->is_mirrored, out, err);
    sluice_buf_unref(rgb.pixels);
    if (status)
        sluice_buf_unref(data);
    else if (data)
        sluice_sample_advance(sample, stage->next, SLUICE_KIND_U8, resample.out, data);
    return status;
}

/* The ops after the crop and the resize.  A mirror with no call before it is part of the resize. */
static bool add_calls(const struct sluice_pipeline *pipeline, const struct sluice_draw_key *key,
                      struct sluice_size size, struct sluice_kernel_work *work)
{
    struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
    const struct sluice_kernel_call mirror = {.kernel = SLUICE_KERNEL_MIRROR};
    work->is_mirrored = false;
    work->calls.num_bytes = 0;
    bool is_added = true;
    for (unsigned op = pipeline->stage_end[0]; is_added && op < pipeline->u8_split; op++) {
        if (pipeline->ops[op].type->kind != SLUICE_OP_MIRROR) {
            const unsigned num = sluice_pixels_resolve(&pipeline->ops[op], 1, key, size, list);
            is_added = sluice_pixels_add_calls(list, num, &work->calls);
            continue;
        }
        union sluice_drawn drawn;
        sluice_op_draw(&pipeline->ops[op], key, size, &drawn);
        if (drawn.is_mirrored && work->calls.num_bytes == 0)
            work->is_mirrored = !work->is_mirrored;
        else if (drawn.is_mirrored)
            is_added = sluice_kernel_calls_add(&work->calls, &mirror);
    }
    return is_added;
}

bool sluice_pipeline_kernel_work(const struct sluice_pipeline *pipeline,
                                 const struct sluice_scratch *scratch,
                                 const struct sluice_sample *sample, unsigned view,
                                 struct sluice_kernel_work *work)
{
    pipeline = sluice_pipeline_view(pipeline, view);
    const unsigned first = sluice_first_op(pipeline), end = pipeline->stage_end[0];
    struct sluice_jpeg_crop_box window;
    if (!sluice_pipeline_has_kernels(pipeline) || sample->ops_done > 0 ||
        (!sluice_sample_is_window(sample) &&
         sluice_file_orientation(pipeline, sample->data->data, sample->data->len) != 1) ||
        find_window(pipeline, scratch, sample, &window, NULL) != SLUICE_OK)
        return false;
    const struct sluice_size size = {window.full_width, window.full_height};
    if ((uint64_t)size.width * size.height > scratch->max_pixels)
        return false;
    const struct drawn_stage drawn = draw_stage(pipeline, first, end, &sample->key, size);
    const struct sluice_resample resample = drawn.joined;
    if (check_drawn(pipeline, first, end, &drawn, scratch, NULL) != SLUICE_OK)
        return false;
    const struct sluice_box of_image = input_of(&resample);
    if (!is_within(&of_image, &window) || is_padded(&resample))
        return false;
    work->part = part_of(&resample);
    work->box = (struct sluice_box){of_image.left - window.left, of_image.top - window.top,
                                    of_image.width, of_image.height};
    return add_calls(pipeline, &sample->key, resample.out, work);
}
