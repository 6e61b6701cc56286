/* Every way that a sample can come to its tensor, for bench_pipeline --compare. */

#include "base/buf.h"
#include "base/compiler.h"
#include "bench/bench.h"
#include "bench/bench_pipeline.h"
#include "image/codecs/internal.h"
#include "image/jpeg/index.h"
#include "image/jpeg/window.h"

#include <string.h>

enum way {
    BY_LIBJPEG_WHOLE,
    BY_LIBJPEG_REGION,
    BY_OWN_DECODER,
    AS_FILE,
    AS_FILE_OP_BY_OP,
    AS_FILE_TO_U8, /* what a batch holds; then the table */
    AS_JPEG_CROP,
    AS_PIXELS, /* ops up to the split on one node, the others on another */
    AS_PACKED,
};

enum index {
    NO_INDEX,
    OF_ROWS,
    OF_STEPS,
    OF_STEPS_IN_PARTS, /* of the file only what the index asks for; the rest is nonsense */
};

static const struct check {
    const char *name;
    enum way way;
    enum index index;
    unsigned split;
    bool is_optimal; /* Huffman tables */
    bool is_val;
} checks[] = {
    {.name = "libjpeg whole", .way = BY_LIBJPEG_WHOLE},
    {.name = "libjpeg region", .way = BY_LIBJPEG_REGION},
    {.name = "own decoder", .way = BY_OWN_DECODER},
    {.name = "own decoder, index of rows", .way = BY_OWN_DECODER, .index = OF_ROWS},
    {.name = "own decoder, index of 8 MCUs", .way = BY_OWN_DECODER, .index = OF_STEPS},
    {.name = "raw@0", .way = AS_FILE},
    {.name = "raw@0, index of rows", .way = AS_FILE, .index = OF_ROWS},
    {.name = "raw@0, index of 8 MCUs", .way = AS_FILE, .index = OF_STEPS},
    {.name = "raw@0, index, file in parts", .way = AS_FILE, .index = OF_STEPS_IN_PARTS},
    {.name = "raw@0, op by op", .way = AS_FILE_OP_BY_OP},
    {.name = "raw@0, by way of u8", .way = AS_FILE_TO_U8},
    {.name = "jpeg_crop@0", .way = AS_JPEG_CROP},
    {.name = "jpeg_crop@0, index of rows", .way = AS_JPEG_CROP, .index = OF_ROWS},
    {.name = "jpeg_crop@0, index of 8 MCUs", .way = AS_JPEG_CROP, .index = OF_STEPS},
    {.name = "jpeg_crop@0, index, file in parts", .way = AS_JPEG_CROP, .index = OF_STEPS_IN_PARTS},
    {.name = "jpeg_crop@0 optimal", .way = AS_JPEG_CROP, .is_optimal = true},
    {.name = "jpeg_crop@0 optimal, index of rows",
     .way = AS_JPEG_CROP,
     .index = OF_ROWS,
     .is_optimal = true},
    {.name = "jpeg_crop@0 optimal, index of 8 MCUs",
     .way = AS_JPEG_CROP,
     .index = OF_STEPS,
     .is_optimal = true},
    {.name = "u8@1", .way = AS_PIXELS, .split = 1},
    {.name = "u8@2", .way = AS_PIXELS, .split = 2},
    {.name = "u8@3", .way = AS_PIXELS, .split = 3},
    {.name = "u8@3, index of 8 MCUs", .way = AS_PIXELS, .index = OF_STEPS, .split = 3},
    {.name = "u8_packed@1", .way = AS_PACKED, .split = 1},
    {.name = "u8_packed@1, index, file in parts",
     .way = AS_PACKED,
     .index = OF_STEPS_IN_PARTS,
     .split = 1},
    {.name = "u8_packed@2", .way = AS_PACKED, .split = 2},
    {.name = "u8_packed@3", .way = AS_PACKED, .split = 3},
    {.name = "f32@4", .way = AS_PIXELS, .split = 4},
    {.name = "f32@5", .way = AS_PIXELS, .split = 5},
    {.name = "val raw@0, op by op", .way = AS_FILE_OP_BY_OP, .is_val = true},
    {.name = "val raw@0", .way = AS_FILE, .is_val = true},
    {.name = "val raw@0, index of 8 MCUs", .way = AS_FILE, .index = OF_STEPS, .is_val = true},
    {.name = "val raw@0, index, file in parts",
     .way = AS_FILE,
     .index = OF_STEPS_IN_PARTS,
     .is_val = true},
    {.name = "val u8@1", .way = AS_PIXELS, .split = 1, .is_val = true},
    {.name = "val u8@2", .way = AS_PIXELS, .split = 2, .is_val = true},
    {.name = "val u8@3", .way = AS_PIXELS, .split = 3, .is_val = true},
    {.name = "val u8_packed@3", .way = AS_PACKED, .split = 3, .is_val = true},
    {.name = "val f32@5", .way = AS_PIXELS, .split = 5, .is_val = true},
};

const size_t bench_num_checks = SLUICE_ARRAY_LEN(checks);

const char *bench_check_name(size_t check)
{
    return checks[check].name;
}

enum bench_tensor bench_check_tensor(size_t check)
{
    return checks[check].is_val ? TENSOR_VAL : TENSOR_TRAIN;
}

/* What of the index is for decode_own(), whose arguments are the same for all decoders. */
static const struct sluice_jpeg_index *own_index;

static bool decode_own(struct routes *r, const struct bench_task *task,
                       const struct sluice_box *box, struct sluice_rgb *rgb)
{
    const struct sluice_buf *file = task->image->file;
    return sluice_jpeg_window_decode(r->codec->window,
                                     sluice_jpeg_window_kernels_for(sluice_cpu_level()), file->data,
                                     file->len, box, own_index, r->pool, rgb, NULL) == SLUICE_OK;
}

/* The sample's file, of which only what the index needs was read; false: that is no less. */
static bool make_partial(struct routes *r, const struct check *check, const struct bench_task *task,
                         struct sluice_sample *sample, struct sluice_jpeg_index *index)
{
    const struct sluice_pipeline *pipeline = check->is_val ? r->val : r->train;
    const unsigned end = check->way == AS_FILE ? 3 : check->split;
    const enum sluice_form form = check->way == AS_PACKED      ? SLUICE_FORM_U8_PACKED
                                  : check->way == AS_JPEG_CROP ? SLUICE_FORM_JPEG_CROP
                                                               : SLUICE_FORM_U8;
    struct sluice_box box;
    if (!sluice_pipeline_file_box(pipeline, &task->key, index->width, index->height, end, form,
                                  &box))
        bench_die("%s: looks at no box", check->name);
    const struct sluice_buf *file = task->image->file;
    struct sluice_buf *part;
    struct sluice_err err = {0};
    bench_must(sluice_buf_create(r->pool, file->len, &part, &err), task, &err);
    part->len = file->len;
    memset(part->data, 0xA5, part->len);
    struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS];
    const unsigned num_parts = sluice_jpeg_index_parts(index, &box, parts);
    for (unsigned i = 0; i < num_parts; i++)
        memcpy(part->data + parts[i].from, file->data + parts[i].from, parts[i].to - parts[i].from);
    sluice_buf_unref(sample->data);
    sample->data = part;
    index->is_partial = true;
    return num_parts > 1;
}

/* Does the storage node's part of the form; false: it would send another form. */
static bool send_as(struct routes *r, const struct check *check, const struct bench_task *task,
                    const struct sluice_pipeline *pipeline, struct sluice_sample *sample)
{
    struct sluice_err err = {0};
    sluice_status status = SLUICE_OK;
    if (check->way == AS_JPEG_CROP) {
        status =
            sluice_pipeline_crop_jpeg(pipeline, r->scratch, sample, check->is_optimal, 0, &err);
        if (status == SLUICE_E_AGAIN || status == SLUICE_E_UNSUPPORTED ||
            status == SLUICE_E_CORRUPT)
            return false;
    } else if (check->way == AS_PACKED) {
        status = sluice_pipeline_pack(pipeline, r->scratch, sample, check->split, &err);
        if (status == SLUICE_E_AGAIN)
            return false;
    } else {
        status = sluice_pipeline_run(pipeline, r->scratch, sample, check->split, &err);
    }
    bench_must(status, task, &err);
    return true;
}

/* By the product's own calls. */
static bool run_sample(struct routes *r, const struct check *check, const struct bench_task *task,
                       struct sluice_jpeg_index *index)
{
    const struct sluice_pipeline *pipeline = check->is_val ? r->val : r->train;
    const struct sluice_jpeg_index *used = check->index != NO_INDEX ? index : NULL;
    struct sluice_err err = {0};
    struct sluice_sample sample = bench_sample_of(task);
    bool is_for_it =
        check->index != OF_STEPS_IN_PARTS || make_partial(r, check, task, &sample, index);
    if (is_for_it && check->way >= AS_JPEG_CROP) {
        sluice_scratch_set_jpeg_index(r->scratch, used);
        is_for_it = send_as(r, check, task, pipeline, &sample);
        /* It is for the node that has the file. */
        sluice_scratch_set_jpeg_index(r->scratch, NULL);
        used = NULL;
    }
    if (!is_for_it) {
        sluice_sample_clear(&sample);
        return false;
    }
    uint8_t *out = bench_next_row(r);
    struct sluice_scratch *scratch = check->way == AS_FILE_OP_BY_OP ? r->measuring : r->scratch;
    sluice_scratch_set_jpeg_index(scratch, used);
    if (check->way == AS_FILE_TO_U8) {
        const uint32_t side = sluice_pipeline_view_size(pipeline, 0).width;
        const size_t len = sluice_pipeline_u8_bytes(pipeline);
        struct sluice_buf *u8;
        bench_must(sluice_buf_create(r->pool, len, &u8, &err), task, &err);
        bench_must(sluice_pipeline_finish_u8(pipeline, scratch, &sample, u8->data, len, &err), task,
                   &err);
        sluice_lookup_run(&r->lookup, u8->data, (size_t)side * 3, side, side, false, out);
        sluice_buf_unref(u8);
    } else {
        bench_must(sluice_pipeline_finish(pipeline, scratch, &sample, out, r->row_bytes, &err),
                   task, &err);
    }
    sluice_scratch_set_jpeg_index(scratch, NULL);
    return true;
}

bool bench_check_run(size_t which, struct routes *r, const struct bench_task *task)
{
    const struct check *check = &checks[which];
    const struct sluice_buf *file = task->image->file;
    struct sluice_jpeg_index index = {0};
    if (check->index != NO_INDEX &&
        sluice_jpeg_index_build(file->data, file->len, 0, check->index == OF_ROWS ? 0 : 8, &index,
                                NULL) != SLUICE_OK)
        return false;
    const bool is_part_decoded = check->index == OF_STEPS_IN_PARTS && check->way != AS_JPEG_CROP;
    bool is_for_it = false;
    switch (check->way) {
    case BY_LIBJPEG_WHOLE:
        bench_with_decoder(r, task, NULL);
        is_for_it = true;
        break;
    case BY_LIBJPEG_REGION:
        is_for_it = !bench_with_decoder(r, task, bench_decode_region).is_declined;
        break;
    case BY_OWN_DECODER:
        own_index = check->index != NO_INDEX ? &index : NULL;
        is_for_it = !bench_with_decoder(r, task, decode_own).is_declined;
        break;
    default:
        /* A file is read in parts only where our own decoder takes it. */
        is_for_it =
            (!is_part_decoded || sluice_codec_uses_index()) && run_sample(r, check, task, &index);
        break;
    }
    sluice_jpeg_index_clear(&index);
    return is_for_it;
}
