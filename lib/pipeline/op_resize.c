#include "pipeline/op.h"

#include <stdio.h>

/* resize to a shorter side, as torchvision's Resize(int). */

static sluice_status parse(struct sluice_op *op, struct sluice_spec_text *text, bool has_value,
                           struct sluice_err *err)
{
    if (!has_value)
        return sluice_spec_fail(text, err, "'=SHORTER_SIDE' is wanted here");
    return sluice_spec_size(text, &op->size, err);
}

static void print(const struct sluice_op *op, char *text, size_t room)
{
    snprintf(text, room, "=%u", op->size);
}

/* int(size * long / short): the product is exact and Python divides integers with one
 * rounding, so a double division gives the same; the quotient is below 2^30. */
static struct sluice_size out_size(const struct sluice_op *op, struct sluice_size in)
{
    const bool is_tall = in.width <= in.height;
    const uint32_t shorter = is_tall ? in.width : in.height;
    const uint32_t longer = is_tall ? in.height : in.width;
    const uint32_t other = (uint32_t)((double)((uint64_t)op->size * longer) / (double)shorter);
    return is_tall ? (struct sluice_size){op->size, other} : (struct sluice_size){other, op->size};
}

static sluice_status apply(const struct sluice_op *op, const struct sluice_op_context *context,
                           const struct sluice_image_view *in, bool flip, uint8_t *out,
                           struct sluice_err *err)
{
    const struct sluice_size size = out_size(op, (struct sluice_size){in->width, in->height});
    return sluice_resize_rgb(context->resizer, in, size.width, size.height, flip, out, err);
}

const struct sluice_op_type sluice_op_resize = {
    .name = "resize",
    .family = SLUICE_OP_IMAGE,
    .example = "=256",
    .help = "the shorter side becomes 256 pixels",
    .parse = parse,
    .print = print,
    .out_size = out_size,
    .apply = apply,
};
