#include "rpc/rpc_server.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/host_port.h"
#include "base/log.h"
#include "rpc/credentials.h"
#include "rpc/exchange.h"
#include "rpc/grpc151/door.h"
#include "rpc/grpc151/self_check.h"
#include "rpc/grpc_library.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before the listener closes, new calls are answered UNAVAILABLE for this long.  Afterwards the
 * library cancels them, and the client cannot tell why. */
#define REFUSE_MS 100

/* How long an idle connection has to close by itself (GOAWAY) before it is cut. */
#define GOODBYE_MS 100

/* The shortest interval of pings that a client may use.  Half of rpc_client's shortest, because two
 * pings may arrive closer together than they were sent, and the third early one ends the
 * connection. */
#define MIN_PING_INTERVAL_MS 500

#define KEEPALIVE_MS 20000
#define KEEPALIVE_TIMEOUT_MS 10000

/* From accept to the client's HTTP/2 settings.  A round trip or two in good faith. */
#define HANDSHAKE_MS 10000

/* A connection without a call is closed (GOAWAY) after this time: it holds a place that others may
 * want, and a client connects again by itself when it calls. */
#define IDLE_MS 300000

/* Bytes of one call's header fields, with 32 for each as HTTP/2 counts them.  Ours have 300. */
#define MAX_METADATA_BYTES (16 << 10)

/* The server requests calls in advance: an empty call waits for a method, the library fills it in
 * when a client calls, and another empty call takes its place:
 *
 *     requested --on_new--> refused --------------------> ended
 *                      \--> open --finish or lost--> done /
 */
struct sluice_rpc_call {
    struct exchange exchange;
    struct sluice_rpc_server *server;
    const struct sluice_rpc_method *method; /* NULL: a method that nobody registered */
    void *handle;                           /* the library's name for the method */
    struct rpc_tag new_tag, close_tag;
    grpc_metadata_array metadata;
    grpc_call_details details; /* of unregistered methods only */
    gpr_timespec deadline;
    grpc_byte_buffer *payload; /* is_unary: what came with the call */
    char *peer;
    int is_cancelled;
    bool is_refused;
    bool is_last_of_kind; /* no memory for its successor: it is used again */

    void *state;
    atomic_uint refs;
};

struct sluice_rpc_server {
    grpc_server *server;
    struct rpc_queue *queues;
    unsigned num_queues;
    const struct sluice_rpc_method *methods;
    void **handles;
    size_t num_methods;
    void *ctx;
    char *listen;
    enum sluice_rpc_code (*admit)(void *ctx, const struct sluice_rpc_caller *caller, void **client,
                                  struct sluice_err *why);
    void (*release)(void *ctx, void *client, const char *peer);
    struct rpc_identity *identity; /* NULL: no TLS */
    int port;
    struct door *door;
    bool knows_callers; /* it may have to cut strangers' connections */

    pthread_mutex_t lock;
    unsigned num_live; /* calls that came and have not ended */
    bool is_draining;  /* refuse what comes */
    bool is_stopped;   /* the library has reported the end */
    pthread_cond_t changed;

    struct rpc_tag stop_tag;
};

static struct sluice_rpc_call *call_of(struct exchange *x)
{
    return SLUICE_CONTAINER_OF(x, struct sluice_rpc_call, exchange);
}

/* --- one call --- */

static void free_call(struct sluice_rpc_call *call)
{
    exchange_clear(&call->exchange);
    gpr_free(call->peer);
    free(call);
}

/* Releases the library's objects as soon as the call is over; the struct may live on. */
static void release_library_parts(struct sluice_rpc_call *call)
{
    exchange_release(&call->exchange);
    grpc_metadata_array_destroy(&call->metadata);
    if (!call->handle)
        grpc_call_details_destroy(&call->details);
    if (call->payload)
        grpc_byte_buffer_destroy(call->payload);
    call->payload = NULL;
}

static void on_new(struct rpc_tag *tag, bool ok);
static void on_close(struct rpc_tag *tag, bool ok);
static const struct exchange_side server_side;

static void request(struct sluice_rpc_call *call, struct sluice_rpc_server *server,
                    struct rpc_queue *queue, const struct sluice_rpc_method *method, void *handle)
{
    memset(call, 0, sizeof(*call));
    exchange_init(&call->exchange, &server_side, queue);
    call->exchange.needs_metadata = true;
    call->server = server;
    call->method = method;
    call->handle = handle;
    call->new_tag.fn = on_new;
    call->close_tag.fn = on_close;
    atomic_init(&call->refs, 1);
    grpc_metadata_array_init(&call->metadata);

    rpc_hand_over(queue, &call->new_tag);
    grpc_call_error error;
    if (handle) {
        error = grpc_server_request_registered_call(
            server->server, handle, &call->exchange.call, &call->deadline, &call->metadata,
            method->is_unary ? &call->payload : NULL, queue->cq, queue->cq, &call->new_tag);
    } else {
        grpc_call_details_init(&call->details);
        error = grpc_server_request_call(server->server, &call->exchange.call, &call->details,
                                         &call->metadata, queue->cq, queue->cq, &call->new_tag);
    }
    if (error != GRPC_CALL_OK) {
        sluice_log(SLUICE_LOG_ERROR, "gRPC refused to wait for calls: %s",
                   grpc_call_error_to_string(error));
        abort();
    }
}

static void refuse(struct sluice_rpc_call *call, enum sluice_rpc_code code, const char *text)
{
    call->is_refused = true;
    exchange_end(&call->exchange, code, text);
}

static void on_new(struct rpc_tag *tag, bool ok)
{
    struct sluice_rpc_call *call = SLUICE_CONTAINER_OF(tag, struct sluice_rpc_call, new_tag);
    struct sluice_rpc_server *server = call->server;
    if (!ok) { /* the server is stopping; no client called */
        release_library_parts(call);
        free_call(call);
        return;
    }

    struct sluice_rpc_call *next = malloc(sizeof(*next));
    if (next)
        request(next, server, call->exchange.queue, call->method, call->handle);

    pthread_mutex_lock(&server->lock);
    server->num_live++;
    const bool is_draining = server->is_draining;
    pthread_mutex_unlock(&server->lock);

    call->is_last_of_kind = !next;
    if (is_draining)
        refuse(call, SLUICE_RPC_UNAVAILABLE, "the server is stopping");
    else if (!next)
        refuse(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "the server is out of memory");
    else if (!call->method)
        refuse(call, SLUICE_RPC_UNIMPLEMENTED, "no such method");
    exchange_begin(&call->exchange);
}

/* The one `authorization: Bearer ...`; two of them are as good as none. */
static void find_token(const grpc_metadata_array *metadata, struct sluice_rpc_caller *caller)
{
    static const char scheme[] = "Bearer ";
    const size_t skipped = sizeof(scheme) - 1;
    unsigned count = 0;
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_slice *value = &metadata->metadata[i].value;
        if (grpc_slice_str_cmp(metadata->metadata[i].key, "authorization") != 0)
            continue;
        count++;
        if (GRPC_SLICE_LENGTH(*value) < skipped ||
            sluice_strncasecmp((const char *)GRPC_SLICE_START_PTR(*value), scheme, skipped) != 0)
            continue;
        caller->token = GRPC_SLICE_START_PTR(*value) + skipped;
        caller->token_len = GRPC_SLICE_LENGTH(*value) - skipped;
    }
    if (count != 1)
        caller->token = NULL;
}

static void find_certificate(const grpc_call *call, char *name, size_t room)
{
    grpc_auth_context *context = grpc_call_auth_context((grpc_call *)call);
    grpc_auth_property_iterator names =
        grpc_auth_context_find_properties_by_name(context, GRPC_X509_CN_PROPERTY_NAME);
    const grpc_auth_property *found = grpc_auth_property_iterator_next(&names);
    if (found)
        snprintf(name, room, "%.*s", (int)found->value_length, found->value);
    grpc_auth_context_release(context);
}

/* Ends the call unless its caller may make it. */
static void ask_to_admit(struct sluice_rpc_call *call)
{
    const struct sluice_rpc_server *server = call->server;
    char certificate[128] = "";
    struct sluice_rpc_caller caller = {
        .path = call->method->path, .peer = call->peer, .certificate = certificate};
    find_token(&call->metadata, &caller);
    if (server->identity)
        find_certificate(call->exchange.call, certificate, sizeof(certificate));
    struct sluice_err why = {0};
    const enum sluice_rpc_code code =
        server->admit(server->ctx, &caller, &call->exchange.client, &why);
    if (code != SLUICE_RPC_OK)
        refuse(call, code, why.text);
}

static void *ctx_of(const struct sluice_rpc_call *call)
{
    return call->method->ctx ? call->method->ctx : call->server->ctx;
}

static void begin_call(struct exchange *x)
{
    struct sluice_rpc_call *call = call_of(x);
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &call->is_cancelled;
    exchange_start(x, &op, 1, &call->close_tag);
    if (call->is_refused)
        return;

    const struct sluice_rpc_method *method = call->method;
    void *ctx = ctx_of(call);
    call->peer = grpc_call_get_peer(x->call);
    if (call->server->admit)
        ask_to_admit(call);
    if (call->is_refused)
        return;
    if (call->server->knows_callers)
        door_know(call->server->door, call->peer);
    if (method->on_open)
        method->on_open(ctx, call);
    if (!method->is_unary)
        return;

    /* A unary call has no messages but the one that came with it. */
    x->has_read_all = true;
    grpc_byte_buffer *payload = call->payload;
    call->payload = NULL;
    struct sluice_message message = {0};
    if (!payload)
        exchange_end(x, SLUICE_RPC_INVALID_ARGUMENT, "a request is missing");
    else if (!rpc_message_from_bytes(payload, &message))
        exchange_end(x, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory for the request");
    else if (exchange_is_wanted(x))
        method->on_message(ctx, call, &message);
    sluice_message_clear(&message);
    if (method->on_half_close && exchange_is_wanted(x))
        method->on_half_close(ctx, call);
}

static void deliver(struct exchange *x, struct sluice_message *message)
{
    struct sluice_rpc_call *call = call_of(x);
    call->method->on_message(ctx_of(call), call, message);
}

static void deliver_half_close(struct exchange *x)
{
    struct sluice_rpc_call *call = call_of(x);
    if (call->method->on_half_close)
        call->method->on_half_close(ctx_of(call), call);
}

static void deliver_writable(struct exchange *x)
{
    struct sluice_rpc_call *call = call_of(x);
    if (call->method->on_writable)
        call->method->on_writable(ctx_of(call), call);
}

static void fill_status(struct exchange *x, grpc_op *op)
{
    op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op->data.send_status_from_server.status = (grpc_status_code)x->end_code;
    /* end_text is set once, before is_ending, so it is ours to read now. */
    if (x->end_text && x->end_text[0]) {
        x->end_slice = grpc_slice_from_copied_string(x->end_text);
        op->data.send_status_from_server.status_details = &x->end_slice;
    }
}

static void on_close(struct rpc_tag *tag, bool ok)
{
    (void)ok; /* this operation always succeeds */
    struct sluice_rpc_call *call = SLUICE_CONTAINER_OF(tag, struct sluice_rpc_call, close_tag);
    exchange_close(&call->exchange);
    exchange_settle(&call->exchange);
}

static void end_call(struct exchange *x)
{
    struct sluice_rpc_call *call = call_of(x);
    struct sluice_rpc_server *server = call->server;
    if (!call->is_refused && call->method->on_done)
        call->method->on_done(ctx_of(call), call);
    if (x->client)
        server->release(server->ctx, x->client, call->peer);
    x->client = NULL;
    struct rpc_queue *queue = x->queue;
    if (call->is_last_of_kind) {
        /* It was refused, so no handler has seen it. */
        const struct sluice_rpc_method *method = call->method;
        void *handle = call->handle;
        release_library_parts(call);
        exchange_clear(&call->exchange);
        request(call, server, queue, method, handle);
    } else {
        release_library_parts(call);
        sluice_rpc_call_unref(call);
    }

    pthread_mutex_lock(&server->lock);
    server->num_live--;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static const struct exchange_side server_side = {
    .begin = begin_call,
    .on_message = deliver,
    .on_read_end = deliver_half_close,
    .on_drained = deliver_writable,
    .end_op = fill_status,
    .on_end = end_call,
};

void sluice_rpc_call_set_state(struct sluice_rpc_call *call, void *state)
{
    call->state = state;
}

void *sluice_rpc_call_state(struct sluice_rpc_call *call)
{
    return call->state;
}

const char *sluice_rpc_call_peer(struct sluice_rpc_call *call)
{
    return call->peer ? call->peer : "";
}

void *sluice_rpc_call_client(struct sluice_rpc_call *call)
{
    return call->exchange.client;
}

struct sluice_rpc_call *sluice_rpc_call_ref(struct sluice_rpc_call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    return call;
}

void sluice_rpc_call_unref(struct sluice_rpc_call *call)
{
    if (call && atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) == 1) {
        free_call(call);
    }
}

sluice_status sluice_rpc_call_send(struct sluice_rpc_call *call, struct sluice_message *message)
{
    return exchange_send(&call->exchange, message);
}

void sluice_rpc_call_finish(struct sluice_rpc_call *call, enum sluice_rpc_code code,
                            const char *text)
{
    exchange_end(&call->exchange, code, text);
}

size_t sluice_rpc_call_queued_bytes(struct sluice_rpc_call *call)
{
    return exchange_queued_bytes(&call->exchange);
}

void sluice_rpc_call_pause(struct sluice_rpc_call *call)
{
    exchange_set_paused(&call->exchange, true);
}

void sluice_rpc_call_resume(struct sluice_rpc_call *call)
{
    exchange_set_paused(&call->exchange, false);
}

/* --- the server --- */

static void on_stopped(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct sluice_rpc_server *server = SLUICE_CONTAINER_OF(tag, struct sluice_rpc_server, stop_tag);
    pthread_mutex_lock(&server->lock);
    server->is_stopped = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static grpc_server *create_library_server(const struct sluice_rpc_server_options *options)
{
    const size_t max_receive = options->max_receive_bytes ? options->max_receive_bytes : 4u << 20;
    const unsigned max_streams =
        options->max_concurrent_streams ? options->max_concurrent_streams : 128;
    grpc_arg args[] = {
        /* Otherwise two servers could share a port, and each would get some of the connections. */
        rpc_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
        rpc_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)max_streams),
        rpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                max_receive > INT32_MAX ? INT32_MAX : (int)max_receive),
        rpc_arg(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, RPC_WRITE_BUFFER_BYTES),
        rpc_arg(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, RPC_READ_BYTES),
        rpc_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, RPC_ALGORITHMS),
        rpc_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        rpc_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS),
        rpc_arg(GRPC_ARG_MAX_METADATA_SIZE, MAX_METADATA_BYTES),
        /* Keepalive: a peer that does not answer a ping is gone. */
        rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS),
        rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
        rpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        rpc_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, MIN_PING_INTERVAL_MS),
        {.key = NULL}, /* room for the quota */
    };
    size_t num_args = SLUICE_ARRAY_LEN(args) - 1;
    grpc_resource_quota *quota = NULL;
    if (options->memory_bytes) {
        quota = grpc_resource_quota_create("sluice");
        grpc_resource_quota_resize(quota, options->memory_bytes);
        args[num_args++] = (grpc_arg){
            .type = GRPC_ARG_POINTER,
            .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
            .value.pointer = {.p = quota, .vtable = grpc_resource_quota_arg_vtable()},
        };
    }
    const grpc_channel_args channel_args = {num_args, args};
    grpc_server *server = grpc_server_create(&channel_args, NULL);
    if (quota)
        grpc_resource_quota_unref(quota);
    return server;
}

/* Waits until is_true() or until the deadline `until_ns` (sluice_clock_ns); UINT64_MAX: no
 * deadline. */
static void wait_for(struct sluice_rpc_server *server, bool (*is_true)(struct sluice_rpc_server *),
                     uint64_t until_ns)
{
    pthread_mutex_lock(&server->lock);
    bool has_time = true;
    while (has_time && !is_true(server))
        has_time = sluice_cond_wait_until(&server->changed, &server->lock, until_ns);
    pthread_mutex_unlock(&server->lock);
}

static bool is_never(struct sluice_rpc_server *server)
{
    (void)server;
    return false;
}

static bool is_quiet(struct sluice_rpc_server *server)
{
    return server->num_live == 0;
}

static bool is_gone(struct sluice_rpc_server *server)
{
    return server->num_live == 0 && server->is_stopped;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void sluice_rpc_server_shutdown(struct sluice_rpc_server *server, unsigned grace_ms)
{
    const uint64_t start = sluice_clock_ns();
    const uint64_t deadline = start + grace_ms * 1000000ull;

    pthread_mutex_lock(&server->lock);
    server->is_draining = true;
    pthread_mutex_unlock(&server->lock);
    wait_for(server, is_never, earlier(deadline, start + REFUSE_MS * 1000000ull));

    rpc_hand_over(&server->queues[0], &server->stop_tag);
    grpc_server_shutdown_and_notify(server->server, server->queues[0].cq, &server->stop_tag);
    wait_for(server, is_quiet, deadline);
    wait_for(server, is_gone, earlier(deadline, sluice_clock_ns() + GOODBYE_MS * 1000000ull));
    grpc_server_cancel_all_calls(server->server);
    wait_for(server, is_gone, UINT64_MAX);

    for (unsigned i = 0; i < server->num_queues; i++)
        rpc_queue_stop(&server->queues[i]);
}

/* Frees the server, which may be half made and no longer runs. */
static void free_server(struct sluice_rpc_server *server)
{
    if (server->server)
        grpc_server_destroy(server->server);
    for (unsigned i = 0; server->queues && i < server->num_queues; i++)
        rpc_queue_stop(&server->queues[i]);
    rpc_identity_destroy(server->identity);
    door_close(server->door);
    free(server->listen);
    free(server->queues);
    free(server->handles);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

void sluice_rpc_server_destroy(struct sluice_rpc_server *server)
{
    if (server)
        free_server(server);
}

/* gRPC tells of a port only its lowest 16 bits, and its complaints are pages long: the address is
 * checked before, and the failure explained after. */
static sluice_status listen_on(struct sluice_rpc_server *server, const char *given,
                               struct sluice_err *err)
{
    const bool is_unix = self_check_is_unix(given);
    struct sluice_host_port parsed = {.port = 0};
    char written[SLUICE_HOST_PORT_BYTES];
    const char *address = given;
    if (!is_unix) {
        const sluice_status status = sluice_host_port_parse(given, -1, &parsed, err);
        if (status != SLUICE_OK)
            return status;
        sluice_host_port_format(&parsed, "0.0.0.0", written);
        address = written;
    } else if (self_check_is_taken(given)) {
        return sluice_fail(err, SLUICE_E_IO,
                           "cannot listen on %s: another program listens there already", given);
    }
    (void)rpc_library_complaint();
    grpc_server_credentials *credentials = server->identity
                                               ? rpc_identity_credentials(server->identity)
                                               : grpc_insecure_server_credentials_create();
    server->port = grpc_server_add_http2_port(server->server, address, credentials);
    grpc_server_credentials_release(credentials);
    if (server->port > 0) {
        door_set_port(server->door, is_unix ? DOOR_UNIX : server->port);
        return SLUICE_OK;
    }
    const char *why = rpc_library_complaint();
    if (!is_unix && sluice_host_port_try_listen(&parsed, err) != SLUICE_OK)
        return SLUICE_E_IO;
    return sluice_fail(err, SLUICE_E_IO, "cannot listen on %s: %s", address,
                       why[0] ? why : "no such address");
}

sluice_status sluice_rpc_server_create(const struct sluice_rpc_server_options *options,
                                       struct sluice_rpc_server **out, struct sluice_err *err)
{
    if (options->num_threads < 1)
        return sluice_fail(err, SLUICE_E_INVALID, "a server needs at least one thread");
    rpc_library_init();

    struct sluice_rpc_server *server = calloc(1, sizeof(*server));
    if (!server)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    pthread_mutex_init(&server->lock, NULL);
    sluice_cond_init(&server->changed);
    server->methods = options->methods;
    server->num_methods = options->num_methods;
    server->ctx = options->ctx;
    server->admit = options->admit;
    server->release = options->release;
    server->stop_tag.fn = on_stopped;
    server->num_queues = options->num_threads;
    server->queues = calloc(server->num_queues, sizeof(*server->queues));
    server->handles = calloc(server->num_methods + 1, sizeof(*server->handles));
    server->listen = strdup(options->listen);

    sluice_status status = SLUICE_OK;
    if (!server->queues || !server->handles || !server->listen)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server");
    if (status == SLUICE_OK && options->tls) {
        const struct sluice_tls_files files = {
            .cert = options->tls->cert, .key = options->tls->key, .ca = options->tls->client_ca};
        status = rpc_identity_create(&files, &server->identity, err);
    }
    const struct door_limits limits = {options->max_connections, options->max_connections_per_host,
                                       options->tls != NULL, options->is_over, options->ctx};
    server->knows_callers = options->is_over != NULL;
    if (status == SLUICE_OK)
        status = door_open(&limits, &server->door, err);
    for (unsigned i = 0; status == SLUICE_OK && i < server->num_queues; i++) {
        char name[16];
        snprintf(name, sizeof(name), "rpc-%u", i);
        server->queues[i].pace = options->pace;
        server->queues[i].pace_ctx = options->ctx;
        status = rpc_queue_start(&server->queues[i], name, err);
    }
    if (status != SLUICE_OK) {
        free_server(server);
        return status;
    }

    server->server = create_library_server(options);
    for (unsigned i = 0; i < server->num_queues; i++)
        grpc_server_register_completion_queue(server->server, server->queues[i].cq, NULL);
    for (size_t m = 0; status == SLUICE_OK && m < server->num_methods; m++) {
        const struct sluice_rpc_method *method = &server->methods[m];
        server->handles[m] = grpc_server_register_method(
            server->server, method->path, NULL,
            method->is_unary ? GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER : GRPC_SRM_PAYLOAD_NONE,
            0);
        if (!server->handles[m])
            status =
                sluice_fail(err, SLUICE_E_INVALID, "the method %s is there twice", method->path);
    }
    if (status == SLUICE_OK)
        status = listen_on(server, options->listen, err);
    if (status != SLUICE_OK) {
        sluice_rpc_server_shutdown(server, 0);
        free_server(server);
        return status;
    }

    /* One call waits per method and queue, and one more per queue for any other method; all are
     * there before the first client can come. */
    grpc_server_start(server->server);
    for (unsigned i = 0; i < server->num_queues; i++) {
        for (size_t m = 0; m <= server->num_methods; m++) {
            struct sluice_rpc_call *call = malloc(sizeof(*call));
            if (!call) {
                sluice_rpc_server_shutdown(server, 0);
                free_server(server);
                return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server's calls");
            }
            const bool is_known = m < server->num_methods;
            request(call, server, &server->queues[i], is_known ? &server->methods[m] : NULL,
                    is_known ? server->handles[m] : NULL);
        }
    }
    *out = server;
    return SLUICE_OK;
}

int sluice_rpc_server_port(const struct sluice_rpc_server *server)
{
    return server->port;
}

uint64_t sluice_rpc_server_bytes_sent(const struct sluice_rpc_server *server)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < server->num_queues; i++)
        sum += atomic_load_explicit(&server->queues[i].bytes_sent, memory_order_relaxed);
    return sum;
}

bool sluice_rpc_server_can_limit(void)
{
    return door_is_before_grpc();
}

struct sluice_rpc_connections sluice_rpc_server_connections(struct sluice_rpc_server *server)
{
    return door_read(server->door);
}

uint64_t sluice_rpc_server_num_refused(struct sluice_rpc_server *server)
{
    return door_num_refused(server->door);
}

sluice_status sluice_rpc_server_check(struct sluice_rpc_server *server, unsigned timeout_ms,
                                      struct sluice_err *err)
{
    const struct self_check_target target = {
        .listen = server->listen,
        .port = server->port,
        .has_tls = server->identity != NULL,
        .door = server->door,
    };
    return self_check(&target, timeout_ms, err);
}

int64_t sluice_rpc_server_certificate_end(struct sluice_rpc_server *server)
{
    return server->identity ? rpc_identity_certificate_end(server->identity) : 0;
}

sluice_status sluice_rpc_server_reload(struct sluice_rpc_server *server, struct sluice_err *err)
{
    return server->identity ? rpc_identity_reload(server->identity, err) : SLUICE_OK;
}
