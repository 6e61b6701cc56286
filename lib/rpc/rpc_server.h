#ifndef SLUICE_RPC_RPC_SERVER_H
#define SLUICE_RPC_RPC_SERVER_H

#include "rpc/rpc_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A gRPC server of byte messages: methods in, messages in, messages out.
 *
 * Threads: create, shutdown and destroy belong to one; the rest any may call, but where it says
 * otherwise.  rpc_call.h says on which threads methods run. */

struct sluice_rpc_server;

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

#endif
