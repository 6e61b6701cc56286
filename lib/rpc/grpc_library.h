#ifndef SLUICE_RPC_GRPC_LIBRARY_H
#define SLUICE_RPC_GRPC_LIBRARY_H

#include "base/message.h"

#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>

#include <stdbool.h>

/* Private to lib/rpc: starts the library, and converts its byte buffers to our messages and back
 * without copying payloads.
 *
 * Threads: any. */

/* Starts the library once per process.  During the start, sets GRPC_EXPERIMENTS in the environment
 * if it is unset.  Disables the deadlock detection of the library's mutexes where possible.  Never
 * stops the library: received bytes, which belong to it, may outlive every channel and server. */
void rpc_library_init(void);

/* Returns and clears the library's last error message on this thread; "": no error. */
const char *rpc_library_complaint(void);

/* For GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE: the bytes that a stream may hold back under the buffer
 * hint. */
#define RPC_WRITE_BUFFER_BYTES (512 << 10)

/* For GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE: the bytes of one read of the socket, into one slice; needs
 * rpc_library_init().  Less costs more system calls; with more, the first bytes have left the
 * core's cache before the payload is copied. */
#define RPC_READ_BYTES (256 << 10)

/* For GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET: none, because our payloads are compressed
 * already, and the limit on received bytes does not apply to decompressed bytes. */
#define RPC_ALGORITHMS (1 << GRPC_COMPRESS_NONE)

grpc_arg rpc_arg(const char *key, int value);

/* Makes a byte buffer of the message's content, which it takes.  Copies small segments together;
 * refers to large ones and releases them when the transport is done. */
grpc_byte_buffer *rpc_bytes_from_message(struct sluice_message *message);

/* Fills *message ({0} before) with the content of `bytes`, which it takes: each segment holds a
 * reference to one slice.  False: no memory; `bytes` is released and *message untouched. */
bool rpc_message_from_bytes(grpc_byte_buffer *bytes, struct sluice_message *message);

/* Drops a reference to a slice that gRPC received.  The last reference returns memory to the
 * connection's quota, which may start gRPC's reclaimer.  The reclaimer needs an ExecCtx, and
 * grpc_slice_unref() of gRPC 1.51 makes none: outside of gRPC's calls it ends the process.
 * grpc_call_details_destroy() makes one. */
void rpc_received_slice_unref(grpc_slice slice);

#endif
