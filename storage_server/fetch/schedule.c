#include "storage_server/fetch/stream.h"

#include "base/buf.h"
#include "base/clock.h"
#include "datasets/manifest/manifest.h"
#include "op/form.h"
#include "rpc/rpc_server.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>

/* Limit of the memory of one stream, from requests that were scheduled (as far as their size is
 * known) to bytes that the transport has not taken.  So a client that does not read is not served
 * on. */
#define STREAM_BYTES (64u << 20)

/* Requests in the backlog of one stream (some 50 bytes each) above which its reading pauses.  Far
 * above what any client has open: a grant must never wait behind requests that wait for that very
 * grant. */
#define MAX_BACKLOG_REQUESTS 65536

void sluice_fetch_free_backlog(struct sluice_fetch_stream *s, struct sluice_fetch_backlog *backlog)
{
    while (backlog) {
        struct sluice_fetch_backlog *next = backlog->next;
        sluice_memory_give(s->memory, backlog->charged);
        free(backlog->requests);
        free(backlog);
        backlog = next;
    }
}

/* --- a job --- */

static void give_answer(struct sluice_late_answer *answer)
{
    struct sluice_fetch_job *job = SLUICE_CONTAINER_OF(answer, struct sluice_fetch_job, answer);
    struct sluice_fetch_stream *s = sluice_fetch_stream_ref(job->stream);
    sluice_fetch_make_ready(job);
    sluice_fetch_stream_advance(s);
    sluice_fetch_stream_unref(s);
}

/* For the watchdog: a job like this one with an error for a reply.  It counts in this one's place
 * in its stream. */
static struct sluice_late_answer *make_answer(struct sluice_watched *watched, const char *text)
{
    const struct sluice_fetch_job *job =
        SLUICE_CONTAINER_OF(watched, struct sluice_fetch_job, watched);
    struct sluice_fetch_job *late = calloc(1, sizeof(*late));
    if (!late)
        return NULL;
    late->stream = sluice_fetch_stream_ref(job->stream);
    late->request = job->request;
    late->estimated_bytes = job->estimated_bytes;
    late->accepted_ns = job->accepted_ns;
    late->reply.request_id = job->request.request_id;
    late->answer.give = give_answer;
    sluice_fetch_fail(late, SLUICE_E_IO, text);
    return &late->answer;
}

/* Bytes of pixels for each byte of an image's file whose size is not known yet: photographs as JPEG
 * of quality 75 to 90 have 8 to 20. */
#define PIXELS_PER_FILE_BYTE 16

static const char *path_of(const struct sluice_fetch_job *job)
{
    return sluice_manifest_at(job->stream->list->manifest, sluice_wire_listed_id(&job->request))
        .path;
}

/* Bytes of the memory budget for the job and its reply, with a payload of this size. */
static size_t charge_for(const struct sluice_fetch_job *job, size_t payload_bytes)
{
    return sizeof(*job) + sluice_buf_footprint(payload_bytes);
}

/* Charges the stream what the reply takes rather than what was expected.  False: so much more that
 * there is no room for it. */
static bool settle(struct sluice_fetch_job *job)
{
    struct sluice_fetch_stream *s = job->stream;
    struct sluice_buf *payload = job->reply.payload;
    const size_t bytes = payload ? charge_for(job, payload->capacity) : sizeof(*job);
    if (bytes > job->charged &&
        !sluice_memory_take(s->memory, bytes - job->charged, SLUICE_MEMORY_REPLY))
        return false;
    if (bytes < job->charged)
        sluice_memory_give(s->memory, job->charged - bytes);
    job->charged = sizeof(*job);
    if (payload) /* given back when the transport lets go of it, which may be after the stream */
        sluice_buf_on_last(payload, sluice_memory_give_hook, s->memory, bytes - sizeof(*job));

    const size_t known = payload ? payload->len : 0;
    pthread_mutex_lock(&s->lock);
    s->in_flight_bytes += known - job->estimated_bytes; /* modulo 2^64: the sum is never below 0 */
    pthread_mutex_unlock(&s->lock);
    job->estimated_bytes = known;
    return true;
}

static void drop_payload(struct sluice_wire_sample_reply *reply)
{
    sluice_buf_unref(reply->payload);
    reply->payload = NULL;
}

/* Makes the reply, watched.  False: the watchdog has answered the request. */
static bool make_reply(struct sluice_fetch_job *job, struct sluice_preparer *preparer)
{
    struct sluice_watchdog *watchdog = job->stream->fetch->options.watchdog;
    struct sluice_err err = {0};
    job->watched = (struct sluice_watched){
        .path = path_of(job),
        .group = preparer ? SLUICE_GROUP_PREP : SLUICE_GROUP_IO,
        .answer = make_answer,
    };
    const sluice_status status = sluice_watchdog_begin(watchdog, &job->watched, &err);
    if (status != SLUICE_OK) {
        sluice_fetch_fail(job, status, err.text);
        return true;
    }
    sluice_fetch_answer(job, preparer);
    return sluice_watchdog_end(watchdog, &job->watched);
}

/* Answers, or where the reply is too large for the memory that is left, with the file.  False: the
 * watchdog has answered. */
static bool answer(struct sluice_fetch_job *job, struct sluice_preparer *preparer)
{
    if (!make_reply(job, preparer))
        return false;
    const bool is_short = job->reply.status == SLUICE_E_NO_MEMORY;
    if (!is_short && settle(job))
        return true;
    drop_payload(&job->reply);
    if (job->work != SLUICE_FETCH_FILE) {
        job->work = SLUICE_FETCH_FILE;
        job->reply.status = SLUICE_OK;
        job->reply.error[0] = '\0';
        job->reply.ops_done = 0;
        job->reply.width = job->reply.height = job->reply.channels = 0;
        if (!make_reply(job, preparer))
            return false;
        if (settle(job))
            return true;
        drop_payload(&job->reply);
    }
    job->reply.status = SLUICE_E_NO_MEMORY;
    if (!job->reply.error[0])
        snprintf(job->reply.error, sizeof(job->reply.error),
                 "%.90s: the server has no memory left for this client now", path_of(job));
    (void)settle(job);
    return true;
}

/* False: as above. */
static bool work(struct sluice_fetch_job *job, void *worker)
{
    const uint64_t start_ns = sluice_clock_ns();
    job->reply.queue_us = sluice_fetch_to_us(start_ns - job->accepted_ns - job->io_work_ns);
    const bool is_ours = answer(job, worker);
    const uint64_t cpu_ns = job->io_cpu_ns + sluice_workers_job_cpu_ns();
    sluice_grant_settle_cpu(job->stream->grant, job->reserved_ns, cpu_ns);
    job->reserved_ns = 0;
    job->reply.cpu_us = sluice_fetch_to_us(cpu_ns);
    job->reply.work_us = sluice_fetch_to_us(sluice_clock_ns() - start_ns + job->io_work_ns);
    return is_ours;
}

enum stage_end { IS_ANSWERED, IS_HANDED_ON, IS_LOST /* the watchdog has answered */ };

/* The first of two stages, where files come over a network: a worker of IO reads, so that those of
 * PREP never wait for a round trip.  Where PREP is full by then the file is sent. */
static enum stage_end read_first(struct sluice_fetch_job *job)
{
    struct sluice_fetch_stream *s = job->stream;
    const struct sluice_fetch_options *options = &s->fetch->options;
    const uint64_t start_ns = sluice_clock_ns();
    struct sluice_err err = {0};
    job->watched = (struct sluice_watched){
        .path = path_of(job),
        .group = SLUICE_GROUP_IO,
        .answer = make_answer,
    };
    const sluice_status watched = sluice_watchdog_begin(options->watchdog, &job->watched, &err);
    bool is_read = false;
    if (watched == SLUICE_OK) {
        is_read = sluice_fetch_read(job);
        if (!sluice_watchdog_end(options->watchdog, &job->watched))
            return IS_LOST;
    } else {
        sluice_fetch_fail(job, watched, err.text);
    }
    job->io_cpu_ns = sluice_workers_job_cpu_ns();
    job->io_work_ns = sluice_clock_ns() - start_ns;
    if (is_read) {
        const sluice_status status =
            sluice_workers_try(options->workers, s->client, SLUICE_GROUP_PREP, &job->job);
        if (status == SLUICE_OK)
            return IS_HANDED_ON;
        job->work = SLUICE_FETCH_FILE;
        return work(job, NULL) ? IS_ANSWERED : IS_LOST;
    }
    sluice_grant_settle_cpu(s->grant, job->reserved_ns, job->io_cpu_ns);
    job->reserved_ns = 0;
    job->reply.cpu_us = sluice_fetch_to_us(job->io_cpu_ns);
    job->reply.work_us = sluice_fetch_to_us(job->io_work_ns);
    job->reply.queue_us = sluice_fetch_to_us(start_ns - job->accepted_ns);
    (void)settle(job);
    return IS_ANSWERED;
}

static void run_job(struct sluice_job *base, enum sluice_job_fate fate, void *worker)
{
    struct sluice_fetch_job *job = SLUICE_CONTAINER_OF(base, struct sluice_fetch_job, job);
    struct sluice_fetch_stream *s = sluice_fetch_stream_ref(job->stream);
    if (fate == SLUICE_JOB_RUN)
        sluice_workers_started(s->fetch->options.workers);

    enum stage_end end = IS_ANSWERED;
    if (sluice_fetch_stream_is_over(s))
        job->reply.status = SLUICE_E_CLOSED;
    else if (fate != SLUICE_JOB_RUN)
        sluice_fetch_fail(job, SLUICE_E_IO, "not read: every worker hangs at another file");
    else if (!worker && sluice_fetch_needs_prep(job))
        end = read_first(job);
    else
        end = work(job, worker) ? IS_ANSWERED : IS_LOST;
    if (end == IS_ANSWERED)
        sluice_fetch_make_ready(job);
    else if (end == IS_LOST)
        sluice_fetch_job_free(job);
    sluice_fetch_stream_advance(s);
    sluice_fetch_stream_unref(s);
}

static bool is_of_stream(const struct sluice_job *base, const void *stream)
{
    return base->fn == run_job &&
           SLUICE_CONTAINER_OF(base, struct sluice_fetch_job, job)->stream == stream;
}

void sluice_fetch_cancel(struct sluice_fetch_stream *s)
{
    struct sluice_workers *workers = s->fetch->options.workers;
    (void)sluice_workers_cancel(workers, s->client, SLUICE_GROUP_PREP, is_of_stream, s);
    (void)sluice_workers_cancel(workers, s->client, SLUICE_GROUP_IO, is_of_stream, s);
    s->fetch->options.store->cancel(s->fetch->options.store, s);
}

/* --- from the backlog to the workers --- */

/* The work that the client asked for, if PREP has room for it.  Rows of a file are no work: a
 * worker of IO reads them as it reads files. */
static void plan_work(const struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    const struct sluice_form_type *type = sluice_form_type(job->request.form);
    if (job->request.split)
        job->work = SLUICE_FETCH_OPS;
    else if (!s->pipeline || type->is_plain || !sluice_form_can_carry(type, s->pipeline, 0))
        job->work = SLUICE_FETCH_FILE;
    else
        job->work = type->is_work ? SLUICE_FETCH_CUT : SLUICE_FETCH_ROWS;
}

/* How large the payload of the job's reply will be, as far as is known: at least its file's length,
 * as that is what is read first and may be sent instead. */
static uint64_t expected_bytes(const struct sluice_fetch_stream *s,
                               const struct sluice_fetch_job *job)
{
    const struct sluice_manifest *manifest = s->list->manifest;
    if (sluice_wire_listed_id(&job->request) >= manifest->num_entries)
        return 0;
    const struct sluice_manifest_entry entry =
        sluice_manifest_at(manifest, sluice_wire_listed_id(&job->request));
    const unsigned split = sluice_fetch_split(job);
    const enum sluice_kind kind =
        split ? sluice_pipeline_kind(s->pipeline, split) : SLUICE_KIND_FILE;
    uint64_t bytes = 0;
    if (kind == SLUICE_KIND_F32)
        bytes = sluice_pipeline_output_bytes(s->pipeline);
    else if (kind == SLUICE_KIND_U8 && split > 1)
        bytes = sluice_pipeline_u8_bytes(s->pipeline);
    else if (kind == SLUICE_KIND_U8) /* the whole image */
        bytes = entry.width ? (uint64_t)entry.width * entry.height * 3
                            : entry.bytes * PIXELS_PER_FILE_BYTE;
    return bytes > entry.bytes ? bytes : entry.bytes;
}

/* Without PREP the file goes. */
static void leave_prep(struct sluice_fetch_job *job)
{
    if (sluice_fetch_needs_prep(job))
        job->work = SLUICE_FETCH_FILE;
}

/* Takes memory for the job's work, or without its ops for the file.  False: there is neither. */
static bool charge(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    if (job->charged)
        return true;
    size_t bytes = charge_for(job, (size_t)expected_bytes(s, job));
    if (sluice_memory_take(s->memory, bytes, SLUICE_MEMORY_REPLY)) {
        job->charged = bytes;
        return true;
    }
    leave_prep(job);
    const size_t of_file = charge_for(job, (size_t)expected_bytes(s, job));
    if (of_file < bytes && sluice_memory_take(s->memory, of_file, SLUICE_MEMORY_REPLY)) {
        job->charged = of_file;
        return true;
    }
    return false;
}

/* Under the lock: the next request of the backlog; NULL: no memory. */
static struct sluice_fetch_job *take_request(struct sluice_fetch_stream *s)
{
    struct sluice_fetch_backlog *backlog = s->backlog_first;
    struct sluice_fetch_job *job = calloc(1, sizeof(*job));
    if (!job)
        return NULL;
    job->job.fn = run_job;
    job->stream = sluice_fetch_stream_ref(s);
    job->request = backlog->requests[backlog->taken++];
    s->backlog_requests--;
    job->reply.request_id = job->request.request_id;
    job->accepted_ns = sluice_clock_ns();
    job->reply.backlog_us = sluice_fetch_to_us(job->accepted_ns - backlog->received_ns);
    if (job->request.split > s->num_ops)
        job->request.split = s->num_ops;
    plan_work(s, job);
    if (backlog->taken == backlog->num_requests) {
        s->backlog_first = backlog->next;
        if (!s->backlog_first)
            s->backlog_end = &s->backlog_first;
        backlog->next = NULL;
        sluice_fetch_free_backlog(s, backlog);
    }

    const uint64_t bytes = expected_bytes(s, job);
    job->estimated_bytes = bytes < STREAM_BYTES ? bytes : STREAM_BYTES;
    s->num_working++;
    s->in_flight++;
    s->in_flight_bytes += job->estimated_bytes;
    return job;
}

/* Hands the job to PREP, or without its ops to IO where PREP is full.  SLUICE_E_AGAIN: both are. */
static sluice_status hand_over(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    struct sluice_workers *workers = s->fetch->options.workers;
    if (sluice_wire_listed_id(&job->request) >= s->list->manifest->num_entries) {
        job->reply.status = SLUICE_E_INVALID;
        snprintf(job->reply.error, sizeof(job->reply.error), "sample %llu of %zu",
                 (unsigned long long)sluice_wire_listed_id(&job->request),
                 s->list->manifest->num_entries);
        sluice_fetch_make_ready(job);
        sluice_fetch_flush(s);
        return SLUICE_OK;
    }
    const enum sluice_subset subset =
        sluice_manifest_at(s->list->manifest, sluice_wire_listed_id(&job->request)).subset;
    if (!sluice_grant_may_read(s->grant, subset)) {
        job->reply.status = SLUICE_E_INVALID;
        snprintf(job->reply.error, sizeof(job->reply.error), "the token %s may not read %s",
                 sluice_grant_name(s->grant), subset == SLUICE_SUBSET_VAL ? "val" : "train");
        sluice_fetch_make_ready(job);
        sluice_fetch_flush(s);
        return SLUICE_OK;
    }
    uint64_t reserved_ns = 0;
    if (sluice_fetch_needs_prep(job) &&
        sluice_grant_take_cpu(s->grant, sluice_clock_ns(), &reserved_ns)) {
        job->reserved_ns = reserved_ns;
        const enum sluice_worker_group first =
            s->fetch->options.reads_first ? SLUICE_GROUP_IO : SLUICE_GROUP_PREP;
        const sluice_status status = sluice_workers_try(workers, s->client, first, &job->job);
        if (status != SLUICE_E_AGAIN)
            return status;
        sluice_grant_settle_cpu(s->grant, reserved_ns, 0);
        job->reserved_ns = 0;
    }
    /* Set before it is submitted, as it belongs to another thread then. */
    leave_prep(job);
    return sluice_workers_try(workers, s->client, SLUICE_GROUP_IO, &job->job);
}

/* Lets go of a job that nobody waits for. */
static void drop(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    job->reply.status = SLUICE_E_CLOSED;
    sluice_fetch_make_ready(job);
    sluice_fetch_flush(s);
}

/* The job waits, so it is the stream's: parked before the wait, as the waiter may be called at
 * once. */
static void park(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    pthread_mutex_lock(&s->lock);
    s->parked = job;
    s->is_waiting = true;
    pthread_mutex_unlock(&s->lock);
}

static void unpark(struct sluice_fetch_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->parked = NULL;
    s->is_waiting = false;
    pthread_mutex_unlock(&s->lock);
}

/* Answers a request for which there will never be memory.  False: there may be. */
static bool refuse_too_large(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    const size_t bytes = charge_for(job, (size_t)expected_bytes(s, job));
    if (sluice_memory_could_fit(s->fetch->options.memory, bytes))
        return false;
    job->reply.status = SLUICE_E_UNSUPPORTED;
    snprintf(job->reply.error, sizeof(job->reply.error),
             "%.90s: needs %zu bytes, more than --memory-limit allows", path_of(job), bytes);
    sluice_fetch_make_ready(job);
    sluice_fetch_flush(s);
    return true;
}

/* Hands the job over, or parks it and waits for memory or for room in a queue. */
static void place(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    struct sluice_workers *workers = s->fetch->options.workers;
    sluice_fetch_stream_ref(s); /* the waiter's, if it has to wait */
    for (;;) {
        const uint64_t moment = sluice_workers_moment(workers);
        const bool has_memory = charge(s, job);
        if (!has_memory && refuse_too_large(s, job))
            break;
        const sluice_status status = has_memory ? hand_over(s, job) : SLUICE_E_AGAIN;
        if (status == SLUICE_OK)
            break;
        if (status != SLUICE_E_AGAIN) {
            drop(s, job); /* the workers are closed, so the call is over already */
            break;
        }

        const size_t bytes = charge_for(job, (size_t)expected_bytes(s, job)); /* of the file */
        sluice_memory_give(s->memory, job->charged);
        job->charged = 0;
        plan_work(s, job);
        park(s, job);
        if (has_memory ? sluice_workers_wait(workers, s->client, &s->waiter, moment)
                       : sluice_memory_wait(s->memory, bytes))
            return;
        unpark(s);
    }
    sluice_fetch_stream_unref(s);
}

/* Under the lock: whether another request may be scheduled. */
static bool may_take(const struct sluice_fetch_stream *s, size_t queued)
{
    if (s->is_waiting)
        return false;
    if (s->parked)
        return true;
    if (!s->backlog_first)
        return false;
    /* A request larger than all the room must pass, too, but only while nothing else is held. */
    return s->phase == SLUICE_FETCH_OVER || (!s->in_flight && !queued) ||
           (s->in_flight < s->fetch->options.max_in_flight &&
            s->in_flight_bytes + queued < STREAM_BYTES);
}

static void dispatch(struct sluice_fetch_stream *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->dispatch != SLUICE_FETCH_IDLE) {
        s->dispatch = SLUICE_FETCH_AGAIN;
        pthread_mutex_unlock(&s->lock);
        return;
    }
    bool is_out_of_memory = false;
    do {
        s->dispatch = SLUICE_FETCH_DISPATCHING;
        for (;;) {
            pthread_mutex_unlock(&s->lock);
            const size_t queued = sluice_rpc_call_queued_bytes(s->call);
            pthread_mutex_lock(&s->lock);
            if (!may_take(s, queued) || is_out_of_memory)
                break;
            if (s->phase == SLUICE_FETCH_OVER && !s->parked) {
                /* Nobody waits for the rest of the backlog. */
                struct sluice_fetch_backlog *rest = s->backlog_first;
                s->backlog_first = NULL;
                s->backlog_end = &s->backlog_first;
                s->backlog_requests = 0;
                sluice_fetch_free_backlog(s, rest);
                break;
            }
            const bool is_over = s->phase == SLUICE_FETCH_OVER;
            struct sluice_fetch_job *job = s->parked ? s->parked : take_request(s);
            s->parked = NULL;
            pthread_mutex_unlock(&s->lock);
            if (!job)
                is_out_of_memory = true;
            else if (is_over)
                drop(s, job);
            else
                place(s, job);
            pthread_mutex_lock(&s->lock);
        }
        const bool should_pause = s->backlog_requests > MAX_BACKLOG_REQUESTS;
        if (should_pause != s->is_paused && s->phase != SLUICE_FETCH_OVER) {
            s->is_paused = should_pause;
            pthread_mutex_unlock(&s->lock);
            if (should_pause)
                sluice_rpc_call_pause(s->call);
            else
                sluice_rpc_call_resume(s->call);
            pthread_mutex_lock(&s->lock);
        }
    } while (s->dispatch == SLUICE_FETCH_AGAIN);
    s->dispatch = SLUICE_FETCH_IDLE;
    pthread_mutex_unlock(&s->lock);
    if (is_out_of_memory)
        sluice_fetch_stream_end(s, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a request");
}

void sluice_fetch_stream_advance(struct sluice_fetch_stream *s)
{
    sluice_fetch_flush(s);
    dispatch(s);
    sluice_fetch_stream_end_if_answered(s);
}

void sluice_fetch_on_memory(void *stream)
{
    struct sluice_fetch_stream *s = stream;
    (void)sluice_fetch_on_room(&s->waiter);
}

bool sluice_fetch_on_room(struct sluice_waiter *waiter)
{
    struct sluice_fetch_stream *s = SLUICE_CONTAINER_OF(waiter, struct sluice_fetch_stream, waiter);
    pthread_mutex_lock(&s->lock);
    s->is_waiting = false;
    pthread_mutex_unlock(&s->lock);
    sluice_fetch_stream_advance(s);
    pthread_mutex_lock(&s->lock);
    const bool is_served = !s->is_waiting;
    pthread_mutex_unlock(&s->lock);
    sluice_fetch_stream_unref(s);
    return is_served;
}
