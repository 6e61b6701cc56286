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
 * All methods have the same shape: a call is opened, messages arrive, the peer half-closes, the
 * handler finishes.  A unary method receives one message, sends one and finishes.
 *
 * Threads: the callbacks of one call run on completion threads, one at a time and in order.  They
 * must not block: work goes to a worker pool.  The functions on a call may be called from any
 * thread while the call is live or a reference is held; workers send, completion threads write.
 *
 * After a handler has called finish, only on_done follows. */

struct sluice_rpc_server;
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

    /* Decides whether a call is admitted; called on the completion thread when it begins.  Any code
     * but OK ends the call with that code and the text, before any handler.  Otherwise *client
     * belongs to the call (sluice_rpc_call_client()) until release() gets it, with the call's peer.
     * NULL: all calls are admitted. */
    enum sluice_rpc_code (*admit)(void *ctx, const struct sluice_rpc_caller *caller, void **client,
                                  struct sluice_err *why);
    void (*release)(void *ctx, void *client, const char *peer);

    /* Limits of connections; more are closed on arrival and logged.  0: limited by descriptors
     * only.  A host is an IPv4 address or an IPv6 /64. */
    unsigned max_connections, max_connections_per_host;
    /* The library's resource quota: bytes that it may allocate for connections and calls before it
     * refuses and closes some.  Sent messages are not counted.  0: no limit. */
    uint64_t memory_bytes;
    /* Whether the process uses too much memory.  While it does, connections without an admitted
     * call are cut, the newest first, and then one that sends more than requests need.  Called
     * about 20 times a second while clients send, under a lock of all servers: it must not call
     * this module.  NULL: never. */
    bool (*is_over)(void *ctx);

    /* Rate limiter of what is sent.  Called on a completion thread just before a message of `bytes`
     * (its frame header included) is written.  Returns 0: write now, the bytes are spent; else the
     * ns after which to call again.  Each thread queues the messages of its calls, oldest first,
     * and calls it for all of them when the shortest wait is over.  Waits are rounded up to the
     * timer's next millisecond, so a limiter should allow a burst of a few milliseconds.  `client`
     * is that of admit().  NULL: no limit. */
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

/* Whether this process can limit connections and cut floods: our programs can; a shared library
 * that gets gRPC from another shared library cannot. */
bool sluice_rpc_server_can_limit(void);

/* Inspects every connection: for the operator only, because of its cost. */
struct sluice_rpc_connections sluice_rpc_server_connections(struct sluice_rpc_server *server);
/* Only the sum of `refused`, at no cost. */
uint64_t sluice_rpc_server_num_refused(struct sluice_rpc_server *server);

/* Checks that the server answers: connects to its listening address, exempt from the limits above,
 * and waits for the answer to an HTTP/2 PING, or with TLS for the server's part of the handshake.
 * SLUICE_E_IO: no answer within timeout_ms; the text has the reason.  One thread at a time. */
SLUICE_MUST_USE sluice_status sluice_rpc_server_check(struct sluice_rpc_server *server,
                                                      unsigned timeout_ms, struct sluice_err *err);

/* The expiry of the first certificate of the server's chain, in seconds of Unix time; 0: no TLS. */
int64_t sluice_rpc_server_certificate_end(struct sluice_rpc_server *server);

/* Reloads the certificates.  Errors name the file, and the old certificates stay in use.  No effect
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
