#include "storage_server/fetch/stream.h"

#include "base/buf.h"
#include "base/clock.h"
#include "rpc/rpc_call.h"
#include "storage_server/observe/stats.h"
#include "storage_server/session/client_table.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"

#include <stdlib.h>

/* Bytes.  Replies that are ready together share a message up to about this size: samples of 20 kB
 * then cost half as much CPU, and gRPC clients take messages of 4 MiB by default. */
#define COALESCE_BYTES (512u << 10)
#define MAX_SHARED_BYTES (1u << 20)

void sluice_fetch_job_free(struct sluice_fetch_job *job)
{
    sluice_wire_sample_reply_clear(&job->reply);
    if (job->has_sample)
        sluice_sample_clear(&job->sample);
    /* For a job that never began, or that the watchdog answered. */
    if (job->reserved_ns)
        sluice_grant_settle_cpu(job->stream->grant, job->reserved_ns, 0);
    sluice_memory_give(job->stream->memory, job->charged);
    sluice_fetch_stream_unref(job->stream);
    free(job);
}

/* Under the lock: takes the replies that go into the next message. */
static struct sluice_fetch_job *take_batch(struct sluice_fetch_stream *s)
{
    struct sluice_fetch_job *batch = NULL, **end = &batch;
    size_t bytes = 0;
    while (s->ready && bytes < COALESCE_BYTES) {
        struct sluice_fetch_job *job = s->ready;
        const size_t len = job->reply.payload ? job->reply.payload->len : 0;
        /* One reply may overdraw the credit: else one that is larger could never go. */
        if (len && s->credit_bytes <= 0)
            break;
        if (bytes && bytes + len > MAX_SHARED_BYTES)
            break;
        s->ready = job->next;
        if (!s->ready)
            s->ready_end = &s->ready;
        s->ready_bytes -= len;
        s->credit_bytes -= (int64_t)len;
        bytes += len;
        s->sending++;
        job->next = NULL;
        *end = job;
        end = &job->next;
    }
    return batch;
}

/* Under the lock: whether a message may be sent now.  If not, is_held says whether replies wait for
 * others to share it. */
static bool is_due(struct sluice_fetch_stream *s, size_t queued)
{
    s->is_held = false;
    if (s->ready_bytes >= COALESCE_BYTES)
        return true;
    if (!s->ready || queued > 0)
        return false;
    s->is_held =
        s->num_working > 0 && sluice_clock_ns() < s->ready_since_ns + s->fetch->options.hold_ns;
    return !s->is_held;
}

/* Before it is sent, so that who has the reply finds it in the counters. */
static void count_batch(struct sluice_fetch_stream *s, const struct sluice_fetch_job *batch)
{
    const uint64_t now_ns = sluice_clock_ns();
    uint64_t samples = 0, payload_bytes = 0, errors = 0;
    for (const struct sluice_fetch_job *job = batch; job; job = job->next) {
        const struct sluice_wire_sample_reply *reply = &job->reply;
        sluice_stats_count(s->fetch->options.stats, reply, reply->ops_done < job->request.split,
                           now_ns - job->accepted_ns + reply->backlog_us * UINT64_C(1000));
        if (job->request.trace.span && s->fetch->options.tracer)
            sluice_fetch_trace(job, now_ns);
        samples += reply->status == SLUICE_OK;
        errors += reply->status != SLUICE_OK;
        payload_bytes += reply->payload ? reply->payload->len : 0;
    }
    sluice_client_table_count(s->fetch->options.clients, s->client_row, samples, payload_bytes,
                              errors);
}

static void send_batch(struct sluice_fetch_stream *s, const struct sluice_fetch_job *batch)
{
    struct sluice_message message = {0};
    struct sluice_err err = {0};
    sluice_status status = SLUICE_OK;
    for (const struct sluice_fetch_job *job = batch; job && status == SLUICE_OK; job = job->next)
        status = sluice_wire_put_sample_reply(&job->reply, &message, &err);
    if (status == SLUICE_OK) {
        const struct sluice_worker_pool_stats prep =
            sluice_workers_stats(s->fetch->options.workers, SLUICE_GROUP_PREP);
        const struct sluice_workers_offer offer = sluice_workers_offer(s->fetch->options.workers);
        const struct sluice_wire_load load = {
            .queue_depth = (uint32_t)prep.queue_depth,
            .cpu_price = offer.cpu_price,
            .prep_cores = offer.prep_cores,
        };
        status = sluice_wire_put_load(&load, &message, &err);
    }
    if (status != SLUICE_OK) {
        sluice_message_clear(&message);
        /* The client will ask again for samples without an answer. */
        sluice_fetch_stream_end(s, SLUICE_RPC_RESOURCE_EXHAUSTED, err.text);
        return;
    }
    count_batch(s, batch);
    /* If the call was lost meanwhile, on_done reports it. */
    if (sluice_rpc_call_send(s->call, &message) == SLUICE_E_NO_MEMORY)
        sluice_fetch_stream_end(s, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for a reply");
}

void sluice_fetch_flush(struct sluice_fetch_stream *s)
{
    for (;;) {
        /* Read after the reply was made ready: if bytes are still queued, their on_writable
         * is still to come. */
        const size_t queued = sluice_rpc_call_queued_bytes(s->call);
        struct sluice_fetch_job *batch = NULL;
        pthread_mutex_lock(&s->lock);
        const bool is_over = s->phase == SLUICE_FETCH_OVER;
        if (is_over) {
            batch = s->ready;
            s->ready = NULL;
            s->ready_end = &s->ready;
            s->ready_bytes = 0;
            s->is_held = false;
        } else if (is_due(s, queued)) {
            batch = take_batch(s);
        }
        const bool is_held = s->is_held;
        pthread_mutex_unlock(&s->lock);
        if (!batch) {
            if (is_held)
                sluice_fetch_hold(s->fetch);
            return;
        }

        if (!is_over)
            send_batch(s, batch);
        size_t count = 0, bytes = 0;
        for (const struct sluice_fetch_job *job = batch; job; job = job->next) {
            count++;
            bytes += job->estimated_bytes;
        }
        pthread_mutex_lock(&s->lock);
        s->in_flight -= count;
        s->sending -= is_over ? 0 : count;
        s->in_flight_bytes -= bytes;
        pthread_mutex_unlock(&s->lock);
        while (batch) {
            struct sluice_fetch_job *job = batch;
            batch = job->next;
            sluice_fetch_job_free(job);
        }
    }
}

void sluice_fetch_make_ready(struct sluice_fetch_job *job)
{
    struct sluice_fetch_stream *s = job->stream;
    sluice_wire_seal_sample_reply(&job->reply, &job->request.key, job->request.listed_id);
    pthread_mutex_lock(&s->lock);
    if (!s->ready)
        s->ready_since_ns = sluice_clock_ns();
    s->num_working--;
    job->next = NULL;
    *s->ready_end = job;
    s->ready_end = &job->next;
    s->ready_bytes += job->reply.payload ? job->reply.payload->len : 0;
    pthread_mutex_unlock(&s->lock);
}
