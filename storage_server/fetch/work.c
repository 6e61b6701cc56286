#include "storage_server/fetch/stream.h"

#include "base/buf.h"
#include "base/clock.h"
#include "storage_server/session/grant.h"
#include "storage_server/session/memory_budget.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>

static void give_answer(struct sluice_late_answer *answer)
{
    struct sluice_fetch_job *job = SLUICE_CONTAINER_OF(answer, struct sluice_fetch_job, answer);
    struct sluice_fetch_stream *s = sluice_fetch_stream_ref(job->stream);
    sluice_fetch_make_ready(job);
    s->fetch->advance(s);
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

size_t sluice_fetch_charge_for(const struct sluice_fetch_job *job, size_t payload_bytes)
{
    return sizeof(*job) + sluice_buf_footprint(payload_bytes);
}

/* Corrects the stream's memory charge from the estimate to the size of the reply.  False: the reply
 * is so much larger that it does not fit. */
static bool settle(struct sluice_fetch_job *job)
{
    struct sluice_fetch_stream *s = job->stream;
    struct sluice_buf *payload = job->reply.payload;
    const size_t bytes = payload ? sluice_fetch_charge_for(job, payload->capacity) : sizeof(*job);
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
        .path = sluice_fetch_path(job),
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
        job->reply.image = (struct sluice_file_image){0};
        if (!make_reply(job, preparer))
            return false;
        if (settle(job))
            return true;
        drop_payload(&job->reply);
    }
    job->reply.status = SLUICE_E_NO_MEMORY;
    if (!job->reply.error[0])
        snprintf(job->reply.error, sizeof(job->reply.error),
                 "%.90s: the server has no memory left for this client now",
                 sluice_fetch_path(job));
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
        .path = sluice_fetch_path(job),
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

void sluice_fetch_run_job(struct sluice_job *base, enum sluice_job_fate fate, void *worker)
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
    s->fetch->advance(s);
    sluice_fetch_stream_unref(s);
}

static bool is_of_stream(const struct sluice_job *base, const void *stream)
{
    return base->fn == sluice_fetch_run_job &&
           SLUICE_CONTAINER_OF(base, struct sluice_fetch_job, job)->stream == stream;
}

void sluice_fetch_cancel(struct sluice_fetch_stream *s)
{
    struct sluice_workers *workers = s->fetch->options.workers;
    (void)sluice_workers_cancel(workers, s->client, SLUICE_GROUP_PREP, is_of_stream, s);
    (void)sluice_workers_cancel(workers, s->client, SLUICE_GROUP_IO, is_of_stream, s);
    s->fetch->options.store->cancel(s->fetch->options.store, s);
}
