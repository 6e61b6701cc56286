#include "storage_server/service.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "datasets/indexed_file.h"
#include "datasets/manifest.h"
#include "pipeline/pipeline.h"
#include "storage_server/context.h"
#include "storage_server/sample_file.h"
#include "storage_server/stats.h"
#include "storage_server/workers.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replies that are ready together share a message up to about this size: 20 kB samples then
 * cost half as much CPU, and stock clients take 4 MiB. */
#define COALESCE_BYTES (512u << 10)
#define MAX_SHARED_BYTES (1u << 20)

/* What one stream may hold in memory, from accepted requests (as far as their size is
 * known) to bytes that the transport has not taken: a client that does not read
 * stops being served here. */
#define STREAM_BYTES (64u << 20)

/* Requests of one stream that may wait to be taken up (some 50 bytes each) before its reading
 * pauses.  Far above what any client has open: a grant must never wait behind requests that
 * wait for that very grant. */
#define MAX_BACKLOG_REQUESTS 65536

/* A larger payload would not fit the 64 MiB that our client receives. */
#define MAX_PAYLOAD_BYTES (63u << 20)

/* The requests of one message that are still to be taken up. */
struct backlog {
    struct backlog *next;
    struct sluice_wire_sample_request *requests; /* owned */
    size_t num_requests, taken;
    uint64_t received_ns;
};

struct fetch_job {
    struct sluice_job job;
    struct fetch_job *next;
    struct stream *stream;                     /* a reference */
    struct sluice_wire_sample_request request; /* its split at most num_ops */
    unsigned split;                            /* ops to run: what was asked for, or none */
    bool is_cut;                               /* no ops, but the file's MCUs for the crop */
    size_t estimated_bytes;                    /* of the reply */
    uint64_t accepted_ns;
    struct sluice_wire_sample_reply reply;
};

struct stream {
    pthread_mutex_t lock;
    struct backlog *backlog_first, **backlog_end;
    size_t backlog_requests;              /* not yet taken up, of all of it */
    struct fetch_job *parked;             /* taken up, but no lane had room */
    struct fetch_job *ready, **ready_end; /* answered, not yet sent */
    size_t ready_bytes;
    size_t in_flight, in_flight_bytes; /* taken up and not yet sent */
    int64_t window_left;               /* payload bytes that may still go; < 0: overdrawn */
    bool has_window;
    bool is_open;        /* FetchOpen came */
    bool is_half_closed; /* the client asks for no more */
    bool is_over;        /* finished by us, or lost: nothing more is sent */
    bool is_paused;
    bool is_waiting; /* the waiter below is in line */
    bool is_dispatching, dispatch_again;

    atomic_uint refs; /* the call, each job, the waiter in line, the list while stopping */
    struct sluice_context *context; /* constant from here */
    struct sluice_rpc_call *call;   /* a reference */
    struct sluice_party *party;     /* joined */
    struct sluice_waiter waiter;
    struct sluice_pipeline *pipeline; /* set with is_open, before any job */
    unsigned num_ops;

    struct stream *next, **link; /* under the fetch's lock */
    struct stream *stop_next;    /* sluice_fetch_stop()'s own */
};

struct sluice_fetch {
    pthread_mutex_t lock;
    struct stream *streams;

    atomic_bool is_stopping;
};

static void dispatch(struct stream *s);
static bool on_room(struct sluice_waiter *waiter);

sluice_status sluice_fetch_create(struct sluice_fetch **fetch, struct sluice_err *err)
{
    struct sluice_fetch *f = calloc(1, sizeof(*f));
    if (!f)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the fetch service");
    pthread_mutex_init(&f->lock, NULL);
    atomic_init(&f->is_stopping, false);
    *fetch = f;
    return SLUICE_OK;
}

void sluice_fetch_destroy(struct sluice_fetch *fetch)
{
    if (!fetch)
        return;
    pthread_mutex_destroy(&fetch->lock);
    free(fetch);
}

static struct stream *stream_ref(struct stream *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

static void stream_unref(struct stream *s)
{
    /* Acquire and release: the last one sees what the others wrote. */
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    sluice_pipeline_destroy(s->pipeline);
    sluice_workers_leave(s->context->workers, s->party);
    sluice_rpc_call_unref(s->call);
    pthread_mutex_destroy(&s->lock);
#ifndef __clang_analyzer__ /* it cannot count references, and calls every later use a fault */
    free(s);
#endif
}

static void free_job(struct fetch_job *job)
{
    sluice_wire_sample_reply_clear(&job->reply);
    stream_unref(job->stream);
    free(job);
}

static void free_backlog(struct backlog *backlog)
{
    while (backlog) {
        struct backlog *next = backlog->next;
        free(backlog->requests);
        free(backlog);
        backlog = next;
    }
}

/* Ends the stream from our side.  Jobs that still run find it over and are dropped. */
static void end_stream(struct stream *s, enum sluice_rpc_code code, const char *text)
{
    pthread_mutex_lock(&s->lock);
    const bool is_first = !s->is_over;
    s->is_over = true;
    pthread_mutex_unlock(&s->lock);
    if (!is_first)
        return;
    if (code != SLUICE_RPC_OK && code != SLUICE_RPC_UNAVAILABLE)
        sluice_log(SLUICE_LOG_WARN, "fetch stream of %s refused: %s", sluice_rpc_call_peer(s->call),
                   text);
    sluice_rpc_call_finish(s->call, code, text);
}

/* Ends the stream if nothing is left to answer and nothing will come. */
static void end_if_answered(struct stream *s)
{
    const bool is_stopping = atomic_load(&s->context->fetch->is_stopping);
    pthread_mutex_lock(&s->lock);
    const bool is_answered = !s->in_flight && !s->backlog_first;
    const bool is_half_closed = s->is_half_closed;
    pthread_mutex_unlock(&s->lock);
    if (!is_answered)
        return;
    if (is_half_closed)
        end_stream(s, SLUICE_RPC_OK, NULL);
    else if (is_stopping)
        end_stream(s, SLUICE_RPC_UNAVAILABLE, "the server is stopping");
}

/* --- from ready to the wire --- */

/* Under the lock: takes what may go now as one message. */
static struct fetch_job *take_batch(struct stream *s)
{
    struct fetch_job *batch = NULL, **end = &batch;
    size_t bytes = 0;
    while (s->ready && bytes < COALESCE_BYTES) {
        struct fetch_job *job = s->ready;
        const size_t len = job->reply.payload ? job->reply.payload->len : 0;
        /* One reply may overdraw the window, else one larger than it could never go. */
        if (len && s->has_window && s->window_left <= 0)
            break;
        if (bytes && bytes + len > MAX_SHARED_BYTES)
            break;
        s->ready = job->next;
        if (!s->ready)
            s->ready_end = &s->ready;
        s->ready_bytes -= len;
        s->window_left -= s->has_window ? (int64_t)len : 0;
        bytes += len;
        job->next = NULL;
        *end = job;
        end = &job->next;
    }
    return batch;
}

static void send_batch(struct stream *s, const struct fetch_job *batch)
{
    struct sluice_message message = {0};
    struct sluice_err err = {0};
    sluice_status status = SLUICE_OK;
    for (const struct fetch_job *job = batch; job && status == SLUICE_OK; job = job->next)
        status = sluice_wire_put_sample_reply(&job->reply, &message, &err);
    if (status == SLUICE_OK) {
        const struct sluice_worker_pool_stats prep =
            sluice_workers_stats(s->context->workers, SLUICE_LANE_PREP);
        const struct sluice_wire_load load = {
            .queue_depth = (uint32_t)prep.queue_depth,
            .cpu_price = sluice_workers_cpu_price(s->context->workers),
        };
        status = sluice_wire_put_load(&load, &message, &err);
    }
    if (status != SLUICE_OK) {
        sluice_message_clear(&message);
        /* The client asks again for what it has no answer to. */
        end_stream(s, SLUICE_RPC_RESOURCE_EXHAUSTED, err.text);
        return;
    }
    /* Counted first, so that whoever has the reply finds it in the counters. */
    for (const struct fetch_job *job = batch; job; job = job->next)
        sluice_stats_count(s->context->stats, &job->reply,
                           job->reply.ops_done < job->request.split);
    /* If the call was lost meanwhile, on_done reports it. */
    if (sluice_rpc_call_send(s->call, &message) == SLUICE_E_NO_MEMORY)
        end_stream(s, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a reply");
}

/* Sends what is ready, unless a message is on its way and little has gathered: then
 * on_writable comes here again and finds more to share the next one. */
static void flush(struct stream *s)
{
    for (;;) {
        /* Read after the reply was made ready: if bytes are still queued, their on_writable
         * is still to come. */
        const size_t queued = sluice_rpc_call_queued_bytes(s->call);
        struct fetch_job *batch = NULL;
        pthread_mutex_lock(&s->lock);
        const bool is_over = s->is_over;
        if (is_over) {
            batch = s->ready;
            s->ready = NULL;
            s->ready_end = &s->ready;
            s->ready_bytes = 0;
        } else if (queued == 0 || s->ready_bytes >= COALESCE_BYTES) {
            batch = take_batch(s);
        }
        pthread_mutex_unlock(&s->lock);
        if (!batch)
            return;

        if (!is_over)
            send_batch(s, batch);
        size_t count = 0, bytes = 0;
        for (const struct fetch_job *job = batch; job; job = job->next) {
            count++;
            bytes += job->estimated_bytes;
        }
        pthread_mutex_lock(&s->lock);
        s->in_flight -= count;
        s->in_flight_bytes -= bytes;
        pthread_mutex_unlock(&s->lock);
        while (batch) {
            struct fetch_job *job = batch;
            batch = job->next;
            free_job(job);
        }
    }
}

/* After anything changed that may let replies go or requests in. */
static void advance(struct stream *s)
{
    flush(s);
    dispatch(s);
    end_if_answered(s);
}

static void make_ready(struct fetch_job *job)
{
    struct stream *s = job->stream;
    pthread_mutex_lock(&s->lock);
    job->next = NULL;
    *s->ready_end = job;
    s->ready_end = &job->next;
    s->ready_bytes += job->reply.payload ? job->reply.payload->len : 0;
    pthread_mutex_unlock(&s->lock);
}

/* --- a job --- */

static uint32_t to_us(uint64_t ns)
{
    const uint64_t us = ns / 1000;
    return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* The end of a long path tells more than its beginning. */
static void fail_reply(struct sluice_wire_sample_reply *reply, sluice_status status,
                       const char *path, const char *text)
{
    const size_t len = strlen(path), room = 90;
    reply->status = status;
    snprintf(reply->error, sizeof(reply->error), "%s%s: %.100s", len > room ? "..." : "",
             len > room ? path + len - room : path, text);
}

static void set_payload(struct sluice_wire_sample_reply *reply, const struct sluice_sample *sample)
{
    reply->status = SLUICE_OK;
    reply->ops_done = sample->ops_done;
    reply->form = sample->is_jpeg_crop               ? SLUICE_FORM_JPEG_CROP
                  : sample->kind == SLUICE_KIND_FILE ? SLUICE_FORM_RAW
                  : sample->is_packed                ? SLUICE_FORM_U8_PACKED
                  : sample->kind == SLUICE_KIND_U8   ? SLUICE_FORM_U8
                                                     : SLUICE_FORM_F32;
    reply->width = sample->width;
    reply->height = sample->height;
    reply->channels = sample->channels;
    reply->payload = sluice_buf_ref(sample->data);
}

/* What was planned for the job.  SLUICE_E_AGAIN: the sample is smaller as it stands. */
static sluice_status preprocess(struct fetch_job *job, struct sluice_scratch *scratch,
                                struct sluice_sample *sample, struct sluice_err *err)
{
    struct stream *s = job->stream;
    if (job->split && job->request.form == SLUICE_FORM_U8_PACKED &&
        sluice_pipeline_kind(s->pipeline, job->split) == SLUICE_KIND_U8)
        return sluice_pipeline_pack(s->pipeline, scratch, sample, job->split, err);
    if (job->split)
        return sluice_pipeline_run(s->pipeline, scratch, sample, job->split, err);
    if (!job->is_cut)
        return SLUICE_OK;
    const sluice_status status = sluice_pipeline_crop_jpeg(s->pipeline, scratch, sample,
                                                           s->context->has_optimal_crops, NULL);
    /* The file says the same as a crop, and what is wrong with it. */
    return status == SLUICE_OK || sluice_indexed_file_has_holes(sample) ? status : SLUICE_E_AGAIN;
}

static sluice_status read_sample(struct fetch_job *job, const struct sluice_sample_want *want,
                                 bool is_again, struct sluice_sample *sample,
                                 struct sluice_err *err)
{
    const uint64_t start_ns = sluice_clock_ns();
    const sluice_status status =
        sluice_sample_file_read(job->stream->context, want, is_again, sample, err);
    job->reply.disk_us += to_us(sluice_clock_ns() - start_ns);
    return status;
}

static void answer(struct fetch_job *job, struct sluice_scratch *scratch)
{
    struct stream *s = job->stream;
    struct sluice_sample_want want = {
        .path = s->context->manifest->entries[job->request.key.sample_id].path,
        .key = job->request.key,
        .pipeline = s->pipeline,
        .split = job->split,
        .form = job->split || job->is_cut ? job->request.form : SLUICE_FORM_RAW,
    };
    struct sluice_err err = {0};
    struct sluice_sample sample = {0};
    sluice_status status = read_sample(job, &want, false, &sample, &err);
    if (status == SLUICE_OK)
        status = preprocess(job, scratch, &sample, &err);
    if (sluice_indexed_file_has_holes(&sample)) {
        const bool has_tried = status == SLUICE_E_AGAIN;
        sluice_sample_clear(&sample);
        err = (struct sluice_err){0};
        status = read_sample(job, &want, true, &sample, &err);
        if (status == SLUICE_OK && !has_tried)
            status = preprocess(job, scratch, &sample, &err);
    }
    if (status == SLUICE_E_AGAIN)
        status = SLUICE_OK;
    if (status == SLUICE_OK && job->split && sample.data->len > MAX_PAYLOAD_BYTES) {
        sluice_sample_clear(&sample);
        want.split = 0;
        want.form = SLUICE_FORM_RAW;
        status = read_sample(job, &want, true, &sample, &err);
    }
    if (status == SLUICE_OK)
        set_payload(&job->reply, &sample);
    else
        fail_reply(&job->reply, status, want.path, err.text);
    sluice_sample_clear(&sample);
}

static void run_job(struct sluice_job *base, enum sluice_job_fate fate, void *worker)
{
    struct fetch_job *job = SLUICE_CONTAINER_OF(base, struct fetch_job, job);
    struct stream *s = stream_ref(job->stream);
    sluice_workers_started(s->context->workers);

    pthread_mutex_lock(&s->lock);
    const bool is_over = s->is_over;
    pthread_mutex_unlock(&s->lock);
    if (!is_over && fate == SLUICE_JOB_RUN) {
        const uint64_t start_ns = sluice_clock_ns();
        job->reply.queue_us = to_us(start_ns - job->accepted_ns);
        answer(job, worker);
        job->reply.cpu_us = to_us(sluice_workers_job_cpu_ns());
        job->reply.work_us = to_us(sluice_clock_ns() - start_ns);
    } else {
        job->reply.status = SLUICE_E_CLOSED;
    }
    make_ready(job);
    advance(s);
    stream_unref(s);
}

/* --- from the backlog to a lane --- */

/* What is to be done for the job if there is room to do it. */
static void plan_work(const struct stream *s, struct fetch_job *job)
{
    job->split = job->request.split;
    job->is_cut = job->split == 0 && job->request.form == SLUICE_FORM_JPEG_CROP && s->pipeline &&
                  sluice_pipeline_can_crop_jpeg(s->pipeline);
}

/* Under the lock: takes the next request up; NULL: no memory. */
static struct fetch_job *take_request(struct stream *s)
{
    struct backlog *backlog = s->backlog_first;
    struct fetch_job *job = calloc(1, sizeof(*job));
    if (!job)
        return NULL;
    job->job.fn = run_job;
    job->stream = stream_ref(s);
    job->request = backlog->requests[backlog->taken++];
    s->backlog_requests--;
    job->reply.request_id = job->request.request_id;
    job->accepted_ns = sluice_clock_ns();
    job->reply.backlog_us = to_us(job->accepted_ns - backlog->received_ns);
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
    s->in_flight++;
    s->in_flight_bytes += job->estimated_bytes;
    return job;
}

/* The lane for the job, or the way around a full one.  SLUICE_E_AGAIN: both are full. */
static sluice_status hand_over(struct stream *s, struct fetch_job *job)
{
    struct sluice_workers *workers = s->context->workers;
    if (job->request.key.sample_id >= s->context->manifest->num_entries) {
        job->reply.status = SLUICE_E_INVALID;
        snprintf(job->reply.error, sizeof(job->reply.error), "sample %llu of %zu",
                 (unsigned long long)job->request.key.sample_id, s->context->manifest->num_entries);
        make_ready(job);
        flush(s);
        return SLUICE_OK;
    }
    if (job->split || job->is_cut) {
        const sluice_status status =
            sluice_workers_try(workers, s->party, SLUICE_LANE_PREP, &job->job);
        if (status != SLUICE_E_AGAIN)
            return status;
    }
    /* The job is another thread's once it is submitted, so this comes before. */
    job->split = 0;
    job->is_cut = false;
    const sluice_status status = sluice_workers_try(workers, s->party, SLUICE_LANE_IO, &job->job);
    if (status != SLUICE_OK)
        plan_work(s, job);
    return status;
}

/* Nobody waits for the answer. */
static void drop(struct stream *s, struct fetch_job *job)
{
    job->reply.status = SLUICE_E_CLOSED;
    make_ready(job);
    flush(s);
}

/* Finds a lane for `job`, or parks it and gets in line. */
static void place(struct stream *s, struct fetch_job *job)
{
    struct sluice_workers *workers = s->context->workers;
    stream_ref(s); /* the waiter's, should it come to that */
    for (;;) {
        const uint64_t moment = sluice_workers_moment(workers);
        const sluice_status status = hand_over(s, job);
        if (status == SLUICE_OK)
            break;
        if (status != SLUICE_E_AGAIN) {
            drop(s, job); /* the lanes are closed, so the call is over already */
            break;
        }

        /* Parked before it is in line: it may be called back at once. */
        pthread_mutex_lock(&s->lock);
        s->parked = job;
        s->is_waiting = true;
        pthread_mutex_unlock(&s->lock);
        if (sluice_workers_wait(workers, s->party, &s->waiter, moment))
            return;
        pthread_mutex_lock(&s->lock);
        s->parked = NULL;
        s->is_waiting = false;
        pthread_mutex_unlock(&s->lock);
    }
    stream_unref(s);
}

/* Under the lock: whether another request may be taken up. */
static bool may_take(const struct stream *s, size_t queued)
{
    if (s->is_waiting)
        return false;
    if (s->parked)
        return true;
    if (!s->backlog_first)
        return false;
    return s->is_over || !s->in_flight ||
           (s->in_flight < s->context->max_in_flight && s->in_flight_bytes + queued < STREAM_BYTES);
}

/* Moves requests into the lanes as far as the limits and the lanes allow, and keeps
 * reading paused while too many are left.  One thread at a time does so for a stream; others
 * leave word and go. */
static void dispatch(struct stream *s)
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
                /* Nobody to answer: let the rest go. */
                struct backlog *rest = s->backlog_first;
                s->backlog_first = NULL;
                s->backlog_end = &s->backlog_first;
                s->backlog_requests = 0;
                free_backlog(rest);
                break;
            }
            const bool is_over = s->is_over;
            struct fetch_job *job = s->parked ? s->parked : take_request(s);
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
        end_stream(s, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a request");
}

static bool on_room(struct sluice_waiter *waiter)
{
    struct stream *s = SLUICE_CONTAINER_OF(waiter, struct stream, waiter);
    pthread_mutex_lock(&s->lock);
    s->is_waiting = false;
    pthread_mutex_unlock(&s->lock);
    advance(s);
    pthread_mutex_lock(&s->lock);
    const bool is_served = !s->is_waiting;
    pthread_mutex_unlock(&s->lock);
    stream_unref(s);
    return is_served;
}

/* --- the call --- */

static void on_open(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_context *context = ctx;
    struct stream *s = calloc(1, sizeof(*s));
    struct sluice_party *party =
        s ? sluice_workers_join(context->workers, sluice_rpc_call_peer(call)) : NULL;
    if (!party) {
        free(s);
        sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a stream");
        return;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->backlog_end = &s->backlog_first;
    s->ready_end = &s->ready;
    s->context = context;
    s->call = sluice_rpc_call_ref(call);
    s->party = party;
    s->waiter.fn = on_room;
    atomic_init(&s->refs, 1);
    sluice_rpc_call_set_state(call, s);
    sluice_stats_stream_opened(context->stats);

    pthread_mutex_lock(&context->fetch->lock);
    s->next = context->fetch->streams;
    s->link = &context->fetch->streams;
    if (s->next)
        s->next->link = &s->next;
    context->fetch->streams = s;
    pthread_mutex_unlock(&context->fetch->lock);
    /* Listed first, then asked: a stop either finds it in the list or is seen here. */
    end_if_answered(s);
}

/* False: the stream was ended. */
static bool open_stream(struct stream *s, const struct sluice_wire_fetch_open *open)
{
    if (s->is_open) {
        end_stream(s, SLUICE_RPC_INVALID_ARGUMENT, "a second FetchOpen");
        return false;
    }
    struct sluice_err err = {0};
    struct sluice_pipeline *pipeline = NULL;
    const enum sluice_rpc_code code =
        sluice_service_agree(s->context, open->protocol_version, open->pipeline,
                             open->pipeline_fingerprint, open->dataset_id, &pipeline, &err);
    if (code != SLUICE_RPC_OK) {
        end_stream(s, code, err.text);
        return false;
    }
    /* No job of this stream exists yet, so nobody else reads these. */
    if (open->follows_price)
        sluice_workers_follow(s->context->workers, s->party);
    s->pipeline = pipeline;
    s->num_ops = pipeline ? sluice_pipeline_num_ops(pipeline) : 0;
    pthread_mutex_lock(&s->lock);
    s->is_open = true;
    s->has_window = open->window_bytes > 0;
    s->window_left =
        open->window_bytes < INT64_MAX / 2 ? (int64_t)open->window_bytes : INT64_MAX / 2;
    pthread_mutex_unlock(&s->lock);
    return true;
}

static void on_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    struct sluice_context *context = ctx;
    struct stream *s = sluice_rpc_call_state(call);
    if (!s)
        return;
    struct sluice_err err = {0};
    struct sluice_wire_fetch_request request = {0};
    if (sluice_wire_get_fetch_request(message, &request, &err) != SLUICE_OK) {
        end_stream(s, SLUICE_RPC_INVALID_ARGUMENT, err.text);
        return;
    }
    if (request.open.is_present && !open_stream(s, &request.open)) {
        sluice_wire_fetch_request_clear(&request);
        return;
    }

    struct backlog *backlog = NULL;
    /* What comes after the stop was not accepted; grants still count. */
    const bool is_stopping = atomic_load(&context->fetch->is_stopping);
    if (request.num_samples && !is_stopping) {
        if (!s->is_open) {
            end_stream(s, SLUICE_RPC_INVALID_ARGUMENT, "the first message must hold a FetchOpen");
        } else if (!(backlog = malloc(sizeof(*backlog)))) {
            end_stream(s, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a request");
        } else {
            *backlog = (struct backlog){
                .requests = request.samples,
                .num_requests = request.num_samples,
                .received_ns = sluice_clock_ns(),
            };
            request.samples = NULL;
            request.num_samples = 0;
        }
    }

    pthread_mutex_lock(&s->lock);
    if (backlog) {
        *s->backlog_end = backlog;
        s->backlog_end = &backlog->next;
        s->backlog_requests += backlog->num_requests;
    }
    const int64_t room = INT64_MAX / 2 - s->window_left;
    s->window_left += request.grant_bytes < (uint64_t)room ? (int64_t)request.grant_bytes : room;
    pthread_mutex_unlock(&s->lock);
    sluice_wire_fetch_request_clear(&request);
    advance(s);
}

static void on_half_close(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    struct stream *s = sluice_rpc_call_state(call);
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->is_half_closed = true;
    pthread_mutex_unlock(&s->lock);
    end_if_answered(s);
}

static void on_writable(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    struct stream *s = sluice_rpc_call_state(call);
    if (s)
        advance(s);
}

static void on_done(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_context *context = ctx;
    struct stream *s = sluice_rpc_call_state(call);
    if (!s)
        return;
    pthread_mutex_lock(&context->fetch->lock);
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    pthread_mutex_unlock(&context->fetch->lock);

    pthread_mutex_lock(&s->lock);
    const bool is_lost = !s->is_over;
    size_t unanswered = s->in_flight;
    for (const struct backlog *b = s->backlog_first; b; b = b->next)
        unanswered += b->num_requests - b->taken;
    s->is_over = true;
    pthread_mutex_unlock(&s->lock);
    if (is_lost && unanswered)
        sluice_log(SLUICE_LOG_WARN, "lost %s with %zu samples unanswered",
                   sluice_rpc_call_peer(call), unanswered);
    sluice_stats_stream_closed(context->stats);
    advance(s); /* drops what is left */
    stream_unref(s);
}

void sluice_fetch_stop(struct sluice_fetch *fetch)
{
    atomic_store(&fetch->is_stopping, true);
    /* A chain of its own: a stream that ends leaves the list meanwhile. */
    struct stream *chain = NULL;
    pthread_mutex_lock(&fetch->lock);
    for (struct stream *s = fetch->streams; s; s = s->next) {
        s->stop_next = chain;
        chain = stream_ref(s);
    }
    pthread_mutex_unlock(&fetch->lock);
    while (chain) {
        struct stream *s = chain;
        chain = s->stop_next;
        end_if_answered(s);
        stream_unref(s);
    }
}

struct sluice_method_list sluice_fetch_methods(void)
{
    static const struct sluice_rpc_method methods[] = {
        {.path = SLUICE_METHOD_FETCH,
         .on_open = on_open,
         .on_message = on_message,
         .on_half_close = on_half_close,
         .on_writable = on_writable,
         .on_done = on_done},
    };
    return (struct sluice_method_list){methods, SLUICE_ARRAY_LEN(methods)};
}
