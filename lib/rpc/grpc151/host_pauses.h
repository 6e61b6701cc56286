#ifndef SLUICE_RPC_GRPC151_HOST_PAUSES_H
#define SLUICE_RPC_GRPC151_HOST_PAUSES_H

#include "rpc/peer.h"

#include <stdbool.h>
#include <stdint.h>

/* Private to lib/rpc: exponential backoff for hosts of which a connection was cut.  Such a host is
 * refused for 1 s, and twice as long each time until it has behaved for 60 s, but for no more than
 * 64 s.
 *
 * Threads: one at a time. */

#define HOST_PAUSES_MAX 64 /* hosts; the one that was cut longest ago makes room */

struct paused_host {
    struct sluice_host host;
    unsigned cuts; /* 0: a free place */
    uint64_t cut_ns;
};

/* {0}: none. */
struct host_pauses {
    struct paused_host hosts[HOST_PAUSES_MAX];
};

/* Whether connections of the host are to be refused.  Times of sluice_clock_ns(). */
bool host_pauses_has(const struct host_pauses *pauses, const struct sluice_host *host,
                     uint64_t now_ns);
/* A connection of the host is cut. */
void host_pauses_add(struct host_pauses *pauses, const struct sluice_host *host, uint64_t now_ns);

#endif
