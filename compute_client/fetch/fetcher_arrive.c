#include "base/clock.h"
#include "compute_client/fetch/fetcher_state.h"
#include "op/form.h"
#include "op/geometry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Handles messages of the stream, on the channel's completion thread. */

/* The limit for a file of unknown length. */
#define DEFAULT_MAX_FILE_BYTES ((uint64_t)512 << 20)

/* A JPEG crop is smaller than its file, apart from the segment that has the place of the crop. */
#define CUT_MARGIN_BYTES 4096

static sluice_status make_sample(const struct sluice_fetcher *f,
                                 const struct sluice_source_item *item,
                                 const struct sluice_wire_sample_reply *reply,
                                 struct sluice_sample *sample, struct sluice_err *err)
{
    const struct sluice_form_type *type = sluice_form_type(reply->form);
    if (reply->ops_done > item->split || (type->retry_as_file && item->form != reply->form) ||
        sluice_pipeline_kind(f->pipeline, reply->ops_done) != type->kind)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "the reply says %s after %u ops; asked for were %u",
                           sluice_form_name(reply->form), reply->ops_done, item->split);
    if (type->kind == SLUICE_KIND_FILE) {
        uint64_t most = item->file_bytes    ? item->file_bytes
                        : f->max_file_bytes ? f->max_file_bytes
                                            : DEFAULT_MAX_FILE_BYTES;
        if (!type->is_plain)
            most = most / 100 * type->max_percent + most % 100 + CUT_MARGIN_BYTES;
        if (sluice_cursor_left(&reply->arrived) > most)
            return sluice_fail(err, SLUICE_E_CORRUPT,
                               "a file of %zu bytes came; it has at most %llu",
                               sluice_cursor_left(&reply->arrived), (unsigned long long)most);
    }
    /* The check reads the length of the data, not the data. */
    struct sluice_buf measured = {.len = sluice_cursor_left(&reply->arrived)};
    struct sluice_sample made = {
        .key = item->key,
        .ops_done = reply->ops_done,
        .kind = type->kind,
        .width = reply->width,
        .height = reply->height,
        .channels = reply->channels,
        .data = &measured,
        .coding = sluice_form_coding(reply->form),
    };
    if (made.kind == SLUICE_KIND_FILE)
        made.width = made.height = made.channels = 0;
    else if (f->wants_file_image)
        made.image = reply->image;
    if (made.kind != SLUICE_KIND_FILE && f->wants_file_image &&
        !sluice_file_image_is_possible(&made.image))
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "the reply says that the file's image has %u x %u pixels, turned by %u",
                           made.image.width, made.image.height, made.image.orientation);
    const sluice_status status =
        sluice_pipeline_check_sample(f->pipeline, &made, f->max_image_pixels, err);
    if (status != SLUICE_OK)
        return status;
    made.data = NULL;
    *sample = made;
    return SLUICE_OK;
}

/* Makes the result of a reply, with a sample if it has one that fits its request. */
static void make_result(const struct sluice_fetcher *f, const struct sluice_source_item *item,
                        const struct sluice_wire_sample_reply *reply, bool is_damaged,
                        struct sluice_source_result *result)
{
    /* If the server does not report work_us, its CPU time stands for it. */
    const uint32_t worked_us =
        reply->work_us > reply->disk_us ? reply->work_us - reply->disk_us : 0;
    const uint32_t storage_us = worked_us > reply->cpu_us ? worked_us : reply->cpu_us;
    *result = (struct sluice_source_result){
        .ticket = item->ticket,
        .status = reply->status,
        .form = reply->form,
        .disk_ns = (uint64_t)reply->disk_us * 1000,
        .disk_busy_ns = (uint64_t)reply->disk_busy_us * 1000,
        .read_bytes = reply->read_bytes,
        .backlog_ns = (uint64_t)reply->backlog_us * 1000,
        .storage_ns = ((uint64_t)reply->queue_us + storage_us) * 1000,
        .storage_queue_ns = (uint64_t)reply->queue_us * 1000,
        .storage_cpu_ns = (uint64_t)reply->cpu_us * 1000,
        .storage_price = f->load.cpu_price,
        .storage_cores = f->load.prep_cores,
    };
    memcpy(result->error, reply->error, sizeof(result->error));
    if (is_damaged) {
        result->status = SLUICE_E_IO;
        snprintf(result->error, sizeof(result->error),
                 "the reply was damaged on its way: its hash is wrong");
        return;
    }
    if (reply->status != SLUICE_OK)
        return;
    struct sluice_err err = {0};
    /* A reply that contradicts its request or itself says nothing of the sample: a fault of the
     * server's, or of the way here. */
    if (make_sample(f, item, reply, &result->sample, &err) != SLUICE_OK) {
        result->status = SLUICE_E_INTERNAL;
        snprintf(result->error, sizeof(result->error), "%.*s", (int)sizeof(result->error) - 1,
                 err.text);
        return;
    }
    result->payload_bytes = sluice_cursor_left(&reply->arrived);
    result->arrived = reply->arrived;
    result->message = f->message;
}

static void on_sample(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    struct sluice_fetcher *f = ctx;
    const uint64_t payload_bytes = sluice_cursor_left(&reply->arrived);
    if (f->broken.text[0])
        return;

    pthread_mutex_lock(&f->lock);
    if (payload_bytes > 0 && f->credit_bytes <= 0) {
        (void)sluice_fail(&f->broken, SLUICE_E_CORRUPT,
                          "it sent %llu bytes of payload above its credit",
                          (unsigned long long)payload_bytes);
        pthread_mutex_unlock(&f->lock);
        return;
    }
    f->credit_bytes -= (int64_t)payload_bytes;
    f->heard_ns = sluice_clock_ns();
    struct sluice_pending *pending = sluice_pending_find(&f->pending, reply->request_id);
    if (!pending) {
        f->stats.dropped++;
        f->grant_bytes += (int64_t)payload_bytes;
        pthread_mutex_unlock(&f->lock);
        return;
    }
    const struct sluice_source_item item = pending->item;
    pthread_mutex_unlock(&f->lock);

    const bool is_damaged = f->has_hashes && !sluice_wire_sample_reply_is_whole(
                                                 reply, &item.key, fetcher_listed_id(&item));
    struct sluice_source_result result;
    make_result(f, &item, reply, is_damaged, &result);

    pthread_mutex_lock(&f->lock);
    f->stats.hash_errors += is_damaged;
    if (f->live)
        sluice_live_add(&f->live->hash_errors, is_damaged);
    /* The owner may have given it up meanwhile. */
    pending = sluice_pending_find(&f->pending, reply->request_id);
    if (pending) {
        const uint64_t now = sluice_clock_ns();
        sluice_pending_pass(&f->pending, pending, now);
        f->quiet_since_ns = now;
        f->heard = f->load;
    } else {
        f->grant_bytes += (int64_t)payload_bytes;
        pthread_mutex_unlock(&f->lock);
        return;
    }
    f->held_bytes += result.payload_bytes;
    f->grant_bytes += (int64_t)(payload_bytes - result.payload_bytes);
    result.backlog_ns += pending->sent_ns - pending->accepted_ns;
    sluice_pending_finish(&f->pending, pending);
    f->has_progress = true;
    if (sluice_pending_has_unsent(&f->pending))
        pthread_cond_signal(&f->changed); /* there is room for another */
    pthread_mutex_unlock(&f->lock);
    if (result.message)
        (void)sluice_shared_message_ref(result.message);
    f->events.on_result(f->events.ctx, &result);
}

void fetcher_on_message(void *ctx, struct sluice_message *message)
{
    struct sluice_fetcher *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->stats.wire_bytes += message->len;
    pthread_mutex_unlock(&f->lock);
    if (f->live)
        sluice_live_add(&f->live->wire_bytes, message->len);
    if (f->broken.text[0])
        return;
    /* A message that cannot be read ends the stream; what it did not answer is requested again. */
    if (sluice_message_share(message, &f->message, &f->broken) == SLUICE_OK) {
        const struct sluice_message *shared = sluice_shared_message_get(f->message);
        sluice_status status = SLUICE_OK;
        if (f->has_hashes && !sluice_wire_fetch_reply_is_whole(shared)) {
            status = sluice_fail(&f->broken, SLUICE_E_IO,
                                 "a message was damaged on its way: its hash is wrong");
            pthread_mutex_lock(&f->lock);
            f->stats.hash_errors++;
            pthread_mutex_unlock(&f->lock);
            if (f->live)
                sluice_live_add(&f->live->hash_errors, 1);
        }
        if (status == SLUICE_OK)
            status =
                sluice_wire_get_fetch_reply(shared, SIZE_MAX, on_sample, f, &f->load, &f->broken);
        assert((status == SLUICE_OK) || f->broken.text[0]);
        (void)status;
        sluice_shared_message_unref(f->message);
        f->message = NULL;
    }
    if (f->broken.text[0]) {
        pthread_mutex_lock(&f->lock);
        fetcher_lose(f, SLUICE_RPC_INTERNAL, f->broken.text);
        pthread_mutex_unlock(&f->lock);
    }
}

void fetcher_lose(struct sluice_fetcher *f, enum sluice_rpc_code code, const char *text)
{
    if (!f->is_stream_lost) {
        f->is_stream_lost = true;
        f->lost_ns = sluice_clock_ns();
        f->lost_code = code == SLUICE_RPC_OK ? SLUICE_RPC_UNAVAILABLE : code;
        snprintf(f->lost_text, sizeof(f->lost_text), "%.*s", (int)sizeof(f->lost_text) - 1, text);
    }
    pthread_cond_signal(&f->changed);
}

void fetcher_on_done(void *ctx, enum sluice_rpc_code code, const char *text)
{
    struct sluice_fetcher *f = ctx;
    if (!text || !text[0])
        text = code == SLUICE_RPC_OK ? "it ended the stream" : sluice_rpc_code_name(code);
    pthread_mutex_lock(&f->lock);
    fetcher_lose(f, code, text);
    pthread_mutex_unlock(&f->lock);
}
