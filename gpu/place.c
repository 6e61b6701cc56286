#include "base/buf.h"
#include "gpu/place_state.h"
#include "gpu/tuning.h"
#include "image/image_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The device's allocation unit: 2 MiB with CUDA. */
#define ALLOCATION ((uint64_t)2 << 20)
#define ROWS_ALIGNMENT 256

/* With the label, more than 240 bytes; XXH3 has another algorithm for fewer. */
#define MIN_ROW_BYTES 233

/* --- memory --- */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* The most bytes of a row of any size; those that are only uploaded may be larger. */
static uint64_t most_decoded_bytes(const struct sluice_gpu_place_options *options)
{
    const uint64_t bytes = (uint64_t)options->views[0].width * options->views[0].height * 3;
    return bytes < options->most_row_bytes ? bytes : options->most_row_bytes;
}

/* The limits of a lane for num_files usual files, and its memory in bytes. */
static sluice_status size_lane(const struct sluice_gpu_place_options *options, uint32_t num_files,
                               struct sluice_gpu_limits *limits, uint64_t *bytes,
                               struct sluice_err *err)
{
    *limits = (struct sluice_gpu_limits){
        .max_samples = options->max_rows,
        .num_views = options->num_views,
        .max_file_bytes = (uint64_t)num_files * SLUICE_GPU_USUAL_FILE_BYTES,
        .max_pixels = (uint64_t)num_files * SLUICE_GPU_USUAL_PIXELS,
        .max_segment_bytes = SLUICE_GPU_MAX_SEGMENT_BYTES,
    };
    memcpy(limits->views, options->views, sizeof(limits->views));
    if (options->has_any_size)
        limits->most_row_bytes = most_decoded_bytes(options);
    struct sluice_gpu_sizes capacity;
    const sluice_status status = sluice_gpu_limits_check(limits, &capacity, err);
    if (status == SLUICE_OK)
        *bytes = round_up(sluice_gpu_parts_of(limits, &capacity).end, ALLOCATION);
    return status;
}

/* Sizes the lanes for the files of a batch, or fewer if memory is short: then batches take several
 * rounds. */
static sluice_status size_lanes(struct sluice_gpu_place *place,
                                const struct sluice_gpu_place_options *options,
                                struct sluice_err *err)
{
    const uint64_t free_bytes = place->device->free_bytes;
    uint64_t most =
        options->memory_bytes ? options->memory_bytes : free_bytes / SLUICE_GPU_FREE_MEMORY_SHARE;
    most = most < free_bytes ? most : free_bytes;
    const uint64_t blocks = round_up(place->block_bytes * place->num_blocks, ALLOCATION);
    uint64_t lane = 0;
    const sluice_status status =
        size_lane(options, SLUICE_GPU_MIN_USUAL_FILES, &place->limits, &lane, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t least = blocks + place->num_lanes * lane;
    if (least > most)
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "batches on the GPU need %llu MB of its memory; there are %llu MB free, "
                           "of which they may take %llu MB",
                           (unsigned long long)(least / 1000000 + 1),
                           (unsigned long long)(free_bytes / 1000000),
                           (unsigned long long)(most / 1000000));
    uint32_t low = SLUICE_GPU_MIN_USUAL_FILES;
    uint32_t end = (options->max_rows > low ? options->max_rows : low) + 1;
    place->bytes = least;
    while (end - low > 1) {
        const uint32_t middle = low + (end - low) / 2;
        struct sluice_gpu_limits limits;
        const bool is_possible = size_lane(options, middle, &limits, &lane, NULL) == SLUICE_OK;
        if (is_possible && lane <= (most - blocks) / place->num_lanes) {
            low = middle;
            place->limits = limits;
            place->bytes = blocks + place->num_lanes * lane;
        } else {
            end = middle;
        }
    }
    return SLUICE_OK;
}

static sluice_status open_blocks(struct sluice_gpu_place *place, struct sluice_err *err)
{
    struct sluice_gpu_device *device = place->device;
    place->blocks = calloc(place->num_blocks, sizeof(*place->blocks));
    if (!place->blocks)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u blocks", place->num_blocks);
    void *memory;
    sluice_status status =
        device->ops->alloc(device, false, place->block_bytes * place->num_blocks, &memory, err);
    if (status != SLUICE_OK)
        return status;
    place->memory = memory;
    for (unsigned i = 0; i < place->num_blocks && status == SLUICE_OK; i++) {
        struct sluice_gpu_block *block = &place->blocks[i];
        block->place = place;
        block->rows = place->memory + i * place->block_bytes;
        status = device->ops->mark_open(device, &block->mark, err);
        if (status == SLUICE_OK)
            sluice_gpu_block_give(block);
    }
    return status;
}

static sluice_status open_lanes(struct sluice_gpu_place *place, struct sluice_err *err)
{
    struct sluice_gpu_device *device = place->device;
    sluice_status status = sluice_gpu_limits_check(&place->limits, &place->capacity, err);
    place->lanes = calloc(place->num_lanes, sizeof(*place->lanes));
    if (!place->lanes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for lanes");
    if (status == SLUICE_OK)
        status = place_open_stagings(place, err);
    for (unsigned i = 0; i < place->num_lanes && status == SLUICE_OK; i++) {
        struct sluice_gpu_lane *lane = &place->lanes[i];
        lane->place = place;
        lane->rows = calloc(place->max_rows, sizeof(*lane->rows));
        lane->statuses = calloc(place->max_rows, sizeof(*lane->statuses));
        lane->items = calloc(place->max_rows, sizeof(*lane->items));
        lane->hashes = calloc(place->max_rows, sizeof(*lane->hashes));
        if (!lane->rows || !lane->statuses || !lane->items || !lane->hashes)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a lane");
        status = device->ops->engine_open(device, &place->limits, &place->capacity,
                                          lane->staging->memory, &lane->engine, err);
    }
    return status;
}

/* --- the place --- */

static sluice_status open_device(const struct sluice_gpu_place_options *options,
                                 struct sluice_gpu_device **device, struct sluice_err *err)
{
    if (options->is_host)
        return sluice_gpu_device_host(device, err);
#ifdef SLUICE_HAVE_CUDA
    return sluice_gpu_device_cuda(options->device, device, err);
#else
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "this build has no CUDA (SLUICE_CUDA)");
#endif
}

static sluice_status open_all(struct sluice_gpu_place *place,
                              const struct sluice_gpu_place_options *options,
                              struct sluice_err *err)
{
    sluice_status status = open_device(options, &place->device, err);
    if (status == SLUICE_OK)
        status = size_lanes(place, options, err);
    if (status != SLUICE_OK)
        return status;
    place->device->gate = options->gate;
    const struct sluice_gpu_scope scope = place_enter(place);
    status = open_blocks(place, err);
    if (status == SLUICE_OK)
        status = open_lanes(place, err);
    place_leave(place, scope);
    return status;
}

static sluice_status check_options(const struct sluice_gpu_place_options *options,
                                   uint64_t *row_bytes, struct sluice_err *err)
{
    if (!options->max_rows || !options->num_views || options->num_views > SLUICE_GPU_MAX_VIEWS ||
        !options->num_blocks || !options->num_lanes || options->num_blocks > 1u << 10 ||
        options->num_lanes > 1u << 10 || options->num_stagings > 1u << 10)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "sizes of a GPU's batches that are 0 or too large");
    /* So that products stay within 64 bits; what a lane can count is less. */
    *row_bytes = 0;
    for (uint32_t v = 0; v < options->num_views; v++) {
        const struct sluice_gpu_view_size *size = &options->views[v];
        if (options->max_rows > 1u << 20 || !size->height || !size->width ||
            size->height > SLUICE_IMAGE_MAX_SIDE || size->width > SLUICE_IMAGE_MAX_SIDE)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "a GPU's batch of %u x %u x %u pixels is empty or too large",
                               options->max_rows, size->height, size->width);
        *row_bytes += (uint64_t)size->height * size->width * 3;
    }
    if (options->has_any_size) {
        if (options->num_views > 1)
            return sluice_fail(err, SLUICE_E_INVALID, "rows of any size have one view");
        *row_bytes = most_decoded_bytes(options);
    }
    if (*row_bytes < MIN_ROW_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "rows of %llu bytes are too small for a GPU",
                           (unsigned long long)*row_bytes);
    return SLUICE_OK;
}

sluice_status sluice_gpu_place_create(const struct sluice_gpu_place_options *options,
                                      struct sluice_gpu_place **out, struct sluice_err *err)
{
    uint64_t row_bytes = 0;
    sluice_status status = check_options(options, &row_bytes, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_gpu_place *place = calloc(1, sizeof(*place));
    if (!place)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a GPU's place");
    pthread_mutex_init(&place->lock, NULL);
    place->max_rows = options->max_rows;
    place->most_row_bytes =
        options->most_row_bytes > row_bytes ? options->most_row_bytes : (size_t)row_bytes;
    place->block_bytes =
        round_up(place->max_rows * (uint64_t)place->most_row_bytes, ROWS_ALIGNMENT);
    place->num_blocks = options->num_blocks;
    place->num_lanes = options->num_lanes;
    place->num_stagings = options->num_stagings;
    status = open_all(place, options, err);
    if (status != SLUICE_OK) {
        sluice_gpu_place_destroy(place);
        return status;
    }
    *out = place;
    return SLUICE_OK;
}

static void close_all(struct sluice_gpu_place *place)
{
    struct sluice_gpu_device *device = place->device;
    const struct sluice_gpu_scope scope = place_enter(place);
    for (unsigned i = 0; place->lanes && i < place->num_lanes; i++) {
        struct sluice_gpu_lane *lane = &place->lanes[i];
        device->ops->engine_close(lane->engine);
        free(lane->rows);
        free(lane->statuses);
        free(lane->items);
        free(lane->hashes);
    }
    for (unsigned i = 0; place->blocks && i < place->num_blocks; i++)
        device->ops->mark_close(device, place->blocks[i].mark);
    device->ops->free(device, false, place->memory);
    place_close_stagings(place);
    place_leave(place, scope);
    device->ops->close(device);
}

void sluice_gpu_place_destroy(struct sluice_gpu_place *place)
{
    if (!place)
        return;
    if (place->device)
        close_all(place);
    free(place->lanes);
    free(place->blocks);
    pthread_mutex_destroy(&place->lock);
    free(place);
}

int sluice_gpu_place_device(const struct sluice_gpu_place *place)
{
    return place->device->number;
}

bool sluice_gpu_place_has_any_size(const struct sluice_gpu_place *place)
{
    return place->limits.most_row_bytes > 0;
}

uint64_t sluice_gpu_place_bytes(const struct sluice_gpu_place *place)
{
    return place->bytes;
}

unsigned sluice_gpu_place_num_lanes(const struct sluice_gpu_place *place)
{
    return place->num_lanes;
}

struct sluice_gpu_lane *sluice_gpu_place_lane(struct sluice_gpu_place *place, unsigned lane)
{
    return &place->lanes[lane];
}

/* --- blocks --- */

struct sluice_gpu_block *sluice_gpu_place_take(struct sluice_gpu_place *place)
{
    pthread_mutex_lock(&place->lock);
    struct sluice_gpu_block *block = place->first_free;
    if (block)
        place->first_free = block->next;
    pthread_mutex_unlock(&place->lock);
    return block;
}

uint8_t *sluice_gpu_block_rows(const struct sluice_gpu_block *block)
{
    return block->rows;
}

void sluice_gpu_block_give(struct sluice_gpu_block *block)
{
    struct sluice_gpu_place *place = block->place;
    pthread_mutex_lock(&place->lock);
    block->next = NULL;
    if (place->first_free)
        place->last_free->next = block;
    else
        place->first_free = block;
    place->last_free = block;
    pthread_mutex_unlock(&place->lock);
}

void sluice_gpu_block_give_after(struct sluice_gpu_block *block, void *stream)
{
    struct sluice_gpu_device *device = block->place->device;
    const struct sluice_gpu_scope scope = place_enter(block->place);
    device->ops->mark_set(device, block->mark, stream);
    place_leave(block->place, scope);
    sluice_gpu_block_give(block);
}

/* --- lanes --- */

static const struct sluice_gpu_device_ops *ops_of(const struct sluice_gpu_lane *lane)
{
    return lane->place->device->ops;
}

static void forget(struct sluice_gpu_lane *lane)
{
    lane->num_samples = lane->first_of_round = 0;
    lane->uploads = (struct sluice_gpu_run){NULL, 0, 0};
    lane->work = (struct sluice_gpu_work){0, 0, 0};
    lane->is_begun = false;
}

void sluice_gpu_lane_drop(struct sluice_gpu_lane *lane)
{
    const struct sluice_gpu_scope scope = place_enter(lane->place);
    ops_of(lane)->drop(lane->engine);
    place_leave(lane->place, scope);
    forget(lane);
}

static void begin(struct sluice_gpu_lane *lane)
{
    if (lane->is_begun)
        sluice_gpu_lane_drop(lane);
    lane->is_behind = false;
}

void sluice_gpu_lane_begin(struct sluice_gpu_lane *lane, struct sluice_gpu_block *block,
                           struct sluice_gpu_staging *staging)
{
    begin(lane);
    lane->block = block;
    lane->views = sluice_gpu_row_views_of(&lane->place->limits);
    uint64_t written = sluice_gpu_index_bytes(&lane->place->limits);
    struct sluice_gpu_staging *const before = lane->staging;
    if (staging) {
        written = atomic_load_explicit(&staging->used, memory_order_relaxed);
        lane->staging = staging;
    }
    sluice_gpu_batch_use(lane->engine->batch, lane->staging->memory, written);
    if (staging)
        sluice_gpu_staging_give(before);
}

void sluice_gpu_lane_set_size(struct sluice_gpu_lane *lane, const struct sluice_gpu_view_size *size,
                              bool is_hashed)
{
    const uint64_t bytes = (uint64_t)size->width * size->height * 3;
    assert(sluice_gpu_place_has_any_size(lane->place) && bytes >= MIN_ROW_BYTES &&
           bytes <= lane->place->most_row_bytes);
    lane->views.ends[0] = (uint32_t)bytes;
    lane->views.height = is_hashed ? size->height : 0;
    lane->views.width = is_hashed ? size->width : 0;
}

void sluice_gpu_lane_begin_again(struct sluice_gpu_lane *lane)
{
    begin(lane);
}

/* Call it before queueing work on the engine. */
static sluice_status follow(struct sluice_gpu_lane *lane, struct sluice_err *err)
{
    if (lane->is_behind)
        return SLUICE_OK;
    lane->is_behind = true;
    return ops_of(lane)->follow(lane->engine, lane->block->mark, err);
}

/* Starts the round's samples, if there are any. */
static sluice_status start_round(struct sluice_gpu_lane *lane, struct sluice_err *err)
{
    if (lane->num_samples == lane->first_of_round)
        return SLUICE_OK;
    const struct sluice_gpu_batch *batch = lane->engine->batch;
    lane->work.upload_bytes += sluice_gpu_index_bytes(&batch->limits) + (batch->end - batch->from);
    const sluice_status status = follow(lane, err);
    return status == SLUICE_OK ? ops_of(lane)->start(lane->engine, lane->block->rows, err) : status;
}

static sluice_status wait_for_round(struct sluice_gpu_lane *lane, struct sluice_err *err)
{
    if (lane->num_samples == lane->first_of_round)
        return SLUICE_OK;
    const sluice_status status =
        ops_of(lane)->wait(lane->engine, lane->statuses + lane->first_of_round, err);
    lane->first_of_round = lane->num_samples;
    return status;
}

static sluice_status add_to_batch(struct sluice_gpu_lane *lane,
                                  const struct sluice_gpu_prepared *sample, uint32_t row,
                                  struct sluice_err *err)
{
    struct sluice_gpu_batch *batch = lane->engine->batch;
    return sample->data
               ? sluice_gpu_batch_append(batch, sample->data->data, sample->bytes, row, err)
               : sluice_gpu_batch_place(batch, sample->at, sample->bytes, row, err);
}

/* A full batch is decoded first. */
static sluice_status add(struct sluice_gpu_lane *lane, const struct sluice_gpu_prepared *sample,
                         uint32_t row, struct sluice_err *err)
{
    struct sluice_err first = {{0}};
    sluice_status status = add_to_batch(lane, sample, row, &first);
    if (status == SLUICE_OK)
        return status;
    if (status != SLUICE_E_AGAIN)
        return sluice_fail(err, status, "%s", first.text);
    const struct sluice_gpu_scope scope = place_enter(lane->place);
    status = start_round(lane, err);
    if (status == SLUICE_OK)
        status = wait_for_round(lane, err);
    place_leave(lane->place, scope);
    return status == SLUICE_OK ? add_to_batch(lane, sample, row, err) : status;
}

sluice_status sluice_gpu_lane_decode(struct sluice_gpu_lane *lane,
                                     const struct sluice_gpu_prepared *sample, uint32_t row,
                                     struct sluice_err *err)
{
    if (lane->num_samples == lane->place->max_rows)
        return sluice_fail(err, SLUICE_E_INVALID, "more files than a batch has rows: %u",
                           lane->num_samples);
    lane->is_begun = true;
    const sluice_status status = add(lane, sample, row, err);
    if (status == SLUICE_OK)
        lane->rows[lane->num_samples++] = row;
    return status;
}

static sluice_status flush_uploads(struct sluice_gpu_lane *lane, struct sluice_err *err)
{
    const struct sluice_gpu_run run = lane->uploads;
    if (!run.pixels)
        return SLUICE_OK;
    lane->uploads.pixels = NULL;
    lane->work.upload_bytes += run.bytes;
    const sluice_status status = follow(lane, err);
    return status == SLUICE_OK ? ops_of(lane)->upload(lane->engine, lane->block->rows + run.at,
                                                      run.pixels, run.bytes, err)
                               : status;
}

sluice_status sluice_gpu_lane_upload(struct sluice_gpu_lane *lane, uint64_t at,
                                     const uint8_t *pixels, size_t bytes, struct sluice_err *err)
{
    const struct sluice_gpu_place *place = lane->place;
    struct sluice_gpu_run *run = &lane->uploads;
    const uint64_t room = place->max_rows * (uint64_t)place->most_row_bytes;
    if (at > room || bytes > room - at)
        return sluice_fail(err, SLUICE_E_INVALID, "%zu bytes at %llu of a batch of %llu", bytes,
                           (unsigned long long)at, (unsigned long long)room);
    lane->is_begun = true;
    if (run->pixels && at == run->at + run->bytes && pixels == run->pixels + run->bytes) {
        run->bytes += bytes;
        return SLUICE_OK;
    }
    const struct sluice_gpu_scope scope = place_enter(place);
    const sluice_status status = flush_uploads(lane, err);
    place_leave(place, scope);
    if (status == SLUICE_OK)
        *run = (struct sluice_gpu_run){pixels, at, bytes};
    return status;
}

static sluice_status start_hashes(struct sluice_gpu_lane *lane, const uint32_t *labels,
                                  struct sluice_err *err)
{
    if (lane->num_samples == 0)
        return SLUICE_OK;
    for (uint32_t i = 0; i < lane->num_samples; i++)
        lane->items[i] = (struct sluice_gpu_hash_item){lane->rows[i], labels[lane->rows[i]]};
    return ops_of(lane)->hash(lane->engine, lane->block->rows, &lane->views, lane->items,
                              lane->num_samples, err);
}

static sluice_status finish(struct sluice_gpu_lane *lane, const uint32_t *labels, bool is_hashed,
                            struct sluice_err *err)
{
    const struct sluice_gpu_scope scope = place_enter(lane->place);
    sluice_status status = flush_uploads(lane, err);
    if (status == SLUICE_OK)
        status = start_round(lane, err);
    /* Behind the decoder; the hash of a row with a fault is of no use. */
    if (status == SLUICE_OK && is_hashed)
        status = start_hashes(lane, labels, err);
    if (status == SLUICE_OK)
        status = wait_for_round(lane, err);
    if (status == SLUICE_OK)
        status = ops_of(lane)->sync(lane->engine, lane->hashes, &lane->work.device_s, err);
    place_leave(lane->place, scope);
    return status;
}

sluice_status sluice_gpu_lane_finish(struct sluice_gpu_lane *lane, const uint32_t *labels,
                                     sluice_status *statuses, struct sluice_hash128 *hashes,
                                     struct sluice_gpu_work *work, struct sluice_err *err)
{
    const sluice_status status = finish(lane, labels, hashes != NULL, err);
    if (status != SLUICE_OK) {
        sluice_gpu_lane_drop(lane);
        return status;
    }
    for (uint32_t i = 0; i < lane->num_samples; i++) {
        const uint32_t row = lane->rows[i];
        const bool is_good = lane->statuses[i] == SLUICE_OK;
        statuses[row] = lane->statuses[i];
        if (is_good && hashes)
            hashes[row] = (struct sluice_hash128){lane->hashes[i].high, lane->hashes[i].low};
        lane->work.decoded += is_good;
    }
    *work = lane->work;
    forget(lane);
    return SLUICE_OK;
}
