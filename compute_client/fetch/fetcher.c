#include "compute_client/fetch/fetcher.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "compute_client/fetch/fetcher_state.h"
#include "compute_client/fetch/tuning.h"
#include "compute_client/loader/choose/choice.h"
#include "compute_client/loader/tuning.h"
#include "rpc/rpc_client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most bytes of a message, unless it has one reply that is larger (docs/PROTOCOL.md). */
#define SHARED_MESSAGE_BYTES (1u << 20)

/* A fetcher's patience: 30 years. */
#define FOR_EVER_S 1e9

/* --- the owner of the stream --- */

/* Waits until the fetcher is closed, at most until until_ns. */
static void wait_closed(struct sluice_fetcher *f, uint64_t until_ns)
{
    bool has_time = true;
    pthread_mutex_lock(&f->lock);
    while (has_time && !f->is_closed)
        has_time = sluice_cond_wait_until(&f->changed, &f->lock, until_ns);
    pthread_mutex_unlock(&f->lock);
}

static sluice_status open_stream(struct sluice_fetcher *f, bool *is_passing, struct sluice_err *err)
{
    sluice_status status =
        sluice_client_hello_once(f->client, f->pipeline, f->dataset_id, &f->info, is_passing, err);
    if (status == SLUICE_OK && f->needs_listed_id)
        status = sluice_client_check_listed_id(f->client, &f->info, err);
    if (status == SLUICE_OK && f->wants_file_image)
        status = sluice_client_check_file_image(f->client, &f->info, err);
    if (status != SLUICE_OK)
        return status;

    pthread_mutex_lock(&f->lock);
    /* The new stream starts with credit for all bytes that are not held.  Those that are held are
     * granted when they are consumed. */
    f->grant_bytes = 0;
    const uint64_t window = f->held_bytes < f->window_bytes ? f->window_bytes - f->held_bytes : 1;
    f->credit_bytes = (int64_t)window;
    f->is_stream_lost = f->is_silent = false;
    pthread_mutex_unlock(&f->lock);
    f->broken = (struct sluice_err){0};
    f->max_in_flight = f->info.max_in_flight;
    f->has_hashes = f->info.has_hashes;
    f->max_file_bytes = f->info.max_file_bytes;

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
    char name[HOST_NAME_MAX + 1] = "";
    (void)gethostname(name, sizeof(name) - 1); /* without one the server takes the address */
    struct sluice_wire_fetch_request request = {
        .open =
            {
                .is_present = true,
                .protocol_version = SLUICE_WIRE_PROTOCOL_VERSION,
                .pipeline = (char *)(uintptr_t)sluice_pipeline_spec(f->pipeline),
                .pipeline_fingerprint = sluice_pipeline_fingerprint(f->pipeline),
                .window_bytes = window,
                .follows_price = f->follows_price,
                .wants_file_image = f->wants_file_image,
                .client = name,
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
    sluice_client_tell_back(f->client);
    return SLUICE_OK;
}

/* Counts a failure.  True: a refusal, after SLUICE_CLIENT_REFUSALS in a row: one alone may be due
 * to a flipped bit in the request. */
static bool is_refused(struct sluice_fetcher *f, bool is_passing)
{
    f->refusals = is_passing ? 0 : f->refusals + 1;
    return f->refusals >= SLUICE_CLIENT_REFUSALS ||
           (!is_passing && sluice_client_retry_for_s(f->client) <= 0);
}

/* Reports a loss, or a refusal that counts, and waits before the next attempt.  Meanwhile no
 * request is accepted. */
static void tell_lost_and_wait(struct sluice_fetcher *f, struct sluice_fetcher_loss *loss,
                               bool is_passing)
{
    loss->is_refusal = is_refused(f, is_passing);
    if (loss->is_refusal)
        loss->away_ns = 0;
    f->events.on_lost(f->events.ctx, loss);
    uint64_t wait = 0;
    const uint64_t now = sluice_clock_ns();
    (void)sluice_retry_failed(&f->retry, now, &wait); /* its patience does not end */
    if (loss->is_refusal)
        wait = TUNING_REPLICA_REFUSED_NS;
    else if (wait > TUNING_REPLICA_WAIT_NS)
        wait = TUNING_REPLICA_WAIT_NS;
    wait_closed(f, now + wait);
}

/* Opens a stream, or waits before the next attempt. */
static void connect_or_wait(struct sluice_fetcher *f)
{
    struct sluice_err err = {0};
    bool is_passing = false;
    const sluice_status status = open_stream(f, &is_passing, &err);
    if (status == SLUICE_OK) {
        pthread_mutex_lock(&f->lock);
        f->is_there = true;
        pthread_mutex_unlock(&f->lock);
        f->events.on_there(f->events.ctx, &f->info);
        return;
    }
    sluice_rpc_channel_renew(sluice_client_channel(f->client));
    struct sluice_fetcher_loss loss = {
        .status = status,
        .away_ns = is_passing ? sluice_clock_ns() : 0,
        .text = err.text,
    };
    tell_lost_and_wait(f, &loss, is_passing);
}

/* Called and left under the lock: a sent request has waited for too long. */
static void give_up_on(struct sluice_fetcher *f, struct sluice_pending *pending)
{
    struct sluice_source_result result = {
        .ticket = pending->item.ticket,
        .status = SLUICE_E_IO,
        .is_overdue = true,
        .backlog_ns = pending->sent_ns - pending->accepted_ns,
        .storage_price = f->heard.cpu_price,
        .storage_cores = f->heard.prep_cores,
    };
    sluice_snprintf(result.error, sizeof(result.error), "no answer within %.3g s",
                    (double)f->timeout_ns * 1e-9);
    sluice_pending_finish(&f->pending, pending);
    f->has_progress = true;
    pthread_mutex_unlock(&f->lock);
    f->events.on_result(f->events.ctx, &result);
    pthread_mutex_lock(&f->lock);
}

/* Under the lock: moves all requests to `owed`.  Returns the number that had been sent. */
static uint64_t take_owed(struct sluice_fetcher *f, size_t *num_owed)
{
    uint64_t num_sent = 0;
    struct sluice_fetcher_owed *owed = f->owed;
    for (; sluice_pending_take(&f->pending, &owed->ticket, &owed->was_sent); owed++)
        num_sent += owed->was_sent;
    *num_owed = (size_t)(owed - f->owed);
    return num_sent;
}

/* The stream has ended: reports the loss, and waits before the next attempt. */
static void after_loss(struct sluice_fetcher *f)
{
    sluice_rpc_stream_destroy(f->stream);
    f->stream = NULL;
    sluice_rpc_channel_renew(sluice_client_channel(f->client));

    pthread_mutex_lock(&f->lock);
    f->is_there = false;
    char text[320];
    snprintf(text, sizeof(text), "%s: %s", sluice_client_target(f->client), f->lost_text);
    struct sluice_pending *pending;
    while (f->is_silent && (pending = sluice_pending_oldest(&f->pending)))
        give_up_on(f, pending);
    if (f->has_progress) {
        sluice_retry_succeeded(&f->retry);
        f->refusals = 0;
    }
    f->has_progress = false;
    struct sluice_fetcher_loss loss = {
        .status = sluice_rpc_code_to_status(f->lost_code),
        .is_silent = f->is_silent,
        .away_ns = f->is_silent ? 0 : f->lost_ns,
        .text = text,
        .owed = f->owed,
    };
    const bool is_passing = sluice_client_is_passing(f->lost_code);
    const uint64_t repeated = take_owed(f, &loss.num_owed);
    f->stats.repeated += repeated;
    f->stats.lost_streams++;
    pthread_mutex_unlock(&f->lock);
    if (f->live) {
        sluice_live_add(&f->live->repeated, repeated);
        sluice_live_add(&f->live->lost_streams, 1);
    }
    tell_lost_and_wait(f, &loss, is_passing);
}

/* Under the lock: fills f->batch with the requests that may be sent now; returns their number. */
static size_t gather_requests(struct sluice_fetcher *f)
{
    size_t count = 0;
    const uint64_t now = sluice_clock_ns();
    if (f->pending.num_sent == 0)
        f->quiet_since_ns = now;
    while (count < FETCHER_MAX_PER_MESSAGE && f->pending.num_sent < f->max_in_flight) {
        const struct sluice_pending *pending = sluice_pending_send(&f->pending, now);
        if (!pending)
            break;
        f->batch[count++] = (struct sluice_wire_sample_request){
            .request_id = pending->request_id,
            .key = pending->item.key,
            .split = pending->item.split,
            .form = pending->item.form,
            .jpeg_crop_restart = pending->item.jpeg_crop_restart,
            .listed_id = fetcher_listed_id(&pending->item),
            .trace = pending->item.trace,
        };
    }
    return count;
}

static void send_requests(struct sluice_fetcher *f, size_t count, uint64_t grant,
                          double storage_worth)
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
        /* Out of memory: treats the stream as lost, so that the requests are owed. */
        fetcher_on_done(f, SLUICE_RPC_RESOURCE_EXHAUSTED, err.text);
    }
    sluice_message_clear(&message);
}

/* Under the lock. */
static bool has_grant(const struct sluice_fetcher *f)
{
    return f->grant_bytes > 0 && (uint64_t)f->grant_bytes >= (f->window_bytes + 3) / 4;
}

/* Under the lock: takes the consumed bytes as a grant, if they are a quarter of the window. */
static uint64_t take_grant(struct sluice_fetcher *f)
{
    if (!has_grant(f))
        return 0;
    const uint64_t grant = (uint64_t)f->grant_bytes;
    f->grant_bytes = 0;
    if (f->credit_bytes <= 0 && f->credit_bytes + (int64_t)grant > 0)
        f->credit_since_ns = f->quiet_since_ns = sluice_clock_ns();
    f->credit_bytes += (int64_t)grant;
    return grant;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Under the lock: when the silence of the stream has lasted for too long. */
static uint64_t silence_end_ns(const struct sluice_fetcher *f)
{
    uint64_t bytes = later(SHARED_MESSAGE_BYTES, f->pending.most_bytes);
    if (bytes > f->pending.sent_bytes)
        bytes = f->pending.sent_bytes;
    return f->quiet_since_ns + f->timeout_ns +
           (uint64_t)((double)bytes * 1e9 / TUNING_SLOWEST_LINK_BYTES_PER_S);
}

/* Called and left under the lock: acts if the server owes an answer for too long (fetcher.h), and
 * returns true then.  If not, *until_ns is when to look again, if that was later. */
static bool watch_stream(struct sluice_fetcher *f, uint64_t *until_ns)
{
    struct sluice_pending *oldest = sluice_pending_oldest(&f->pending);
    if (!oldest || f->credit_bytes <= 0)
        return false;
    const uint64_t now = sluice_clock_ns();
    const uint64_t tell_ns = later(f->quiet_since_ns, f->quiet_told_ns) + TUNING_TELL_QUIET_NS;
    if (now >= tell_ns) {
        const double quiet_s = (double)(now - f->quiet_since_ns) * 1e-9;
        const size_t count = f->pending.num_sent;
        f->quiet_told_ns = now;
        pthread_mutex_unlock(&f->lock);
        sluice_log(SLUICE_LOG_WARN, "no answer from %s for %.0f s; %zu sample%s waited for",
                   sluice_client_target(f->client), quiet_s, count, count == 1 ? " is" : "s are");
        pthread_mutex_lock(&f->lock);
        return true;
    }
    if (tell_ns < *until_ns)
        *until_ns = tell_ns;
    if (f->timeout_ns == 0)
        return false;
    if (oldest->late_ns && now >= later(oldest->late_ns, f->credit_since_ns) + f->timeout_ns) {
        give_up_on(f, oldest);
        return true;
    }
    const uint64_t silent_ns = silence_end_ns(f);
    if (now >= silent_ns) {
        char text[64];
        sluice_snprintf(text, sizeof(text), "no answer for %.3g s",
                        (double)(now - f->quiet_since_ns) * 1e-9);
        f->is_silent = true;
        fetcher_lose(f, SLUICE_RPC_UNAVAILABLE, text);
        return true;
    }
    const uint64_t look_ns = now + f->timeout_ns / TUNING_LOOKS_IN_TIMEOUT;
    if (look_ns < *until_ns)
        *until_ns = look_ns;
    return false;
}

static void *owner_main(void *ctx)
{
    struct sluice_fetcher *f = ctx;
    pthread_mutex_lock(&f->lock);
    while (!f->is_closed) {
        if (!f->stream || f->is_stream_lost) {
            pthread_mutex_unlock(&f->lock);
            if (f->stream)
                after_loss(f);
            else
                connect_or_wait(f);
            pthread_mutex_lock(&f->lock);
            continue;
        }
        const size_t count = gather_requests(f);
        const uint64_t grant = take_grant(f);
        if (count > 0 || grant > 0) {
            const double storage_worth = f->storage_worth;
            pthread_mutex_unlock(&f->lock);
            send_requests(f, count, grant, storage_worth);
            pthread_mutex_lock(&f->lock);
            continue;
        }
        uint64_t until_ns = UINT64_MAX;
        if (!watch_stream(f, &until_ns))
            (void)sluice_cond_wait_until(&f->changed, &f->lock, until_ns);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* --- from any thread --- */

/* The approximate size of the item's payload: of the requested form, or of the file. */
static uint64_t payload_bytes(const struct sluice_fetcher *f, const struct sluice_source_item *item)
{
    const struct sluice_choice choice = {.split = (uint8_t)item->split,
                                         .form = (uint8_t)item->form};
    return later(item->file_bytes,
                 sluice_choice_bytes(f->pipeline, choice, (size_t)item->file_bytes));
}

sluice_status sluice_fetcher_request(struct sluice_fetcher *f,
                                     const struct sluice_source_item *items, size_t num_items)
{
    pthread_mutex_lock(&f->lock);
    if (f->is_closed || !f->is_there) {
        pthread_mutex_unlock(&f->lock);
        return SLUICE_E_AGAIN;
    }
    const uint64_t now = sluice_clock_ns();
    for (size_t i = 0; i < num_items; i++) {
        f->storage_worth = items[i].storage_worth;
        sluice_pending_accept(&f->pending, &items[i], payload_bytes(f, &items[i]), now);
    }
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return SLUICE_OK;
}

void sluice_fetcher_consumed(struct sluice_fetcher *f, size_t payload_bytes)
{
    pthread_mutex_lock(&f->lock);
    f->held_bytes -= payload_bytes;
    f->grant_bytes += (int64_t)payload_bytes;
    if (has_grant(f))
        pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void sluice_fetcher_begin_close(struct sluice_fetcher *f)
{
    pthread_mutex_lock(&f->lock);
    f->is_closed = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void sluice_fetcher_close(struct sluice_fetcher *f)
{
    sluice_fetcher_begin_close(f);
    if (f->is_owner_started && !f->is_joined) {
        pthread_join(f->owner, NULL);
        f->is_joined = true;
    }
    sluice_rpc_stream_destroy(f->stream);
    f->stream = NULL;
}

void sluice_fetcher_destroy(struct sluice_fetcher *f)
{
    sluice_fetcher_close(f);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    sluice_pending_clear(&f->pending);
    free(f->owed);
    free(f);
}

sluice_status sluice_fetcher_create(const struct sluice_fetcher_options *options,
                                    struct sluice_fetcher **fetcher, struct sluice_err *err)
{
    if (options->max_items == 0 || options->max_items >= (1u << SLUICE_PENDING_INDEX_BITS) ||
        options->window_bytes == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "a fetcher of %zu items and a window of %llu",
                           options->max_items, (unsigned long long)options->window_bytes);
    struct sluice_fetcher *f = calloc(1, sizeof(*f));
    if (!f)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a fetcher");
    sluice_status status = sluice_pending_init(&f->pending, options->max_items, err);
    /* One more, which is read when all are taken. */
    f->owed = calloc(options->max_items + 1, sizeof(*f->owed));
    if (status == SLUICE_OK && !f->owed)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a fetcher");
    if (status != SLUICE_OK) {
        sluice_pending_clear(&f->pending);
        free(f->owed);
        free(f);
        return status;
    }
    f->client = options->client;
    f->pipeline = options->pipeline;
    snprintf(f->dataset_id, sizeof(f->dataset_id), "%s", options->dataset_id);
    f->window_bytes = options->window_bytes;
    f->timeout_ns = (uint64_t)(options->sample_timeout_s * 1e9);
    f->follows_price = options->follows_price;
    f->needs_listed_id = options->needs_listed_id;
    f->wants_file_image = options->wants_file_image;
    f->max_image_pixels = options->max_image_pixels ? options->max_image_pixels : UINT64_MAX;
    f->events = options->events;
    f->live = options->live;
    f->retry = sluice_retry_init(FOR_EVER_S, sluice_clock_ns() ^ (uint64_t)getpid());
    pthread_mutex_init(&f->lock, NULL);
    sluice_cond_init(&f->changed);
    const int failed = pthread_create(&f->owner, NULL, owner_main, f);
    if (failed) {
        sluice_fetcher_destroy(f);
        return sluice_fail(err, SLUICE_E_IO, "cannot start the fetcher's thread: %s",
                           strerror(failed));
    }
    f->is_owner_started = true;
    *fetcher = f;
    return SLUICE_OK;
}

struct sluice_fetcher_stats sluice_fetcher_stats(struct sluice_fetcher *f)
{
    pthread_mutex_lock(&f->lock);
    const struct sluice_fetcher_stats stats = f->stats;
    pthread_mutex_unlock(&f->lock);
    return stats;
}

bool sluice_fetcher_cancel(struct sluice_fetcher *f, uint64_t ticket)
{
    pthread_mutex_lock(&f->lock);
    const bool is_cancelled = sluice_pending_cancel(&f->pending, ticket);
    if (is_cancelled && sluice_pending_has_unsent(&f->pending))
        pthread_cond_signal(&f->changed); /* there is room for another */
    pthread_mutex_unlock(&f->lock);
    return is_cancelled;
}

struct sluice_fetcher_pulse sluice_fetcher_pulse(struct sluice_fetcher *f)
{
    pthread_mutex_lock(&f->lock);
    const bool is_owing = f->is_there && f->pending.num_sent > 0 && f->credit_bytes > 0;
    const struct sluice_fetcher_pulse pulse = {
        .quiet_since_ns = is_owing ? f->quiet_since_ns : 0,
        .heard_ns = f->heard_ns,
        .largest_bytes = f->pending.most_bytes,
    };
    pthread_mutex_unlock(&f->lock);
    return pulse;
}

void sluice_fetcher_cut(struct sluice_fetcher *f, const char *reason)
{
    fetcher_on_done(f, SLUICE_RPC_UNAVAILABLE, reason);
}

void sluice_fetcher_set_window(struct sluice_fetcher *f, uint64_t window_bytes)
{
    pthread_mutex_lock(&f->lock);
    f->grant_bytes += (int64_t)window_bytes - (int64_t)f->window_bytes;
    f->window_bytes = window_bytes;
    if (has_grant(f))
        pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}
