#ifndef SLUICE_RPC_RPC_CLIENT_H
#define SLUICE_RPC_RPC_CLIENT_H

#include "base/error.h"
#include "base/message.h"
#include "rpc/rpc.h"

#include <stddef.h>

/* The client of rpc_server: a channel to one address, unary calls that block, streams with
 * callbacks.
 *
 * A channel reconnects by itself; a stream does not: on_done reports its loss and the caller opens
 * another.
 *
 * Each channel has a completion thread.  gRPC lets one completion thread poll for all, so with two
 * channels one thread may read the bytes and then wake the other.  Use one channel in a process
 * where CPU time matters.
 *
 * Threads: all functions from any thread, except from a callback where noted. Callbacks of one
 * stream run on the channel's completion thread, one at a time. */

struct sluice_rpc_channel;
struct sluice_rpc_stream;

struct sluice_rpc_channel_options {
    const char *target;       /* "host:port" */
    size_t max_receive_bytes; /* 0: 64 MiB */
    unsigned keepalive_ms;    /* ping when idle this long; 0: 20,000; at least 1,000 */
    const struct sluice_rpc_client_tls *tls; /* NULL: not encrypted; copied, with its texts */
    /* The file with the token that every call carries; NULL: the token in the variable
     * SLUICE_TOKEN, or none.  Copied. */
    const char *token_file;
};

/* Certificates and token are read here and at each renewal.  SLUICE_E_INVALID: among others, for a
 * token without TLS to another machine. */

SLUICE_MUST_USE sluice_status
sluice_rpc_channel_create(const struct sluice_rpc_channel_options *options,
                          struct sluice_rpc_channel **channel, struct sluice_err *err);
/* Destroy every stream first.  NULL is allowed. */
void sluice_rpc_channel_destroy(struct sluice_rpc_channel *channel);

/* Later calls get a new connection; calls in flight keep theirs.  For a client whose call failed: a
 * bit flip in a call's headers stays in the connection's header table (HPACK, RFC 7541) and damages
 * every later call in the same way.  Reloads certificates and token; if they are invalid, logs it
 * and keeps the old ones. */
void sluice_rpc_channel_renew(struct sluice_rpc_channel *channel);
/* Ends every call on the channel with CANCELLED, calls in flight and later ones.  Does not wait. */
void sluice_rpc_channel_stop(struct sluice_rpc_channel *channel);

/* Sends one message and waits for one.  Takes *request's content whatever it
 * returns; *reply is the caller's to clear.  Not from a callback.
 * timeout_ms 0: no deadline.  The status is that of sluice_rpc_code_to_status(); err
 * carries the server's text; *code (may be NULL) the exact code, OK too. */
SLUICE_MUST_USE sluice_status sluice_rpc_unary(struct sluice_rpc_channel *channel, const char *path,
                                               struct sluice_message *request, unsigned timeout_ms,
                                               struct sluice_message *reply,
                                               enum sluice_rpc_code *code, struct sluice_err *err);

struct sluice_rpc_stream_events {
    /* Borrowed during the callback, as in rpc_server.h.  The next message is read when it returns.
     */
    void (*on_message)(void *ctx, struct sluice_message *message);
    /* The last callback. */
    void (*on_done)(void *ctx, enum sluice_rpc_code code, const char *text);
    void *ctx;
};

/* Opens a stream; fails fast with on_done(UNAVAILABLE) if nobody listens.
 * timeout_ms 0: no deadline for the stream as a whole.  Callbacks may come before
 * this returns. */
SLUICE_MUST_USE sluice_status sluice_rpc_stream_open(struct sluice_rpc_channel *channel,
                                                     const char *path, unsigned timeout_ms,
                                                     const struct sluice_rpc_stream_events *events,
                                                     struct sluice_rpc_stream **stream,
                                                     struct sluice_err *err);

/* Queues a message; takes its content whatever it returns.  SLUICE_E_CLOSED: over. */
sluice_status sluice_rpc_stream_send(struct sluice_rpc_stream *stream,
                                     struct sluice_message *message);
void sluice_rpc_stream_half_close(struct sluice_rpc_stream *stream); /* after what is queued */
void sluice_rpc_stream_cancel(struct sluice_rpc_stream *stream);

/* Cancels unless done, waits for on_done to return, frees.  Not from a callback.
 * NULL is allowed. */
void sluice_rpc_stream_destroy(struct sluice_rpc_stream *stream);

#endif
