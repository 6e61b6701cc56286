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

/* Starts the library once per process, for its time alone with GRPC_EXPERIMENTS in the environment
 * where that is unset; and turns off what its mutexes do in search of deadlocks, where it can.  It
 * is never stopped: received bytes, which are the library's, may outlive every channel and server.
 */
void rpc_library_init(void);

/* Returns and clears the library's last error message on this thread; "": no error. */
const char *rpc_library_complaint(void);

/* For GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE: how much a stream may hold back under the buffer hint. */
#define RPC_WRITE_BUFFER_BYTES (512 << 10)

/* For GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE: how much one read of the socket takes, into one slice;
 * needs rpc_library_init().  Less costs more system calls; with more, the beginning has left
 * the core's cache before the payload is gathered from it. */
#define RPC_READ_BYTES (256 << 10)

/* For GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET: none, as our payloads are compressed
 * already, and the limit on received bytes would not hold for what they expand to. */
#define RPC_ALGORITHMS (1 << GRPC_COMPRESS_NONE)

grpc_arg rpc_arg(const char *key, int value);

/* A byte buffer of the message's content, which it takes.  Small segments are copied together,
 * large ones are referred to and released when the transport is done with them. */
grpc_byte_buffer *rpc_bytes_from_message(struct sluice_message *message);

/* Fills *message ({0} before) with the content of `bytes`, which it takes: each segment holds a
 * reference to one slice.  False, with `bytes` gone and *message as it was, if there is no memory.
 */
bool rpc_message_from_bytes(grpc_byte_buffer *bytes, struct sluice_message *message);

#endif
