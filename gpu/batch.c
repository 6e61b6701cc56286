#include "gpu/batch.h"

#include "gpu/tuning.h"
#include "image/image_internal.h"

#include <assert.h>
#include <string.h>

#define PART_ALIGNMENT 256

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t align(uint64_t bytes, uint64_t alignment)
{
    return divide_up(bytes, alignment) * alignment;
}

sluice_status sluice_gpu_limits_check(const struct sluice_gpu_limits *limits,
                                      struct sluice_gpu_sizes *capacity, struct sluice_err *err)
{
    /* Sums and products of these stay far within 64 bits. */
    const uint64_t most = 1u << 31;
    uint64_t outputs = 0;
    bool is_good = limits->num_views >= 1 && limits->num_views <= SLUICE_GPU_MAX_VIEWS &&
                   (limits->most_row_bytes == 0 || limits->num_views == 1);
    for (uint32_t v = 0; is_good && v < limits->num_views; v++) {
        const struct sluice_gpu_view_size *size = &limits->views[v];
        is_good = size->width >= 1 && size->width <= SLUICE_IMAGE_MAX_SIDE && size->height >= 1 &&
                  size->height <= SLUICE_IMAGE_MAX_SIDE;
        outputs += size->width + (uint64_t)size->height;
    }
    if (!is_good || !limits->max_samples || !limits->max_file_bytes || !limits->max_pixels ||
        limits->max_samples > 1u << 20 || limits->max_file_bytes > most ||
        limits->max_pixels > most || sluice_gpu_row_bytes(limits) > most)
        return sluice_fail(err, SLUICE_E_INVALID, "limits of a batch that are 0 or too large");
    const uint64_t samples = limits->max_samples;
    const struct sluice_gpu_sizes sizes = {
        .upload_bytes = sluice_gpu_index_bytes(limits) +
                        samples * (sizeof(struct sluice_gpu_sample) +
                                   SLUICE_GPU_MAX_HUFFMAN * sizeof(struct sluice_gpu_huffman) +
                                   4 * SLUICE_GPU_SAMPLE_ALIGNMENT +
                                   limits->num_views * (sizeof(struct sluice_gpu_view) +
                                                        SLUICE_GPU_USUAL_CALL_BYTES +
                                                        SLUICE_GPU_SAMPLE_ALIGNMENT)) +
                        /* 28 bytes for each segment of at least 75 */
                        limits->max_file_bytes + limits->max_file_bytes * 3 / 8,
        .blocks = divide_up(limits->max_pixels, 64) * SLUICE_GPU_MAX_PLANES,
        .weights = samples * SLUICE_GPU_WEIGHTS_PER_OUTPUT * outputs +
                   limits->max_pixels / SLUICE_GPU_PIXELS_PER_WEIGHT,
        .pixels = limits->max_pixels + samples * (sluice_gpu_row_bytes(limits) / 3),
    };
    if (sizes.upload_bytes > UINT32_MAX || sizes.blocks > UINT32_MAX ||
        sizes.weights > UINT32_MAX || sizes.pixels > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID, "limits of a batch that are too large together");
    *capacity = sizes;
    return SLUICE_OK;
}

struct sluice_gpu_parts sluice_gpu_parts_of(const struct sluice_gpu_limits *limits,
                                            const struct sluice_gpu_sizes *capacity)
{
    struct sluice_gpu_parts parts = {.upload = 0};
    parts.coefficients = align(capacity->upload_bytes, PART_ALIGNMENT);
    parts.samples =
        parts.coefficients + align(capacity->blocks * 64 * sizeof(int16_t), PART_ALIGNMENT);
    parts.weights = parts.samples + align(capacity->blocks * 64, PART_ALIGNMENT);
    parts.pixels = parts.weights + align(capacity->weights * sizeof(int32_t), PART_ALIGNMENT);
    parts.faults = parts.pixels + align(capacity->pixels * sizeof(uint32_t), PART_ALIGNMENT);
    parts.end = parts.faults + align(limits->max_samples * sizeof(uint32_t), PART_ALIGNMENT);
    return parts;
}

uint64_t sluice_gpu_index_bytes(const struct sluice_gpu_limits *limits)
{
    return align((limits->max_samples + (uint64_t)1) * sizeof(struct sluice_gpu_index),
                 SLUICE_GPU_SAMPLE_ALIGNMENT);
}

static struct sluice_gpu_index *index_of(const struct sluice_gpu_batch *batch)
{
    return (struct sluice_gpu_index *)(void *)batch->upload;
}

void sluice_gpu_batch_init(struct sluice_gpu_batch *batch, const struct sluice_gpu_limits *limits,
                           const struct sluice_gpu_sizes *capacity, void *upload)
{
    *batch = (struct sluice_gpu_batch){.limits = *limits, .capacity = *capacity};
    sluice_gpu_batch_use(batch, upload, sluice_gpu_index_bytes(limits));
}

static struct sluice_gpu_sample *sample_at(const struct sluice_gpu_batch *batch, uint64_t at)
{
    return (struct sluice_gpu_sample *)(void *)(batch->upload + at);
}

void sluice_gpu_batch_use(struct sluice_gpu_batch *batch, void *upload, uint64_t written)
{
    assert(written >= sluice_gpu_index_bytes(&batch->limits) &&
           written <= batch->capacity.upload_bytes);
    if (batch->upload)
        sluice_gpu_batch_clear(batch);
    batch->upload = upload;
    batch->written = written;
    sluice_gpu_batch_clear(batch);
}

void sluice_gpu_batch_clear(struct sluice_gpu_batch *batch)
{
    for (uint32_t i = 0; i < batch->num_samples; i++)
        sample_at(batch, index_of(batch)[i].at)->is_placed = 0;
    batch->num_samples = 0;
    batch->max_huffman = 0;
    batch->has_calls = false;
    batch->used = (struct sluice_gpu_sizes){.upload_bytes = batch->written};
    batch->from = batch->end = sluice_gpu_index_bytes(&batch->limits);
    index_of(batch)[0] = (struct sluice_gpu_index){.at = 0};
}

void sluice_gpu_batch_destroy(struct sluice_gpu_batch *batch)
{
    sluice_jpeg_stretch_clear(&batch->stretch);
}

struct sluice_gpu_request sluice_gpu_request_whole(const struct sluice_gpu_batch *batch,
                                                   const struct sluice_box *box, bool is_flipped,
                                                   uint32_t row)
{
    const uint32_t width = batch->limits.views[0].width, height = batch->limits.views[0].height;
    return (struct sluice_gpu_request){
        .box = *box,
        .part =
            {box->width, box->height, width, height, {0, 0, width, height}, SLUICE_RESIZE_BILINEAR},
        .is_flipped = is_flipped,
        .row = row,
    };
}

static sluice_status check_room(const struct sluice_gpu_batch *batch,
                                const struct sluice_gpu_sizes *more, struct sluice_err *err)
{
    const struct sluice_gpu_sizes *capacity = &batch->capacity, *used = &batch->used;
    if (batch->num_samples < batch->limits.max_samples &&
        more->upload_bytes <= capacity->upload_bytes - used->upload_bytes &&
        more->blocks <= capacity->blocks - used->blocks &&
        more->weights <= capacity->weights - used->weights &&
        more->pixels <= capacity->pixels - used->pixels)
        return SLUICE_OK;
    if (batch->num_samples == 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG too large for a batch");
    return sluice_fail(err, SLUICE_E_AGAIN, "no room in the batch");
}

static sluice_status check_row(const struct sluice_gpu_batch *batch, uint32_t row,
                               struct sluice_err *err)
{
    return row < batch->limits.max_samples
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_INVALID, "row %u of a batch of %u", row,
                             batch->limits.max_samples);
}

/* Assigns the sample's positions in the device's memory. */
static void set_places(struct sluice_gpu_sample *sample, const struct sluice_gpu_sizes *used)
{
    uint64_t block = used->blocks;
    for (uint32_t c = 0; c < sample->num_planes; c++) {
        struct sluice_gpu_plane *plane = &sample->planes[c];
        plane->first_block = (uint32_t)block;
        block += (uint64_t)plane->columns * plane->rows;
    }
    uint64_t pixel = used->pixels, weight = used->weights;
    struct sluice_gpu_view *views = sluice_gpu_views_of(sample);
    for (uint32_t v = 0; v < sample->num_views; v++) {
        struct sluice_gpu_view *view = &views[v];
        view->first_pixel = (uint32_t)pixel;
        pixel += sluice_gpu_view_pixels(view);
        view->across.first_weight = (uint32_t)weight;
        weight += SLUICE_GPU_WEIGHTS_LEN(&view->across);
        view->down.first_weight = (uint32_t)weight;
        weight += SLUICE_GPU_WEIGHTS_LEN(&view->down);
    }
}

/* Adds a written sample that fits. */
static void place(struct sluice_gpu_batch *batch, uint64_t at, uint64_t bytes, uint32_t row)
{
    struct sluice_gpu_sample *sample = sample_at(batch, at);
    struct sluice_gpu_index *index = index_of(batch) + batch->num_samples;
    struct sluice_gpu_sizes *used = &batch->used;
    set_places(sample, used);
    sample->row = row;
    sample->is_placed = 1;
    const struct sluice_gpu_sizes sizes = sluice_gpu_sample_sizes(sample);
    used->blocks += sizes.blocks;
    used->weights += sizes.weights;
    used->pixels += sizes.pixels;
    const uint64_t end = at + bytes;
    batch->from = batch->num_samples == 0 || at < batch->from ? at : batch->from;
    batch->end = end > batch->end ? end : batch->end;
    used->upload_bytes = end > used->upload_bytes ? end : used->upload_bytes;
    uint32_t across_tasks = 0;
    const struct sluice_gpu_view *views = sluice_gpu_views_of(sample);
    for (uint32_t v = 0; v < sample->num_views; v++) {
        across_tasks += views[v].across_tasks;
        batch->has_calls |= views[v].calls_bytes > 0;
    }
    index[0].at = (uint32_t)at;
    index[1] = (struct sluice_gpu_index){
        .decode_tasks = index->decode_tasks +
                        (uint32_t)divide_up(sample->num_segments, SLUICE_GPU_SEGMENTS_IN_TASK),
        .transform_tasks = index->transform_tasks +
                           (uint32_t)divide_up(sample->num_blocks, SLUICE_GPU_BLOCKS_IN_TASK),
        .across_tasks = index->across_tasks + across_tasks,
    };
    batch->num_samples++;
    if (sample->num_huffman > batch->max_huffman)
        batch->max_huffman = sample->num_huffman;
}

sluice_status sluice_gpu_batch_place(struct sluice_gpu_batch *batch, uint64_t at, uint64_t bytes,
                                     uint32_t row, struct sluice_err *err)
{
    assert(at >= sluice_gpu_index_bytes(&batch->limits) && at + bytes <= batch->written);
    const struct sluice_gpu_sample *sample = sample_at(batch, at);
    if (sample->is_placed) /* it has one place */
        return sluice_gpu_batch_append(batch, sample, bytes, row, err);
    const struct sluice_gpu_sizes sizes = sluice_gpu_sample_sizes(sample);
    sluice_status status = check_row(batch, row, err);
    if (status == SLUICE_OK)
        status = check_room(batch, &sizes, err);
    if (status == SLUICE_OK)
        place(batch, at, bytes, row);
    return status;
}

sluice_status sluice_gpu_batch_append(struct sluice_gpu_batch *batch, const void *sample,
                                      uint64_t bytes, uint32_t row, struct sluice_err *err)
{
    struct sluice_gpu_sizes sizes = sluice_gpu_sample_sizes(sample);
    sizes.upload_bytes = bytes;
    sluice_status status = check_row(batch, row, err);
    if (status == SLUICE_OK)
        status = check_room(batch, &sizes, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t at = batch->used.upload_bytes;
    memcpy(batch->upload + at, sample, bytes);
    place(batch, at, bytes, row);
    return SLUICE_OK;
}

sluice_status sluice_gpu_batch_add(struct sluice_gpu_batch *batch, const uint8_t *bytes, size_t len,
                                   const struct sluice_jpeg_index *index,
                                   const struct sluice_gpu_request *requests,
                                   struct sluice_err *err)
{
    struct sluice_gpu_plan plan;
    const uint64_t at = batch->used.upload_bytes;
    uint64_t written = 0;
    sluice_status status = check_row(batch, requests[0].row, err);
    if (status == SLUICE_OK)
        status = sluice_gpu_plan_make(&plan, &batch->limits, bytes, len, index, requests, err);
    if (status == SLUICE_OK)
        status = check_room(batch, &plan.sizes, err);
    if (status == SLUICE_OK)
        status = sluice_gpu_plan_write(&plan, &batch->stretch, batch->upload + at, &written, err);
    if (status == SLUICE_OK)
        place(batch, at, written, requests[0].row);
    return status;
}
