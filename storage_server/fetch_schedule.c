#include "storage_server/fetch_stream.h"

#include "base/clock.h"
#include "datasets/manifest.h"
#include "pipeline/pipeline.h"
#include "rpc/rpc_server.h"
#include "storage_server/context.h"

#include <stdio.h>
#include <stdlib.h>

/* What one stream may hold in memory, from requests that were scheduled (as far as their size is
 * known) to bytes that the transport has not taken.  So a client that does not read is not served
 * on. */
#define STREAM_BYTES (64u << 20)

/* Requests in the backlog of one stream (some 50 bytes each) above which its reading pauses.  Far
 * above what any client has open: a grant must never wait behind requests that wait for that very
 * grant. */
#define MAX_BACKLOG_REQUESTS 65536

static void free_backlog(struct sluice_fetch_backlog *backlog)
{
    while (backlog) {
        struct sluice_fetch_backlog *next = backlog->next;
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

/* On a worker.  False: the watchdog has answered the request. */
static bool work(struct sluice_fetch_job *job, void *worker)
{
    struct sluice_context *context = job->stream->context;
    struct sluice_err err = {0};
    const uint64_t start_ns = sluice_clock_ns();
    job->reply.queue_us = sluice_fetch_to_us(start_ns - job->accepted_ns);
    job->watched = (struct sluice_watched){
        .path = context->manifest->entries[job->request.key.sample_id].path,
        .group = worker ? SLUICE_GROUP_PREP : SLUICE_GROUP_IO,
        .answer = make_answer,
    };
    const sluice_status status = sluice_watchdog_begin(context->watchdog, &job->watched, &err);
    if (status == SLUICE_OK)
        sluice_fetch_answer(job, worker);
    else
        sluice_fetch_fail(job, status, err.text);
    job->reply.cpu_us = sluice_fetch_to_us(sluice_workers_job_cpu_ns());
    job->reply.work_us = sluice_fetch_to_us(sluice_clock_ns() - start_ns);
    return status != SLUICE_OK || sluice_watchdog_end(context->watchdog, &job->watched);
}

static void run_job(struct sluice_job *base, enum sluice_job_fate fate, void *worker)
{
    struct sluice_fetch_job *job = SLUICE_CONTAINER_OF(base, struct sluice_fetch_job, job);
    struct sluice_fetch_stream *s = sluice_fetch_stream_ref(job->stream);
    if (fate == SLUICE_JOB_RUN)
        sluice_workers_started(s->context->workers);

    pthread_mutex_lock(&s->lock);
    const bool is_over = s->is_over;
    pthread_mutex_unlock(&s->lock);
    bool is_ours = true; /* to answer */
    if (is_over)
        job->reply.status = SLUICE_E_CLOSED;
    else if (fate == SLUICE_JOB_RUN)
        is_ours = work(job, worker);
    else
        sluice_fetch_fail(job, SLUICE_E_IO, "not read: every worker hangs at another file");
    if (is_ours)
        sluice_fetch_make_ready(job);
    else
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
    struct sluice_workers *workers = s->context->workers;
    (void)sluice_workers_cancel(workers, s->client, SLUICE_GROUP_PREP, is_of_stream, s);
    (void)sluice_workers_cancel(workers, s->client, SLUICE_GROUP_IO, is_of_stream, s);
}

/* --- from the backlog to the workers --- */

/* The work that the client asked for, if PREP has room for it. */
static void plan_work(const struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    job->split = job->request.split;
    job->is_cut = job->split == 0 && job->request.form == SLUICE_FORM_JPEG_CROP && s->pipeline &&
                  sluice_pipeline_can_crop_jpeg(s->pipeline);
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
        free_backlog(backlog);
    }

    const struct sluice_manifest *manifest = s->context->manifest;
    if (job->request.key.sample_id < manifest->num_entries) {
        const uint64_t file_bytes = manifest->entries[job->request.key.sample_id].bytes;
        const enum sluice_kind kind =
            job->split ? sluice_pipeline_kind(s->pipeline, job->split) : SLUICE_KIND_FILE;
        uint64_t bytes = kind == SLUICE_KIND_F32  ? sluice_pipeline_output_bytes(s->pipeline)
                         : kind == SLUICE_KIND_U8 ? sluice_pipeline_u8_bytes(s->pipeline)
                                                  : 0;
        if (bytes < file_bytes)
            bytes = file_bytes;
        job->estimated_bytes = bytes < STREAM_BYTES ? bytes : STREAM_BYTES;
    }
    s->num_working++;
    s->in_flight++;
    s->in_flight_bytes += job->estimated_bytes;
    return job;
}

/* Hands the job to PREP, or without its ops to IO where PREP is full.  SLUICE_E_AGAIN: both are. */
static sluice_status hand_over(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    struct sluice_workers *workers = s->context->workers;
    if (job->request.key.sample_id >= s->context->manifest->num_entries) {
        job->reply.status = SLUICE_E_INVALID;
        snprintf(job->reply.error, sizeof(job->reply.error), "sample %llu of %zu",
                 (unsigned long long)job->request.key.sample_id, s->context->manifest->num_entries);
        sluice_fetch_make_ready(job);
        sluice_fetch_flush(s);
        return SLUICE_OK;
    }
    if (job->split || job->is_cut) {
        const sluice_status status =
            sluice_workers_try(workers, s->client, SLUICE_GROUP_PREP, &job->job);
        if (status != SLUICE_E_AGAIN)
            return status;
    }
    /* Set before it is submitted, as it belongs to another thread then. */
    job->split = 0;
    job->is_cut = false;
    const sluice_status status = sluice_workers_try(workers, s->client, SLUICE_GROUP_IO, &job->job);
    if (status != SLUICE_OK)
        plan_work(s, job);
    return status;
}

/* Lets go of a job that nobody waits for. */
static void drop(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    job->reply.status = SLUICE_E_CLOSED;
    sluice_fetch_make_ready(job);
    sluice_fetch_flush(s);
}

/* Hands the job over, or parks it and waits for room. */
static void place(struct sluice_fetch_stream *s, struct sluice_fetch_job *job)
{
    struct sluice_workers *workers = s->context->workers;
    sluice_fetch_stream_ref(s); /* the waiter's, if it has to wait */
    for (;;) {
        const uint64_t moment = sluice_workers_moment(workers);
        const sluice_status status = hand_over(s, job);
        if (status == SLUICE_OK)
            break;
        if (status != SLUICE_E_AGAIN) {
            drop(s, job); /* the workers are closed, so the call is over already */
            break;
        }

        /* Parked before the wait: the waiter may be called at once. */
        pthread_mutex_lock(&s->lock);
        s->parked = job;
        s->is_waiting = true;
        pthread_mutex_unlock(&s->lock);
        if (sluice_workers_wait(workers, s->client, &s->waiter, moment))
            return;
        pthread_mutex_lock(&s->lock);
        s->parked = NULL;
        s->is_waiting = false;
        pthread_mutex_unlock(&s->lock);
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
    return s->is_over || (!s->in_flight && !queued) ||
           (s->in_flight < s->context->max_in_flight && s->in_flight_bytes + queued < STREAM_BYTES);
}

static void dispatch(struct sluice_fetch_stream *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->is_dispatching) {
        s->dispatch_again = true;
        pthread_mutex_unlock(&s->lock);
        return;
    }
    s->is_dispatching = true;
    bool is_out_of_memory = false;
    do {
        s->dispatch_again = false;
        for (;;) {
            pthread_mutex_unlock(&s->lock);
            const size_t queued = sluice_rpc_call_queued_bytes(s->call);
            pthread_mutex_lock(&s->lock);
            if (!may_take(s, queued) || is_out_of_memory)
                break;
            if (s->is_over && !s->parked) {
                /* Nobody waits for the rest of the backlog. */
                struct sluice_fetch_backlog *rest = s->backlog_first;
                s->backlog_first = NULL;
                s->backlog_end = &s->backlog_first;
                s->backlog_requests = 0;
                free_backlog(rest);
                break;
            }
            const bool is_over = s->is_over;
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
        if (should_pause != s->is_paused && !s->is_over) {
            s->is_paused = should_pause;
            pthread_mutex_unlock(&s->lock);
            if (should_pause)
                sluice_rpc_call_pause(s->call);
            else
                sluice_rpc_call_resume(s->call);
            pthread_mutex_lock(&s->lock);
        }
    } while (s->dispatch_again);
    s->is_dispatching = false;
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
