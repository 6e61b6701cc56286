#ifndef SLUICE_RPC_GRPC151_DOOR_H
#define SLUICE_RPC_GRPC151_DOOR_H

#include "base/error.h"
#include "rpc/rpc.h"

#include <stdbool.h>
#include <stdint.h>

/* Private to lib/rpc: who may connect to a server, and what its clients may do to it.
 *
 * gRPC 1.51 accepts connections by itself, as many as come, and its listener is deaf for ever after
 * accept4() has failed once (with EMFILE, say).  Its grpc_server_add_channel_from_fd() would let us
 * accept, but such a connection knows no deadline for the handshake, no TLS, not its peer's name,
 * and is given to a random thread.  So the library keeps its listener, and this file defines
 * accept4() and recvmsg() of the program, which the linker puts before the C library's:
 *
 *     accept4   refuses connections above a limit (in all, of one address, out of descriptors), and
 *               never fails but for want of a connection or at the listener's end
 *     recvmsg   cuts connections that flood (frame_watch.h), unless they are encrypted, and, while
 *               the process holds too much memory, those of strangers, who have made no call that
 *               was admitted, the newest first; then any that sends more than a trainer does
 *
 * Sockets of others pass through.  A connection is known by its descriptor and its socket's inode,
 * so that nobody needs to say when it ends.
 *
 * Threads: any. */

struct door;

struct door_limits {
    unsigned max_connections, max_per_host; /* 0: no limit; a host: an IPv4 address, an IPv6 /64 */
    bool has_tls; /* what comes is encrypted: floods of frames cannot be told */
    /* Does the process hold too much memory?  Asked at intervals, under the door's lock, on a
     * thread that receives.  NULL: it never does. */
    bool (*is_over)(void *ctx);
    void *ctx;
};

/* Does gRPC call these functions at all?  It does where they are the program's, and where gRPC is
 * linked into the same object; a shared library with its own gRPC has no door. */
bool door_is_before_grpc(void);

/* A door that is nobody's yet. */
SLUICE_MUST_USE sluice_status door_open(const struct door_limits *limits, struct door **door,
                                        struct sluice_err *err);
void door_close(struct door *door); /* the listener accepts no more; NULL is allowed */

/* It is the door of the listeners at this TCP port; DOOR_UNIX: at the process's Unix sockets. */
#define DOOR_UNIX (-1)
void door_set_port(struct door *door, int port);

/* The next connection from this port of this machine is let in whatever the limits: our own. */
void door_expect(struct door *door, int port);

/* A call of this peer (sluice_rpc_call_peer()) was admitted: its connection is not a stranger's. */
void door_know(struct door *door, const char *peer);

/* Did it come?  If it did not, but connected, gRPC accepts connections by another way than
 * accept4(), and the door has no effect. */
bool door_has_seen_expected(struct door *door);

/* The most descriptors that connections may have, beyond which they are refused: 0 to this. */
#define DOOR_MAX_DESCRIPTORS (1u << 16)

/* Logs refusals not logged yet, at most once a second. */
void door_report(struct door *door);

struct sluice_rpc_connections door_read(struct door *door); /* looks at each connection */
uint64_t door_num_refused(struct door *door);

#endif
