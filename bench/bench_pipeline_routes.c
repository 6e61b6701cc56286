#include "base/buf.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/bench_pipeline.h"
#include "image/codecs/codec.h"
#include "image/codecs/internal.h"
#include "image/jpeg/index.h"
#include "image/lookup.h"
#include "image/resize.h"

#include <stdlib.h>
#include <string.h>

struct routes *bench_routes_create(void)
{
    struct routes *r = calloc(1, sizeof(*r));
    struct sluice_err err = {0};
    if (!r || sluice_pipeline_parse(BENCH_TRAIN, &r->train, &err) ||
        sluice_pipeline_parse(BENCH_VAL, &r->val, &err) ||
        sluice_buf_pool_create(256 << 20, &r->pool, &err))
        bench_die("%s", err.text);
    const struct sluice_scratch_options options = {.pool = r->pool};
    const struct sluice_scratch_options measuring = {.pool = r->pool, .measure_ops = true};
    if (sluice_scratch_create(&options, &r->scratch, &err) ||
        sluice_scratch_create(&measuring, &r->measuring, &err) ||
        sluice_codec_create(&r->codec, &err) || sluice_resizer_create(&r->resizer, &err))
        bench_die("%s", err.text);
    sluice_lookup_init(&r->lookup, *sluice_pipeline_tail_table(r->train), SLUICE_LOOKUP_F32,
                       SLUICE_LOOKUP_CHW);
    r->lookup.is_far = true;
    r->row_bytes = sluice_pipeline_output_bytes(r->train);
    r->batch = aligned_alloc(4096, BENCH_BATCH_ROWS * r->row_bytes);
    if (!r->batch)
        bench_die("no memory for a batch");
    memset(r->batch, 0, BENCH_BATCH_ROWS * r->row_bytes);
    return r;
}

struct sluice_hash128 bench_routes_hash(const struct routes *routes)
{
    return sluice_hash128(routes->last, routes->row_bytes);
}

uint8_t *bench_next_row(struct routes *r)
{
    r->last = r->batch + r->next_row * r->row_bytes;
    r->next_row = (r->next_row + 1) % BENCH_BATCH_ROWS;
    return r->last;
}

static double us_since(uint64_t start_ns)
{
    return (double)(sluice_thread_cpu_ns() - start_ns) * 1e-3;
}

void bench_must(sluice_status status, const struct bench_task *task, const struct sluice_err *err)
{
    if (status != SLUICE_OK)
        bench_die("%s: %s", task->image->path, err->text);
}

struct sluice_sample bench_sample_of(const struct bench_task *task)
{
    return (struct sluice_sample){
        .key = task->key,
        .kind = SLUICE_KIND_FILE,
        .data = sluice_buf_ref(task->image->file),
    };
}

/* --- the product's own ways --- */

/* Runs the ops that are left, to f32; takes the sample. */
static struct bench_outcome finish_sample(struct routes *r, const struct sluice_pipeline *pipeline,
                                          const struct bench_task *task,
                                          struct sluice_sample *sample)
{
    struct sluice_err err = {0};
    uint8_t *out = bench_next_row(r);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    bench_must(sluice_pipeline_finish(pipeline, r->scratch, sample, out, r->row_bytes, &err), task,
               &err);
    return (struct bench_outcome){.us = us_since(start_ns), .bytes = r->row_bytes};
}

static struct bench_outcome finish(struct routes *r, const struct sluice_pipeline *pipeline,
                                   const struct bench_task *task)
{
    struct sluice_sample sample = bench_sample_of(task);
    return finish_sample(r, pipeline, task, &sample);
}

static struct bench_outcome exact_u8(struct routes *r, const struct bench_task *task)
{
    struct sluice_err err = {0};
    struct sluice_sample sample = bench_sample_of(task);
    const size_t len = sluice_pipeline_u8_bytes(r->train);
    const uint32_t side = sluice_pipeline_view_size(r->train, 0).width;
    uint8_t *u8 = bench_next_row(r);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    bench_must(sluice_pipeline_finish_u8(r->train, r->scratch, &sample, u8, len, &err), task, &err);
    const struct bench_outcome outcome = {.us = us_since(start_ns), .bytes = len};
    /* To be compared; not timed. */
    sluice_lookup_run(&r->lookup, u8, (size_t)side * 3, side, side, false, bench_next_row(r));
    return outcome;
}

static struct bench_outcome exact_f32(struct routes *r, const struct bench_task *task)
{
    return finish(r, r->train, task);
}

/* With an index of the file beside it, which is made and read before the clock starts. */
static void set_index(struct routes *r, const struct bench_task *task,
                      struct sluice_jpeg_index *index)
{
    const struct sluice_buf *file = task->image->file;
    *index = (struct sluice_jpeg_index){0};
    const bool is_made =
        sluice_jpeg_index_build(file->data, file->len, 0, 8, index, NULL) == SLUICE_OK;
    sluice_scratch_set_jpeg_index(r->scratch, is_made ? index : NULL);
}

static struct bench_outcome indexed(struct bench_outcome (*run)(struct routes *routes,
                                                                const struct bench_task *task),
                                    struct routes *r, const struct bench_task *task)
{
    struct sluice_jpeg_index index;
    set_index(r, task, &index);
    const struct bench_outcome outcome = run(r, task);
    sluice_scratch_set_jpeg_index(r->scratch, NULL);
    sluice_jpeg_index_clear(&index);
    return outcome;
}

static struct bench_outcome exact_u8_indexed(struct routes *r, const struct bench_task *task)
{
    return indexed(exact_u8, r, task);
}

static struct bench_outcome exact_f32_indexed(struct routes *r, const struct bench_task *task)
{
    return indexed(exact_f32, r, task);
}

static struct bench_outcome exact_f32_val(struct routes *r, const struct bench_task *task)
{
    return finish(r, r->val, task);
}

static struct bench_outcome exact_f32_val_indexed(struct routes *r, const struct bench_task *task)
{
    return indexed(exact_f32_val, r, task);
}

/* --- the same with a decoder of one's choice --- */

/* By libjpeg-turbo, or as the product does where the file is no JPEG. */
static void decode_whole(struct routes *r, const struct bench_task *task,
                         const struct sluice_image_info *info, struct sluice_rgb *rgb)
{
    struct sluice_err err = {0};
    const struct sluice_buf *file = task->image->file;
    bench_must(info->format == SLUICE_IMAGE_JPEG
                   ? sluice_jpeg_decode(r->codec, file->data, file->len, SLUICE_IMAGE_MAX_PIXELS,
                                        r->pool, rgb, &err)
                   : sluice_codec_decode(r->codec, file->data, file->len, 0, r->pool, rgb, &err),
               task, &err);
}

struct bench_outcome bench_with_decoder(struct routes *r, const struct bench_task *task,
                                        bench_decode_fn decode)
{
    struct sluice_err err = {0};
    uint8_t *out = bench_next_row(r);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    const struct bench_image *image = task->image;
    struct sluice_image_info info;
    bench_must(sluice_image_probe(image->file->data, image->file->len, &info, &err), task, &err);
    const struct sluice_draws draws =
        sluice_pipeline_draws(r->train, &task->key, info.width, info.height);
    const struct sluice_box box = {draws.left, draws.top, draws.width, draws.height};
    struct sluice_rgb rgb;
    struct sluice_image_view view = {.width = box.width, .height = box.height};
    const bool is_declined = !decode || !decode(r, task, &box, &rgb);
    if (!is_declined) {
        view.stride = (size_t)rgb.width * 3;
        view.pixels = rgb.pixels->data;
    } else {
        decode_whole(r, task, &info, &rgb);
        view.stride = (size_t)rgb.width * 3;
        view.pixels = rgb.pixels->data + box.top * view.stride + (size_t)box.left * 3;
    }
    const uint32_t side = sluice_pipeline_view_size(r->train, 0).width;
    struct sluice_buf *u8;
    bench_must(sluice_buf_create(r->pool, sluice_pipeline_u8_bytes(r->train), &u8, &err), task,
               &err);
    bench_must(sluice_resize_rgb(r->resizer, &view, side, side, draws.flip, u8->data, &err), task,
               &err);
    sluice_buf_unref(rgb.pixels);
    sluice_lookup_run(&r->lookup, u8->data, (size_t)side * 3, side, side, false, out);
    sluice_buf_unref(u8);
    return (struct bench_outcome){us_since(start_ns), r->row_bytes, is_declined};
}

static struct bench_outcome whole_by_libjpeg(struct routes *r, const struct bench_task *task)
{
    return bench_with_decoder(r, task, NULL);
}

bool bench_decode_region(struct routes *r, const struct bench_task *task,
                         const struct sluice_box *box, struct sluice_rgb *rgb)
{
    const struct sluice_buf *file = task->image->file;
    struct sluice_image_info info;
    return sluice_image_probe(file->data, file->len, &info, NULL) == SLUICE_OK &&
           info.format == SLUICE_IMAGE_JPEG && !info.is_progressive &&
           sluice_jpeg_decode_region(&info, file->data, file->len, box, r->pool, rgb);
}

static struct bench_outcome region_by_libjpeg(struct routes *r, const struct bench_task *task)
{
    return bench_with_decoder(r, task, bench_decode_region);
}

/* --- stage by stage, nothing fused --- */

static struct bench_outcome stage(struct routes *r, const struct bench_task *task, unsigned op)
{
    struct sluice_err err = {0};
    struct sluice_sample sample = bench_sample_of(task);
    bench_must(sluice_pipeline_run(r->train, r->measuring, &sample, op + 1, &err), task, &err);
    const struct bench_outcome outcome = {
        .us = (double)sluice_scratch_op_ns(r->measuring, op) * 1e-3,
        .bytes = sample.data->len,
    };
    sluice_sample_clear(&sample);
    return outcome;
}

static struct bench_outcome stage_decode(struct routes *r, const struct bench_task *task)
{
    return stage(r, task, 0);
}

static struct bench_outcome stage_resize(struct routes *r, const struct bench_task *task)
{
    return stage(r, task, 1);
}

static struct bench_outcome stage_flip(struct routes *r, const struct bench_task *task)
{
    return stage(r, task, 2);
}

static struct bench_outcome stage_tensor(struct routes *r, const struct bench_task *task)
{
    struct sluice_err err = {0};
    struct sluice_sample sample = bench_sample_of(task);
    bench_must(sluice_pipeline_run(r->train, r->scratch, &sample, 3, &err), task, &err);
    return finish_sample(r, r->train, task, &sample);
}

/* --- a split: what storage does, what goes over the wire, what is left --- */

/* The time until now and the payload; takes the sample. */
static struct bench_outcome sent(struct sluice_sample *sample, uint64_t start_ns)
{
    const struct bench_outcome outcome = {.us = us_since(start_ns), .bytes = sample->data->len};
    sluice_sample_clear(sample);
    return outcome;
}

static struct bench_outcome storage(struct routes *r, const struct bench_task *task, unsigned split)
{
    struct sluice_err err = {0};
    struct sluice_sample sample = bench_sample_of(task);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    bench_must(sluice_pipeline_run(r->train, r->scratch, &sample, split, &err), task, &err);
    return sent(&sample, start_ns);
}

/* To u8, where batches meet; from f32 that is a check of every value. */
static struct bench_outcome finish_rest(struct routes *r, const struct bench_task *task,
                                        struct sluice_sample *sample)
{
    struct sluice_err err = {0};
    const uint64_t bytes = sample->data->len;
    uint8_t *out = bench_next_row(r);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    bench_must(sluice_pipeline_finish_u8(r->train, r->scratch, sample, out,
                                         sluice_pipeline_u8_bytes(r->train), &err),
               task, &err);
    return (struct bench_outcome){.us = us_since(start_ns), .bytes = bytes};
}

static struct bench_outcome compute(struct routes *r, const struct bench_task *task, unsigned split)
{
    struct sluice_err err = {0};
    struct sluice_sample sample = bench_sample_of(task);
    bench_must(sluice_pipeline_run(r->train, r->scratch, &sample, split, &err), task, &err);
    return finish_rest(r, task, &sample);
}

/* Cuts the file, or leaves it whole where that is what the product would send. */
static void cut(struct routes *r, const struct bench_task *task, struct sluice_sample *sample)
{
    struct sluice_err err = {0};
    const sluice_status status =
        sluice_pipeline_crop_jpeg(r->train, r->scratch, sample, false, 0, &err);
    if (status != SLUICE_E_AGAIN && status != SLUICE_E_UNSUPPORTED && status != SLUICE_E_CORRUPT)
        bench_must(status, task, &err);
}

static struct bench_outcome crop_storage(struct routes *r, const struct bench_task *task)
{
    struct sluice_sample sample = bench_sample_of(task);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    cut(r, task, &sample);
    return sent(&sample, start_ns);
}

static struct bench_outcome crop_storage_indexed(struct routes *r, const struct bench_task *task)
{
    return indexed(crop_storage, r, task);
}

static struct bench_outcome crop_compute(struct routes *r, const struct bench_task *task)
{
    struct sluice_sample sample = bench_sample_of(task);
    cut(r, task, &sample);
    const uint64_t bytes = sample.data->len;
    return (struct bench_outcome){finish_sample(r, r->train, task, &sample).us, .bytes = bytes};
}

/* Packs the pixels at `split`, or leaves what the product would send in their place. */
static void pack(struct routes *r, const struct bench_task *task, struct sluice_sample *sample,
                 unsigned split)
{
    struct sluice_err err = {0};
    const sluice_status status = sluice_pipeline_pack(r->train, r->scratch, sample, split, &err);
    if (status != SLUICE_E_AGAIN)
        bench_must(status, task, &err);
}

static struct bench_outcome packed_storage(struct routes *r, const struct bench_task *task,
                                           unsigned split)
{
    struct sluice_sample sample = bench_sample_of(task);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    pack(r, task, &sample, split);
    return sent(&sample, start_ns);
}

static struct bench_outcome packed_compute(struct routes *r, const struct bench_task *task,
                                           unsigned split)
{
    struct sluice_sample sample = bench_sample_of(task);
    pack(r, task, &sample, split);
    return finish_rest(r, task, &sample);
}

static struct bench_outcome libjpeg_decode(struct routes *r, const struct bench_task *task)
{
    struct sluice_err err = {0};
    const struct sluice_buf *file = task->image->file;
    struct sluice_image_info info;
    bench_must(sluice_image_probe(file->data, file->len, &info, &err), task, &err);
    struct sluice_rgb rgb;
    const uint64_t start_ns = sluice_thread_cpu_ns();
    decode_whole(r, task, &info, &rgb);
    const struct bench_outcome outcome = {.us = us_since(start_ns), .bytes = rgb.pixels->len};
    sluice_buf_unref(rgb.pixels);
    return outcome;
}

#define SPLIT(split)                                                                               \
    static struct bench_outcome storage_##split(struct routes *r, const struct bench_task *task)   \
    {                                                                                              \
        return storage(r, task, split);                                                            \
    }                                                                                              \
    static struct bench_outcome compute_##split(struct routes *r, const struct bench_task *task)   \
    {                                                                                              \
        return compute(r, task, split);                                                            \
    }
SPLIT(0)
SPLIT(1)
SPLIT(2)
SPLIT(3)
SPLIT(5)

#define PACKED(split)                                                                              \
    static struct bench_outcome packed_storage_##split(struct routes *r,                           \
                                                       const struct bench_task *task)              \
    {                                                                                              \
        return packed_storage(r, task, split);                                                     \
    }                                                                                              \
    static struct bench_outcome packed_compute_##split(struct routes *r,                           \
                                                       const struct bench_task *task)              \
    {                                                                                              \
        return packed_compute(r, task, split);                                                     \
    }
PACKED(1)
PACKED(3)

const struct bench_route bench_routes[] = {
    {"exact u8", REFERENCE_U8, TENSOR_TRAIN, exact_u8},
    {"exact u8, index", REFERENCE_U8, TENSOR_TRAIN, exact_u8_indexed},
    {"exact f32", REFERENCE_WHOLE, TENSOR_TRAIN, exact_f32},
    {"exact f32, index", REFERENCE_WHOLE, TENSOR_TRAIN, exact_f32_indexed},
    {"exact f32, libjpeg region", REFERENCE_WHOLE, TENSOR_TRAIN, region_by_libjpeg},
    {"exact f32, libjpeg whole", REFERENCE_WHOLE, TENSOR_TRAIN, whole_by_libjpeg},
    {"val f32", REFERENCE_VAL, TENSOR_VAL, exact_f32_val},
    {"val f32, index", REFERENCE_VAL, TENSOR_VAL, exact_f32_val_indexed},
    {"stage decode", REFERENCE_DECODE, TENSOR_NONE, stage_decode},
    {"stage decode, libjpeg", REFERENCE_DECODE, TENSOR_NONE, libjpeg_decode},
    {"stage crop+resize", REFERENCE_RESIZE, TENSOR_NONE, stage_resize},
    {"stage flip", REFERENCE_FLIP, TENSOR_NONE, stage_flip},
    {"stage tensor+normalize", REFERENCE_TENSOR, TENSOR_NONE, stage_tensor},
    {"raw@0 storage", REFERENCE_NONE, TENSOR_NONE, storage_0},
    {"raw@0 compute", REFERENCE_NONE, TENSOR_NONE, compute_0},
    {"jpeg_crop@0 storage", REFERENCE_NONE, TENSOR_NONE, crop_storage},
    {"jpeg_crop@0 storage, index", REFERENCE_NONE, TENSOR_NONE, crop_storage_indexed},
    {"jpeg_crop@0 compute f32", REFERENCE_WHOLE, TENSOR_TRAIN, crop_compute},
    {"u8@1 storage", REFERENCE_NONE, TENSOR_NONE, storage_1},
    {"u8@1 compute", REFERENCE_NONE, TENSOR_NONE, compute_1},
    {"u8@2 storage", REFERENCE_NONE, TENSOR_NONE, storage_2},
    {"u8@2 compute", REFERENCE_NONE, TENSOR_NONE, compute_2},
    {"u8@3 storage", REFERENCE_NONE, TENSOR_NONE, storage_3},
    {"u8@3 compute", REFERENCE_NONE, TENSOR_NONE, compute_3},
    {"u8_packed@1 storage", REFERENCE_NONE, TENSOR_NONE, packed_storage_1},
    {"u8_packed@1 compute", REFERENCE_NONE, TENSOR_NONE, packed_compute_1},
    {"u8_packed@3 storage", REFERENCE_NONE, TENSOR_NONE, packed_storage_3},
    {"u8_packed@3 compute", REFERENCE_NONE, TENSOR_NONE, packed_compute_3},
    {"f32@5 storage", REFERENCE_NONE, TENSOR_NONE, storage_5},
    {"f32@5 compute", REFERENCE_NONE, TENSOR_NONE, compute_5},
};
const size_t bench_num_routes = SLUICE_ARRAY_LEN(bench_routes);
