#include "rpc/rpc_call_internal.h"

#include "base/c_locale.h"
#include "base/log.h"
#include "rpc/grpc151/door.h"
#include "rpc/grpc_library.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The server requests calls in advance: an empty call waits for a method, the library fills it in
 * when a client calls, and another empty call takes its place:
 *
 *     requested --on_new--> refused --------------------> ended
 *                      \--> open --finish or lost--> done /
 */
struct sluice_rpc_call {
    struct exchange exchange;
    struct rpc_calls *calls;
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

static struct sluice_rpc_call *call_of(struct exchange *x)
{
    return SLUICE_CONTAINER_OF(x, struct sluice_rpc_call, exchange);
}

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

static void request(struct sluice_rpc_call *call, struct rpc_calls *calls, struct rpc_queue *queue,
                    const struct sluice_rpc_method *method, void *handle)
{
    memset(call, 0, sizeof(*call));
    exchange_init(&call->exchange, &server_side, queue);
    call->exchange.needs_metadata = true;
    call->calls = calls;
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
            calls->server, handle, &call->exchange.call, &call->deadline, &call->metadata,
            method->is_unary ? &call->payload : NULL, queue->cq, queue->cq, &call->new_tag);
    } else {
        grpc_call_details_init(&call->details);
        error = grpc_server_request_call(calls->server, &call->exchange.call, &call->details,
                                         &call->metadata, queue->cq, queue->cq, &call->new_tag);
    }
    if (error != GRPC_CALL_OK) {
        sluice_log(SLUICE_LOG_ERROR, "gRPC refused to wait for calls: %s",
                   grpc_call_error_to_string(error));
        abort();
    }
}

bool rpc_call_await(struct rpc_calls *calls, struct rpc_queue *queue,
                    const struct sluice_rpc_method *method, void *handle)
{
    struct sluice_rpc_call *call = malloc(sizeof(*call));
    if (call)
        request(call, calls, queue, method, handle);
    return call != NULL;
}

static void refuse(struct sluice_rpc_call *call, enum sluice_rpc_code code, const char *text)
{
    call->is_refused = true;
    exchange_end(&call->exchange, code, text);
}

static void on_new(struct rpc_tag *tag, bool ok)
{
    struct sluice_rpc_call *call = SLUICE_CONTAINER_OF(tag, struct sluice_rpc_call, new_tag);
    struct rpc_calls *calls = call->calls;
    if (!ok) { /* the server is stopping; no client called */
        release_library_parts(call);
        free_call(call);
        return;
    }

    const bool has_next = rpc_call_await(calls, call->exchange.queue, call->method, call->handle);

    pthread_mutex_lock(&calls->lock);
    calls->num_live++;
    const bool is_draining = calls->is_draining;
    pthread_mutex_unlock(&calls->lock);

    call->is_last_of_kind = !has_next;
    if (is_draining)
        refuse(call, SLUICE_RPC_UNAVAILABLE, "the server is stopping");
    else if (!has_next)
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
    const struct rpc_calls *calls = call->calls;
    char certificate[128] = "";
    struct sluice_rpc_caller caller = {
        .path = call->method->path, .peer = call->peer, .certificate = certificate};
    find_token(&call->metadata, &caller);
    if (calls->has_tls)
        find_certificate(call->exchange.call, certificate, sizeof(certificate));
    struct sluice_err why = {0};
    const enum sluice_rpc_code code =
        calls->admit(calls->ctx, &caller, &call->exchange.client, &why);
    if (code != SLUICE_RPC_OK)
        refuse(call, code, why.text);
}

static void *ctx_of(const struct sluice_rpc_call *call)
{
    return call->method->ctx ? call->method->ctx : call->calls->ctx;
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
    if (call->calls->admit)
        ask_to_admit(call);
    if (call->is_refused)
        return;
    if (call->calls->door)
        door_know(call->calls->door, call->peer);
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
    struct rpc_calls *calls = call->calls;
    if (!call->is_refused && call->method->on_done)
        call->method->on_done(ctx_of(call), call);
    if (x->client)
        calls->release(calls->ctx, x->client, call->peer);
    x->client = NULL;
    struct rpc_queue *queue = x->queue;
    if (call->is_last_of_kind) {
        /* It was refused, so no handler has seen it. */
        const struct sluice_rpc_method *method = call->method;
        void *handle = call->handle;
        release_library_parts(call);
        exchange_clear(&call->exchange);
        request(call, calls, queue, method, handle);
    } else {
        release_library_parts(call);
        sluice_rpc_call_unref(call);
    }

    pthread_mutex_lock(&calls->lock);
    calls->num_live--;
    pthread_cond_broadcast(&calls->changed);
    pthread_mutex_unlock(&calls->lock);
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
