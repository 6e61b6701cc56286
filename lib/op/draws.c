#include "base/c_locale.h"
#include "op/pixels.h"
#include "op/warp_op.h"

#include <stdio.h>
#include <stdlib.h>

/* The draws of a sample as JSON. */

static void write_number(FILE *out, double number)
{
    char text[40];
    sluice_snprintf(text, sizeof(text), "%.17g", number);
    fputs(text, out);
}

static void write_box(FILE *out, const struct sluice_box *box)
{
    fprintf(out, "{\"left\":%u,\"top\":%u,\"width\":%u,\"height\":%u}", box->left, box->top,
            box->width, box->height);
}

static void write_resample(FILE *out, const struct sluice_resample *resample, bool is_copy)
{
    fputs(",\"from\":", out);
    write_box(out, &resample->from);
    if (!is_copy)
        fprintf(out, ",\"to\":[%u,%u],\"filter\":\"%s\"", resample->to.width, resample->to.height,
                sluice_resize_filters[resample->filter]);
    fputs(",\"keep\":", out);
    write_box(out, &resample->keep);
    const bool is_placed = is_copy || resample->keep.width != resample->out.width ||
                           resample->keep.height != resample->out.height;
    if (is_placed)
        fprintf(out, ",\"at\":[%u,%u],\"size\":[%u,%u]", resample->left, resample->top,
                resample->out.width, resample->out.height);
    const struct sluice_padding *padding = &resample->padding;
    if (is_copy && padding->mode != SLUICE_PADDING_CONSTANT)
        fprintf(out, ",\"mode\":\"%s\",\"padding\":%u", sluice_padding_modes[padding->mode],
                padding->around);
    const uint8_t *color = padding->color;
    if (color[0] || color[1] || color[2])
        fprintf(out, ",\"fill\":[%u,%u,%u]", color[0], color[1], color[2]);
}

static void write_warp(FILE *out, const double values[10], bool is_perspective)
{
    const uint32_t fill = (uint32_t)values[7];
    fputs(",\"matrix\":[", out);
    for (int i = 0; i < 6; i++) {
        fputs(i ? "," : "", out);
        write_number(out, values[i]);
    }
    for (int i = 8; is_perspective && i < 10; i++) {
        fputs(",", out);
        write_number(out, values[i]);
    }
    fprintf(out, "],\"filter\":\"%s\",\"fill\":[%u,%u,%u]", sluice_warp_filters[(int)values[6]],
            fill & 255, fill >> 8 & 255, fill >> 16);
}

/* Writes the drawn numbers, with the names of their parameters. */
static void write_values(FILE *out, const struct sluice_op_type *type, const double values[10])
{
    unsigned num = 0;
    if (type->drawn_name) {
        fprintf(out, ",\"%s\":[", type->drawn_name);
        for (; num < type->num_drawn; num++) {
            fputs(num ? "," : "", out);
            write_number(out, values[num]);
        }
        fputs("]", out);
        return;
    }
    for (const struct sluice_op_param *p = type->params; p && p->name; p++) {
        if (p->kind != SLUICE_PARAM_DRAWN)
            continue;
        fprintf(out, ",\"%s\":", p->name);
        write_number(out, values[num++]);
    }
}

static void write_list(FILE *out, const struct sluice_drawn_op *list, unsigned num);

/* The ops of the branches follow the blend. */
static void write_blend(FILE *out, const struct sluice_drawn_op *drawn)
{
    const struct sluice_blend *blend = &drawn->drawn.blend;
    fputs(",\"weights\":[", out);
    for (unsigned i = 0; i <= blend->num; i++) {
        fputs(i ? "," : "", out);
        write_number(out, blend->weights[i]);
    }
    fputs("],\"branches\":[", out);
    const struct sluice_drawn_op *next = drawn + 1;
    for (unsigned b = 0; b < blend->num; b++) {
        fputs(b ? ",[" : "[", out);
        write_list(out, next, blend->num_ops[b]);
        fputs("]", out);
        next += blend->num_ops[b];
    }
    fputs("]", out);
}

static void write_op(FILE *out, const struct sluice_drawn_op *drawn)
{
    const struct sluice_op_type *type = drawn->op->type;
    fprintf(out, "{\"op\":\"%s\"", type->name);
    if (type->kind == SLUICE_OP_RESAMPLE)
        write_resample(out, &drawn->drawn.resample, type->is_copy);
    else if (type->kind == SLUICE_OP_MIRROR)
        fprintf(out, ",\"mirrored\":%s", drawn->drawn.is_mirrored ? "true" : "false");
    else if (type->kind == SLUICE_OP_BLEND)
        write_blend(out, drawn);
    else if (type->apply == sluice_warp_apply || type->apply == sluice_perspective_apply)
        write_warp(out, drawn->drawn.values, type->apply == sluice_perspective_apply);
    else
        write_values(out, type, drawn->drawn.values);
    fputs("}", out);
}

static void write_list(FILE *out, const struct sluice_drawn_op *list, unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        fputs(i ? "," : "", out);
        write_op(out, &list[i]);
        if (list[i].op->type->kind == SLUICE_OP_BLEND)
            i += sluice_pixels_in_branches(&list[i].drawn.blend);
    }
}

static void write_views(FILE *out, const struct sluice_pipeline *pipeline,
                        const struct sluice_draw_key *key, struct sluice_size size);

/* Writes the draws of the ops [first, u8_split) for an image of this size. */
static void write_ops(FILE *out, const struct sluice_pipeline *pipeline, unsigned first,
                      const struct sluice_draw_key *key, struct sluice_size size)
{
    fputs("[", out);
    bool is_first = true;
    for (unsigned op = first; op < pipeline->u8_split; op++) {
        const enum sluice_op_kind kind = pipeline->ops[op].type->kind;
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const unsigned num = kind == SLUICE_OP_UPRIGHT
                                 ? 0
                                 : sluice_pixels_resolve(&pipeline->ops[op], 1, key, size, list);
        fputs(is_first || num == 0 ? "" : ",", out);
        if (kind == SLUICE_OP_VIEWS)
            write_views(out, pipeline, key, size);
        else
            write_list(out, list, num);
        is_first = is_first && num == 0;
        if (kind == SLUICE_OP_RESAMPLE)
            size = list[0].drawn.resample.out;
    }
    fputs("]", out);
}

static void write_views(FILE *out, const struct sluice_pipeline *pipeline,
                        const struct sluice_draw_key *key, struct sluice_size size)
{
    fputs("{\"op\":\"views\",\"views\":[", out);
    for (unsigned i = 0; i < pipeline->num_views; i++) {
        fputs(i ? "," : "", out);
        write_ops(out, pipeline->views[i], pipeline->views[i]->first_owned, key, size);
    }
    fputs("]}", out);
}

sluice_status sluice_pipeline_write_draws(const struct sluice_pipeline *pipeline,
                                          const struct sluice_draw_key *key, uint32_t width,
                                          uint32_t height, char **json, struct sluice_err *err)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the draws of a sample");
    write_ops(out, pipeline, 1, key, (struct sluice_size){width, height});
    if (fclose(out) != 0) {
        free(text);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the draws of a sample");
    }
    *json = text;
    return SLUICE_OK;
}
