#include "rpc/rpc_client.h"

#include "base/host_port.h"
#include "base/log.h"
#include "base/redact.h"
#include "crypto/secret.h"
#include "rpc/credentials.h"
#include "rpc/exchange.h"
#include "rpc/grpc_library.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEPALIVE_MS 20000
#define MIN_KEEPALIVE_MS 1000 /* rpc_server accepts twice as many pings */
#define KEEPALIVE_TIMEOUT_MS 10000

/* Milliseconds.  Reconnection with exponential backoff, from the first to the second (plus the
 * library's jitter of a fifth); an attempt without any answer is given up after the third. */
#define FIRST_BACKOFF_MS 100
#define MAX_BACKOFF_MS 300
#define CONNECT_TIMEOUT_MS 5000

/* A call of a channel, while it may have to be cancelled. */
struct live_call {
    grpc_call *call;
    struct live_call *next, **link; /* link: what points to this one */
};

struct sluice_rpc_channel {
    pthread_mutex_t lock;
    grpc_channel *channel;
    struct sluice_secret *token; /* NULL: none */
    struct live_call *live;
    bool is_stopped;

    struct rpc_queue queue; /* constant from here */
    char *target, *token_file;
    struct sluice_rpc_client_tls tls; /* its texts owned */
    bool has_tls;
    int max_receive_bytes, keepalive_ms;
};

static void add_live(struct sluice_rpc_channel *channel, struct live_call *live, grpc_call *call)
{
    live->call = call;
    pthread_mutex_lock(&channel->lock);
    live->next = channel->live;
    live->link = &channel->live;
    if (live->next)
        live->next->link = &live->next;
    channel->live = live;
    const bool is_stopped = channel->is_stopped;
    pthread_mutex_unlock(&channel->lock);
    if (is_stopped)
        grpc_call_cancel(call, NULL);
}

/* Before the call is released. */
static void remove_live(struct sluice_rpc_channel *channel, struct live_call *live)
{
    pthread_mutex_lock(&channel->lock);
    *live->link = live->next;
    if (live->next)
        live->next->link = live->link;
    pthread_mutex_unlock(&channel->lock);
}

void sluice_rpc_channel_stop(struct sluice_rpc_channel *channel)
{
    /* Cancelling under the lock keeps each call alive meanwhile.  It calls nothing of ours: what it
     * ends comes as events on the completion thread. */
    pthread_mutex_lock(&channel->lock);
    channel->is_stopped = true;
    for (struct live_call *live = channel->live; live; live = live->next)
        grpc_call_cancel(live->call, NULL);
    pthread_mutex_unlock(&channel->lock);
}

static gpr_timespec deadline_after(unsigned timeout_ms)
{
    if (!timeout_ms)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

static grpc_call *create_call(struct sluice_rpc_channel *channel, const char *path,
                              unsigned timeout_ms)
{
    const grpc_slice method = grpc_slice_from_copied_string(path);
    pthread_mutex_lock(&channel->lock);
    grpc_call *call =
        grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, channel->queue.cq,
                                 method, NULL, deadline_after(timeout_ms), NULL);
    pthread_mutex_unlock(&channel->lock);
    grpc_slice_unref(method);
    return call;
}

/* The metadata of a call that identifies the caller. */
struct caller {
    grpc_metadata field;
    size_t count; /* 0: nothing */
};

static void caller_init(struct sluice_rpc_channel *channel, struct caller *caller)
{
    char text[sizeof("Bearer ") + SLUICE_TOKEN_MAX];
    memset(caller, 0, sizeof(*caller));
    pthread_mutex_lock(&channel->lock);
    const bool has_token = channel->token != NULL;
    if (has_token)
        snprintf(text, sizeof(text), "Bearer %s", channel->token->text);
    pthread_mutex_unlock(&channel->lock);
    if (!has_token)
        return;
    caller->field.key = grpc_slice_from_static_string("authorization");
    caller->field.value = grpc_slice_from_copied_string(text);
    caller->count = 1;
    sluice_secret_wipe(text, sizeof(text));
}

static void caller_clear(struct caller *caller)
{
    if (caller->count)
        grpc_slice_unref(caller->field.value);
    caller->count = 0;
}

static sluice_status read_token(const struct sluice_rpc_channel *channel,
                                struct sluice_secret **token, struct sluice_err *err)
{
    static const char variable[] = "SLUICE_TOKEN";
    const char *given = channel->token_file ? NULL : getenv(variable);
    struct sluice_secret *read = NULL;
    sluice_status status = SLUICE_OK;
    if (channel->token_file) {
        status = sluice_secret_read(channel->token_file, 2 * (size_t)SLUICE_TOKEN_MAX, &read, err);
    } else if (given && given[0]) {
        status = sluice_secret_create(strlen(given), &read, err);
        if (status == SLUICE_OK)
            memcpy(read->text, given, read->len);
    }
    struct sluice_err why = {0};
    if (status == SLUICE_OK && read && sluice_secret_trim_token(read, &why) != SLUICE_OK)
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: %s",
                             channel->token_file ? channel->token_file : variable, why.text);
    if (status == SLUICE_OK && read && !channel->has_tls && !sluice_is_loopback(channel->target))
        status = sluice_fail(err, SLUICE_E_INVALID,
                             "the token is not sent to %s: anybody on the way could read it "
                             "without TLS (--tls)",
                             channel->target);
    if (status == SLUICE_OK && read)
        sluice_redact_add(read->text);
    if (status == SLUICE_OK)
        *token = read;
    else
        sluice_secret_destroy(read);
    return status;
}

static sluice_status create_channel(struct sluice_rpc_channel *channel, grpc_channel **made,
                                    struct sluice_secret **token, struct sluice_err *err)
{
    grpc_arg args[] = {
        {.type = GRPC_ARG_STRING,
         .key = (char *)GRPC_ARG_PRIMARY_USER_AGENT_STRING,
         .value.string = (char *)"sluice/" SLUICE_VERSION},
        rpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, channel->max_receive_bytes),
        rpc_arg(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, RPC_WRITE_BUFFER_BYTES),
        rpc_arg(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, RPC_READ_BYTES),
        rpc_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, RPC_ALGORITHMS),
        rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, channel->keepalive_ms),
        rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
        rpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        rpc_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, FIRST_BACKOFF_MS),
        rpc_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, MAX_BACKOFF_MS),
        /* In spite of its name, this is how long an attempt may take. */
        rpc_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_TIMEOUT_MS),
        rpc_arg(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, MAX_BACKOFF_MS),
        /* Connect to the given address and no other: no proxy of the environment, no connection
         * shared with another channel, no settings from DNS.  No retries of calls: the caller
         * retries, as it knows which samples have arrived. */
        rpc_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        rpc_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        rpc_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        rpc_arg(GRPC_ARG_ENABLE_RETRIES, 0),
        {.type = GRPC_ARG_STRING,
         .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
         .value.string = (char *)channel->tls.server_name},
    };
    const size_t num_args = SLUICE_ARRAY_LEN(args) - (channel->tls.server_name ? 0 : 1);
    const grpc_channel_args channel_args = {num_args, args};
    grpc_channel_credentials *credentials = NULL;
    sluice_status status = read_token(channel, token, err);
    if (status == SLUICE_OK)
        status = rpc_client_credentials(channel->has_tls ? &channel->tls : NULL, &credentials, err);
    if (status != SLUICE_OK) {
        sluice_secret_destroy(*token);
        *token = NULL;
        return status;
    }
    *made = grpc_channel_create(channel->target, credentials, &channel_args);
    grpc_channel_credentials_release(credentials);
    return SLUICE_OK;
}

/* NULL stays NULL; false: no memory. */
static bool copy_text(const char *text, char **copy)
{
    *copy = text ? strdup(text) : NULL;
    return *copy || !text;
}

static bool copy_texts(struct sluice_rpc_channel *channel,
                       const struct sluice_rpc_channel_options *options)
{
    static const struct sluice_rpc_client_tls none;
    const struct sluice_rpc_client_tls *tls = options->tls ? options->tls : &none;
    channel->has_tls = options->tls != NULL;
    return copy_text(options->target, &channel->target) &&
           copy_text(options->token_file, &channel->token_file) &&
           copy_text(tls->ca, (char **)&channel->tls.ca) &&
           copy_text(tls->cert, (char **)&channel->tls.cert) &&
           copy_text(tls->key, (char **)&channel->tls.key) &&
           copy_text(tls->server_name, (char **)&channel->tls.server_name);
}

/* Frees a channel whose library part is already destroyed. */
static void free_channel(struct sluice_rpc_channel *channel)
{
    rpc_queue_stop(&channel->queue);
    sluice_secret_destroy(channel->token);
    pthread_mutex_destroy(&channel->lock);
    free((char *)channel->tls.ca);
    free((char *)channel->tls.cert);
    free((char *)channel->tls.key);
    free((char *)channel->tls.server_name);
    free(channel->token_file);
    free(channel->target);
    free(channel);
}

sluice_status sluice_rpc_channel_create(const struct sluice_rpc_channel_options *options,
                                        struct sluice_rpc_channel **out, struct sluice_err *err)
{
    if (!options->target || !options->target[0])
        return sluice_fail(err, SLUICE_E_INVALID, "a channel needs an address");
    rpc_library_init();
    struct sluice_rpc_channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a channel");
    pthread_mutex_init(&channel->lock, NULL);
    const size_t max_receive = options->max_receive_bytes ? options->max_receive_bytes : 64u << 20;
    unsigned keepalive_ms = options->keepalive_ms ? options->keepalive_ms : KEEPALIVE_MS;
    if (keepalive_ms < MIN_KEEPALIVE_MS)
        keepalive_ms = MIN_KEEPALIVE_MS;
    if (keepalive_ms > INT32_MAX)
        keepalive_ms = INT32_MAX;
    channel->max_receive_bytes = max_receive > INT32_MAX ? INT32_MAX : (int)max_receive;
    channel->keepalive_ms = (int)keepalive_ms;
    sluice_status status = copy_texts(channel, options)
                               ? SLUICE_OK
                               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a channel");
    if (status == SLUICE_OK)
        status = rpc_queue_start(&channel->queue, "rpc-client", err);
    if (status == SLUICE_OK)
        status = create_channel(channel, &channel->channel, &channel->token, err);
    if (status == SLUICE_OK)
        *out = channel;
    else
        free_channel(channel);
    return status;
}

void sluice_rpc_channel_destroy(struct sluice_rpc_channel *channel)
{
    if (!channel)
        return;
    assert(!rpc_queue_is_current(&channel->queue));
    grpc_channel_destroy(channel->channel);
    free_channel(channel);
}

void sluice_rpc_channel_renew(struct sluice_rpc_channel *channel)
{
    grpc_channel *made = NULL;
    struct sluice_secret *token = NULL;
    struct sluice_err err = {0};
    if (create_channel(channel, &made, &token, &err) != SLUICE_OK) {
        sluice_log(SLUICE_LOG_WARN, "certificates and token stay those of before: %s", err.text);
        return;
    }
    pthread_mutex_lock(&channel->lock);
    grpc_channel *old = channel->channel;
    struct sluice_secret *old_token = channel->token;
    channel->channel = made;
    channel->token = token;
    pthread_mutex_unlock(&channel->lock);
    grpc_channel_destroy(old);
    sluice_secret_destroy(old_token);
}

/* --- unary --- */

struct unary {
    struct rpc_tag tag;
    pthread_mutex_t lock;
    bool is_done;
    pthread_cond_t done;
};

static void on_unary_done(struct rpc_tag *tag, bool ok)
{
    (void)ok; /* the status tells */
    struct unary *unary = SLUICE_CONTAINER_OF(tag, struct unary, tag);
    pthread_mutex_lock(&unary->lock);
    unary->is_done = true;
    pthread_cond_signal(&unary->done);
    pthread_mutex_unlock(&unary->lock);
}

sluice_status sluice_rpc_unary(struct sluice_rpc_channel *channel, const char *path,
                               struct sluice_message *request, unsigned timeout_ms,
                               struct sluice_message *reply, enum sluice_rpc_code *code,
                               struct sluice_err *err)
{
    assert(!rpc_queue_is_current(&channel->queue));
    struct unary unary = {.tag.fn = on_unary_done};
    pthread_mutex_init(&unary.lock, NULL);
    pthread_cond_init(&unary.done, NULL);

    grpc_byte_buffer *out = rpc_bytes_from_message(request), *in = NULL;
    grpc_metadata_array initial, trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_status_code status_code = GRPC_STATUS_UNKNOWN;
    grpc_slice details = grpc_empty_slice();

    struct caller caller;
    caller_init(channel, &caller);
    grpc_op ops[6];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].data.send_initial_metadata.count = caller.count;
    ops[0].data.send_initial_metadata.metadata = &caller.field;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = out;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &in;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &trailing;
    ops[5].data.recv_status_on_client.status = &status_code;
    ops[5].data.recv_status_on_client.status_details = &details;

    grpc_call *call = create_call(channel, path, timeout_ms);
    struct live_call live;
    add_live(channel, &live, call);
    rpc_start_batch(&channel->queue, call, ops, SLUICE_ARRAY_LEN(ops), &unary.tag);
    pthread_mutex_lock(&unary.lock);
    while (!unary.is_done)
        pthread_cond_wait(&unary.done, &unary.lock);
    pthread_mutex_unlock(&unary.lock);

    enum sluice_rpc_code result = (enum sluice_rpc_code)status_code;
    sluice_status status = sluice_rpc_code_to_status(result);
    if (status != SLUICE_OK) {
        char *text = grpc_slice_to_c_string(details);
        status = sluice_fail(err, status, "%s: %s: %s", path, sluice_rpc_code_name(result), text);
        gpr_free(text);
    } else if (!in) {
        result = SLUICE_RPC_INTERNAL;
        status = sluice_fail(err, SLUICE_E_INTERNAL, "%s: no reply, but no failure either", path);
    } else {
        struct sluice_message message = {0};
        if (rpc_message_from_bytes(in, &message)) {
            *reply = message;
        } else {
            result = SLUICE_RPC_RESOURCE_EXHAUSTED;
            status = sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for the reply", path);
        }
        in = NULL;
    }
    if (code)
        *code = result;

    remove_live(channel, &live);
    grpc_call_unref(call);
    caller_clear(&caller);
    rpc_received_slice_unref(details);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_byte_buffer_destroy(out);
    if (in)
        grpc_byte_buffer_destroy(in);
    pthread_cond_destroy(&unary.done);
    pthread_mutex_destroy(&unary.lock);
    return status;
}

/* --- streams --- */

struct sluice_rpc_stream {
    struct exchange exchange;
    struct sluice_rpc_channel *channel;
    struct live_call live;
    struct sluice_rpc_stream_events events;
    struct rpc_tag open_tag, status_tag;
    struct caller caller;
    grpc_metadata_array initial, trailing;
    grpc_status_code status_code;
    grpc_slice details;

    pthread_mutex_t lock;
    bool is_done; /* on_done has returned */
    pthread_cond_t done;
    atomic_uint refs; /* the user's and, until on_done has returned, the channel's */
};

static struct sluice_rpc_stream *stream_of(struct exchange *x)
{
    return SLUICE_CONTAINER_OF(x, struct sluice_rpc_stream, exchange);
}

static void unref_stream(struct sluice_rpc_stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1)
        return;
    remove_live(stream->channel, &stream->live);
    exchange_release(&stream->exchange);
    exchange_clear(&stream->exchange);
    caller_clear(&stream->caller);
    rpc_received_slice_unref(stream->details);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_metadata_array_destroy(&stream->trailing);
    pthread_cond_destroy(&stream->done);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void begin_stream(struct exchange *x)
{
    struct sluice_rpc_stream *stream = stream_of(x);
    grpc_op ops[2];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[0].data.recv_status_on_client.trailing_metadata = &stream->trailing;
    ops[0].data.recv_status_on_client.status = &stream->status_code;
    ops[0].data.recv_status_on_client.status_details = &stream->details;
    exchange_start(x, ops, 1, &stream->status_tag);

    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].data.send_initial_metadata.count = stream->caller.count;
    ops[0].data.send_initial_metadata.metadata = &stream->caller.field;
    ops[1].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[1].data.recv_initial_metadata.recv_initial_metadata = &stream->initial;
    exchange_start(x, ops, 2, &stream->open_tag);
}

static void on_opened(struct rpc_tag *tag, bool ok)
{
    (void)ok; /* the status tells */
    exchange_settle(&SLUICE_CONTAINER_OF(tag, struct sluice_rpc_stream, open_tag)->exchange);
}

static void on_status(struct rpc_tag *tag, bool ok)
{
    (void)ok; /* this operation always succeeds */
    struct sluice_rpc_stream *stream =
        SLUICE_CONTAINER_OF(tag, struct sluice_rpc_stream, status_tag);
    exchange_close(&stream->exchange);
    exchange_settle(&stream->exchange);
}

static void deliver(struct exchange *x, struct sluice_message *message)
{
    struct sluice_rpc_stream *stream = stream_of(x);
    stream->events.on_message(stream->events.ctx, message);
}

static void fill_half_close(struct exchange *x, grpc_op *op)
{
    (void)x;
    op->op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
}

static void end_stream(struct exchange *x)
{
    struct sluice_rpc_stream *stream = stream_of(x);
    char *text = grpc_slice_to_c_string(stream->details);
    if (exchange_is_short(x))
        stream->events.on_done(stream->events.ctx, SLUICE_RPC_RESOURCE_EXHAUSTED,
                               "no memory for a message");
    else
        stream->events.on_done(stream->events.ctx, (enum sluice_rpc_code)stream->status_code, text);
    gpr_free(text);

    pthread_mutex_lock(&stream->lock);
    stream->is_done = true;
    pthread_cond_signal(&stream->done);
    pthread_mutex_unlock(&stream->lock);
    unref_stream(stream);
}

static const struct exchange_side client_side = {
    .begin = begin_stream,
    .on_message = deliver,
    .end_op = fill_half_close,
    .on_end = end_stream,
    .reads_after_end = true,
};

sluice_status sluice_rpc_stream_open(struct sluice_rpc_channel *channel, const char *path,
                                     unsigned timeout_ms,
                                     const struct sluice_rpc_stream_events *events,
                                     struct sluice_rpc_stream **out, struct sluice_err *err)
{
    struct sluice_rpc_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a stream");
    exchange_init(&stream->exchange, &client_side, &channel->queue);
    stream->exchange.call = create_call(channel, path, timeout_ms);
    caller_init(channel, &stream->caller);
    stream->events = *events;
    stream->open_tag.fn = on_opened;
    stream->status_tag.fn = on_status;
    stream->status_code = GRPC_STATUS_UNKNOWN;
    stream->details = grpc_empty_slice();
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->done, NULL);
    atomic_init(&stream->refs, 2);
    *out = stream;
    stream->channel = channel;
    add_live(channel, &stream->live, stream->exchange.call);
    exchange_begin(&stream->exchange);
    return SLUICE_OK;
}

sluice_status sluice_rpc_stream_send(struct sluice_rpc_stream *stream,
                                     struct sluice_message *message)
{
    return exchange_send(&stream->exchange, message);
}

void sluice_rpc_stream_half_close(struct sluice_rpc_stream *stream)
{
    exchange_end(&stream->exchange, 0, NULL);
}

void sluice_rpc_stream_cancel(struct sluice_rpc_stream *stream)
{
    grpc_call_cancel(stream->exchange.call, NULL);
}

void sluice_rpc_stream_destroy(struct sluice_rpc_stream *stream)
{
    if (!stream)
        return;
    assert(!rpc_queue_is_current(stream->exchange.queue));
    sluice_rpc_stream_cancel(stream);
    pthread_mutex_lock(&stream->lock);
    while (!stream->is_done)
        pthread_cond_wait(&stream->done, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    unref_stream(stream);
}
