#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/pack/pack.h"
#include "op/form.h"
#include "op/pixels.h"
#include "op/run_stage.h"
#include "op/run_views.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MAX_PIXELS 178956970u /* the codec's, which is Pillow's */

void sluice_scratch_set_jpeg_index(struct sluice_scratch *scratch,
                                   const struct sluice_jpeg_index *index)
{
    scratch->jpeg_index = index;
}

sluice_status sluice_scratch_create(const struct sluice_scratch_options *options,
                                    struct sluice_scratch **out, struct sluice_err *err)
{
    static const struct sluice_scratch_options defaults = {0};
    if (!options)
        options = &defaults;
    struct sluice_scratch *scratch = calloc(1, sizeof(*scratch));
    if (!scratch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a pipeline scratch");
    scratch->pool = options->pool;
    scratch->max_pixels =
        options->max_image_pixels ? options->max_image_pixels : DEFAULT_MAX_PIXELS;
    scratch->measure_ops = options->measure_ops;
    sluice_status status = sluice_codec_create(&scratch->codec, err);
    if (!status)
        status = sluice_resizer_create(&scratch->resizer, err);
    if (!status)
        status = sluice_packer_create(&scratch->packer, err);
    if (status) {
        sluice_scratch_destroy(scratch);
        return status;
    }
    *out = scratch;
    return SLUICE_OK;
}

void sluice_scratch_destroy(struct sluice_scratch *scratch)
{
    if (!scratch)
        return;
    sluice_codec_destroy(scratch->codec);
    sluice_resizer_destroy(scratch->resizer);
    sluice_packer_destroy(scratch->packer);
    free(scratch);
}

uint64_t sluice_scratch_op_ns(const struct sluice_scratch *scratch, unsigned op)
{
    return op < SLUICE_PIPELINE_MAX_OPS ? scratch->op_ns[op] : 0;
}

static const char *kind_name(enum sluice_kind kind)
{
    switch (kind) {
    case SLUICE_KIND_FILE:
        return "a file";
    case SLUICE_KIND_U8:
        return "u8 pixels";
    case SLUICE_KIND_F32:
        return "float32 values";
    }
    return "of no known kind";
}

sluice_status sluice_pipeline_check_sample(const struct sluice_pipeline *pipeline,
                                           const struct sluice_sample *sample, uint64_t max_pixels,
                                           struct sluice_err *err)
{
    const unsigned split = sample->ops_done;
    if (split > pipeline->num_ops)
        return sluice_fail(err, SLUICE_E_CORRUPT, "sample stands at split %u of a pipeline of %u",
                           split, pipeline->num_ops);
    const enum sluice_kind kind = sluice_pipeline_kind(pipeline, split);
    if (sample->kind != kind)
        return sluice_fail(err, SLUICE_E_CORRUPT, "sample at split %u is %s, not %s", split,
                           kind_name(sample->kind), kind_name(kind));
    if (!sample->data)
        return sluice_fail(err, SLUICE_E_CORRUPT, "sample has no data");

    const struct sluice_form_type *coding = sample->coding;
    if (coding && !sluice_form_can_carry(coding, pipeline, split))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s at split %u cannot come as %s",
                           kind_name(kind), split, coding->words);
    const bool has_check = coding && coding->check;
    const uint32_t width = sample->width, height = sample->height;
    if (kind == SLUICE_KIND_FILE) {
        if (width || height || sample->channels)
            return sluice_fail(err, SLUICE_E_CORRUPT, "a file comes with an image size");
        return has_check ? coding->check(pipeline, sample, err) : SLUICE_OK;
    }
    if (sample->channels != 3)
        return sluice_fail(err, SLUICE_E_CORRUPT, "sample has %u channels, not 3",
                           sample->channels);
    if (width < 1 || height < 1 || width > SLUICE_MAX_IMAGE_SIDE || height > SLUICE_MAX_IMAGE_SIDE)
        return sluice_fail(err, SLUICE_E_CORRUPT, "sample is %u x %u pixels", width, height);
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, split);
    const uint64_t pixels = (uint64_t)width * height + known.more_pixels;
    if (pixels > (max_pixels ? max_pixels : DEFAULT_MAX_PIXELS))
        return sluice_fail(err, SLUICE_E_CORRUPT, "sample of %u x %u pixels is over the limit",
                           width, height);
    if (!sluice_known_size_allows(known, width, height))
        return sluice_fail(err, SLUICE_E_CORRUPT, "split %u cannot give %u x %u pixels", split,
                           width, height);
    const uint64_t bytes = pixels * (kind == SLUICE_KIND_F32 ? 3 * sizeof(float) : 3);
    if (coding)
        return has_check ? coding->check(pipeline, sample, err) : SLUICE_OK;
    if (sample->data->len != bytes)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "sample of %u x %u pixels has %zu bytes, not %llu", width, height,
                           sample->data->len, (unsigned long long)bytes);
    return SLUICE_OK;
}

/* The images whose pixels or values a sample has, one after the other. */
struct images {
    unsigned num;
    struct sluice_size sizes[SLUICE_MAX_VIEWS];
};
static struct images images_of(const struct sluice_pipeline *pipeline,
                               const struct sluice_sample *sample)
{
    struct images images = {.num = 1, .sizes = {{sample->width, sample->height}}};
    if (pipeline->views[0] && sample->ops_done >= pipeline->u8_split) {
        images.num = pipeline->num_views;
        memcpy(images.sizes, pipeline->view_sizes, sizeof(images.sizes));
    }
    return images;
}

/* Runs tensor ops: a u8 sample goes through `lookup`, which holds all ops to be run, mirrored first
 * if `flip`; an f32 sample has only normalize left. */
static void tail_to(const struct sluice_pipeline *pipeline, const struct sluice_sample *sample,
                    const struct sluice_lookup *lookup, bool flip, float *out)
{
    const struct images images = images_of(pipeline, sample);
    const uint8_t *pixels = sample->data->data;
    const float *values = (const float *)(void *)sample->data->data;
    for (unsigned i = 0; i < images.num; i++) {
        const struct sluice_size size = images.sizes[i];
        const size_t plane = (size_t)size.width * size.height;
        if (sample->kind == SLUICE_KIND_U8)
            sluice_lookup_run(lookup, pixels, (size_t)size.width * 3, size.width, size.height, flip,
                              out);
        else
            sluice_tensor_normalize(pipeline->scale, values, plane, out);
        pixels += 3 * plane;
        values += 3 * plane;
        out += 3 * plane;
    }
}

static sluice_status run_tensor(const struct sluice_pipeline *pipeline,
                                struct sluice_scratch *scratch, struct sluice_sample *sample,
                                const struct sluice_stage *stage, struct sluice_err *err)
{
    const bool is_u8 = sample->kind == SLUICE_KIND_U8;
    size_t bytes;
    if (!sluice_mul_size(sample->data->len, is_u8 ? sizeof(float) : 1, &bytes))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "a tensor of %u x %u does not fit",
                           sample->width, sample->height);
    struct sluice_buf *data = NULL;
    const sluice_status status = sluice_buf_create(scratch->pool, bytes, &data, err);
    if (status)
        return status;
    data->len = bytes;
    const bool is_plain = stage->next == pipeline->u8_split + 1;
    tail_to(pipeline, sample, is_plain ? &pipeline->tensor_lookup : &pipeline->tail_lookup, false,
            (float *)(void *)data->data);
    sluice_sample_advance(sample, stage->next, SLUICE_KIND_F32,
                          (struct sluice_size){sample->width, sample->height}, data);
    return SLUICE_OK;
}

/* The inverse of tail_to(): SLUICE_E_CORRUPT: the table does not contain a value. */
static sluice_status to_u8(const struct sluice_pipeline *pipeline,
                           const struct sluice_sample *sample, uint8_t *const *places,
                           struct sluice_err *err)
{
    const bool is_plain = sample->ops_done == pipeline->u8_split + 1;
    const struct images images = images_of(pipeline, sample);
    const float *values = (const float *)(void *)sample->data->data;
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; status == SLUICE_OK && i < images.num; i++) {
        const size_t len = (size_t)images.sizes[i].width * images.sizes[i].height * 3;
        status = sluice_tensor_to_u8(is_plain ? pipeline->tensor_table : pipeline->tail_table,
                                     values, images.sizes[i], places[i], err);
        values += len;
    }
    return status;
}

/* Runs one stage.  The result goes into the sample, or to the views' places if these are not NULL
 * (for stages that make pixels, except decode alone). */
static sluice_status run_stage(const struct sluice_pipeline *pipeline,
                               struct sluice_scratch *scratch, struct sluice_sample *sample,
                               const struct sluice_stage *stage, uint8_t *const *places,
                               struct sluice_err *err)
{
    const unsigned op = sample->ops_done;
    const uint64_t started_ns = scratch->measure_ops ? sluice_thread_cpu_ns() : 0;
    sluice_status status;
    if (stage->kind == SLUICE_OP_VIEWS)
        status = sluice_run_views(pipeline, scratch, sample, stage, places, err);
    else if (stage->kind == SLUICE_OP_TENSOR || stage->kind == SLUICE_OP_SCALE)
        status = run_tensor(pipeline, scratch, sample, stage, err);
    else
        status = sluice_run_stage(pipeline, scratch, sample, stage, places ? places[0] : NULL, err);
    if (scratch->measure_ops && !status) {
        memset(scratch->op_ns + op, 0, (stage->next - op) * sizeof(scratch->op_ns[0]));
        scratch->op_ns[op] = sluice_thread_cpu_ns() - started_ns;
    }
    return status;
}

sluice_status sluice_pipeline_run(const struct sluice_pipeline *pipeline,
                                  struct sluice_scratch *scratch, struct sluice_sample *sample,
                                  unsigned end, struct sluice_err *err)
{
    if (end > pipeline->num_ops || sample->ops_done > end)
        return sluice_fail(err, SLUICE_E_INVALID, "ops [%u, %u) of a pipeline of %u",
                           sample->ops_done, end, pipeline->num_ops);
    if (sluice_sample_is_window(sample) && end > 0 && end < pipeline->stage_end[0])
        return sluice_fail(err, SLUICE_E_INVALID, "a cut file is decoded with its crop only");
    sluice_status status = sluice_pipeline_check_sample(pipeline, sample, scratch->max_pixels, err);
    if (!status && sample->ops_done < end)
        status = sluice_sample_open(pipeline, scratch, sample, err);
    while (!status && sample->ops_done < end) {
        const struct sluice_stage stage =
            sluice_next_stage(pipeline, sample, end, scratch->measure_ops);
        status = run_stage(pipeline, scratch, sample, &stage, NULL, err);
    }
    return status;
}

/* Whether what the sample becomes fills `out_len` bytes.  Where sizes follow from the image it is
 * asked of the file's header, and again of what was decoded. */
static sluice_status check_room(const struct sluice_pipeline *pipeline,
                                const struct sluice_sample *sample, size_t out_len,
                                size_t pixel_bytes, struct sluice_err *err)
{
    struct sluice_size size;
    if (sluice_pipeline_u8_bytes(pipeline) > 0)
        return SLUICE_OK;
    const sluice_status status = sluice_pipeline_result_size(pipeline, sample, &size, err);
    if (status == SLUICE_OK && out_len != (size_t)size.width * size.height * pixel_bytes)
        return sluice_fail(err, SLUICE_E_INVALID, "output of %zu bytes, not of %u x %u pixels",
                           out_len, size.width, size.height);
    return status;
}

static sluice_status prepare(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                             struct sluice_sample *sample, size_t out_len, size_t want,
                             size_t pixel_bytes, struct sluice_err *err)
{
    if (want > 0 && out_len != want)
        return sluice_fail(err, SLUICE_E_INVALID, "output of %zu bytes, not %zu", out_len, want);
    sluice_status status = sluice_pipeline_check_sample(pipeline, sample, scratch->max_pixels, err);
    if (status == SLUICE_OK)
        status = sluice_sample_open(pipeline, scratch, sample, err);
    return status ? status : check_room(pipeline, sample, out_len, pixel_bytes, err);
}

/* Runs a file or u8 sample to the u8 split; the last op that changes pixels writes to the
 * places. */
static sluice_status finish_pixels(const struct sluice_pipeline *pipeline,
                                   struct sluice_scratch *scratch, struct sluice_sample *sample,
                                   uint8_t *const *places, size_t out_len, struct sluice_err *err)
{
    const unsigned end = pipeline->u8_split;
    while (sample->ops_done < end) {
        const struct sluice_stage stage =
            sluice_next_stage(pipeline, sample, end, scratch->measure_ops);
        const bool is_last = stage.next > sluice_first_op(pipeline) && !stage.is_nothing &&
                             sluice_is_last_change(pipeline, &sample->key, stage.next, end);
        sluice_status status =
            run_stage(pipeline, scratch, sample, &stage, is_last ? places : NULL, err);
        if (status == SLUICE_OK && !is_last)
            status = check_room(pipeline, sample, out_len, 3, err);
        if (status || is_last)
            return status;
    }
    assert(sample->data->len == out_len);
    const struct images images = images_of(pipeline, sample);
    const uint8_t *pixels = sample->data->data;
    for (unsigned i = 0; i < images.num; i++) {
        const size_t len = (size_t)images.sizes[i].width * images.sizes[i].height * 3;
        memcpy(places[i], pixels, len);
        pixels += len;
    }
    return SLUICE_OK;
}

sluice_status sluice_pipeline_finish_u8(const struct sluice_pipeline *pipeline,
                                        struct sluice_scratch *scratch,
                                        struct sluice_sample *sample, uint8_t *out, size_t out_len,
                                        struct sluice_err *err)
{
    uint8_t *places[SLUICE_MAX_VIEWS];
    sluice_places_in(pipeline, out, places);
    return sluice_pipeline_finish_views(pipeline, scratch, sample, places, out_len, err);
}

sluice_status sluice_pipeline_finish_views(const struct sluice_pipeline *pipeline,
                                           struct sluice_scratch *scratch,
                                           struct sluice_sample *sample, uint8_t *const *places,
                                           size_t out_len, struct sluice_err *err)
{
    sluice_status status =
        prepare(pipeline, scratch, sample, out_len, sluice_pipeline_u8_bytes(pipeline), 3, err);
    if (status)
        return status;
    status = sample->kind == SLUICE_KIND_F32
                 ? to_u8(pipeline, sample, places, err)
                 : finish_pixels(pipeline, scratch, sample, places, out_len, err);
    if (!status)
        sluice_sample_clear(sample);
    return status;
}

/* Runs u8 ops until only the tail, or a flip and the tail, is left. */
static sluice_status run_to_tail(const struct sluice_pipeline *pipeline,
                                 struct sluice_scratch *scratch, struct sluice_sample *sample,
                                 bool *flip, struct sluice_err *err)
{
    const unsigned end = pipeline->u8_split;
    *flip = false;
    while (sample->ops_done < end) {
        const struct sluice_stage stage =
            sluice_next_stage(pipeline, sample, end, scratch->measure_ops);
        if (stage.kind == SLUICE_OP_MIRROR && stage.next == end && !scratch->measure_ops) {
            *flip = stage.is_mirrored;
            return SLUICE_OK;
        }
        const sluice_status status = run_stage(pipeline, scratch, sample, &stage, NULL, err);
        if (status)
            return status;
    }
    return SLUICE_OK;
}

sluice_status sluice_pipeline_finish(const struct sluice_pipeline *pipeline,
                                     struct sluice_scratch *scratch, struct sluice_sample *sample,
                                     void *out, size_t out_len, struct sluice_err *err)
{
    const unsigned num_ops = pipeline->num_ops;
    if (pipeline->u8_split == num_ops)
        return sluice_pipeline_finish_u8(pipeline, scratch, sample, out, out_len, err);
    sluice_status status = prepare(pipeline, scratch, sample, out_len,
                                   sluice_pipeline_output_bytes(pipeline), 3 * sizeof(float), err);
    if (status)
        return status;
    if (sample->ops_done == num_ops) {
        memcpy(out, sample->data->data, out_len);
    } else {
        bool flip = false;
        status = run_to_tail(pipeline, scratch, sample, &flip, err);
        if (status == SLUICE_OK)
            status = check_room(pipeline, sample, out_len, 3 * sizeof(float), err);
        if (status)
            return status;
        const uint64_t started_ns = scratch->measure_ops ? sluice_thread_cpu_ns() : 0;
        tail_to(pipeline, sample, &pipeline->batch_lookup, flip, out);
        if (scratch->measure_ops) {
            const unsigned op = sample->ops_done;
            memset(scratch->op_ns + op, 0, (num_ops - op) * sizeof(scratch->op_ns[0]));
            scratch->op_ns[op] = sluice_thread_cpu_ns() - started_ns;
        }
    }
    sluice_sample_clear(sample);
    return SLUICE_OK;
}

bool sluice_pipeline_file_box(const struct sluice_pipeline *pipeline,
                              const struct sluice_draw_key *key, uint32_t width, uint32_t height,
                              unsigned end, enum sluice_form form, struct sluice_box *box)
{
    const unsigned crop_end = pipeline->stage_end[0];
    const bool is_box = sluice_form_takes_box(sluice_form_type(form), pipeline, end);
    if (crop_end == 0 || (end < crop_end && !is_box))
        return false;
    return sluice_file_crop_box(pipeline, key, (struct sluice_size){width, height}, box);
}

sluice_status sluice_sample_encode(const struct sluice_pipeline *pipeline,
                                   struct sluice_scratch *scratch, struct sluice_sample *sample,
                                   unsigned split, enum sluice_form form,
                                   const struct sluice_form_options *options,
                                   struct sluice_err *err)
{
    const struct sluice_form_type *type = sluice_form_type(form);
    return type->is_plain ? sluice_pipeline_run(pipeline, scratch, sample, split, err)
                          : type->encode(pipeline, scratch, sample, split, options, err);
}
