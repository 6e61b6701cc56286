#include "compute_client/load/fetcher.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "compute_client/load/pending_table.h"
#include "compute_client/load/retry.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most requests in one message: enough that the overhead of a message hardly counts, few enough
 * that one message is sent while the next is filled. */
#define MAX_PER_MESSAGE 64

/* No server of ours sends a larger payload: its own limits are lower. */
#define MAX_PAYLOAD_BYTES ((size_t)512 << 20)

struct fetcher {
    struct sluice_source source;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sluice_pending_table pending;
    uint64_t held_bytes;  /* payloads handed on and not yet consumed */
    uint64_t grant_bytes; /* consumed and not yet granted */
    bool is_closed, has_failed;
    bool is_stream_lost; /* on_done came; the owner has not seen it yet */
    enum sluice_rpc_code lost_code;
    char lost_text[200];
    bool has_progress; /* a sample was answered since the owner last checked */
    struct sluice_fetcher_stats stats;

    /* The owner thread's alone. */
    pthread_t owner;
    struct sluice_rpc_stream *stream;
    struct sluice_retry retry;
    uint32_t max_in_flight;
    struct sluice_wire_sample_request batch[MAX_PER_MESSAGE];

    /* The completion thread's alone. */
    struct sluice_err broken;              /* the message that could not be read */
    struct sluice_wire_load load;          /* of the last message */
    struct sluice_shared_message *message; /* the one in hand; its samples add references */

    /* Constant. */
    struct sluice_client *client;
    const struct sluice_pipeline *pipeline;
    char dataset_id[33];
    uint64_t window_bytes, max_image_pixels;
    bool follows_price;
    double storage_worth; /* as the last item said */
    struct sluice_source_events events;
    bool is_owner_started;
    bool is_joined;
};

static struct fetcher *fetcher_of(struct sluice_source *source)
{
    return SLUICE_CONTAINER_OF(source, struct fetcher, source);
}

/* --- what arrives, on the completion thread --- */

static sluice_status make_sample(const struct fetcher *f, const struct sluice_source_item *item,
                                 const struct sluice_wire_sample_reply *reply,
                                 struct sluice_sample *sample, struct sluice_err *err)
{
    static const enum sluice_kind kinds[SLUICE_NUM_FORMS] = {
        [SLUICE_FORM_RAW] = SLUICE_KIND_FILE, [SLUICE_FORM_JPEG_CROP] = SLUICE_KIND_FILE,
        [SLUICE_FORM_U8] = SLUICE_KIND_U8,    [SLUICE_FORM_U8_PACKED] = SLUICE_KIND_U8,
        [SLUICE_FORM_F32] = SLUICE_KIND_F32,
    };
    if (reply->ops_done > sluice_pipeline_num_ops(f->pipeline) ||
        sluice_pipeline_kind(f->pipeline, reply->ops_done) != kinds[reply->form])
        return sluice_fail(err, SLUICE_E_CORRUPT, "the reply says %s after %u ops",
                           sluice_form_name(reply->form), reply->ops_done);
    /* The check reads the length of the data, not the data. */
    struct sluice_buf measured = {.len = sluice_cursor_left(&reply->arrived)};
    struct sluice_sample made = {
        .key = item->key,
        .ops_done = reply->ops_done,
        .kind = kinds[reply->form],
        .width = reply->width,
        .height = reply->height,
        .channels = reply->channels,
        .data = &measured,
        .is_jpeg_crop = reply->form == SLUICE_FORM_JPEG_CROP,
        .is_packed = reply->form == SLUICE_FORM_U8_PACKED,
    };
    if (made.kind == SLUICE_KIND_FILE)
        made.width = made.height = made.channels = 0;
    const sluice_status status =
        sluice_pipeline_check_sample(f->pipeline, &made, f->max_image_pixels, err);
    if (status != SLUICE_OK)
        return status;
    made.data = NULL;
    *sample = made;
    return SLUICE_OK;
}

static void on_sample(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    struct fetcher *f = ctx;

    pthread_mutex_lock(&f->lock);
    struct sluice_pending *pending = sluice_pending_find(&f->pending, reply->request_id);
    if (!pending) {
        f->stats.dropped++;
        pthread_mutex_unlock(&f->lock);
        return;
    }
    uint64_t wait = 0;
    if ((reply->status == SLUICE_E_AGAIN || reply->status == SLUICE_E_CLOSED) &&
        sluice_retry_failed(&pending->retry, sluice_clock_ns(), &wait)) {
        sluice_pending_delay(&f->pending, pending, sluice_clock_ns() + wait);
        f->stats.repeated++;
        pthread_cond_signal(&f->changed);
        pthread_mutex_unlock(&f->lock);
        return;
    }
    const struct sluice_source_item item = pending->item;
    const uint64_t unsent_ns = pending->sent_ns - pending->accepted_ns;
    sluice_pending_finish(&f->pending, pending);
    f->has_progress = true;
    if (sluice_pending_has_unsent(&f->pending))
        pthread_cond_signal(&f->changed); /* there is room for another */
    pthread_mutex_unlock(&f->lock);

    /* If the server does not report work_us, its CPU time stands for it. */
    const uint32_t worked_us =
        reply->work_us > reply->disk_us ? reply->work_us - reply->disk_us : 0;
    const uint32_t storage_us = worked_us > reply->cpu_us ? worked_us : reply->cpu_us;
    struct sluice_source_result result = {
        .ticket = item.ticket,
        .status = reply->status,
        .form = reply->form,
        .disk_ns = (uint64_t)reply->disk_us * 1000,
        .disk_busy_ns = (uint64_t)reply->disk_busy_us * 1000,
        .read_bytes = reply->read_bytes,
        .backlog_ns = unsent_ns + (uint64_t)reply->backlog_us * 1000,
        .storage_ns = ((uint64_t)reply->queue_us + storage_us) * 1000,
        .storage_queue_ns = (uint64_t)reply->queue_us * 1000,
        .storage_cpu_ns = (uint64_t)reply->cpu_us * 1000,
        .storage_price = f->load.cpu_price,
        .storage_cores = f->load.prep_cores,
    };
    memcpy(result.error, reply->error, sizeof(result.error));
    if (result.status == SLUICE_OK) {
        struct sluice_err err = {0};
        result.payload_bytes = sluice_cursor_left(&reply->arrived);
        result.status = make_sample(f, &item, reply, &result.sample, &err);
        if (result.status == SLUICE_OK) {
            result.arrived = reply->arrived;
            result.message = sluice_shared_message_ref(f->message);
        }
        snprintf(result.error, sizeof(result.error), "%.*s", (int)sizeof(result.error) - 1,
                 err.text);
        pthread_mutex_lock(&f->lock);
        f->held_bytes += result.payload_bytes;
        pthread_mutex_unlock(&f->lock);
    }
    f->events.on_result(f->events.ctx, &result);
}

static void on_message(void *ctx, struct sluice_message *message)
{
    struct fetcher *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->stats.wire_bytes += message->len;
    pthread_mutex_unlock(&f->lock);
    if (f->broken.text[0])
        return;
    /* A message that cannot be read ends the stream; what it did not answer is requested again. */
    sluice_status status = sluice_message_share(message, &f->message, &f->broken);
    if (status == SLUICE_OK) {
        status = sluice_wire_get_fetch_reply(sluice_shared_message_get(f->message),
                                             MAX_PAYLOAD_BYTES, on_sample, f, &f->load, &f->broken);
        sluice_shared_message_unref(f->message);
        f->message = NULL;
    }
    if (status != SLUICE_OK) {
        pthread_mutex_lock(&f->lock);
        f->is_stream_lost = true;
        f->lost_code = SLUICE_RPC_INTERNAL;
        snprintf(f->lost_text, sizeof(f->lost_text), "%.*s", (int)sizeof(f->lost_text) - 1,
                 f->broken.text);
        pthread_cond_signal(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
}

static void on_done(void *ctx, enum sluice_rpc_code code, const char *text)
{
    struct fetcher *f = ctx;
    pthread_mutex_lock(&f->lock);
    if (!f->is_stream_lost) {
        f->is_stream_lost = true;
        f->lost_code = code;
        snprintf(f->lost_text, sizeof(f->lost_text), "%.*s", (int)sizeof(f->lost_text) - 1,
                 text && text[0] ? text : sluice_rpc_code_name(code));
    }
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
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
        .on_message = on_message,
        .on_done = on_done,
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
    if (is_first)
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
    while (count < MAX_PER_MESSAGE && f->pending.num_sent < f->max_in_flight) {
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
        on_done(f, SLUICE_RPC_RESOURCE_EXHAUSTED, err.text);
    }
    sluice_message_clear(&message);
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
