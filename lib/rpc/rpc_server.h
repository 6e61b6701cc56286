#ifndef SLUICE_RPC_RPC_SERVER_H
#define SLUICE_RPC_RPC_SERVER_H

#include "base/error.h"
#include "base/message.h"
#include "rpc/rpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A gRPC server of byte messages: methods in, messages in, messages out.
 *
 * Every kind of method is the same shape: a call is opened, messages arrive, the
 * peer half-closes, the handler finishes.  A unary method is one that gets one
 * message, sends one and finishes.
 *
 * Threads: the callbacks of one call run on completion threads, one at a time
 * and in order.  They must not block: work goes to a worker pool.  The
 * functions on a call may be called from any thread while the call is live or a
 * reference is held; workers send, completion threads write.
 *
 * Once a handler has called finish, on_done is the only callback still to come. */

struct sluice_rpc_server;
struct sluice_rpc_call;

struct sluice_rpc_method {
    const char *path; /* "/sluice.v1.Offload/Fetch" */

    /* The peer sends exactly one message: it is read together with the call, which saves a
     * round through the queue, and on_half_close follows it at once.  A call without it is
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

/* Who calls, before the call's handler sees it; borrowed for the time of the callback. */
struct sluice_rpc_caller {
    const char *path;        /* the method */
    const char *peer;        /* as sluice_rpc_call_peer() */
    const char *certificate; /* common name in the client's certificate; "": it has shown none */
    /* The token after "Bearer " in the call's only `authorization` field; NULL: no such field. */
    const void *token;
    size_t token_len;
};

struct sluice_rpc_server_options {
    /* base/host_port.h, or "unix:PATH"; port 0: a free one */
    const char *listen;
    unsigned num_threads;                    /* completion threads, each with its own queue; >= 1 */
    const struct sluice_rpc_method *methods; /* borrowed; any other method: UNIMPLEMENTED */
    size_t num_methods;
    void *ctx; /* for the callbacks below, and for methods without one; borrowed */

    size_t max_receive_bytes;        /* 0: 4 MiB */
    unsigned max_concurrent_streams; /* 0: 128 */

    /* NULL: connections are not encrypted.  The files are read again when they have changed. */
    const struct sluice_rpc_server_tls *tls;

    /* Who may call: asked on the completion thread as a call begins.  Anything but OK ends the call
     * with that code and the text, and no handler sees it.  Otherwise *client is the call's
     * (sluice_rpc_call_client()) until release() gets it, with the call's peer.  NULL: everybody.
     */
    enum sluice_rpc_code (*admit)(void *ctx, const struct sluice_rpc_caller *caller, void **client,
                                  struct sluice_err *why);
    void (*release)(void *ctx, void *client, const char *peer);

    /* Connections beyond these are closed as they come, with a line in the log; 0: as many as there
     * are descriptors.  A host is an IPv4 address or an IPv6 /64. */
    unsigned max_connections, max_connections_per_host;
    /* Bytes that the library may allocate for connections and calls before it refuses and closes
     * some (its resource quota); messages that are sent are not counted.  0: no limit. */
    uint64_t memory_bytes;
    /* Does the process hold too much memory?  As long as it does, connections of which no call was
     * admitted are cut, the newest first, and then one that sends more than requests need.  Asked
     * some 20 times a second while clients send, with a lock of all servers held: it may call
     * nothing of this module.  NULL: never. */
    bool (*is_over)(void *ctx);

    /* Rate limiter of what is sent.  Called on a completion thread just before a message of
     * `bytes` (its frame header included) is written.  0: write now, the bytes are spent; else ask
     * again in so many ns.  Each thread queues the messages of its calls, oldest first, and asks
     * for all of them when the shortest wait is over.  Waits are rounded up to the timer's next
     * millisecond, so a limiter should allow a burst of a few milliseconds.  `client` is that of
     * admit().  NULL: no limit. */
    uint64_t (*pace)(void *ctx, void *client, size_t bytes);
};

/* SLUICE_E_INVALID if `listen` is not an address, SLUICE_E_IO if it cannot be bound; both name it.
 */
SLUICE_MUST_USE sluice_status
sluice_rpc_server_create(const struct sluice_rpc_server_options *options,
                         struct sluice_rpc_server **server, struct sluice_err *err);

int sluice_rpc_server_port(const struct sluice_rpc_server *server); /* the bound one */

/* Sum over everything sent since the start: serialized messages with gRPC's
 * 5-byte frame headers, HTTP/2 framing not counted. */
uint64_t sluice_rpc_server_bytes_sent(const struct sluice_rpc_server *server);

/* Whether limits on connections hold in this process, and floods are cut: in our programs they do;
 * not in a shared library that has gRPC from another one. */
bool sluice_rpc_server_can_limit(void);

/* Looks at each connection: for the operator, and not for whoever asks. */
struct sluice_rpc_connections sluice_rpc_server_connections(struct sluice_rpc_server *server);
/* The sum of `refused` alone, at no cost. */
uint64_t sluice_rpc_server_num_refused(struct sluice_rpc_server *server);

/* Connects to the server through the address that it listens on, beyond the limits above, and waits
 * for the answer to an HTTP/2 PING; with TLS for its part of the handshake.  SLUICE_E_IO with what
 * went wrong if there was none within timeout_ms.  One thread at a time. */
SLUICE_MUST_USE sluice_status sluice_rpc_server_check(struct sluice_rpc_server *server,
                                                      unsigned timeout_ms, struct sluice_err *err);

/* When the first certificate of the server's chain ends, in seconds of Unix time; 0: no TLS. */
int64_t sluice_rpc_server_certificate_end(struct sluice_rpc_server *server);

/* Reads the certificates again.  Errors name the file; those of before stay then.  Nothing to do
 * without TLS. */
SLUICE_MUST_USE sluice_status sluice_rpc_server_reload(struct sluice_rpc_server *server,
                                                       struct sluice_err *err);

/* Refuses new calls with UNAVAILABLE (a call that took more than a tenth of a second to arrive may
 * be cancelled instead), waits up to grace_ms for the calls in flight (tell them to finish first),
 * cancels the rest, waits until every on_done has run, and joins the threads.  Call it once. */
void sluice_rpc_server_shutdown(struct sluice_rpc_server *server, unsigned grace_ms);

/* After shutdown.  NULL is allowed. */
void sluice_rpc_server_destroy(struct sluice_rpc_server *server);

/* The handler's own pointer; set it in on_open. */
void sluice_rpc_call_set_state(struct sluice_rpc_call *call, void *state);
void *sluice_rpc_call_state(struct sluice_rpc_call *call);
const char *sluice_rpc_call_peer(struct sluice_rpc_call *call); /* "ipv4:10.0.0.1:4242" */
/* The result of admit(); valid until on_done has returned.  NULL: everybody may call. */
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

/* No further on_message until resumed (HTTP/2 flow control then holds the peer).
 * One that was already on its way may still come. */
void sluice_rpc_call_pause(struct sluice_rpc_call *call);
void sluice_rpc_call_resume(struct sluice_rpc_call *call);

#endif
