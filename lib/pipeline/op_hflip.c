#include "base/rng.h"
#include "image/kernels.h"
#include "pipeline/op.h"

#include <stdio.h>
#include <string.h>

static sluice_status parse(struct sluice_op *op, struct sluice_spec_text *text, bool has_value,
                           struct sluice_err *err)
{
    op->probability = 0.5;
    if (!has_value)
        return SLUICE_OK;
    const struct sluice_spec_text start = *text;
    sluice_status status = sluice_spec_number(text, &op->probability, err);
    if (!status && op->probability > 1)
        status = sluice_spec_fail(&start, err, "a probability is at most 1");
    return status;
}

static void print(const struct sluice_op *op, char *text, size_t room)
{
    char number[32];
    sluice_print_number(op->probability, number, sizeof(number));
    snprintf(text, room, "=%s", number);
}

bool sluice_flip_draw(const struct sluice_op *op, const struct sluice_draw_key *key, unsigned index)
{
    struct sluice_rng rng = sluice_rng_init(key->seed, key->epoch, key->sample_id, index);
    return sluice_rng_double(&rng) < op->probability;
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

static struct sluice_size out_size(const struct sluice_op *op, struct sluice_size in)
{
    (void)op;
    return in;
}

/* The pipeline has drawn already: `flip` says whether to mirror. */
static sluice_status apply(const struct sluice_op *op, const struct sluice_op_context *context,
                           const struct sluice_image_view *in, bool flip, uint8_t *out,
                           struct sluice_err *err)
{
    (void)op, (void)context, (void)err;
    sluice_copy_rgb(in, flip, out, (size_t)in->width * 3);
    return SLUICE_OK;
}

const struct sluice_op_type sluice_op_hflip = {
    .name = "hflip",
    .family = SLUICE_OP_IMAGE,
    .example = "=0.5",
    .help = "mirrors with this probability",
    .parse = parse,
    .print = print,
    .out_size = out_size,
    .apply = apply,
};
