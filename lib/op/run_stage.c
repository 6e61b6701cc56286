#include "op/run_stage.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "op/form.h"
#include "op/pixels.h"

#include <assert.h>
#include <string.h>

static bool is_mirrored(const struct sluice_op *op, const struct sluice_draw_key *key)
{
    union sluice_drawn drawn;
    sluice_op_draw(op, key, (struct sluice_size){1, 1}, &drawn);
    return drawn.is_mirrored;
}

struct sluice_stage sluice_next_stage(const struct sluice_pipeline *pipeline,
                                      const struct sluice_sample *sample, unsigned end,
                                      bool is_apart)
{
    const unsigned op = sample->ops_done;
    const struct sluice_op *ops = pipeline->ops;
    const bool is_fused = sluice_sample_is_window(sample) || !is_apart;
    const unsigned fused_end = is_fused ? pipeline->stage_end[op] : 0;
    struct sluice_stage stage = {.kind = ops[op].type->kind, .first = op, .next = op + 1};
    switch (stage.kind) {
    case SLUICE_OP_TENSOR:
    case SLUICE_OP_SCALE:
        if (op == pipeline->u8_split && !is_apart)
            stage.next = end;
        return stage;
    case SLUICE_OP_MIRROR:
        stage.is_mirrored = is_mirrored(&ops[op], &sample->key);
        stage.is_nothing = !stage.is_mirrored;
        return stage;
    case SLUICE_OP_UPRIGHT: /* decode has done it */
        stage.is_nothing = true;
        return stage;
    case SLUICE_OP_TABLE:
    case SLUICE_OP_PIXELS:
    case SLUICE_OP_CHOICE:
    case SLUICE_OP_BLEND:
        while (!is_apart && stage.next < end && sluice_op_kind_has_p(ops[stage.next].type->kind))
            stage.next++;
        return stage;
    case SLUICE_OP_DECODE:
    case SLUICE_OP_RESAMPLE:
    case SLUICE_OP_VIEWS:
        break;
    }
    if (fused_end > 0 && fused_end <= end) {
        stage.first = op == 0 ? sluice_first_op(pipeline) : op;
        stage.kind = ops[stage.first].type->kind;
        stage.next = fused_end;
    }
    /* Where ops are timed one by one a mirror is its own stage, unless it does nothing. */
    const unsigned next = stage.next;
    if (stage.kind == SLUICE_OP_RESAMPLE && next < end &&
        ops[next].type->kind == SLUICE_OP_MIRROR) {
        stage.is_mirrored = is_mirrored(&ops[next], &sample->key);
        if (stage.is_mirrored && is_apart)
            stage.is_mirrored = false;
        else
            stage.next++;
    }
    stage.resample_end = next;
    return stage;
}

bool sluice_is_last_change(const struct sluice_pipeline *pipeline,
                           const struct sluice_draw_key *key, unsigned split, unsigned end)
{
    for (unsigned i = split; i < end; i++) {
        const struct sluice_op *op = &pipeline->ops[i];
        if (op->type->kind != SLUICE_OP_MIRROR || is_mirrored(op, key))
            return false;
    }
    return true;
}

/* Runs a mirror.  The result goes to `out` if that is not NULL (the sample then keeps its input),
 * else to a new buffer. */
static sluice_status run_mirror(const struct sluice_pipeline *pipeline,
                                struct sluice_scratch *scratch, struct sluice_sample *sample,
                                const struct sluice_stage *stage, uint8_t *out,
                                struct sluice_err *err)
{
    const struct sluice_op *op = &pipeline->ops[stage->first];
    const struct sluice_size size = {sample->width, sample->height};
    struct sluice_buf *data = NULL;
    const sluice_status status = sluice_make_result(op, scratch, size, &out, &data, err);
    if (status)
        return status;
    const size_t row_bytes = (size_t)size.width * 3;
    const struct sluice_image_view view = {sample->data->data, row_bytes, size.width, size.height};
    sluice_copy_rgb(&view, true, out, row_bytes);
    if (data)
        sluice_sample_advance(sample, stage->next, SLUICE_KIND_U8, size, data);
    return SLUICE_OK;
}

/* Runs tables, pixel ops and choices, to `out` as run_mirror() does. */
static sluice_status run_pixels(const struct sluice_pipeline *pipeline,
                                struct sluice_scratch *scratch, struct sluice_sample *sample,
                                const struct sluice_stage *stage, uint8_t *out,
                                struct sluice_err *err)
{
    const struct sluice_op *ops = &pipeline->ops[stage->first];
    const struct sluice_size size = {sample->width, sample->height};
    struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
    const unsigned num =
        sluice_pixels_resolve(ops, stage->next - stage->first, &sample->key, size, list);
    if (num == 0) {
        if (out)
            memcpy(out, sample->data->data, sample->data->len);
        else
            sample->ops_done = stage->next;
        return SLUICE_OK;
    }
    struct sluice_buf *data = NULL;
    sluice_status status = sluice_make_result(ops, scratch, size, &out, &data, err);
    if (status == SLUICE_OK)
        status = sluice_pixels_run(list, num, scratch, size, sample->data->data, out, err);
    if (status != SLUICE_OK)
        sluice_buf_unref(data);
    else if (data)
        sluice_sample_advance(sample, stage->next, SLUICE_KIND_U8, size, data);
    return status;
}

sluice_status sluice_run_stage(const struct sluice_pipeline *pipeline,
                               struct sluice_scratch *scratch, struct sluice_sample *sample,
                               const struct sluice_stage *stage, uint8_t *out,
                               struct sluice_err *err)
{
    if (stage->is_nothing) {
        sample->ops_done = stage->next;
        return SLUICE_OK;
    }
    switch (stage->kind) {
    case SLUICE_OP_DECODE:
        return sluice_run_decode(pipeline, scratch, sample, err);
    case SLUICE_OP_RESAMPLE:
        return sluice_run_resample(pipeline, scratch, sample, stage, out, err);
    case SLUICE_OP_MIRROR:
        return run_mirror(pipeline, scratch, sample, stage, out, err);
    case SLUICE_OP_TABLE:
    case SLUICE_OP_PIXELS:
    case SLUICE_OP_CHOICE:
    case SLUICE_OP_BLEND:
        return run_pixels(pipeline, scratch, sample, stage, out, err);
    case SLUICE_OP_UPRIGHT: /* is_nothing */
    case SLUICE_OP_VIEWS:   /* the rest are run.c's */
    case SLUICE_OP_TENSOR:
    case SLUICE_OP_SCALE:
        break;
    }
    assert(!"a stage that makes one image");
    return SLUICE_E_INTERNAL;
}
