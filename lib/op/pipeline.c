#include "op/pipeline.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/text.h"
#include "image/jpeg/index.h"
#include "op/pipeline_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sluice_sample_clear(struct sluice_sample *sample)
{
    sluice_buf_unref(sample->data);
    sluice_jpeg_index_destroy(sample->jpeg_index);
    memset(sample, 0, sizeof(*sample));
}

/* Which op may stand after which: decode, then image ops, then to_tensor, then normalize. */
static sluice_status check_order(const struct sluice_pipeline *pipeline, enum sluice_op_kind kind,
                                 const struct sluice_spec_text *text, struct sluice_err *err)
{
    const unsigned n = pipeline->num_ops;
    if (n == SLUICE_PIPELINE_MAX_OPS)
        return sluice_spec_fail(text, err, "a pipeline has at most %d ops",
                                SLUICE_PIPELINE_MAX_OPS);
    if ((n == 0) != (kind == SLUICE_OP_DECODE))
        return sluice_spec_fail(text, err, "decode stands first, and only there");
    if (kind == SLUICE_OP_UPRIGHT && n != 1)
        return sluice_spec_fail(text, err, "it must follow decode");
    if (n == 0)
        return SLUICE_OK;
    const struct sluice_op_type *last = pipeline->ops[n - 1].type;
    if (kind == SLUICE_OP_SCALE && last->kind != SLUICE_OP_TENSOR)
        return sluice_spec_fail(text, err, "it must follow to_tensor");
    if (kind != SLUICE_OP_SCALE && pipeline->u8_split < n)
        return sluice_spec_fail(text, err, "it comes after %s, which makes floats", last->name);
    return SLUICE_OK;
}

static sluice_status parse_op(struct sluice_pipeline *pipeline, struct sluice_spec_text *text,
                              struct sluice_err *err)
{
    text->op = pipeline->num_ops + 1;
    text->op_name = text->at;
    text->op_name_len = strcspn(text->at, ",=");
    const struct sluice_op_type *type = sluice_op_type_find(text->op_name, text->op_name_len);
    if (!type) {
        char near[300];
        sluice_op_type_suggest(text->op_name, strcspn(text->op_name, ",=("), near, sizeof(near));
        return sluice_spec_fail(text, err, "there is no such op%s", near);
    }
    sluice_status status = check_order(pipeline, type->kind, text, err);
    if (status)
        return status;

    struct sluice_op *op = &pipeline->ops[pipeline->num_ops];
    *op = (struct sluice_op){.type = type, .index = pipeline->num_ops};
    text->at += text->op_name_len;
    status = sluice_op_parse(op, text, err);
    if (status)
        return status;
    pipeline->num_ops++;
    if (*text->at && *text->at != ',')
        return sluice_spec_fail(text, err, "nothing more belongs here");
    if (type->kind == SLUICE_OP_SCALE)
        pipeline->scale = op->params;
    else if (type->kind != SLUICE_OP_TENSOR)
        pipeline->u8_split = pipeline->num_ops;
    return SLUICE_OK;
}

static sluice_status write_spec(struct sluice_pipeline *pipeline, struct sluice_err *err)
{
    size_t len = 0;
    for (unsigned i = 0; i < pipeline->num_ops; i++) {
        const struct sluice_op *op = &pipeline->ops[i];
        char value[256];
        sluice_op_print(op, value, sizeof(value));
        const int n = snprintf(pipeline->spec + len, sizeof(pipeline->spec) - len, "%s%s%s",
                               i > 0 ? "," : "", op->type->name, value);
        if (n < 0 || (size_t)n >= sizeof(pipeline->spec) - len)
            return sluice_fail(err, SLUICE_E_INVALID, "pipeline: its full text has over %zu bytes",
                               sizeof(pipeline->spec) - 1);
        len += (size_t)n;
    }
    return SLUICE_OK;
}

/* Part of every fingerprint: the rules that all ops share (draws, order, rounding).  An op's own
 * results have the op's numerics. */
#define NUMERICS_VERSION 1

static uint64_t fingerprint_of(const struct sluice_pipeline *pipeline)
{
    char text[SLUICE_SPEC_ROOM + 32 + SLUICE_PIPELINE_MAX_OPS * 48];
    size_t len =
        (size_t)snprintf(text, sizeof(text), "%s\nnumerics=%d", pipeline->spec, NUMERICS_VERSION);
    for (unsigned i = 0; i < pipeline->num_ops; i++) {
        const struct sluice_op_type *type = pipeline->ops[i].type;
        if (type->numerics > 0)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "\n%s=%u", type->name,
                                    type->numerics);
    }
    assert(len < sizeof(text));
    return sluice_hash64(text, len);
}

static void init_lookup(struct sluice_lookup *lookup, const sluice_pipeline_table table,
                        const struct sluice_scale *scale)
{
    float mean[3] = {0, 0, 0}, std[3] = {1, 1, 1};
    for (int c = 0; scale && c < 3; c++) {
        mean[c] = (float)scale->mean[c];
        std[c] = (float)scale->std[c];
    }
    sluice_lookup_init(lookup, table, SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW);
    (void)sluice_lookup_set_formula(lookup, mean, std);
}

sluice_status sluice_pipeline_parse(const char *spec, struct sluice_pipeline **out,
                                    struct sluice_err *err)
{
    struct sluice_pipeline *pipeline = calloc(1, sizeof(*pipeline));
    if (!pipeline)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a pipeline");

    struct sluice_spec_text text = {.start = spec, .at = spec};
    sluice_status status;
    do {
        status = parse_op(pipeline, &text, err);
    } while (!status && sluice_spec_accept(&text, ","));
    if (!status)
        status = write_spec(pipeline, err);
    if (status) {
        sluice_pipeline_destroy(pipeline);
        return status;
    }

    pipeline->fingerprint = fingerprint_of(pipeline);
    sluice_find_stages(pipeline);
    pipeline->output_size = sluice_pipeline_known_size(pipeline, pipeline->u8_split).square;
    if (pipeline->u8_split < pipeline->num_ops) {
        sluice_tensor_table(NULL, pipeline->tensor_table);
        sluice_tensor_table(pipeline->scale, pipeline->tail_table);
        init_lookup(&pipeline->tensor_lookup, pipeline->tensor_table, NULL);
        init_lookup(&pipeline->tail_lookup, pipeline->tail_table, pipeline->scale);
        pipeline->batch_lookup = pipeline->tail_lookup;
        pipeline->batch_lookup.is_far = true;
    }
    *out = pipeline;
    return SLUICE_OK;
}

sluice_status sluice_pipeline_check(const char *spec, struct sluice_err *err)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err why = {0};
    const sluice_status status = sluice_pipeline_parse(spec, &pipeline, &why);
    sluice_pipeline_destroy(pipeline);
    if (status == SLUICE_OK)
        return status;
    /* The option's name stands before it. */
    const size_t skip = sluice_starts_with(why.text, "pipeline: ") ? strlen("pipeline: ") : 0;
    return sluice_fail(err, status, "%s", why.text + skip);
}

void sluice_pipeline_destroy(struct sluice_pipeline *pipeline)
{
    if (!pipeline)
        return;
    for (unsigned i = 0; i < pipeline->num_ops; i++)
        sluice_op_clear(&pipeline->ops[i]);
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

struct sluice_known_size sluice_pipeline_known_size(const struct sluice_pipeline *pipeline,
                                                    unsigned split)
{
    struct sluice_known_size known = {0};
    for (unsigned i = 0; i < split; i++) {
        const struct sluice_op *op = &pipeline->ops[i];
        if (op->type->known_size)
            known = op->type->known_size(op->params, known);
    }
    return known;
}

uint64_t sluice_known_size_pixels(struct sluice_known_size known, uint32_t width, uint32_t height)
{
    if (known.square)
        return (uint64_t)known.square * known.square;
    if (!known.shorter)
        return (uint64_t)width * height;
    const struct sluice_size size =
        sluice_size_with_shorter(known.shorter, (struct sluice_size){width, height});
    return (uint64_t)size.width * size.height;
}

uint32_t sluice_pipeline_output_size(const struct sluice_pipeline *pipeline)
{
    return pipeline->output_size;
}

size_t sluice_pipeline_u8_bytes(const struct sluice_pipeline *pipeline)
{
    /* At most 3 x 8192^2, and four times that for floats. */
    return (size_t)pipeline->output_size * pipeline->output_size * 3;
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
            if (op->type->is_random && !has_box) {
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
