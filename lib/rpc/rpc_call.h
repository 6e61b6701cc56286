#ifndef SLUICE_RPC_RPC_CALL_H
#define SLUICE_RPC_RPC_CALL_H

#include "base/error.h"
#include "base/message.h"
#include "rpc/rpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Methods of a server, and their calls.
 *
 * All methods have the same shape: a call is opened, messages arrive, the peer half-closes, the
 * handler finishes.  A unary method receives one message, sends one and finishes.
 *
 * Threads: the callbacks of one call run on completion threads, one at a time and in order.  They
 * must not block: work goes to a worker pool.  The functions on a call may be called from any
 * thread while the call is live or a reference is held; workers send, completion threads write.
 *
 * After a handler has called finish, only on_done follows. */

struct sluice_rpc_call;

struct sluice_rpc_method {
    const char *path; /* "/sluice.v1.Offload/Fetch" */

    /* The peer sends exactly one message: it is read together with the call, which saves a pass
     * through the queue, and on_half_close follows at once.  A call without a message is
     * INVALID_ARGUMENT. */
    bool is_unary;

    void *ctx; /* for these callbacks; borrowed; NULL: the server's */
    /* The call began.  Optional. */
    void (*on_open)(void *ctx, struct sluice_rpc_call *call);
    /* A message arrived; borrowed for the time of the callback (take the
     * content by moving *message out and leaving {0} behind). */
    void (*on_message)(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message);
    /* The peer will send no more.  Optional. */
    void (*on_half_close)(void *ctx, struct sluice_rpc_call *call);
    /* Everything sent so far has been handed to the transport: send more.  Optional. */
    void (*on_writable)(void *ctx, struct sluice_rpc_call *call);
    /* The last callback: finished or lost.  Sends after it say SLUICE_E_CLOSED.
     * Release the call's state here. */
    void (*on_done)(void *ctx, struct sluice_rpc_call *call);
};

/* The caller of a call, for admit(); borrowed during the callback. */
struct sluice_rpc_caller {
    const char *path;        /* the method */
    const char *peer;        /* as sluice_rpc_call_peer() */
    const char *certificate; /* common name in the client's certificate; "": no certificate */
    /* The token after "Bearer " in the call's only `authorization` field; NULL: no such field. */
    const void *token;
    size_t token_len;
};

/* The handler's own pointer; set it in on_open. */
void sluice_rpc_call_set_state(struct sluice_rpc_call *call, void *state);
void *sluice_rpc_call_state(struct sluice_rpc_call *call);
const char *sluice_rpc_call_peer(struct sluice_rpc_call *call); /* "ipv4:10.0.0.1:4242" */
/* The client that admit() set; valid until on_done has returned.  NULL: admit is NULL. */
void *sluice_rpc_call_client(struct sluice_rpc_call *call);

/* Keeps the struct valid (not the connection) beyond on_done, for workers. */
struct sluice_rpc_call *sluice_rpc_call_ref(struct sluice_rpc_call *call);
void sluice_rpc_call_unref(struct sluice_rpc_call *call);

/* Queues a message; takes its content (leaves {0}) whatever it returns.  Messages
 * leave in the order they were sent.  SLUICE_E_CLOSED: the call is over. */
sluice_status sluice_rpc_call_send(struct sluice_rpc_call *call, struct sluice_message *message);

/* Ends the call once everything queued is written.  The first finish counts;
 * `text` is copied, may be NULL. */
void sluice_rpc_call_finish(struct sluice_rpc_call *call, enum sluice_rpc_code code,
                            const char *text);

/* Bytes queued and not yet handed to the transport. */
size_t sluice_rpc_call_queued_bytes(struct sluice_rpc_call *call);

/* Stops on_message until the call is resumed (HTTP/2 flow control then stops the peer).  One
 * message in progress may still arrive. */
void sluice_rpc_call_pause(struct sluice_rpc_call *call);
void sluice_rpc_call_resume(struct sluice_rpc_call *call);

#endif
