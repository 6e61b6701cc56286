#include "op/pipeline.h"

#include "base/buf.h"
#include "image/jpeg/index.h"
#include "op/pipeline_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void sluice_sample_clear(struct sluice_sample *sample)
{
    sluice_buf_unref(sample->data);
    sluice_jpeg_index_destroy(sample->jpeg_index);
    memset(sample, 0, sizeof(*sample));
}

void sluice_pipeline_destroy(struct sluice_pipeline *pipeline)
{
    if (!pipeline)
        return;
    for (unsigned i = pipeline->first_owned; i < pipeline->num_ops; i++)
        sluice_op_clear(&pipeline->ops[i]);
    for (unsigned i = 0; i < SLUICE_MAX_VIEWS; i++)
        sluice_pipeline_destroy(pipeline->views[i]);
    free(pipeline);
}

unsigned sluice_pipeline_num_ops(const struct sluice_pipeline *pipeline)
{
    return pipeline->num_ops;
}

const char *sluice_pipeline_op_name(const struct sluice_pipeline *pipeline, unsigned op)
{
    assert(op < pipeline->num_ops);
    return pipeline->ops[op].type->name;
}

enum sluice_op_kind sluice_pipeline_op_kind(const struct sluice_pipeline *pipeline, unsigned op)
{
    assert(op < pipeline->num_ops);
    return pipeline->ops[op].type->kind;
}

bool sluice_pipeline_op_resizes(const struct sluice_pipeline *pipeline, unsigned op)
{
    assert(op < pipeline->num_ops);
    const struct sluice_op_type *type = pipeline->ops[op].type;
    return type->kind == SLUICE_OP_RESAMPLE && !type->is_copy;
}

const char *sluice_pipeline_op_column(const struct sluice_pipeline *pipeline, unsigned op)
{
    assert(op < pipeline->num_ops);
    const struct sluice_op_type *type = pipeline->ops[op].type;
    return type->column ? type->column : type->name;
}

const char *sluice_pipeline_op_label(const struct sluice_pipeline *pipeline, unsigned op)
{
    assert(op < pipeline->num_ops);
    const struct sluice_op_type *type = pipeline->ops[op].type;
    return type->label ? type->label : type->name;
}

const char *sluice_pipeline_spec(const struct sluice_pipeline *pipeline)
{
    return pipeline->spec;
}

uint64_t sluice_pipeline_fingerprint(const struct sluice_pipeline *pipeline)
{
    return pipeline->fingerprint;
}

enum sluice_kind sluice_pipeline_kind(const struct sluice_pipeline *pipeline, unsigned split)
{
    assert(split <= pipeline->num_ops);
    if (split == 0)
        return SLUICE_KIND_FILE;
    return split <= pipeline->u8_split ? SLUICE_KIND_U8 : SLUICE_KIND_F32;
}

bool sluice_pipeline_is_upright(const struct sluice_pipeline *pipeline)
{
    return pipeline->num_ops > 1 && pipeline->ops[1].type->kind == SLUICE_OP_UPRIGHT;
}

unsigned sluice_pipeline_u8_split(const struct sluice_pipeline *pipeline)
{
    return pipeline->u8_split;
}

static struct sluice_known_size known_size_of_views(const struct sluice_pipeline *pipeline)
{
    struct sluice_known_size known = sluice_known_exactly(pipeline->view_sizes[0]);
    for (unsigned i = 1; i < pipeline->num_views; i++)
        known.more_pixels +=
            (uint64_t)pipeline->view_sizes[i].width * pipeline->view_sizes[i].height;
    return known;
}

struct sluice_known_size sluice_pipeline_known_size(const struct sluice_pipeline *pipeline,
                                                    unsigned split)
{
    struct sluice_known_size known = {0};
    for (unsigned i = 0; i < split; i++) {
        const struct sluice_op *op = &pipeline->ops[i];
        if (op->type->known_size)
            known = op->type->known_size(op->params, known);
        else if (op->type->kind == SLUICE_OP_VIEWS)
            known = known_size_of_views(pipeline);
    }
    return known;
}

uint64_t sluice_known_size_pixels(struct sluice_known_size known, uint32_t width, uint32_t height)
{
    struct sluice_size size = {width, height};
    if (known.width)
        size = (struct sluice_size){known.width, known.height};
    else if (known.shorter || known.longer)
        size = sluice_size_with_sides(known.shorter, known.longer, size);
    const uint64_t pixels = ((uint64_t)size.width + known.padding.width) *
                                ((uint64_t)size.height + known.padding.height) +
                            known.more_pixels;
    if (known.max_pixels == 0)
        return pixels;
    return pixels < known.min_pixels   ? known.min_pixels
           : pixels > known.max_pixels ? known.max_pixels
                                       : pixels;
}

bool sluice_known_size_allows(struct sluice_known_size known, uint32_t width, uint32_t height)
{
    if (known.width)
        return width == known.width && height == known.height;
    if (known.is_rounded)
        return true;
    if (width <= known.padding.width || height <= known.padding.height)
        return false;
    width -= known.padding.width;
    height -= known.padding.height;
    const uint32_t shorter = width < height ? width : height;
    const uint32_t longer = width < height ? height : width;
    if (!known.longer)
        return !known.shorter || shorter == known.shorter;
    return longer == known.longer
               ? !known.shorter || shorter <= known.shorter
               : known.shorter && longer < known.longer && shorter == known.shorter;
}

unsigned sluice_pipeline_num_views(const struct sluice_pipeline *pipeline)
{
    return pipeline->num_views;
}

struct sluice_size sluice_pipeline_view_size(const struct sluice_pipeline *pipeline, unsigned view)
{
    assert(view < pipeline->num_views);
    return pipeline->view_sizes[view];
}

const struct sluice_pipeline *sluice_pipeline_view(const struct sluice_pipeline *pipeline,
                                                   unsigned view)
{
    assert(view < pipeline->num_views);
    return pipeline->views[view] ? pipeline->views[view] : pipeline;
}

size_t sluice_pipeline_u8_bytes(const struct sluice_pipeline *pipeline)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < pipeline->num_views; i++)
        bytes += (size_t)pipeline->view_sizes[i].width * pipeline->view_sizes[i].height * 3;
    return bytes;
}

size_t sluice_pipeline_output_bytes(const struct sluice_pipeline *pipeline)
{
    const bool is_f32 = pipeline->u8_split < pipeline->num_ops;
    return sluice_pipeline_u8_bytes(pipeline) * (is_f32 ? sizeof(float) : 1);
}

const sluice_pipeline_table *sluice_pipeline_tail_table(const struct sluice_pipeline *pipeline)
{
    return &pipeline->tail_table;
}

struct sluice_draws sluice_pipeline_draws(const struct sluice_pipeline *pipeline,
                                          const struct sluice_draw_key *key, uint32_t width,
                                          uint32_t height)
{
    assert(width > 0 && height > 0);
    struct sluice_draws draws = {.height = height, .width = width};
    struct sluice_size size = {width, height};
    bool has_box = false;
    for (unsigned i = 0; i < pipeline->u8_split; i++) {
        const struct sluice_op *op = &pipeline->ops[i];
        union sluice_drawn drawn;
        if (op->type->kind == SLUICE_OP_RESAMPLE) {
            sluice_op_draw(op, key, size, &drawn);
            const struct sluice_box box = drawn.resample.from;
            if (op->type->is_random && !op->type->takes_whole && !has_box) {
                draws.top = box.top;
                draws.left = box.left;
                draws.height = box.height;
                draws.width = box.width;
                has_box = true;
            }
            size = drawn.resample.out;
        } else if (op->type->kind == SLUICE_OP_MIRROR) {
            sluice_op_draw(op, key, size, &drawn);
            draws.flip = draws.flip != drawn.is_mirrored;
        }
    }
    return draws;
}

bool sluice_pipeline_has_kernels(const struct sluice_pipeline *pipeline)
{
    return pipeline->has_kernels;
}
