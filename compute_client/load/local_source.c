#include "compute_client/load/local_source.h"

#include "base/clock.h"
#include "base/disk_clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/worker_pool.h"
#include "datasets/indexed_file.h"
#include "datasets/jpeg_index_file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MAX_FILE_BYTES ((size_t)512 << 20)

struct local {
    struct sluice_source source;
    struct sluice_worker_pool *readers; /* NULL once closed; only close changes it */

    /* Constant. */
    char *root;
    struct sluice_buf_pool *pool;
    size_t max_file_bytes;
    struct sluice_source_events events;
    struct sluice_jpeg_index_file *indexes; /* or NULL */

    struct sluice_disk_clock disk;

    _Atomic uint64_t uses[SLUICE_INDEX_MISSING + 1]; /* sums only */
};

struct read_job {
    struct sluice_job job;
    struct local *local;
    struct sluice_source_item item;
    uint64_t requested_ns;
};

static struct local *local_of(struct sluice_source *source)
{
    return SLUICE_CONTAINER_OF(source, struct local, source);
}

static sluice_status read_file(struct local *local, const char *path, struct sluice_sample *sample,
                               struct sluice_err *err)
{
    struct stat st;
    char *full = NULL;
    if (asprintf(&full, "%s/%s", local->root, path) < 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a path");
    /* stat() comes before the read, so that the index of a newer file is never used for the bytes
     * of an older one. */
    const bool is_known = local->indexes && stat(full, &st) == 0;
    const sluice_status status =
        sluice_file_read(full, local->max_file_bytes, local->pool, &sample->data, err);
    free(full);
    if (status == SLUICE_OK && is_known) {
        const enum sluice_index_use use =
            sluice_indexed_file_find(local->indexes, path, (uint64_t)st.st_size,
                                     (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                                     local->pool, &sample->jpeg_index);
        atomic_fetch_add_explicit(&local->uses[use], 1, memory_order_relaxed);
    }
    return status;
}

static void read_job_run(struct sluice_job *job, enum sluice_job_fate fate, void *worker)
{
    (void)worker;
    struct read_job *read = SLUICE_CONTAINER_OF(job, struct read_job, job);
    struct local *local = read->local;
    if (fate == SLUICE_JOB_CANCEL) {
        free(read);
        return;
    }
    struct sluice_source_result result = {
        .ticket = read->item.ticket,
        .form = SLUICE_FORM_RAW,
        .sample = {.key = read->item.key, .kind = SLUICE_KIND_FILE},
    };
    struct sluice_err err = {0};
    result.backlog_ns = sluice_clock_ns() - read->requested_ns;
    struct sluice_disk_read reading;
    sluice_disk_clock_start(&local->disk, &reading);
    result.status = read_file(local, read->item.path, &result.sample, &err);
    const struct sluice_disk_time time = sluice_disk_clock_stop(&local->disk, &reading);
    result.disk_ns = time.wait_ns;
    result.disk_busy_ns = time.busy_ns;
    if (result.status == SLUICE_OK)
        result.payload_bytes = result.sample.data->len;
    snprintf(result.error, sizeof(result.error), "%.*s", (int)sizeof(result.error) - 1, err.text);
    free(read);
    local->events.on_result(local->events.ctx, &result);
}

static sluice_status local_request(struct sluice_source *source,
                                   const struct sluice_source_item *items, size_t num_items)
{
    struct local *local = local_of(source);
    const uint64_t now = sluice_clock_ns();
    for (size_t i = 0; i < num_items; i++) {
        struct read_job *read = malloc(sizeof(*read));
        if (!read) {
            struct sluice_source_result result = {
                .ticket = items[i].ticket,
                .status = SLUICE_E_NO_MEMORY,
                .error = "no memory for a read",
            };
            local->events.on_result(local->events.ctx, &result);
            continue;
        }
        *read = (struct read_job){
            .job = {.fn = read_job_run},
            .local = local,
            .item = items[i],
            .requested_ns = now,
        };
        const sluice_status status = local->readers
                                         ? sluice_worker_pool_submit(local->readers, &read->job)
                                         : SLUICE_E_CLOSED;
        if (status != SLUICE_OK) {
            free(read);
            return status;
        }
    }
    return SLUICE_OK;
}

static void local_consumed(struct sluice_source *source, size_t payload_bytes)
{
    (void)source, (void)payload_bytes;
}

static uint64_t local_wire_bytes(struct sluice_source *source)
{
    (void)source;
    return 0;
}

static void local_close(struct sluice_source *source)
{
    struct local *local = local_of(source);
    sluice_worker_pool_destroy(local->readers, SLUICE_POOL_ABANDON);
    local->readers = NULL;
}

static void local_destroy(struct sluice_source *source)
{
    struct local *local = local_of(source);
    local_close(source);
    const uint64_t hits = atomic_load(&local->uses[SLUICE_INDEX_HIT]);
    const uint64_t stale = atomic_load(&local->uses[SLUICE_INDEX_STALE]);
    const uint64_t missing = atomic_load(&local->uses[SLUICE_INDEX_MISSING]);
    if (hits + stale + missing > 0)
        sluice_log(SLUICE_LOG_INFO, "index of JPEGs: %llu hits, %llu stale, %llu missing",
                   (unsigned long long)hits, (unsigned long long)stale,
                   (unsigned long long)missing);
    sluice_jpeg_index_file_close(local->indexes);
    free(local->root);
    free(local);
}

sluice_status sluice_local_source_create(const struct sluice_local_source_options *options,
                                         struct sluice_source **source, struct sluice_err *err)
{
    struct local *local = calloc(1, sizeof(*local));
    if (!local)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a source");
    local->source = (struct sluice_source){
        .request = local_request,
        .consumed = local_consumed,
        .wire_bytes = local_wire_bytes,
        .close = local_close,
        .destroy = local_destroy,
    };
    local->pool = options->pool;
    local->max_file_bytes =
        options->max_file_bytes ? options->max_file_bytes : DEFAULT_MAX_FILE_BYTES;
    local->events = options->events;
    local->disk = (struct sluice_disk_clock)SLUICE_DISK_CLOCK_INITIALIZER;
    local->root = strdup(options->root);
    if (!local->root) {
        free(local);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a source");
    }
    const struct sluice_worker_pool_options readers = {
        .name = "read",
        .num_workers = options->num_threads,
        .queue_capacity = options->max_items,
    };
    sluice_status status = SLUICE_OK;
    if (options->jpeg_index)
        status =
            sluice_jpeg_index_file_choose(options->jpeg_index, options->root, &local->indexes, err);
    if (status == SLUICE_OK)
        status = sluice_worker_pool_create(&readers, &local->readers, err);
    if (status != SLUICE_OK) {
        sluice_jpeg_index_file_close(local->indexes);
        free(local->root);
        free(local);
        return status;
    }
    *source = &local->source;
    return SLUICE_OK;
}
