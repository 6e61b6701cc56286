#include "compute_client/load/fetcher.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "compute_client/load/fetcher_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fetcher *fetcher_of(struct sluice_source *source)
{
    return SLUICE_CONTAINER_OF(source, struct fetcher, source);
}

/* --- the owner of the stream --- */

static void give_up(struct fetcher *f, sluice_status status, const char *text)
{
    pthread_mutex_lock(&f->lock);
    f->has_failed = true;
    pthread_mutex_unlock(&f->lock);
    f->events.on_failed(f->events.ctx, status, text);
}

/* Waits until the source is closed, at most until until_ns. */
static void wait_closed(struct fetcher *f, uint64_t until_ns)
{
    bool has_time = true;
    pthread_mutex_lock(&f->lock);
    while (has_time && !f->is_closed)
        has_time = sluice_cond_wait_until(&f->changed, &f->lock, until_ns);
    pthread_mutex_unlock(&f->lock);
}

static sluice_status open_stream(struct fetcher *f, bool *is_passing, struct sluice_err *err)
{
    struct sluice_server_info info;
    sluice_status status =
        sluice_client_hello_once(f->client, f->pipeline, f->dataset_id, &info, is_passing, err);
    if (status != SLUICE_OK)
        return status;

    pthread_mutex_lock(&f->lock);
    /* The new stream starts with credit for all bytes that are not held.  Those that are held are
     * granted when they are consumed. */
    f->grant_bytes = 0;
    const uint64_t window = f->held_bytes < f->window_bytes ? f->window_bytes - f->held_bytes : 1;
    f->is_stream_lost = false;
    pthread_mutex_unlock(&f->lock);
    f->broken = (struct sluice_err){0};
    f->max_in_flight = info.max_in_flight;

    *is_passing = true; /* from here on only the network can fail */
    const struct sluice_rpc_stream_events events = {
        .on_message = fetcher_on_message,
        .on_done = fetcher_on_done,
        .ctx = f,
    };
    struct sluice_rpc_stream *stream = NULL;
    status = sluice_rpc_stream_open(sluice_client_channel(f->client), SLUICE_METHOD_FETCH, 0,
                                    &events, &stream, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_wire_fetch_request request = {
        .open =
            {
                .is_present = true,
                .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
                .pipeline = (char *)(uintptr_t)sluice_pipeline_spec(f->pipeline),
                .pipeline_fingerprint = sluice_pipeline_fingerprint(f->pipeline),
                .window_bytes = window,
                .follows_price = f->follows_price,
            },
    };
    memcpy(request.open.dataset_id, f->dataset_id, sizeof(request.open.dataset_id));
    struct sluice_message message = {0};
    status = sluice_wire_put_fetch_request(&request, &message, err);
    if (status == SLUICE_OK)
        (void)sluice_rpc_stream_send(stream, &message); /* a lost stream says so in on_done */
    sluice_message_clear(&message);
    if (status != SLUICE_OK) {
        sluice_rpc_stream_destroy(stream);
        return status;
    }
    f->stream = stream;
    return SLUICE_OK;
}

/* Opens a stream, or waits before the next attempt.  False: the source has failed for good. */
static bool connect_or_wait(struct fetcher *f)
{
    struct sluice_err err = {0};
    bool is_passing = false;
    const sluice_status status = open_stream(f, &is_passing, &err);
    if (status == SLUICE_OK)
        return true;
    if (!is_passing) {
        give_up(f, status, err.text);
        return false;
    }
    uint64_t wait = 0;
    const uint64_t now = sluice_clock_ns();
    if (!sluice_retry_failed(&f->retry, now, &wait)) {
        char text[sizeof(err.text) + 64];
        snprintf(text, sizeof(text), "%s (tried for %.0f s)", err.text,
                 sluice_client_retry_for_s(f->client));
        give_up(f, status, text);
        return false;
    }
    wait_closed(f, now + wait);
    return true;
}

/* The stream has ended: prepares for a new one.  False: the source has failed for good. */
static bool after_loss(struct fetcher *f)
{
    sluice_rpc_stream_destroy(f->stream);
    f->stream = NULL;

    pthread_mutex_lock(&f->lock);
    const enum sluice_rpc_code code = f->lost_code;
    char text[320];
    snprintf(text, sizeof(text), "%s: %s", sluice_client_target(f->client), f->lost_text);
    if (f->has_progress)
        sluice_retry_succeeded(&f->retry);
    f->has_progress = false;
    const bool is_needed = !sluice_pending_is_empty(&f->pending);
    f->stats.repeated += sluice_pending_lose(&f->pending);
    f->stats.lost_streams++;
    pthread_mutex_unlock(&f->lock);

    if (!sluice_client_is_passing(code)) {
        give_up(f, sluice_rpc_code_to_status(code), text);
        return false;
    }
    if (!is_needed)
        return true;
    uint64_t wait = 0;
    const uint64_t now = sluice_clock_ns();
    const bool is_first = f->retry.since_ns == 0;
    if (!sluice_retry_failed(&f->retry, now, &wait)) {
        if (sluice_client_retry_for_s(f->client) > 0)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), " (tried for %.0f s)",
                     sluice_client_retry_for_s(f->client));
        give_up(f, SLUICE_E_IO, text);
        return false;
    }
    if (is_first && !sluice_client_is_stopped(f->client))
        sluice_log(SLUICE_LOG_WARN, "lost the stream to %s; trying for up to %.0f s", text,
                   sluice_client_retry_for_s(f->client));
    wait_closed(f, now + wait);
    return true;
}

/* Under the lock: fills f->batch with the requests that may be sent now; returns their number. */
static size_t gather_requests(struct fetcher *f)
{
    size_t count = 0;
    const uint64_t now = sluice_clock_ns();
    while (count < FETCHER_MAX_PER_MESSAGE && f->pending.num_sent < f->max_in_flight) {
        const struct sluice_pending *pending = sluice_pending_send(&f->pending, now);
        if (!pending)
            break;
        f->batch[count++] = (struct sluice_wire_sample_request){
            .request_id = pending->request_id,
            .key = pending->item.key,
            .split = pending->item.split,
            .form = pending->item.form,
        };
    }
    return count;
}

static void send_requests(struct fetcher *f, size_t count, uint64_t grant, double storage_worth)
{
    const struct sluice_wire_fetch_request request = {
        .samples = f->batch,
        .num_samples = count,
        .grant_bytes = grant,
        .cpu_worth = storage_worth,
    };
    struct sluice_message message = {0};
    struct sluice_err err = {0};
    if (sluice_wire_put_fetch_request(&request, &message, &err) == SLUICE_OK) {
        (void)sluice_rpc_stream_send(f->stream, &message); /* a lost stream says so in on_done */
    } else {
        /* Out of memory: treats the stream as lost, so that the requests are sent again. */
        fetcher_on_done(f, SLUICE_RPC_RESOURCE_EXHAUSTED, err.text);
    }
    sluice_message_clear(&message);
}

/* Under the lock, which it gives up for a moment. */
static void tell_again(struct fetcher *f)
{
    struct sluice_again_log line;
    if (!sluice_again_take(&f->again, sluice_clock_ns(), &line))
        return;
    const size_t count = f->pending.num_failing;
    pthread_mutex_unlock(&f->lock);
    sluice_again_tell(&line, sluice_client_target(f->client), count);
    pthread_mutex_lock(&f->lock);
}

static void *owner_main(void *ctx)
{
    struct fetcher *f = ctx;
    pthread_mutex_lock(&f->lock);
    while (!f->is_closed) {
        if (f->stream && f->is_stream_lost) {
            pthread_mutex_unlock(&f->lock);
            if (!after_loss(f))
                return NULL;
            pthread_mutex_lock(&f->lock);
            continue;
        }
        if (f->has_progress) {
            f->has_progress = false;
            sluice_retry_succeeded(&f->retry);
        }
        tell_again(f);
        const uint64_t next_due = sluice_pending_wake(&f->pending, sluice_clock_ns());
        if (!f->stream && sluice_pending_has_unsent(&f->pending)) {
            pthread_mutex_unlock(&f->lock);
            if (!connect_or_wait(f))
                return NULL;
            pthread_mutex_lock(&f->lock);
            continue;
        }
        if (f->stream) {
            const size_t count = gather_requests(f);
            const uint64_t grant = f->grant_bytes >= (f->window_bytes + 3) / 4 ? f->grant_bytes : 0;
            f->grant_bytes -= grant;
            if (count > 0 || grant > 0) {
                const double storage_worth = f->storage_worth;
                pthread_mutex_unlock(&f->lock);
                send_requests(f, count, grant, storage_worth);
                pthread_mutex_lock(&f->lock);
                continue;
            }
        }
        if (next_due)
            sluice_cond_wait_until(&f->changed, &f->lock, next_due);
        else
            pthread_cond_wait(&f->changed, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* --- struct sluice_source --- */

static sluice_status fetcher_request(struct sluice_source *source,
                                     const struct sluice_source_item *items, size_t num_items)
{
    struct fetcher *f = fetcher_of(source);
    pthread_mutex_lock(&f->lock);
    if (f->is_closed || f->has_failed) {
        pthread_mutex_unlock(&f->lock);
        return SLUICE_E_CLOSED;
    }
    const uint64_t now = sluice_clock_ns();
    for (size_t i = 0; i < num_items; i++) {
        f->storage_worth = items[i].storage_worth;
        sluice_pending_accept(&f->pending, &items[i], sluice_client_retry_for_s(f->client), now);
    }
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return SLUICE_OK;
}

static void fetcher_consumed(struct sluice_source *source, size_t payload_bytes)
{
    struct fetcher *f = fetcher_of(source);
    pthread_mutex_lock(&f->lock);
    f->held_bytes -= payload_bytes;
    f->grant_bytes += payload_bytes;
    if (f->grant_bytes >= (f->window_bytes + 3) / 4)
        pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static uint64_t fetcher_wire_bytes(struct sluice_source *source)
{
    return sluice_fetcher_stats(source).wire_bytes;
}

static void fetcher_close(struct sluice_source *source)
{
    struct fetcher *f = fetcher_of(source);
    pthread_mutex_lock(&f->lock);
    f->is_closed = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->is_owner_started && !f->is_joined) {
        pthread_join(f->owner, NULL);
        f->is_joined = true;
    }
    sluice_rpc_stream_destroy(f->stream);
    f->stream = NULL;
}

static void fetcher_destroy(struct sluice_source *source)
{
    struct fetcher *f = fetcher_of(source);
    fetcher_close(source);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    sluice_pending_clear(&f->pending);
    free(f);
}

sluice_status sluice_fetcher_create(const struct sluice_fetcher_options *options,
                                    struct sluice_source **source, struct sluice_err *err)
{
    if (options->max_items == 0 || options->max_items >= (1u << SLUICE_PENDING_INDEX_BITS) ||
        options->window_bytes == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "a fetcher of %zu items and a window of %llu",
                           options->max_items, (unsigned long long)options->window_bytes);
    struct fetcher *f = calloc(1, sizeof(*f));
    if (!f)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a fetcher");
    const sluice_status status = sluice_pending_init(&f->pending, options->max_items, err);
    if (status != SLUICE_OK) {
        free(f);
        return status;
    }
    f->source = (struct sluice_source){
        .request = fetcher_request,
        .consumed = fetcher_consumed,
        .wire_bytes = fetcher_wire_bytes,
        .close = fetcher_close,
        .destroy = fetcher_destroy,
    };
    f->client = options->client;
    f->pipeline = options->pipeline;
    snprintf(f->dataset_id, sizeof(f->dataset_id), "%s", options->dataset_id);
    f->window_bytes = options->window_bytes;
    f->follows_price = options->follows_price;
    f->max_image_pixels = options->max_image_pixels ? options->max_image_pixels : UINT64_MAX;
    f->events = options->events;
    f->retry = sluice_retry_init(sluice_client_retry_for_s(f->client),
                                 sluice_clock_ns() ^ (uint64_t)getpid());
    pthread_mutex_init(&f->lock, NULL);
    sluice_cond_init(&f->changed);
    const int failed = pthread_create(&f->owner, NULL, owner_main, f);
    if (failed) {
        fetcher_destroy(&f->source);
        return sluice_fail(err, SLUICE_E_IO, "cannot start the fetcher's thread: %s",
                           strerror(failed));
    }
    f->is_owner_started = true;
    *source = &f->source;
    return SLUICE_OK;
}

struct sluice_fetcher_stats sluice_fetcher_stats(struct sluice_source *source)
{
    struct fetcher *f = fetcher_of(source);
    pthread_mutex_lock(&f->lock);
    const struct sluice_fetcher_stats stats = f->stats;
    pthread_mutex_unlock(&f->lock);
    return stats;
}
