#include "pipeline/op.h"
#include "base/rng.h"
#include "pipeline/exact_math.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* random_resized_crop and center_crop, as torchvision.transforms has them. */

static sluice_status parse_range(struct sluice_spec_text *text, bool is_ratio, double *min,
                                 double *max, struct sluice_err *err)
{
    double bounds[2];
    for (int i = 0; i < 2; i++) {
        if (i == 1 && !sluice_spec_accept(text, "-"))
            return sluice_spec_fail(text, err, "'-' is wanted between two bounds");
        sluice_status status = sluice_spec_number(text, &bounds[i], err);
        if (status)
            return status;
        if (is_ratio && sluice_spec_accept(text, "/")) {
            double under;
            status = sluice_spec_number(text, &under, err);
            if (status)
                return status;
            bounds[i] = under > 0 ? bounds[i] / under : 0;
        }
        /* Outside these bounds a crop has no pixels, and the canonical text does not fit. */
        if (bounds[i] < 0.0001 || bounds[i] > (is_ratio ? 10000 : 1))
            return sluice_spec_fail(text, err, "a bound of %s lies from 0.0001 to %d",
                                    is_ratio ? "ratio" : "scale", is_ratio ? 10000 : 1);
    }
    if (bounds[0] > bounds[1])
        return sluice_spec_fail(text, err, "the lower bound is above the upper one");
    *min = bounds[0];
    *max = bounds[1];
    return SLUICE_OK;
}

static sluice_status parse_random_resized_crop(struct sluice_op *op, struct sluice_spec_text *text,
                                               bool has_value, struct sluice_err *err)
{
    if (!has_value)
        return sluice_spec_fail(text, err, "'=SIZE' is wanted here");
    op->scale_min = 0.08;
    op->scale_max = 1;
    op->ratio_min = 3.0 / 4;
    op->ratio_max = 4.0 / 3;
    sluice_status status = sluice_spec_size(text, &op->size, err);
    bool has_scale = false, has_ratio = false;
    while (!status && sluice_spec_accept(text, ":")) {
        if (!has_scale && sluice_spec_accept(text, "scale=")) {
            has_scale = true;
            status = parse_range(text, false, &op->scale_min, &op->scale_max, err);
        } else if (!has_ratio && sluice_spec_accept(text, "ratio=")) {
            has_ratio = true;
            status = parse_range(text, true, &op->ratio_min, &op->ratio_max, err);
        } else {
            static const char *const known[] = {"scale", "ratio", NULL};
            char near[80];
            sluice_spec_suggest(text, known, near, sizeof(near));
            return sluice_spec_fail(
                text, err, "scale=MIN-MAX or ratio=MIN-MAX, each once, is wanted here%s", near);
        }
    }
    if (status)
        return status;
    op->log_ratio_min = sluice_exact_log(op->ratio_min);
    op->log_ratio_max = sluice_exact_log(op->ratio_max);
    return SLUICE_OK;
}

static void print_random_resized_crop(const struct sluice_op *op, char *text, size_t room)
{
    char numbers[4][32];
    sluice_print_number(op->scale_min, numbers[0], sizeof(numbers[0]));
    sluice_print_number(op->scale_max, numbers[1], sizeof(numbers[1]));
    sluice_print_number(op->ratio_min, numbers[2], sizeof(numbers[2]));
    sluice_print_number(op->ratio_max, numbers[3], sizeof(numbers[3]));
    snprintf(text, room, "=%u:scale=%s-%s:ratio=%s-%s", op->size, numbers[0], numbers[1],
             numbers[2], numbers[3]);
}

/* RandomResizedCrop.get_params.  Each try draws the area, then the log of the
 * ratio; a box that fits draws its top, then its left. */
struct sluice_draws sluice_crop_draw(const struct sluice_op *op, const struct sluice_draw_key *key,
                                     unsigned index, struct sluice_size in)
{
    struct sluice_rng rng = sluice_rng_init(key->seed, key->epoch, key->sample_id, index);
    const double area = (double)in.width * in.height;
    for (int i = 0; i < 10; i++) {
        const double scale =
            op->scale_min + (op->scale_max - op->scale_min) * sluice_rng_double(&rng);
        const double log_ratio =
            op->log_ratio_min + (op->log_ratio_max - op->log_ratio_min) * sluice_rng_double(&rng);
        const double target_area = area * scale;
        const double ratio = sluice_exact_exp(log_ratio);
        const int64_t width = sluice_round_half_even(sqrt(target_area * ratio));
        const int64_t height = sluice_round_half_even(sqrt(target_area / ratio));
        if (width > 0 && width <= in.width && height > 0 && height <= in.height) {
            struct sluice_draws draws = {.width = (uint32_t)width, .height = (uint32_t)height};
            draws.top = sluice_rng_below(&rng, in.height - draws.height + 1);
            draws.left = sluice_rng_below(&rng, in.width - draws.width + 1);
            return draws;
        }
    }

    /* The largest central box within the bounds of the ratio. */
    const double in_ratio = (double)in.width / in.height;
    int64_t width = in.width, height = in.height;
    if (in_ratio < op->ratio_min)
        height = sluice_round_half_even((double)width / op->ratio_min);
    else if (in_ratio > op->ratio_max)
        width = sluice_round_half_even((double)height * op->ratio_max);
    /* torchvision fails where extreme bounds round a side to nothing; we keep one pixel. */
    width = width < 1 ? 1 : width;
    height = height < 1 ? 1 : height;
    return (struct sluice_draws){
        .top = (in.height - (uint32_t)height) / 2,
        .left = (in.width - (uint32_t)width) / 2,
        .height = (uint32_t)height,
        .width = (uint32_t)width,
    };
}

static struct sluice_size square_size(const struct sluice_op *op, struct sluice_size in)
{
    (void)in;
    return (struct sluice_size){op->size, op->size};
}

static sluice_status apply_random_resized_crop(const struct sluice_op *op,
                                               const struct sluice_op_context *context,
                                               const struct sluice_image_view *in, bool flip,
                                               uint8_t *out, struct sluice_err *err)
{
    const struct sluice_draws box = sluice_crop_draw(op, context->key, context->index,
                                                     (struct sluice_size){in->width, in->height});
    const struct sluice_image_view view = {
        .pixels = in->pixels + (size_t)box.top * in->stride + (size_t)box.left * 3,
        .stride = in->stride,
        .width = box.width,
        .height = box.height,
    };
    return sluice_resize_rgb(context->resizer, &view, op->size, op->size, flip, out, err);
}

const struct sluice_op_type sluice_op_random_resized_crop = {
    .name = "random_resized_crop",
    .family = SLUICE_OP_IMAGE,
    .example = "=224:scale=0.08-1",
    .help = "a random box with this share of the area, resized to 224 x 224; :ratio=3/4-4/3 bounds "
            "width to height; these ranges hold if left out",
    .parse = parse_random_resized_crop,
    .print = print_random_resized_crop,
    .out_size = square_size,
    .apply = apply_random_resized_crop,
};

static sluice_status parse_center_crop(struct sluice_op *op, struct sluice_spec_text *text,
                                       bool has_value, struct sluice_err *err)
{
    if (!has_value)
        return sluice_spec_fail(text, err, "'=SIZE' is wanted here");
    return sluice_spec_size(text, &op->size, err);
}

static void print_center_crop(const struct sluice_op *op, char *text, size_t room)
{
    snprintf(text, room, "=%u", op->size);
}

/* One axis of torchvision's center_crop: `count` pixels from `from` are kept.  A smaller image is
 * padded, the odd pixel at the end; of a larger one the middle is cut at
 * round((image - size) / 2), halves to the even number. */
struct span {
    uint32_t from, count;
};

static struct span center_span(uint32_t in, uint32_t size)
{
    if (in < size)
        return (struct span){.from = 0, .count = in};
    const uint32_t rest = in - size;
    const uint32_t half = rest / 2;
    return (struct span){.from = half + (rest & half & 1), .count = size};
}

struct sluice_box sluice_center_box(const struct sluice_op *op, struct sluice_size in)
{
    const struct span across = center_span(in.width, op->size);
    const struct span down = center_span(in.height, op->size);
    return (struct sluice_box){across.from, down.from, across.count, down.count};
}

void sluice_center_place(const struct sluice_op *op, const struct sluice_image_view *box, bool flip,
                         uint8_t *out)
{
    const size_t out_stride = (size_t)op->size * 3;
    if (box->width < op->size || box->height < op->size)
        memset(out, 0, out_stride * op->size);
    /* A side that was cut is as long as the crop, and begins with it. */
    const uint32_t to = (op->size - box->width) / 2, down_to = (op->size - box->height) / 2;
    const uint32_t left = flip ? op->size - to - box->width : to;
    sluice_copy_rgb(box, flip, out + down_to * out_stride + (size_t)left * 3, out_stride);
}

static sluice_status apply_center_crop(const struct sluice_op *op,
                                       const struct sluice_op_context *context,
                                       const struct sluice_image_view *in, bool flip, uint8_t *out,
                                       struct sluice_err *err)
{
    (void)context, (void)err;
    const struct sluice_box box =
        sluice_center_box(op, (struct sluice_size){in->width, in->height});
    const struct sluice_image_view view = {
        .pixels = in->pixels + (size_t)box.top * in->stride + (size_t)box.left * 3,
        .stride = in->stride,
        .width = box.width,
        .height = box.height,
    };
    sluice_center_place(op, &view, flip, out);
    return SLUICE_OK;
}

const struct sluice_op_type sluice_op_center_crop = {
    .name = "center_crop",
    .family = SLUICE_OP_IMAGE,
    .example = "=224",
    .help = "the middle 224 x 224 pixels",
    .parse = parse_center_crop,
    .print = print_center_crop,
    .out_size = square_size,
    .apply = apply_center_crop,
};
