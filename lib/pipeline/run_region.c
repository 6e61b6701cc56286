/* Decode, and groups of ops that look at no more than a box of their image: decode with
 * random_resized_crop or center_crop, and resize and center_crop, with decode before them or not.
 */

#include "pipeline/run_region.h"

#include "base/buf.h"
#include "image/codec.h"
#include "image/jpeg_crop.h"
#include "image/orientation.h"
#include "image/pack.h"

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
    sample->is_jpeg_crop = false;
    sample->is_jpeg_rows = false;
    sample->is_packed = false;
}

static sluice_status check_result(const struct sluice_op *op, const struct sluice_scratch *scratch,
                                  struct sluice_size size, struct sluice_err *err)
{
    if (size.width > SLUICE_MAX_IMAGE_SIDE || size.height > SLUICE_MAX_IMAGE_SIDE ||
        (uint64_t)size.width * size.height > scratch->max_pixels)
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

unsigned sluice_file_crop_end(const struct sluice_pipeline *pipeline)
{
    const unsigned op = sluice_first_op(pipeline);
    const struct sluice_op_type *first =
        pipeline->num_ops > op ? pipeline->ops[op].type : pipeline->ops[0].type;
    if (first == &sluice_op_random_resized_crop || first == &sluice_op_center_crop)
        return op + 1;
    return sluice_has_part(pipeline, op, pipeline->num_ops) ? op + 2 : 0;
}

static struct sluice_box draw_box(const struct sluice_pipeline *pipeline,
                                  const struct sluice_draw_key *key, struct sluice_size size)
{
    const unsigned op = sluice_first_op(pipeline);
    const struct sluice_draws draws = sluice_crop_draw(&pipeline->ops[op], key, op, size);
    return (struct sluice_box){draws.left, draws.top, draws.width, draws.height};
}

bool sluice_file_crop_box(const struct sluice_pipeline *pipeline, const struct sluice_draw_key *key,
                          struct sluice_size size, struct sluice_box *box)
{
    const unsigned op = sluice_first_op(pipeline);
    const struct sluice_op *first = &pipeline->ops[op];
    if (first->type == &sluice_op_random_resized_crop) {
        *box = draw_box(pipeline, key, size);
    } else if (first->type == &sluice_op_center_crop) {
        *box = sluice_center_box(first, size);
    } else {
        const struct sluice_resize_part part = sluice_find_part(pipeline, op, size);
        if (part.out_width > SLUICE_MAX_IMAGE_SIDE || part.out_height > SLUICE_MAX_IMAGE_SIDE)
            return false;
        *box = sluice_resize_part_input(&part);
    }
    return true;
}

/* What the sample's file holds of its image, which is upright if the pipeline says so: all of it,
 * or the part that a cut left.  Files that have to be turned are not cut. */
static sluice_status find_window(const struct sluice_pipeline *pipeline,
                                 const struct sluice_scratch *scratch,
                                 const struct sluice_sample *sample,
                                 struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    const struct sluice_buf *file = sample->data;
    if (!sample->is_jpeg_crop) {
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
    const uint32_t orientation =
        sample->is_jpeg_crop ? 1 : sluice_file_orientation(pipeline, file->data, file->len);
    const bool is_turned = sluice_orientation_swaps(orientation);
    box =
        sluice_orientation_stored_box(orientation, &box, is_turned ? window->height : window->width,
                                      is_turned ? window->width : window->height);
    sluice_codec_set_index(scratch->codec,
                           sample->is_jpeg_crop ? NULL : sluice_scratch_index(scratch, sample));
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

sluice_status sluice_read_box(const struct sluice_pipeline *pipeline,
                              struct sluice_scratch *scratch, const struct sluice_sample *sample,
                              struct sluice_rgb *rgb, struct sluice_err *err)
{
    struct sluice_box box;
    if (!sample->is_packed) {
        struct sluice_jpeg_crop_box window;
        const sluice_status status = find_window(pipeline, scratch, sample, &window, err);
        if (status)
            return status;
        const struct sluice_size size = {window.full_width, window.full_height};
        if (!sluice_file_crop_box(pipeline, &sample->key, size, &box))
            return sluice_fail(err, SLUICE_E_INTERNAL, "a crop without a box");
        return decode_box(pipeline, scratch, sample, &window, box, rgb, err);
    }

    box = draw_box(pipeline, &sample->key, (struct sluice_size){sample->width, sample->height});
    struct sluice_rgb unpacked;
    const sluice_status status =
        sluice_unpack_rgb(scratch->packer, sample->data->data, sample->data->len,
                          (uint64_t)box.width * box.height, scratch->pool, &unpacked, err);
    if (status)
        return status;
    if (unpacked.width != box.width || unpacked.height != box.height) {
        sluice_buf_unref(unpacked.pixels);
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed for another crop");
    }
    *rgb = unpacked;
    return SLUICE_OK;
}

/* The result of a group that ends with `crop`: the view resized, or as it is, or the part of an
 * image that it is the input of. */
static sluice_status resize_group(struct sluice_scratch *scratch, struct sluice_sample *sample,
                                  const struct sluice_group *group, const struct sluice_op *crop,
                                  const struct sluice_image_view *view,
                                  const struct sluice_resize_part *part, uint8_t *out,
                                  struct sluice_err *err)
{
    const struct sluice_size size = {crop->size, crop->size};
    struct sluice_buf *data = NULL;
    sluice_status status = sluice_make_result(crop, scratch, size, &out, &data, err);
    if (!status && part)
        status = sluice_resize_rgb_part(scratch->resizer, part, view, group->flip, out, err);
    else if (!status && crop->type == &sluice_op_center_crop)
        sluice_center_place(crop, view, group->flip, out);
    else if (!status)
        status = sluice_resize_rgb(scratch->resizer, view, size.width, size.height, group->flip,
                                   out, err);
    if (status)
        sluice_buf_unref(data);
    else if (data)
        sluice_sample_advance(sample, group->next, SLUICE_KIND_U8, size, data);
    return status;
}

sluice_status sluice_run_region(const struct sluice_pipeline *pipeline,
                                struct sluice_scratch *scratch, struct sluice_sample *sample,
                                const struct sluice_group *group, uint8_t *out,
                                struct sluice_err *err)
{
    struct sluice_rgb rgb;
    sluice_status status = sluice_read_box(pipeline, scratch, sample, &rgb, err);
    if (status)
        return status;

    const struct sluice_image_view view = {
        .pixels = rgb.pixels->data,
        .stride = (size_t)rgb.width * 3,
        .width = rgb.width,
        .height = rgb.height,
    };
    const struct sluice_op *crop = &pipeline->ops[sluice_first_op(pipeline)];
    status = resize_group(scratch, sample, group, crop, &view, NULL, out, err);
    sluice_buf_unref(rgb.pixels);
    return status;
}

bool sluice_has_part(const struct sluice_pipeline *pipeline, unsigned op, unsigned end)
{
    const struct sluice_op *ops = pipeline->ops;
    return op + 1 < end && ops[op].type == &sluice_op_resize &&
           ops[op + 1].type == &sluice_op_center_crop && ops[op].size >= ops[op + 1].size;
}

struct sluice_resize_part sluice_find_part(const struct sluice_pipeline *pipeline, unsigned op,
                                           struct sluice_size size)
{
    const struct sluice_size whole = pipeline->ops[op].type->out_size(&pipeline->ops[op], size);
    return (struct sluice_resize_part){
        .in_width = size.width,
        .in_height = size.height,
        .out_width = whole.width,
        .out_height = whole.height,
        .out = sluice_center_box(&pipeline->ops[op + 1], whole),
    };
}

sluice_status sluice_run_part(const struct sluice_pipeline *pipeline,
                              struct sluice_scratch *scratch, struct sluice_sample *sample,
                              const struct sluice_group *group, uint8_t *out,
                              struct sluice_err *err)
{
    const bool is_file = sample->ops_done == 0;
    const struct sluice_buf *input = sample->data;
    const unsigned op = is_file ? sluice_first_op(pipeline) : sample->ops_done;
    const struct sluice_op *resize = &pipeline->ops[op];
    struct sluice_size in = {sample->width, sample->height};
    struct sluice_jpeg_crop_box window;
    sluice_status status = SLUICE_OK;
    if (is_file) {
        status = find_window(pipeline, scratch, sample, &window, err);
        if (status)
            return status;
        in = (struct sluice_size){window.full_width, window.full_height};
    }
    const struct sluice_resize_part part = sluice_find_part(pipeline, op, in);
    const struct sluice_size whole = {part.out_width, part.out_height};
    if (check_result(resize, scratch, whole, NULL) != SLUICE_OK) {
        /* Damage in the file would have been found first. */
        if (is_file && !sample->is_jpeg_crop)
            status = sluice_run_decode(pipeline, scratch, sample, err);
        return status ? status : check_result(resize, scratch, whole, err);
    }
    const struct sluice_box box = sluice_resize_part_input(&part);
    struct sluice_image_view view = {.width = box.width, .height = box.height};
    struct sluice_rgb rgb = {0};
    if (is_file) {
        status = decode_box(pipeline, scratch, sample, &window, box, &rgb, err);
        if (status)
            return status;
        view.pixels = rgb.pixels->data;
        view.stride = (size_t)rgb.width * 3;
    } else {
        view.stride = (size_t)in.width * 3;
        view.pixels = input->data + box.top * view.stride + (size_t)box.left * 3;
    }
    status = resize_group(scratch, sample, group, &pipeline->ops[op + 1], &view, &part, out, err);
    sluice_buf_unref(rgb.pixels);
    return status;
}

bool sluice_pipeline_is_crop_and_resize(const struct sluice_pipeline *pipeline)
{
    const unsigned end = sluice_file_crop_end(pipeline);
    return end > 0 && (pipeline->u8_split == end || (pipeline->u8_split == end + 1 &&
                                                     pipeline->ops[end].type == &sluice_op_hflip));
}

/* The crop without a resize before it, as a resize: of a box to its own size, or to the op's. */
static struct sluice_resize_part whole_part(const struct sluice_op *crop,
                                            const struct sluice_box *box)
{
    return (struct sluice_resize_part){
        .in_width = box->width,
        .in_height = box->height,
        .out_width = crop->size,
        .out_height = crop->size,
        .out = {.width = crop->size, .height = crop->size},
    };
}

bool sluice_pipeline_crop_and_resize(const struct sluice_pipeline *pipeline,
                                     const struct sluice_scratch *scratch,
                                     const struct sluice_sample *sample, struct sluice_box *box,
                                     struct sluice_resize_part *part, bool *is_flipped)
{
    const unsigned end = sluice_file_crop_end(pipeline);
    const unsigned op = sluice_first_op(pipeline);
    const struct sluice_op *first = &pipeline->ops[op];
    struct sluice_jpeg_crop_box window;
    struct sluice_box of_image;
    if (!sluice_pipeline_is_crop_and_resize(pipeline) || sample->ops_done > 0 ||
        (!sample->is_jpeg_crop &&
         sluice_file_orientation(pipeline, sample->data->data, sample->data->len) != 1) ||
        find_window(pipeline, scratch, sample, &window, NULL) != SLUICE_OK)
        return false;
    const struct sluice_size size = {window.full_width, window.full_height};
    if ((uint64_t)size.width * size.height > scratch->max_pixels ||
        !sluice_file_crop_box(pipeline, &sample->key, size, &of_image) ||
        !is_within(&of_image, &window))
        return false;
    if (first->type == &sluice_op_center_crop &&
        (of_image.width < first->size || of_image.height < first->size))
        return false;
    *part = end == op + 2 ? sluice_find_part(pipeline, op, size) : whole_part(first, &of_image);
    const struct sluice_size out = {part->out_width, part->out_height};
    if (check_result(first, scratch, out, NULL) != SLUICE_OK)
        return false;
    *box = (struct sluice_box){of_image.left - window.left, of_image.top - window.top,
                               of_image.width, of_image.height};
    *is_flipped =
        pipeline->u8_split > end && sluice_flip_draw(&pipeline->ops[end], &sample->key, end);
    return true;
}
