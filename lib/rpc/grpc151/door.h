#ifndef SLUICE_RPC_GRPC151_DOOR_H
#define SLUICE_RPC_GRPC151_DOOR_H

#include "base/error.h"
#include "rpc/rpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Private to lib/rpc: limits connections to a server and cuts connections that flood it.
 *
 * A connection above a limit (in all, of one address, out of descriptors) is closed on arrival. 
 * One that floods (frame_watch.h) is cut unless it is encrypted, and, while the process holds too
 * much memory, those of strangers, who have made no call that was admitted, the newest first; then
 * any that sends more than a trainer does.  interpose.h asks for both.
 *
 * Other sockets are not affected.  A connection is identified by its descriptor and its socket's
 * inode, so its end need not be reported.
 *
 * Threads: any. */

struct door;

struct door_limits {
    unsigned max_connections, max_per_host; /* 0: no limit; a host: an IPv4 address, an IPv6 /64 */
    bool has_tls; /* connections are encrypted: floods of frames are not detected */
    /* Whether the process uses too much memory.  Called at intervals, under the door's lock, on a
     * receiving thread.  NULL: never. */
    bool (*is_over)(void *ctx);
    void *ctx;
};

/* Opens a door without a listener. */
SLUICE_MUST_USE sluice_status door_open(const struct door_limits *limits, struct door **door,
                                        struct sluice_err *err);
void door_close(struct door *door); /* the listener accepts no more; NULL is allowed */

/* Sets the door of the listeners at this TCP port; DOOR_UNIX: of the process's Unix sockets. */
#define DOOR_UNIX (-1)
void door_set_port(struct door *door, int port);

/* Exempts the next connection from this port of this machine from the limits: it is our own. */
void door_expect(struct door *door, int port);

/* Notes that a call of this peer (sluice_rpc_call_peer()) was admitted: the connection is not a
 * stranger's. */
void door_know(struct door *door, const char *peer);

/* Whether the expected connection came.  If it connected but did not come here, gRPC does not
 * accept through accept4(), and the door has no effect. */
bool door_has_seen_expected(struct door *door);

/* Connections may use descriptors from 0 to this; connections with higher ones are refused. */
#define DOOR_MAX_DESCRIPTORS (1u << 16)

/* Whether this listener is one of a server's. */
bool door_has(int listener);

/* Whether a connection that was accepted is one of a server's and above a limit: then it is
 * closed. */
bool door_refuses(int fd, const struct sockaddr *peer);

/* Without a descriptor left: accepts a connection with the one in reserve and closes it.  False:
 * there was none. */
typedef int accept4_fn(int, struct sockaddr *, socklen_t *, int);
bool door_refuses_with_reserve(int listener, accept4_fn *accept);

/* `len` bytes came on a socket: whether its connection is cut, now or before. */
bool door_cuts(int fd, const struct msghdr *message, size_t len);

/* Logs refusals not logged yet, at most once a second. */
void door_report(struct door *door);

struct sluice_rpc_connections door_read(struct door *door); /* inspects every connection */
uint64_t door_num_refused(struct door *door);

#endif
