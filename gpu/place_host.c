#include "gpu/place_device.h"

#include "base/clock.h"
#include "gpu/decode_host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct host_engine {
    struct sluice_gpu_engine base;
    struct sluice_gpu_batch batch;
    sluice_status *statuses;
    struct sluice_gpu_hash *hashes;
    uint32_t num_hashes;
    uint64_t cpu_ns;
};

static struct sluice_gpu_scope host_enter(const struct sluice_gpu_device *device)
{
    (void)device;
    return (struct sluice_gpu_scope){NULL, 0};
}

static void host_leave(const struct sluice_gpu_device *device, struct sluice_gpu_scope scope)
{
    (void)device;
    (void)scope;
}

static void host_close(struct sluice_gpu_device *device)
{
    free(device);
}

static sluice_status host_alloc(struct sluice_gpu_device *device, bool is_host, size_t bytes,
                                void **memory, struct sluice_err *err)
{
    (void)device;
    (void)is_host;
    void *made = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes", bytes);
    *memory = made;
    return SLUICE_OK;
}

static void host_free(struct sluice_gpu_device *device, bool is_host, void *memory)
{
    (void)device;
    (void)is_host;
    free(memory);
}

/* The host has no streams, so a block is free as soon as it is given back. */

static sluice_status host_mark_open(struct sluice_gpu_device *device, void **mark,
                                    struct sluice_err *err)
{
    (void)device;
    (void)mark;
    (void)err;
    return SLUICE_OK;
}

static void host_mark_close(struct sluice_gpu_device *device, void *mark)
{
    (void)device;
    (void)mark;
}

static void host_mark_set(struct sluice_gpu_device *device, void *mark, void *stream)
{
    (void)device;
    (void)mark;
    (void)stream;
}

static sluice_status host_follow(struct sluice_gpu_engine *engine, void *mark,
                                 struct sluice_err *err)
{
    (void)engine;
    (void)mark;
    (void)err;
    return SLUICE_OK;
}

static void host_engine_close(struct sluice_gpu_engine *base)
{
    if (!base)
        return;
    struct host_engine *engine = (struct host_engine *)base;
    sluice_gpu_batch_destroy(&engine->batch);
    free(engine->statuses);
    free(engine->hashes);
    free(engine);
}

static sluice_status host_engine_open(struct sluice_gpu_device *device,
                                      const struct sluice_gpu_limits *limits,
                                      const struct sluice_gpu_sizes *capacity, void *upload,
                                      struct sluice_gpu_engine **out, struct sluice_err *err)
{
    struct host_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a lane");
    engine->statuses = calloc(limits->max_samples, sizeof(*engine->statuses));
    engine->hashes = calloc(limits->max_samples, sizeof(*engine->hashes));
    if (!engine->statuses || !engine->hashes) {
        host_engine_close(&engine->base);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a lane");
    }
    sluice_gpu_batch_init(&engine->batch, limits, capacity, upload);
    engine->base = (struct sluice_gpu_engine){device, &engine->batch};
    *out = &engine->base;
    return SLUICE_OK;
}

static sluice_status host_upload(struct sluice_gpu_engine *engine, uint8_t *to, const uint8_t *from,
                                 size_t bytes, struct sluice_err *err)
{
    (void)engine;
    (void)err;
    memcpy(to, from, bytes);
    return SLUICE_OK;
}

static sluice_status host_start(struct sluice_gpu_engine *base, uint8_t *rows,
                                struct sluice_err *err)
{
    struct host_engine *engine = (struct host_engine *)base;
    sluice_status status = sluice_gpu_stop_at(&base->device->gate, NULL, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t start_ns = sluice_thread_cpu_ns();
    status = sluice_gpu_decode_host(&engine->batch, rows, engine->statuses, err);
    engine->cpu_ns += sluice_thread_cpu_ns() - start_ns;
    return status;
}

static sluice_status host_wait(struct sluice_gpu_engine *base, sluice_status *statuses,
                               struct sluice_err *err)
{
    struct host_engine *engine = (struct host_engine *)base;
    (void)err;
    memcpy(statuses, engine->statuses, engine->batch.num_samples * sizeof(*statuses));
    sluice_gpu_batch_clear(&engine->batch);
    return SLUICE_OK;
}

static sluice_status host_hash(struct sluice_gpu_engine *base, const uint8_t *rows,
                               const struct sluice_gpu_row_views *views,
                               const struct sluice_gpu_hash_item *items, uint32_t num_items,
                               struct sluice_err *err)
{
    struct host_engine *engine = (struct host_engine *)base;
    const sluice_status status = sluice_gpu_stop_at(&base->device->gate, NULL, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t start_ns = sluice_thread_cpu_ns();
    sluice_gpu_hash_host(rows, views, items, num_items, engine->hashes);
    engine->num_hashes = num_items;
    engine->cpu_ns += sluice_thread_cpu_ns() - start_ns;
    return SLUICE_OK;
}

static sluice_status host_sync(struct sluice_gpu_engine *base, struct sluice_gpu_hash *hashes,
                               double *device_s, struct sluice_err *err)
{
    struct host_engine *engine = (struct host_engine *)base;
    (void)err;
    memcpy(hashes, engine->hashes, engine->num_hashes * sizeof(*hashes));
    *device_s = (double)engine->cpu_ns * 1e-9;
    engine->num_hashes = 0;
    engine->cpu_ns = 0;
    return SLUICE_OK;
}

static void host_drop(struct sluice_gpu_engine *base)
{
    struct host_engine *engine = (struct host_engine *)base;
    sluice_gpu_batch_clear(&engine->batch);
    engine->num_hashes = 0;
    engine->cpu_ns = 0;
}

sluice_status sluice_gpu_device_host(struct sluice_gpu_device **device, struct sluice_err *err)
{
    static const struct sluice_gpu_device_ops ops = {
        .enter = host_enter,
        .leave = host_leave,
        .close = host_close,
        .alloc = host_alloc,
        .free = host_free,
        .mark_open = host_mark_open,
        .mark_close = host_mark_close,
        .mark_set = host_mark_set,
        .engine_open = host_engine_open,
        .engine_close = host_engine_close,
        .follow = host_follow,
        .upload = host_upload,
        .start = host_start,
        .wait = host_wait,
        .hash = host_hash,
        .sync = host_sync,
        .drop = host_drop,
    };
    struct sluice_gpu_device *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a device");
    made->ops = &ops;
    made->number = -1;
    made->free_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    *device = made;
    return SLUICE_OK;
}
