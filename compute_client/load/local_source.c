#include "compute_client/load/local_source.h"

#include "base/clock.h"
#include "base/disk_clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/worker_pool.h"
#include "datasets/freshness.h"
#include "datasets/indexed_file.h"
#include "datasets/jpeg_index_file.h"

#include <errno.h>
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
    struct sluice_freshness *freshness;     /* or NULL */
    struct stat root_st;                    /* the folder that the root was */

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

static bool is_root_here(const struct local *local)
{
    struct stat st;
    return stat(local->root, &st) == 0 && st.st_dev == local->root_st.st_dev &&
           st.st_ino == local->root_st.st_ino;
}

static sluice_status check_file(struct local *local, size_t sample, const struct stat *st,
                                const struct sluice_buf *file, struct sluice_err *err)
{
    const int64_t mtime_ns = sluice_file_mtime_ns(st);
    bool needs_content;
    const sluice_status status =
        sluice_freshness_look(local->freshness, sample, file->len, mtime_ns, &needs_content, err);
    if (status != SLUICE_OK || !needs_content)
        return status;
    return sluice_freshness_read(local->freshness, sample, mtime_ns, file->data, file->len, err);
}

static sluice_status read_file(struct local *local, const struct sluice_source_item *item,
                               struct sluice_sample *sample, struct sluice_err *err)
{
    struct stat st;
    struct sluice_buf *file;
    struct sluice_err why = {0};
    char *full = NULL;
    if (asprintf(&full, "%s/%s", local->root, item->path) < 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a path");
    sluice_status status =
        sluice_file_read_stat(full, local->max_file_bytes, local->pool, &file, &st, &why);
    if (status == SLUICE_E_NOT_FOUND && !is_root_here(local))
        status =
            sluice_fail(err, SLUICE_E_IO, "%s: the folder is gone, or another one", local->root);
    else if (status != SLUICE_OK)
        sluice_fail(err, status, "%s", why.text);
    if (status == SLUICE_OK && local->freshness) {
        status = check_file(local, item->key.sample_id, &st, file, &why);
        if (status != SLUICE_OK) {
            sluice_fail(err, status, "%s: %s", full, why.text);
            sluice_buf_unref(file);
        }
    }
    free(full);
    if (status != SLUICE_OK)
        return status;
    sample->data = file;
    if (local->indexes) {
        const enum sluice_index_use use =
            sluice_indexed_file_find(local->indexes, item->path, (uint64_t)st.st_size,
                                     sluice_file_mtime_ns(&st), local->pool, &sample->jpeg_index);
        atomic_fetch_add_explicit(&local->uses[use], 1, memory_order_relaxed);
    }
    return SLUICE_OK;
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
    result.status = read_file(local, &read->item, &result.sample, &err);
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
    sluice_freshness_destroy(local->freshness);
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
    if (stat(local->root, &local->root_st) != 0)
        status = sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                             local->root, strerror(errno));
    if (status == SLUICE_OK && options->manifest)
        status = sluice_freshness_create(options->manifest, options->should_verify,
                                         &local->freshness, err);
    if (status == SLUICE_OK && options->jpeg_index)
        status =
            sluice_jpeg_index_file_choose(options->jpeg_index, options->root, &local->indexes, err);
    if (status == SLUICE_OK)
        status = sluice_worker_pool_create(&readers, &local->readers, err);
    if (status != SLUICE_OK) {
        sluice_jpeg_index_file_close(local->indexes);
        sluice_freshness_destroy(local->freshness);
        free(local->root);
        free(local);
        return status;
    }
    *source = &local->source;
    return SLUICE_OK;
}
