#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "gpu/place_state.h"
#include "gpu/tuning.h"

#include <math.h>
#include <stdlib.h>

/* A place's memory on the host: page-locked memory, the staging buffers to which workers write
 * samples, and the rate of uploads. */

/* The memory whose upload is timed. */
#define NUM_UPLOADS 16
#define MAX_UPLOAD_BYTES ((uint64_t)16 << 20)

/* The parts of a staging buffer.  Workers write samples to all but the last part, which is for
 * samples that were written elsewhere and are copied by the lane; no sample is larger. */
#define STAGING_PARTS 4

/* --- page-locked memory --- */

sluice_status place_alloc_locked(struct sluice_gpu_place *place, size_t bytes, void **memory,
                                 struct sluice_err *err)
{
    struct sluice_err cause = {{0}};
    const sluice_status status =
        place->device->ops->alloc(place->device, true, bytes, memory, &cause);
    pthread_mutex_lock(&place->lock);
    const uint64_t before = place->locked_bytes;
    place->locked_bytes += status == SLUICE_OK ? bytes : 0;
    pthread_mutex_unlock(&place->lock);
    if (status == SLUICE_OK)
        return status;
    return sluice_fail(err, status, "no %.1f MB of page-locked memory beside %.1f MB: %s",
                       (double)bytes * 1e-6, (double)before * 1e-6, cause.text);
}

void place_free_locked(struct sluice_gpu_place *place, void *memory, size_t bytes)
{
    place->device->ops->free(place->device, true, memory);
    pthread_mutex_lock(&place->lock);
    place->locked_bytes -= bytes;
    pthread_mutex_unlock(&place->lock);
}

uint64_t sluice_gpu_place_locked_bytes(struct sluice_gpu_place *place)
{
    pthread_mutex_lock(&place->lock);
    const uint64_t bytes = place->locked_bytes;
    pthread_mutex_unlock(&place->lock);
    return bytes;
}

sluice_status sluice_gpu_host_alloc(struct sluice_gpu_place *place, size_t bytes, void **memory,
                                    struct sluice_err *err)
{
    const struct sluice_gpu_scope scope = place_enter(place);
    const sluice_status status = place_alloc_locked(place, bytes, memory, err);
    place_leave(place, scope);
    return status;
}

void sluice_gpu_host_free(struct sluice_gpu_place *place, void *memory, size_t bytes)
{
    const struct sluice_gpu_scope scope = place_enter(place);
    place_free_locked(place, memory, bytes);
    place_leave(place, scope);
}

/* Times `num` uploads of the same bytes. */
static sluice_status upload_times(struct sluice_gpu_place *place, const void *from, size_t bytes,
                                  unsigned num, double *seconds, struct sluice_err *err)
{
    const struct sluice_gpu_device_ops *ops = place->device->ops;
    struct sluice_gpu_lane *lane = &place->lanes[0];
    double device_s = 0;
    const uint64_t start_ns = sluice_clock_ns();
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; status == SLUICE_OK && i < num; i++)
        status = ops->upload(lane->engine, place->memory, from, bytes, err);
    if (status == SLUICE_OK)
        status = ops->sync(lane->engine, lane->hashes, &device_s, err);
    else
        ops->drop(lane->engine); /* `from` is borrowed until then */
    *seconds = (double)(sluice_clock_ns() - start_ns) * 1e-9;
    return status;
}

sluice_status sluice_gpu_place_measure_upload(struct sluice_gpu_place *place, double *bytes_per_s,
                                              struct sluice_err *err)
{
    if (place->device->number < 0) {
        *bytes_per_s = INFINITY;
        return SLUICE_OK;
    }
    const uint64_t all = place->block_bytes * place->num_blocks;
    const size_t bytes = (size_t)(all < MAX_UPLOAD_BYTES ? all : MAX_UPLOAD_BYTES);
    void *from = NULL;
    double seconds = 0;
    const struct sluice_gpu_scope scope = place_enter(place);
    sluice_status status = place_alloc_locked(place, bytes, &from, err);
    if (status == SLUICE_OK) /* the first one touches what is cold */
        status = upload_times(place, from, bytes, 1, &seconds, err);
    if (status == SLUICE_OK)
        status = upload_times(place, from, bytes, NUM_UPLOADS, &seconds, err);
    if (from)
        place_free_locked(place, from, bytes);
    place_leave(place, scope);
    if (status == SLUICE_OK) /* 0: too fast for the clock */
        *bytes_per_s = seconds > 0 ? NUM_UPLOADS * (double)bytes / seconds : INFINITY;
    return status;
}

/* --- staging buffers --- */

sluice_status place_open_stagings(struct sluice_gpu_place *place, struct sluice_err *err)
{
    const unsigned num = place->num_lanes + place->num_stagings;
    place->stagings = calloc(num, sizeof(*place->stagings));
    if (!place->stagings)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u staging buffers", num);
    for (unsigned i = 0; i < num; i++) {
        struct sluice_gpu_staging *staging = &place->stagings[i];
        void *memory;
        struct sluice_err cause = {{0}};
        const sluice_status status =
            place_alloc_locked(place, place->capacity.upload_bytes, &memory, &cause);
        if (status == SLUICE_E_NO_MEMORY && i >= place->num_lanes) {
            sluice_log(SLUICE_LOG_WARN, "%u of %u batches gather for the GPU: %s",
                       i - place->num_lanes, place->num_stagings, cause.text);
            place->num_stagings = i - place->num_lanes;
            return SLUICE_OK;
        }
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "%s", cause.text);
        staging->place = place;
        staging->memory = memory;
        if (i < place->num_lanes)
            place->lanes[i].staging = staging;
        else
            sluice_gpu_staging_give(staging);
    }
    return SLUICE_OK;
}

void place_close_stagings(struct sluice_gpu_place *place)
{
    for (unsigned i = 0; place->stagings && i < place->num_lanes + place->num_stagings; i++) {
        if (place->stagings[i].memory)
            place_free_locked(place, place->stagings[i].memory, place->capacity.upload_bytes);
    }
    free(place->stagings);
    place->stagings = NULL;
}

struct sluice_gpu_staging *sluice_gpu_place_take_staging(struct sluice_gpu_place *place)
{
    pthread_mutex_lock(&place->lock);
    struct sluice_gpu_staging *staging = place->free_stagings;
    if (staging)
        place->free_stagings = staging->next;
    pthread_mutex_unlock(&place->lock);
    return staging;
}

void sluice_gpu_staging_give(struct sluice_gpu_staging *staging)
{
    struct sluice_gpu_place *place = staging->place;
    /* Whoever takes it next sees this by the lock. */
    atomic_store_explicit(&staging->used, sluice_gpu_index_bytes(&place->limits),
                          memory_order_relaxed);
    pthread_mutex_lock(&place->lock);
    staging->next = place->free_stagings;
    place->free_stagings = staging;
    pthread_mutex_unlock(&place->lock);
}

static uint64_t part_bytes(const struct sluice_gpu_place *place)
{
    const uint64_t bytes =
        (place->capacity.upload_bytes - sluice_gpu_index_bytes(&place->limits)) / STAGING_PARTS;
    return bytes / SLUICE_GPU_SAMPLE_ALIGNMENT * SLUICE_GPU_SAMPLE_ALIGNMENT;
}

/* Reserves bytes of the staging buffer; false: full.  Acquire: another thread may have written them
 * and given the buffer back.  A reserved part belongs to one thread, which passes it on with its
 * position. */
static bool reserve(struct sluice_gpu_staging *staging, uint64_t bytes, uint64_t *at)
{
    const uint64_t end = sluice_gpu_index_bytes(&staging->place->limits) +
                         (STAGING_PARTS - 1) * part_bytes(staging->place);
    *at = atomic_load_explicit(&staging->used, memory_order_relaxed);
    do {
        if (bytes > end - *at)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&staging->used, at, *at + bytes,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

/* Gives back the bytes reserved from `kept` to `end`, unless more have been reserved since. */
static void unreserve(struct sluice_gpu_staging *staging, uint64_t kept, uint64_t end)
{
    (void)atomic_compare_exchange_strong_explicit(&staging->used, &end, kept, memory_order_release,
                                                  memory_order_relaxed);
}

static sluice_status check_sizes(const struct sluice_gpu_place *place,
                                 const struct sluice_gpu_sizes *sizes, struct sluice_err *err)
{
    if (sizes->upload_bytes <= part_bytes(place) && sizes->blocks <= place->capacity.blocks &&
        sizes->weights <= place->capacity.weights && sizes->pixels <= place->capacity.pixels)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG too large for a batch");
}

static sluice_status write_apart(const struct sluice_gpu_plan *plan,
                                 struct sluice_jpeg_stretch *stretch, struct sluice_buf_pool *pool,
                                 struct sluice_gpu_prepared *prepared, struct sluice_err *err)
{
    struct sluice_buf *data;
    sluice_status status = sluice_buf_create(pool, plan->sizes.upload_bytes, &data, err);
    if (status != SLUICE_OK)
        return status;
    uint64_t bytes;
    status = sluice_gpu_plan_write(plan, stretch, data->data, &bytes, err);
    if (status == SLUICE_OK)
        *prepared = (struct sluice_gpu_prepared){.data = data, .bytes = (uint32_t)bytes};
    else
        sluice_buf_unref(data);
    return status;
}

static sluice_status write_to_staging(struct sluice_gpu_staging *staging, uint64_t at,
                                      const struct sluice_gpu_plan *plan,
                                      struct sluice_jpeg_stretch *stretch,
                                      struct sluice_gpu_prepared *prepared, struct sluice_err *err)
{
    uint64_t bytes = 0;
    const sluice_status status =
        sluice_gpu_plan_write(plan, stretch, staging->memory + at, &bytes, err);
    unreserve(staging, at + bytes, at + plan->sizes.upload_bytes);
    if (status == SLUICE_OK)
        *prepared = (struct sluice_gpu_prepared){.at = (uint32_t)at, .bytes = (uint32_t)bytes};
    return status;
}

sluice_status sluice_gpu_prepare(struct sluice_gpu_place *place, struct sluice_gpu_staging *staging,
                                 const struct sluice_gpu_file *file,
                                 const struct sluice_gpu_request *requests,
                                 struct sluice_jpeg_stretch *stretch, struct sluice_buf_pool *pool,
                                 struct sluice_gpu_prepared *prepared, struct sluice_err *err)
{
    struct sluice_gpu_plan plan;
    uint64_t at;
    sluice_status status = sluice_gpu_plan_make(&plan, &place->limits, file->bytes, file->len,
                                                file->index, requests, err);
    if (status == SLUICE_OK)
        status = check_sizes(place, &plan.sizes, err);
    if (status != SLUICE_OK)
        return status;
    if (staging && reserve(staging, plan.sizes.upload_bytes, &at))
        return write_to_staging(staging, at, &plan, stretch, prepared, err);
    return write_apart(&plan, stretch, pool, prepared, err);
}

void sluice_gpu_prepared_clear(struct sluice_gpu_prepared *prepared)
{
    sluice_buf_unref(prepared->data);
    *prepared = (struct sluice_gpu_prepared){NULL, 0, 0};
}
