/* From text to a pipeline, its canonical text and its fingerprint. */

#include "op/geometry.h"
#include "op/pipeline_private.h"

#include "base/hash.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks the order of ops: decode, then image ops, then to_tensor, then normalize.  A view has
 * image ops alone. */
static sluice_status check_order(const struct sluice_pipeline *pipeline, enum sluice_op_kind kind,
                                 const struct sluice_spec_text *text, struct sluice_err *err)
{
    const unsigned n = pipeline->num_ops;
    if (n == SLUICE_PIPELINE_MAX_OPS)
        return sluice_spec_fail(text, err, "a pipeline has at most %d ops",
                                SLUICE_PIPELINE_MAX_OPS);
    if (pipeline->first_owned > 0 && !sluice_op_kind_draws(kind))
        return sluice_spec_fail(text, err, "a view has only ops that change pixels");
    if (pipeline->views[0] && kind != SLUICE_OP_TENSOR && kind != SLUICE_OP_SCALE)
        return sluice_spec_fail(text, err, "only to_tensor may follow views");
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

/* Parses an op and, for a choice, the ops in its parentheses.  *num_nodes counts all of them. */
static sluice_status parse_node(struct sluice_op *op, struct sluice_spec_text *text,
                                unsigned *num_nodes, unsigned depth, struct sluice_err *err);

static sluice_status parse_children(struct sluice_op *op, struct sluice_spec_text *text,
                                    unsigned *num_nodes, unsigned depth, struct sluice_err *err)
{
    if (depth == SLUICE_MAX_DEPTH)
        return sluice_spec_fail(text, err, "parentheses are at most %u deep", SLUICE_MAX_DEPTH);
    struct sluice_spec_text parent = *text;
    sluice_status status = SLUICE_OK;
    do {
        struct sluice_op *grown =
            realloc(op->children, (op->num_children + 1) * sizeof(*op->children));
        if (!grown)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a pipeline");
        op->children = grown;
        op->children[op->num_children] = (struct sluice_op){0};
        status = parse_node(&op->children[op->num_children], text, num_nodes, depth + 1, err);
        op->num_children += status == SLUICE_OK;
    } while (status == SLUICE_OK && sluice_spec_accept(text, ","));
    if (status != SLUICE_OK)
        return status;
    if (!sluice_spec_accept(text, ")"))
        return sluice_spec_fail(text, err, "',' or ')' is wanted here");
    parent.at = text->at; /* what follows is the choice's own */
    *text = parent;
    return sluice_op_parse_modifiers(op, text, err);
}

/* The ops of a choice without parentheses. */
static sluice_status parse_expansion(struct sluice_op *op, unsigned *num_nodes, unsigned depth,
                                     struct sluice_err *err)
{
    char ops[8192];
    op->type->expand(op->params, ops, sizeof(ops));
    struct sluice_spec_text text = {.start = ops, .at = ops};
    return parse_children(op, &text, num_nodes, depth, err);
}

static sluice_status parse_node(struct sluice_op *op, struct sluice_spec_text *text,
                                unsigned *num_nodes, unsigned depth, struct sluice_err *err)
{
    text->op = *num_nodes + 1;
    text->op_name = text->at;
    text->op_name_len = strcspn(text->at, ",=:()[]");
    const struct sluice_op_type *type = sluice_op_type_find(text->op_name, text->op_name_len);
    if (!type) {
        char near[300];
        sluice_op_type_suggest(text->op_name, text->op_name_len, near, sizeof(near));
        return sluice_spec_fail(text, err, "there is no such op%s", near);
    }
    if (depth > 0 && !sluice_op_kind_has_p(type->kind))
        return sluice_spec_fail(
            text, err, "only ops that keep the size of the image may stand in parentheses");
    if (*num_nodes == SLUICE_MAX_NODES)
        return sluice_spec_fail(text, err,
                                "a pipeline has at most %u ops, with those in parentheses",
                                SLUICE_MAX_NODES);
    *op = (struct sluice_op){.type = type, .index = (*num_nodes)++};
    text->at += text->op_name_len;
    sluice_status status = sluice_op_parse(op, text, err);
    if (status == SLUICE_OK && type->expand)
        status = parse_expansion(op, num_nodes, depth, err);
    else if (status == SLUICE_OK && type->kind == SLUICE_OP_CHOICE)
        status = parse_children(op, text, num_nodes, depth, err);
    const char *why = status == SLUICE_OK && type->check_children
                          ? type->check_children(op->params, op->num_children)
                          : NULL;
    if (why)
        status = sluice_spec_fail(text, err, "%s", why);
    if (status != SLUICE_OK)
        sluice_op_clear(op);
    return status;
}

/* The most ops that may run on a sample. */
static unsigned most_drawn(const struct sluice_op *op)
{
    const enum sluice_op_kind kind = op->type->kind;
    const bool has_children = kind == SLUICE_OP_CHOICE || kind == SLUICE_OP_BLEND;
    unsigned most = has_children ? 0 : 1;
    for (unsigned i = 0; i < op->num_children; i++) {
        const unsigned of_child = most_drawn(&op->children[i]);
        most = of_child > most ? of_child : most;
    }
    if (has_children)
        most *= op->type->num_chosen(op->params, op->num_children);
    most += kind == SLUICE_OP_BLEND;
    return most < SLUICE_MAX_DRAWN_OPS + 1 ? most : SLUICE_MAX_DRAWN_OPS + 1;
}

static sluice_status parse_views(struct sluice_pipeline *pipeline, struct sluice_spec_text *text,
                                 unsigned *num_nodes, struct sluice_err *err);

/* Parses an op of a pipeline, or of the view with this number (from 1; 0: of no view). */
static sluice_status parse_op(struct sluice_pipeline *pipeline, struct sluice_spec_text *text,
                              unsigned *num_nodes, unsigned view, struct sluice_err *err)
{
    struct sluice_op op = {0};
    const struct sluice_spec_text start = *text;
    sluice_status status = parse_node(&op, text, num_nodes, 0, err);
    if (status != SLUICE_OK)
        return status;
    assert(op.type);
    struct sluice_spec_text name = start;
    name.op = op.index + 1;
    name.op_name = start.at;
    name.op_name_len = strlen(op.type->name);
    status = check_order(pipeline, op.type->kind, &name, err);
    if (status == SLUICE_OK && op.type->draw_by_boxes &&
        (view > 0 || sluice_pipeline_draws_by_boxes(pipeline)))
        status = sluice_spec_fail(&name, err, "a pipeline has one such op, and a view none");
    pipeline->most_drawn += most_drawn(&op);
    if (status == SLUICE_OK && pipeline->most_drawn > SLUICE_MAX_DRAWN_OPS)
        status = sluice_spec_fail(&name, err, "a sample would run more than %u ops",
                                  SLUICE_MAX_DRAWN_OPS);
    if (status == SLUICE_OK && op.type->kind == SLUICE_OP_VIEWS)
        status = parse_views(pipeline, text, num_nodes, err);
    if (status != SLUICE_OK) {
        sluice_op_clear(&op);
        return status;
    }
    sluice_op_set_places(&op, view);
    pipeline->ops[pipeline->num_ops++] = op;
    const struct sluice_decode_params *decode =
        op.type->kind == SLUICE_OP_DECODE ? op.params : NULL;
    if (decode)
        pipeline->numerics = (enum sluice_numerics)decode->numerics;
    if (op.type->kind == SLUICE_OP_SCALE)
        pipeline->scale = op.params;
    else if (op.type->kind != SLUICE_OP_TENSOR)
        pipeline->u8_split = pipeline->num_ops;
    return SLUICE_OK;
}

static void find_stages(struct sluice_pipeline *pipeline);

/* The ops of one view, up to its ']'. */
static sluice_status parse_view(struct sluice_pipeline *pipeline, struct sluice_spec_text *text,
                                unsigned *num_nodes, struct sluice_err *err)
{
    struct sluice_pipeline *view = calloc(1, sizeof(*view));
    if (!view)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a pipeline");
    const unsigned number = pipeline->num_views++;
    pipeline->views[number] = view;
    memcpy(view->ops, pipeline->ops, pipeline->num_ops * sizeof(view->ops[0]));
    view->num_ops = view->u8_split = view->first_owned = pipeline->num_ops;
    view->most_drawn = pipeline->most_drawn;
    view->numerics = pipeline->numerics;
    sluice_status status;
    do {
        status = parse_op(view, text, num_nodes, number + 1, err);
    } while (status == SLUICE_OK && sluice_spec_accept(text, ","));
    if (status != SLUICE_OK)
        return status;
    find_stages(view);
    pipeline->view_sizes[number] = view->view_sizes[0];
    return view->view_sizes[0].width > 0
               ? SLUICE_OK
               : sluice_spec_fail(text, err,
                                  "a view ends in a fixed size: it needs a crop, or "
                                  "resize=HEIGHTxWIDTH");
}

/* Parses "[op,op,...]" or "Nx[op,op,...]", N views with draws of their own. */
static sluice_status parse_copies(struct sluice_pipeline *pipeline, struct sluice_spec_text *text,
                                  unsigned *num_nodes, struct sluice_err *err)
{
    const struct sluice_spec_text start = *text;
    uint32_t num = 1;
    const bool has_num = *text->at >= '0' && *text->at <= '9';
    if (has_num && (sluice_spec_size(text, &num, NULL) != SLUICE_OK || num > SLUICE_MAX_VIEWS ||
                    pipeline->num_views + num > SLUICE_MAX_VIEWS))
        return sluice_spec_fail(&start, err, "a sample has 1 to %d views", SLUICE_MAX_VIEWS);
    if (pipeline->num_views == SLUICE_MAX_VIEWS)
        return sluice_spec_fail(&start, err, "a sample has at most %d views", SLUICE_MAX_VIEWS);
    if ((has_num && !sluice_spec_accept(text, "x")) || !sluice_spec_accept(text, "["))
        return sluice_spec_fail(text, err, "a view is wanted here: [OP,...], or 2x[OP,...]");
    pipeline->num_copies[pipeline->num_views] = num;
    const struct sluice_spec_text ops = *text;
    const unsigned first_node = *num_nodes;
    sluice_status status = SLUICE_OK;
    for (uint32_t i = 0; status == SLUICE_OK && i < num; i++) {
        *text = ops;
        *num_nodes = first_node; /* ops count once, whatever the number of copies */
        status = parse_view(pipeline, text, num_nodes, err);
    }
    if (status == SLUICE_OK && !sluice_spec_accept(text, "]"))
        status = sluice_spec_fail(text, err, "',' or ']' is wanted here");
    return status;
}

static sluice_status parse_views(struct sluice_pipeline *pipeline, struct sluice_spec_text *text,
                                 unsigned *num_nodes, struct sluice_err *err)
{
    struct sluice_spec_text views = *text;
    if (!sluice_spec_accept(text, "("))
        return sluice_spec_fail(text, err, "'(' and views are wanted here");
    sluice_status status;
    do {
        views.at = text->at;
        *text = views;
        status = parse_copies(pipeline, text, num_nodes, err);
    } while (status == SLUICE_OK && sluice_spec_accept(text, ","));
    if (status != SLUICE_OK)
        return status;
    views.at = text->at;
    *text = views;
    return sluice_spec_accept(text, ")") ? SLUICE_OK
                                         : sluice_spec_fail(text, err, "',' or ')' is wanted here");
}

/* The canonical text as it grows. */
struct spec {
    char *text;
    size_t len, room; /* len may exceed room: then it was cut */
};

static void append(struct spec *spec, const char *text)
{
    const size_t len = strlen(text);
    if (spec->len + len < spec->room)
        memcpy(spec->text + spec->len, text, len + 1);
    spec->len += len;
}

static void write_op(struct spec *spec, const struct sluice_op *op)
{
    char values[1024], modifiers[96];
    sluice_op_print(op, values, sizeof(values));
    sluice_op_print_modifiers(op, modifiers, sizeof(modifiers));
    append(spec, op->type->name);
    if (op->type->kind == SLUICE_OP_CHOICE && !op->type->expand) {
        append(spec, "(");
        append(spec, values);
        for (unsigned i = 0; i < op->num_children; i++) {
            if (i > 0 || values[0])
                append(spec, ",");
            write_op(spec, &op->children[i]);
        }
        append(spec, ")");
    } else if (values[0]) {
        append(spec, "=");
        append(spec, values);
    }
    append(spec, modifiers);
}

static void write_ops(struct spec *spec, const struct sluice_pipeline *pipeline);

static void write_views(struct spec *spec, const struct sluice_pipeline *pipeline)
{
    for (unsigned i = 0; i < pipeline->num_views; i += pipeline->num_copies[i]) {
        char copies[16] = "";
        if (pipeline->num_copies[i] > 1)
            snprintf(copies, sizeof(copies), "%ux", pipeline->num_copies[i]);
        append(spec, i > 0 ? "," : "(");
        append(spec, copies);
        append(spec, "[");
        write_ops(spec, pipeline->views[i]);
        append(spec, "]");
    }
    append(spec, ")");
}

static void write_ops(struct spec *spec, const struct sluice_pipeline *pipeline)
{
    for (unsigned i = pipeline->first_owned; i < pipeline->num_ops; i++) {
        if (i > pipeline->first_owned)
            append(spec, ",");
        write_op(spec, &pipeline->ops[i]);
        if (pipeline->ops[i].type->kind == SLUICE_OP_VIEWS)
            write_views(spec, pipeline);
    }
}

static sluice_status write_spec(struct sluice_pipeline *pipeline, struct sluice_err *err)
{
    struct spec spec = {.text = pipeline->spec, .room = sizeof(pipeline->spec)};
    write_ops(&spec, pipeline);
    if (spec.len >= spec.room)
        return sluice_fail(err, SLUICE_E_INVALID, "pipeline: its full text has over %zu bytes",
                           sizeof(pipeline->spec) - 1);
    return SLUICE_OK;
}

/* Part of every fingerprint: the rules that all ops share (draws, order, rounding).  Each op's
 * numerics versions its own results. */
#define NUMERICS_VERSION 1

static void append_numerics(struct spec *spec, const struct sluice_op *op)
{
    char number[16];
    if (op->type->numerics > 0) {
        snprintf(number, sizeof(number), "=%u", op->type->numerics);
        append(spec, "\n");
        append(spec, op->type->name);
        append(spec, number);
    }
    for (unsigned i = 0; i < op->num_children; i++)
        append_numerics(spec, &op->children[i]);
}

static void append_all_numerics(struct spec *spec, const struct sluice_pipeline *pipeline)
{
    for (unsigned i = pipeline->first_owned; i < pipeline->num_ops; i++) {
        append_numerics(spec, &pipeline->ops[i]);
        const bool has_views = pipeline->ops[i].type->kind == SLUICE_OP_VIEWS;
        for (unsigned v = 0; has_views && v < pipeline->num_views; v += pipeline->num_copies[v])
            append_all_numerics(spec, pipeline->views[v]);
    }
}

static uint64_t fingerprint_of(const struct sluice_pipeline *pipeline)
{
    char text[SLUICE_SPEC_ROOM + 32 + SLUICE_MAX_NODES * 48];
    char number[32];
    struct spec spec = {.text = text, .room = sizeof(text)};
    snprintf(number, sizeof(number), "\nnumerics=%d", NUMERICS_VERSION);
    append(&spec, pipeline->spec);
    append(&spec, number);
    append_all_numerics(&spec, pipeline);
    assert(spec.len < spec.room);
    return sluice_hash64(text, spec.len);
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

/* Whether the crop at `op` + 1 keeps a part of what the resize at `op` makes, whatever the image.
 */
static bool can_join(const struct sluice_pipeline *pipeline, unsigned op)
{
    const struct sluice_op_type *type = pipeline->ops[op].type;
    if (op + 1 >= pipeline->u8_split || !type->takes_whole || type->is_copy || type->has_padding ||
        !pipeline->ops[op + 1].type->is_copy)
        return false;
    const struct sluice_op *crop = &pipeline->ops[op + 1];
    if (crop->type->has_padding && crop->type->has_padding(crop->params))
        return false;
    const struct sluice_known_size from = sluice_pipeline_known_size(pipeline, op + 1),
                                   to = sluice_pipeline_known_size(pipeline, op + 2);
    return from.width ? from.width >= to.width && from.height >= to.height
                      : !from.longer && from.shorter >= to.width && from.shorter >= to.height;
}

/* Whether a GPU can run all u8 ops that follow stage 0, or those of each view. */
static bool has_kernels(const struct sluice_pipeline *pipeline)
{
    bool has_all = pipeline->views[0] && pipeline->stage_end[0] > 0;
    for (unsigned i = 0; has_all && i < pipeline->num_views; i++)
        has_all = pipeline->views[i]->has_kernels;
    if (pipeline->views[0])
        return has_all;
    const unsigned end = pipeline->stage_end[0];
    if (pipeline->numerics != SLUICE_NUMERICS_PILLOW12) /* a GPU resizes across first */
        return false;
    for (unsigned op = end; op < pipeline->u8_split; op++) {
        const enum sluice_op_kind kind = pipeline->ops[op].type->kind;
        const bool has_size = kind == SLUICE_OP_MIRROR || sluice_op_kind_has_p(kind);
        if (!has_size || (kind != SLUICE_OP_MIRROR && !sluice_op_has_kernel(&pipeline->ops[op])))
            return false;
    }
    return end > 0;
}

/* Whether the op reads only a box of its input. */
static bool takes_box(const struct sluice_pipeline *pipeline, unsigned op)
{
    const struct sluice_op_type *type = pipeline->ops[op].type;
    if (type->kind == SLUICE_OP_RESAMPLE) /* a resize alone needs all of the image */
        return pipeline->stage_end[op] == op + 2 || !type->takes_whole;
    bool takes_box = type->kind == SLUICE_OP_VIEWS;
    for (unsigned i = 0; takes_box && i < pipeline->num_views; i++)
        takes_box = pipeline->views[i]->stage_end[0] > 0;
    return takes_box;
}

static void find_stages(struct sluice_pipeline *pipeline)
{
    for (unsigned op = 1; op < pipeline->u8_split; op++) {
        const enum sluice_op_kind kind = pipeline->ops[op].type->kind;
        if (kind == SLUICE_OP_RESAMPLE)
            pipeline->stage_end[op] = op + (can_join(pipeline, op) ? 2 : 1);
        else if (kind == SLUICE_OP_VIEWS)
            pipeline->stage_end[op] = op + 1;
    }
    const unsigned first = sluice_first_op(pipeline);
    if (first < pipeline->u8_split && takes_box(pipeline, first))
        pipeline->stage_end[0] = pipeline->stage_end[first];
    pipeline->has_kernels = has_kernels(pipeline);
    if (!pipeline->views[0]) {
        const struct sluice_known_size end =
            sluice_pipeline_known_size(pipeline, pipeline->u8_split);
        pipeline->view_sizes[0] = (struct sluice_size){end.width, end.height};
        pipeline->num_views = 1;
    }
}

/* A size that is drawn for each sample may remain only if it has a limit, for the memory of batches;
 * that of a batch has to remain. */
static sluice_status check_drawn_sizes(const struct sluice_pipeline *pipeline,
                                       struct sluice_err *err)
{
    const bool is_fixed = sluice_pipeline_u8_bytes(pipeline) > 0;
    const bool is_of_batch = sluice_pipeline_draws_bucket(pipeline);
    unsigned last = 0; /* the last op that draws for the batch */
    for (unsigned i = 0; i < pipeline->u8_split; i++) {
        const struct sluice_op *op = &pipeline->ops[i];
        if (!op->type->draw_of_batch)
            continue;
        if (last > 0 || is_fixed || !is_of_batch)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "pipeline: op %u (%s): its size is drawn for each batch, so no "
                               "other op may give images one size",
                               op->index + 1, op->type->name);
        last = i;
    }
    const struct sluice_op *first = NULL;
    unsigned num_drawn = 0;
    for (unsigned i = last; i < pipeline->u8_split; i++) {
        const struct sluice_op *op = &pipeline->ops[i];
        first = !first && op->type->has_drawn_size ? op : first;
        num_drawn += op->type->has_drawn_size;
    }
    const struct sluice_op *size_op = &pipeline->ops[sluice_pipeline_size_op(pipeline)];
    const struct sluice_size any = {0, 0};
    const bool has_limit =
        last == 0 && size_op->type->largest &&
        (num_drawn == 1 || size_op->type->largest(size_op->params, any).width > 0);
    if (first && !is_fixed && !has_limit)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "pipeline: op %u (%s): its size is drawn for each sample, so an op after "
            "it must give all images one size, or random_resize with :max= be the "
            "last that changes sizes",
            first->index + 1, first->type->name);
    return SLUICE_OK;
}

sluice_status sluice_pipeline_parse(const char *spec, struct sluice_pipeline **out,
                                    struct sluice_err *err)
{
    struct sluice_pipeline *pipeline = calloc(1, sizeof(*pipeline));
    if (!pipeline)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a pipeline");

    struct sluice_spec_text text = {.start = spec, .at = spec};
    unsigned num_nodes = 0;
    sluice_status status;
    do {
        status = parse_op(pipeline, &text, &num_nodes, 0, err);
    } while (!status && sluice_spec_accept(&text, ","));
    if (!status && *text.at)
        status = sluice_spec_fail(&text, err, "nothing more belongs here");
    if (!status)
        status = write_spec(pipeline, err);
    if (!status) {
        pipeline->fingerprint = fingerprint_of(pipeline);
        find_stages(pipeline);
        status = check_drawn_sizes(pipeline, err);
    }
    if (status) {
        sluice_pipeline_destroy(pipeline);
        return status;
    }
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
