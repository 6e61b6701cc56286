#include "compute_client/loader/source/local_source.h"

#include "base/buf.h"
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/file.h"
#include "base/log.h"
#include "base/worker_pool.h"
#include "compute_client/loader/source/again_log.h"
#include "compute_client/loader/source/retry.h"
#include "compute_client/loader/tuning.h"
#include "datasets/jpeg_index/indexed_file.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "datasets/manifest/freshness.h"
#include "datasets/shards/shard.h"
#include "host/disk_clock.h"
#include "op/form.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define DEFAULT_MAX_FILE_BYTES ((size_t)512 << 20)

/* Threads that may be stuck in a read at a time.  A disk that has lost some files can be worked
 * with; one that answers nothing can not. */
#define MAX_STUCK 64

/* Time that close() waits for reads under way before it treats them as stuck. */
#define CLOSE_WAIT_NS 500000000ull

/* Between two tries where memory is short: a stop is noticed within that. */
#define MOST_WAIT_NS 200000000

struct read_job {
    struct read_job *prev, *next; /* in `waiting`, `delayed` or `running` */
    struct sluice_source_item item;
    uint64_t requested_ns;
    uint64_t due_ns;  /* delayed: when to read again; running: when it counts as stuck */
    bool has_failed;  /* at least once */
    bool is_given_up; /* running, and nobody waits for it any more */
    struct sluice_retry retry;
    struct sluice_disk_read reading;
    uint64_t offset, bytes; /* the row's: a stuck read outlives the manifest, too */
    atomic_bool is_timed;   /* the disk clock runs for it; whoever clears this stops the clock */
    char path[];            /* a stuck read outlives the item's */
};

struct job_list {
    struct read_job *first, *last;
};

struct local {
    struct sluice_source source;

    pthread_mutex_t lock;
    pthread_cond_t work;    /* for readers: a job waits, or the source is closed */
    pthread_cond_t changed; /* for the warden: there is more to watch */
    pthread_cond_t ended;   /* for close: a reader has ended */
    struct job_list waiting, delayed, running;
    unsigned num_readers; /* that are not stuck */
    unsigned num_stuck;
    unsigned refs; /* of stuck readers and of those that are not, and the user's */
    size_t num_failing;
    bool is_closed, has_failed;
    struct sluice_again_log again;

    /* Constant. */
    pthread_t warden;
    bool has_warden;
    struct sluice_roots roots; /* the places are copies */
    char where[SLUICE_ROOTS_TEXT];
    struct sluice_buf_pool *pool;
    size_t max_file_bytes;
    double retry_for_s;
    uint64_t timeout_ns; /* 0: none */
    struct sluice_source_events events;
    struct sluice_jpeg_index_file *indexes; /* or NULL */
    struct sluice_freshness *freshness;     /* or NULL; not for stuck readers, as it borrows */
    const struct sluice_manifest *manifest; /* or NULL; likewise */
    struct stat root_st[SLUICE_MAX_ROOTS];  /* the folders that the roots were */

    struct sluice_disk_clock disk;

    _Atomic uint64_t uses[SLUICE_INDEX_MISSING + 1]; /* sums only */
};

static struct local *local_of(struct sluice_source *source)
{
    return SLUICE_CONTAINER_OF(source, struct local, source);
}

static bool is_root_here(const struct local *local, const struct sluice_root *root)
{
    const struct stat *then = &local->root_st[root - local->roots.at];
    struct stat st;
    return stat(root->place, &st) == 0 && st.st_dev == then->st_dev && st.st_ino == then->st_ino;
}

/* *st: the file as it was opened. */
static sluice_status read_file(struct local *local, const struct read_job *job,
                               struct sluice_sample *sample, struct stat *st,
                               struct sluice_err *err)
{
    struct sluice_err why = {0};
    const char *in_root;
    const struct sluice_root *root = sluice_roots_find(&local->roots, job->path, &in_root);
    if (!root)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "%.100s: in no DIR", job->path);
    const sluice_status status =
        sluice_shard_read(root->place, in_root, job->offset, job->bytes, local->max_file_bytes,
                          local->pool, &sample->data, st, &why);
    if (status == SLUICE_E_NOT_FOUND && !is_root_here(local, root))
        return sluice_fail(err, SLUICE_E_IO, "%s: the folder is gone, or another one", root->place);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s", why.text);
    if (local->indexes) {
        const enum sluice_index_use use =
            sluice_indexed_file_find(local->indexes, job->path, sample->data->len,
                                     sluice_file_mtime_ns(st), local->pool, &sample->jpeg_index);
        atomic_fetch_add_explicit(&local->uses[use], 1, memory_order_relaxed);
    }
    return SLUICE_OK;
}

/* Whether what was read is the file that the list has. */
static void check_file(struct local *local, const struct read_job *job, const struct stat *st,
                       struct sluice_source_result *result)
{
    const size_t sample = job->item.key.sample_id;
    const struct sluice_buf *file = result->sample.data;
    const int64_t mtime_ns = sluice_file_mtime_ns(st);
    struct sluice_err err = {0};
    bool needs_content = false;
    sluice_status status =
        sluice_freshness_look(local->freshness, sample, file->len, mtime_ns, &needs_content, &err);
    if (status == SLUICE_OK && needs_content)
        status =
            sluice_freshness_read(local->freshness, sample, mtime_ns, file->data, file->len, &err);
    if (status == SLUICE_OK)
        return;
    sluice_source_result_clear(result);
    result->status = status;
    result->payload_bytes = 0;
    snprintf(result->error, sizeof(result->error), "%.90s: %.100s", job->path, err.text);
}

static void append(struct job_list *list, struct read_job *job)
{
    job->prev = list->last;
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
}

static void unlink_job(struct job_list *list, struct read_job *job)
{
    if (job->prev)
        job->prev->next = job->next;
    else
        list->first = job->next;
    if (job->next)
        job->next->prev = job->prev;
    else
        list->last = job->prev;
}

/* --- readers --- */

/* Under the lock, which it releases. */
static void unref_and_unlock(struct local *local)
{
    const bool is_last = --local->refs == 0;
    pthread_mutex_unlock(&local->lock);
    if (!is_last)
        return;
    sluice_jpeg_index_file_close(local->indexes);
    pthread_cond_destroy(&local->ended);
    pthread_cond_destroy(&local->changed);
    pthread_cond_destroy(&local->work);
    pthread_mutex_destroy(&local->lock);
    for (size_t i = 0; i < local->roots.num; i++)
        free((char *)(uintptr_t)local->roots.at[i].place);
    free(local);
}

/* Under the lock: whether the failed job is to be read again, later. */
static bool read_again(struct local *local, struct read_job *job, sluice_status status,
                       const char *text)
{
    const uint64_t now = sluice_clock_ns();
    uint64_t wait = 0;
    if (!sluice_retry_is_worth(status) || !sluice_retry_failed(&job->retry, now, &wait))
        return false;
    local->num_failing += !job->has_failed;
    job->has_failed = true;
    job->due_ns = now + wait;
    append(&local->delayed, job);
    sluice_again_note(&local->again, status, text);
    pthread_cond_signal(&local->changed);
    return true;
}

static void read_job_run(struct local *local, struct read_job *job,
                         struct sluice_source_result *result, struct stat *st)
{
    struct sluice_err err = {0};
    result->status = read_file(local, job, &result->sample, st, &err);
    if (result->status == SLUICE_OK)
        result->payload_bytes = result->sample.data->len;
    snprintf(result->error, sizeof(result->error), "%.*s", (int)sizeof(result->error) - 1,
             err.text);
}

/* Reads one job's file.  Called and left under the lock.  False: the read was given up meanwhile.
 */
static bool serve(struct local *local, struct read_job *job)
{
    struct sluice_source_result result = {
        .ticket = job->item.ticket,
        .form = sluice_form_plain(SLUICE_KIND_FILE),
        .sample = {.key = job->item.key, .kind = SLUICE_KIND_FILE},
    };
    const uint64_t now = sluice_clock_ns();
    result.backlog_ns = now - job->requested_ns;
    job->due_ns = local->timeout_ns ? now + local->timeout_ns : UINT64_MAX;
    append(&local->running, job);
    pthread_mutex_unlock(&local->lock);

    /* The clock takes a thread that slept for one that waited for the disk, so no lock is taken
     * while it runs. */
    sluice_disk_clock_start(&local->disk, &job->reading);
    atomic_store(&job->is_timed, true);
    struct stat st;
    read_job_run(local, job, &result, &st);
    if (atomic_exchange(&job->is_timed, false)) {
        const struct sluice_disk_time time = sluice_disk_clock_stop(&local->disk, &job->reading);
        result.disk_ns = time.wait_ns;
        result.disk_busy_ns = time.busy_ns;
    }

    pthread_mutex_lock(&local->lock);
    const bool is_given_up = job->is_given_up;
    if (!is_given_up) {
        unlink_job(&local->running, job);
        if (result.status == SLUICE_OK && local->freshness) { /* close() waits for this */
            pthread_mutex_unlock(&local->lock);
            check_file(local, job, &st, &result);
            pthread_mutex_lock(&local->lock);
        }
    }
    if (is_given_up || (result.status != SLUICE_OK && local->is_closed)) {
        sluice_source_result_clear(&result);
        free(job);
        return !is_given_up;
    }
    if (result.status != SLUICE_OK && read_again(local, job, result.status, result.error))
        return true;
    local->num_failing -= job->has_failed;
    pthread_mutex_unlock(&local->lock);
    free(job);
    local->events.on_result(local->events.ctx, &result);
    pthread_mutex_lock(&local->lock);
    return true;
}

static void *reader_main(void *ctx)
{
    struct local *local = ctx;
    (void)pthread_setname_np(pthread_self(), "read");
    sluice_worker_stand_back();
    /* Keeps the pool alive: a stuck read may return after everything else is gone. */
    struct sluice_buf *guard = NULL;
    if (sluice_buf_create(local->pool, 0, &guard, NULL) != SLUICE_OK)
        guard = NULL;
    pthread_mutex_lock(&local->lock);
    bool is_needed = true;
    while (is_needed) {
        while (!local->waiting.first && !local->is_closed)
            pthread_cond_wait(&local->work, &local->lock);
        if (local->is_closed)
            break;
        struct read_job *job = local->waiting.first;
        unlink_job(&local->waiting, job);
        is_needed = serve(local, job);
    }
    if (is_needed)
        local->num_readers--;
    else
        local->num_stuck--; /* no longer, but another has its place */
    pthread_cond_signal(&local->ended);
    pthread_mutex_unlock(&local->lock);
    sluice_buf_unref(guard);
    pthread_mutex_lock(&local->lock);
    unref_and_unlock(local);
    return NULL;
}

/* Under the lock. */
static int start_reader(struct local *local)
{
    pthread_t thread;
    const int failed = pthread_create(&thread, NULL, reader_main, local);
    if (failed)
        return failed;
    pthread_detach(thread);
    local->num_readers++;
    local->refs++;
    return 0;
}

/* --- the warden: jobs that are due again, and reads that hang --- */

/* Under the lock: the first of the running jobs is the oldest. */
static struct read_job *take_stuck(struct local *local, uint64_t now)
{
    struct read_job *job = local->running.first;
    if (!job || job->due_ns > now)
        return NULL;
    unlink_job(&local->running, job);
    job->is_given_up = true;
    local->num_readers--;
    local->num_stuck++;
    local->num_failing -= job->has_failed;
    if (atomic_exchange(&job->is_timed, false))
        (void)sluice_disk_clock_stop(&local->disk, &job->reading);
    return job;
}

/* Under the lock: makes jobs wait whose time has come.  Returns when the next one is due. */
static uint64_t wake_delayed(struct local *local, uint64_t now)
{
    uint64_t next_ns = UINT64_MAX;
    for (struct read_job *job = local->delayed.first, *next; job; job = next) {
        next = job->next;
        if (job->due_ns <= now) {
            unlink_job(&local->delayed, job);
            append(&local->waiting, job);
            pthread_cond_signal(&local->work);
        } else if (job->due_ns < next_ns) {
            next_ns = job->due_ns;
        }
    }
    return next_ns;
}

/* Called and left under the lock: answers a read that hangs, and replaces its reader. */
static void give_up(struct local *local, const struct read_job *job)
{
    struct sluice_source_result result = {
        .ticket = job->item.ticket,
        .status = SLUICE_E_IO,
        .form = sluice_form_plain(SLUICE_KIND_FILE),
        .disk_ns = local->timeout_ns,
    };
    /* The job is its reader's, which may return any time after the lock is released. */
    sluice_snprintf(result.error, sizeof(result.error),
                    "%.120s: the read has not returned within %.3g s", job->path,
                    (double)local->timeout_ns * 1e-9);
    const int failed = local->num_stuck <= MAX_STUCK ? start_reader(local) : 0;
    const bool is_over = local->num_stuck > MAX_STUCK || local->num_readers == 0;
    const bool must_tell = is_over && !local->has_failed;
    local->has_failed = local->has_failed || is_over;
    pthread_mutex_unlock(&local->lock);
    local->events.on_result(local->events.ctx, &result);
    if (must_tell) {
        char text[200];
        if (failed)
            snprintf(text, sizeof(text), "cannot start a thread that reads: %s", strerror(failed));
        else
            snprintf(text, sizeof(text), "%.150s: %d reads have not returned", local->where,
                     MAX_STUCK + 1);
        local->events.on_failed(local->events.ctx, SLUICE_E_IO, text);
    }
    pthread_mutex_lock(&local->lock);
}

static void *warden_main(void *ctx)
{
    struct local *local = ctx;
    (void)pthread_setname_np(pthread_self(), "read-warden");
    pthread_mutex_lock(&local->lock);
    while (!local->is_closed) {
        const uint64_t now = sluice_clock_ns();
        struct sluice_again_log line;
        if (sluice_again_take(&local->again, local->num_failing, now, &line)) {
            const size_t count = local->num_failing;
            pthread_mutex_unlock(&local->lock);
            sluice_again_tell(&line, local->where, count);
            pthread_mutex_lock(&local->lock);
            continue;
        }
        const struct read_job *stuck = take_stuck(local, now);
        if (stuck) {
            give_up(local, stuck);
            continue;
        }
        uint64_t until_ns = wake_delayed(local, now);
        if (local->timeout_ns && now + local->timeout_ns / TUNING_LOOKS_IN_TIMEOUT < until_ns)
            until_ns = now + local->timeout_ns / TUNING_LOOKS_IN_TIMEOUT;
        const uint64_t tell_ns = sluice_again_due_ns(&local->again);
        if (tell_ns && tell_ns < until_ns)
            until_ns = tell_ns;
        (void)sluice_cond_wait_until(&local->changed, &local->lock, until_ns);
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}

/* --- struct sluice_source --- */

/* NULL: memory stayed short for retry_for_s, or close() came.  The caller is the prefetcher's
 * own thread, which has nothing else to do. */
static struct read_job *make_job(struct local *local, const struct sluice_source_item *item)
{
    struct sluice_retry retry = sluice_retry_init(local->retry_for_s, item->ticket);
    const uint64_t now = sluice_clock_ns();
    const size_t path_size = strlen(item->path) + 1;
    struct read_job *job;
    uint64_t wait_ns;
    bool is_over = false;
    while (!(job = malloc(sizeof(*job) + path_size)) && !is_over &&
           sluice_retry_failed(&retry, sluice_clock_ns(), &wait_ns)) {
        const struct timespec wait = {.tv_nsec =
                                          wait_ns < MOST_WAIT_NS ? (long)wait_ns : MOST_WAIT_NS};
        (void)nanosleep(&wait, NULL);
        pthread_mutex_lock(&local->lock);
        is_over = local->is_closed || local->has_failed;
        pthread_mutex_unlock(&local->lock);
    }
    if (!job)
        return NULL;
    *job = (struct read_job){.item = *item, .requested_ns = now, .retry = retry};
    sluice_retry_succeeded(&job->retry);
    memcpy(job->path, item->path, path_size);
    if (local->manifest) {
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(local->manifest, item->key.sample_id);
        job->offset = entry.offset;
        job->bytes = entry.bytes;
    }
    return job;
}

static sluice_status local_request(struct sluice_source *source,
                                   const struct sluice_source_item *items, size_t num_items)
{
    struct local *local = local_of(source);
    for (size_t i = 0; i < num_items; i++) {
        struct read_job *job = make_job(local, &items[i]);
        if (!job) {
            struct sluice_source_result result = {
                .ticket = items[i].ticket,
                .status = SLUICE_E_NO_MEMORY,
                .error = "no memory for a read",
            };
            local->events.on_result(local->events.ctx, &result);
            continue;
        }
        pthread_mutex_lock(&local->lock);
        const bool is_over = local->is_closed || local->has_failed;
        if (!is_over) {
            append(&local->waiting, job);
            pthread_cond_signal(&local->work);
        }
        pthread_mutex_unlock(&local->lock);
        if (is_over) {
            free(job);
            return SLUICE_E_CLOSED;
        }
    }
    return SLUICE_OK;
}

static void local_consumed(struct sluice_source *source, uint32_t origin, size_t payload_bytes)
{
    (void)source, (void)origin, (void)payload_bytes;
}

static uint64_t local_wire_bytes(struct sluice_source *source)
{
    (void)source;
    return 0;
}

static void free_jobs(struct job_list *list)
{
    while (list->first) {
        struct read_job *job = list->first;
        unlink_job(list, job);
#ifndef __clang_analyzer__ /* it does not see that the list moves on */
        free(job);
#endif
    }
}

static void local_close(struct sluice_source *source)
{
    struct local *local = local_of(source);
    pthread_mutex_lock(&local->lock);
    local->is_closed = true;
    pthread_cond_broadcast(&local->work);
    pthread_cond_signal(&local->changed);
    pthread_mutex_unlock(&local->lock);
    if (local->has_warden)
        pthread_join(local->warden, NULL);
    local->has_warden = false;

    pthread_mutex_lock(&local->lock);
    free_jobs(&local->waiting);
    free_jobs(&local->delayed);
    const uint64_t until_ns = sluice_clock_ns() + CLOSE_WAIT_NS;
    bool has_time = true;
    while (local->num_readers > 0) {
        if (has_time)
            has_time = sluice_cond_wait_until(&local->ended, &local->lock, until_ns);
        else if (!take_stuck(local, UINT64_MAX))
            pthread_cond_wait(&local->ended, &local->lock); /* it is in on_result */
    }
    pthread_mutex_unlock(&local->lock);
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
    sluice_freshness_destroy(local->freshness);
    local->freshness = NULL;
    pthread_mutex_lock(&local->lock);
    unref_and_unlock(local);
}

static sluice_status start_threads(struct local *local, unsigned num_readers,
                                   struct sluice_err *err)
{
    int failed = 0;
    pthread_mutex_lock(&local->lock);
    for (unsigned i = 0; i < num_readers && !failed; i++)
        failed = start_reader(local);
    pthread_mutex_unlock(&local->lock);
    if (!failed) {
        failed = pthread_create(&local->warden, NULL, warden_main, local);
        local->has_warden = !failed;
    }
    if (failed)
        return sluice_fail(err, SLUICE_E_IO, "cannot start a thread that reads: %s",
                           strerror(failed));
    return SLUICE_OK;
}

static sluice_status take_root(struct local *local, const struct sluice_root *root,
                               struct sluice_err *err)
{
    struct sluice_root *taken = &local->roots.at[local->roots.num];
    *taken = *root;
    taken->place = strdup(root->place);
    if (!taken->place)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a source");
    if (stat(root->place, &local->root_st[local->roots.num++]) != 0)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                           root->place, strerror(errno));
    return SLUICE_OK;
}

sluice_status sluice_local_source_create(const struct sluice_local_source_options *options,
                                         struct sluice_source **source, struct sluice_err *err)
{
    struct local *local = calloc(1, sizeof(*local));
    if (!local)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a source");
    local->source = (struct sluice_source){
        .is_local = true,
        .request = local_request,
        .consumed = local_consumed,
        .wire_bytes = local_wire_bytes,
        .close = local_close,
        .destroy = local_destroy,
    };
    local->pool = options->pool;
    local->manifest = options->manifest;
    local->max_file_bytes =
        options->max_file_bytes ? options->max_file_bytes : DEFAULT_MAX_FILE_BYTES;
    local->events = options->events;
    local->disk = (struct sluice_disk_clock)SLUICE_DISK_CLOCK_INITIALIZER;
    local->retry_for_s = options->retry_for_s;
    local->timeout_ns = (uint64_t)(options->sample_timeout_s * 1e9);
    local->refs = 1;
    pthread_mutex_init(&local->lock, NULL);
    pthread_cond_init(&local->work, NULL);
    sluice_cond_init(&local->changed);
    sluice_cond_init(&local->ended);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < options->roots->num; i++)
        status = take_root(local, &options->roots->at[i], err);
    sluice_roots_format(options->roots, local->where);
    if (status == SLUICE_OK && options->manifest)
        status = sluice_freshness_create(options->manifest, options->should_verify,
                                         &local->freshness, err);
    if (status == SLUICE_OK && options->jpeg_index)
        status = sluice_jpeg_index_file_choose_for(options->jpeg_index, options->roots,
                                                   &local->indexes, err);
    if (status == SLUICE_OK)
        status = start_threads(local, options->num_threads, err);
    if (status != SLUICE_OK) {
        local_destroy(&local->source);
        return status;
    }
    *source = &local->source;
    return SLUICE_OK;
}
