#include "storage_server/services/probe.h"

#include "base/buf.h"
#include "base/rng.h"
#include "rpc/rpc_call.h"
#include "storage_server/session/caller.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/session/session.h"
#include "wire/wire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_MAX_BYTES (1ull << 30)
#define PROBE_MAX_MESSAGE (1u << 20)
#define PROBE_DEFAULT_MESSAGE (256u << 10)

/* Bytes that a probe keeps queued, so that the link is never idle. */
#define PROBE_AHEAD_BYTES (1u << 20)

/* Probes of one client that may wait for their turn: those of several trainers on one host that
 * start together. */
#define MAX_WAITING 16

/* A client's probes take turns: two at once would measure each other, and many would take the link
 * from others.
 *
 *     line --turn comes--> sends, on its own call's thread --> done: the next of this client
 *
 * Whoever passes the turn on sends the first message of the next one, and then lets go of it: that
 * message's on_writable sends the rest. */
struct sluice_probe {
    struct sluice_probe *next;      /* in the session's line, under its lock */
    atomic_uint refs;               /* the call's, and of who passes the turn on */
    struct sluice_rpc_call *call;   /* a reference */
    struct sluice_session *session; /* the call's */
    struct sluice_memory_holder *memory;
    /* For the session whose turn it is: */
    uint64_t left;
    uint32_t message_bytes;
    struct sluice_buf *payload; /* message_bytes that do not compress; made with the turn */
};

static void unref(struct sluice_probe *probe)
{
    /* Acquire and release: the last one sees what the others wrote. */
    if (atomic_fetch_sub_explicit(&probe->refs, 1, memory_order_acq_rel) != 1)
        return;
    sluice_buf_unref(probe->payload);
    sluice_memory_close(probe->memory);
    sluice_rpc_call_unref(probe->call);
    free(probe);
}

static sluice_status make_payload(const struct sluice_probe_service *service,
                                  struct sluice_memory_holder *memory, size_t len,
                                  struct sluice_buf **payload, struct sluice_err *err)
{
    struct sluice_buf *buf;
    const size_t charged = sluice_buf_footprint(len);
    if (!sluice_memory_take(memory, charged, SLUICE_MEMORY_REPLY))
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "this client's share of the server's memory is used up");
    const sluice_status status = sluice_buf_create(service->buffers, len, &buf, err);
    if (status != SLUICE_OK) {
        sluice_memory_give(memory, charged);
        return status;
    }
    sluice_buf_on_last(buf, sluice_memory_give_hook, memory, charged);
    struct sluice_rng rng = sluice_rng_init(len, 0, 0, 0);
    for (size_t i = 0; i < len; i += 4) {
        const uint32_t word = sluice_rng_u32(&rng);
        memcpy(buf->data + i, &word, len - i < 4 ? len - i : 4);
    }
    buf->len = len;
    *payload = buf;
    return SLUICE_OK;
}

/* Sends one message.  False: the probe is over. */
static bool send_one(const struct sluice_probe_service *service, struct sluice_probe *probe)
{
    sluice_status status = SLUICE_OK;
    struct sluice_err err = {0};
    if (probe->left < probe->message_bytes) {
        /* The last message is shorter.  It gets a buffer of its own, as earlier messages may
         * still be sent from the long one. */
        sluice_buf_unref(probe->payload);
        probe->payload = NULL;
        probe->message_bytes = (uint32_t)probe->left;
    }
    if (!probe->payload)
        status = make_payload(service, probe->memory, probe->message_bytes, &probe->payload, &err);
    struct sluice_message reply = {0};
    if (status == SLUICE_OK)
        status = sluice_wire_put_probe_reply(probe->payload, &reply, &err);
    /* Before it is sent: on_writable may come to the probe at once then, on another thread. */
    probe->left -= status == SLUICE_OK ? probe->message_bytes : probe->left;
    if (status == SLUICE_OK)
        status = sluice_rpc_call_send(probe->call, &reply);
    if (status == SLUICE_OK)
        return true;
    sluice_message_clear(&reply);
    sluice_rpc_call_finish(probe->call, sluice_rpc_code_from_status(status), err.text);
    return false;
}

/* On the call's own thread. */
static void send_more(const struct sluice_probe_service *service, struct sluice_probe *probe)
{
    while (probe->left) {
        if (sluice_rpc_call_queued_bytes(probe->call) >= PROBE_AHEAD_BYTES)
            return;
        if (!send_one(service, probe))
            return;
    }
    sluice_rpc_call_finish(probe->call, SLUICE_RPC_OK, NULL);
}

enum place { HAS_TURN, WAITS, IS_REFUSED };

static enum place enter_line(struct sluice_probe *probe)
{
    struct sluice_probe_line *line = &probe->session->probes;
    enum place place = HAS_TURN;
    pthread_mutex_lock(&line->lock);
    if (!line->turn) {
        line->turn = probe;
    } else if (line->num_waiting >= MAX_WAITING) {
        place = IS_REFUSED;
    } else {
        place = WAITS;
        *line->end = probe;
        line->end = &probe->next;
        line->num_waiting++;
    }
    pthread_mutex_unlock(&line->lock);
    return place;
}

/* Under the lock: takes the probe at *link out of those that wait. */
static struct sluice_probe *take_out(struct sluice_probe_line *line, struct sluice_probe **link)
{
    struct sluice_probe *probe = *link;
    *link = probe->next;
    if (!probe->next)
        line->end = link;
    line->num_waiting--;
    return probe;
}

/* Returns who has the turn now, with a reference; NULL: it is where it was, or none waits. */
static struct sluice_probe *leave_line(struct sluice_probe *probe)
{
    struct sluice_probe_line *line = &probe->session->probes;
    struct sluice_probe *next = NULL;
    pthread_mutex_lock(&line->lock);
    if (line->turn != probe) {
        struct sluice_probe **link = &line->first;
        while (*link != probe)
            link = &(*link)->next;
        (void)take_out(line, link);
    } else {
        next = line->first ? take_out(line, &line->first) : NULL;
        line->turn = next;
        if (next)
            atomic_fetch_add_explicit(&next->refs, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&line->lock);
    return next;
}

static void on_probe(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    const struct sluice_probe_service *service = ctx;
    struct sluice_err err = {0};
    uint64_t bytes;
    uint32_t message_bytes;
    if (sluice_rpc_call_state(call))
        return;
    const sluice_status read = sluice_wire_get_probe_request(message, &bytes, &message_bytes, &err);
    if (read != SLUICE_OK) {
        sluice_rpc_call_finish(call, sluice_rpc_code_of_request(read), err.text);
        return;
    }
    if (!message_bytes)
        message_bytes = PROBE_DEFAULT_MESSAGE;
    if (bytes > PROBE_MAX_BYTES || message_bytes > PROBE_MAX_MESSAGE) {
        sluice_rpc_call_finish(call, SLUICE_RPC_INVALID_ARGUMENT,
                               "a probe sends at most 1 GiB in messages of at most 1 MiB");
        return;
    }
    struct sluice_probe *probe = calloc(1, sizeof(*probe));
    const struct sluice_caller *caller = sluice_rpc_call_client(call);
    struct sluice_memory_holder *memory =
        probe ? sluice_memory_open(service->memory, caller->session, NULL, NULL) : NULL;
    if (!memory) {
        free(probe);
        sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory to probe with");
        return;
    }
    *probe = (struct sluice_probe){
        .call = sluice_rpc_call_ref(call),
        .session = caller->session,
        .memory = memory,
        .left = bytes,
        .message_bytes = message_bytes,
    };
    atomic_init(&probe->refs, 1);
    sluice_rpc_call_set_state(call,
                              probe); /* before it is in the line: its turn may come at once */
    const enum place place = enter_line(probe);
    if (place == HAS_TURN)
        send_more(service, probe);
    if (place != IS_REFUSED)
        return;
    sluice_rpc_call_set_state(call, NULL);
    unref(probe);
    sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED,
                           "one probe at a time: too many of this address wait");
}

static void on_writable(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_probe *probe = sluice_rpc_call_state(call);
    if (probe)
        send_more(ctx, probe);
}

static void on_done(void *ctx, struct sluice_rpc_call *call)
{
    struct sluice_probe *probe = sluice_rpc_call_state(call);
    if (!probe)
        return;
    struct sluice_probe *next = leave_line(probe);
    unref(probe);
    if (!next)
        return;
    if (next->left)
        (void)send_one(ctx, next);
    else
        sluice_rpc_call_finish(next->call, SLUICE_RPC_OK, NULL);
    unref(next);
}

struct sluice_rpc_method *sluice_probe_methods(struct sluice_probe_service *service,
                                               struct sluice_rpc_method *end)
{
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_PROBE,
        .is_unary = true,
        .ctx = service,
        .on_message = on_probe,
        .on_writable = on_writable,
        .on_done = on_done,
    };
    return end;
}
