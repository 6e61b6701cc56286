#include "storage_server/fetch/stream.h"

#include "base/buf.h"
#include "base/clock.h"
#include "datasets/manifest/manifest.h"
#include "op/form.h"
#include "rpc/rpc_call.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"

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

/* Chooses the work that the client asked for, if PREP has room for it.  Rows of a file need no
 * PREP: a worker of IO reads them as it reads files. */
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

/* Bytes of pixels for each byte of an image's file whose size is not known yet: photographs as JPEG
 * of quality 75 to 90 have 8 to 20. */
#define PIXELS_PER_FILE_BYTE 16

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
    size_t bytes = sluice_fetch_charge_for(job, (size_t)expected_bytes(s, job));
    if (sluice_memory_take(s->memory, bytes, SLUICE_MEMORY_REPLY)) {
        job->charged = bytes;
        return true;
    }
    leave_prep(job);
    const size_t of_file = sluice_fetch_charge_for(job, (size_t)expected_bytes(s, job));
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
    job->job.fn = sluice_fetch_run_job;
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
    const size_t bytes = sluice_fetch_charge_for(job, (size_t)expected_bytes(s, job));
    if (sluice_memory_could_fit(s->fetch->options.memory, bytes))
        return false;
    job->reply.status = SLUICE_E_UNSUPPORTED;
    snprintf(job->reply.error, sizeof(job->reply.error),
             "%.90s: needs %zu bytes, more than --memory-limit allows", sluice_fetch_path(job),
             bytes);
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

        const size_t bytes =
            sluice_fetch_charge_for(job, (size_t)expected_bytes(s, job)); /* of the file */
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
