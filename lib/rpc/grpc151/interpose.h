#ifndef SLUICE_RPC_GRPC151_INTERPOSE_H
#define SLUICE_RPC_GRPC151_INTERPOSE_H

#include <stdbool.h>

/* Private to lib/rpc: accept4() and recvmsg() of the program, which override those of the C
 * library.
 *
 * gRPC 1.51 accepts connections without a limit, and its listener stops for good once accept4() has
 * failed (with EMFILE, for example).  With grpc_server_add_channel_from_fd() we could accept, but
 * such a connection lacks a deadline for the handshake, TLS and its peer's name, and goes to a
 * random thread.  So the library keeps its listener, and these two ask door.h:
 *
 *     accept4   never fails but for want of a connection or at the listener's end
 *     recvmsg   says that the peer has closed where the connection is cut
 *
 * Threads: any. */

/* Whether gRPC calls these functions: yes if they are in the program, or in the same object as
 * gRPC; no in a shared library with its own gRPC. */
bool interpose_is_before_grpc(void);

#endif
