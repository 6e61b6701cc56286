#ifndef SLUICE_RPC_GRPC151_SELF_CHECK_H
#define SLUICE_RPC_GRPC151_SELF_CHECK_H

#include "base/error.h"
#include "rpc/grpc151/door.h"

#include <stdbool.h>

/* Private to lib/rpc: a server connects to itself to check that others can.  It speaks HTTP/2 by
 * hand, because a gRPC channel in the same process costs all others CPU time.
 *
 * Threads: one at a time for each door. */

struct self_check_target {
    const char *listen; /* as in rpc_server.h */
    int port;           /* the bound one */
    bool has_tls;
    struct door *door;
};

/* Connects to the target and waits for the answer to a PING; with TLS, for the server's first part
 * of the handshake, without checking its certificate.  SLUICE_E_IO has the reason. */
SLUICE_MUST_USE sluice_status self_check(const struct self_check_target *target,
                                         unsigned timeout_ms, struct sluice_err *err);

/* Whether a program listens at that "unix:PATH", whose socket gRPC would remove and take over. */
bool self_check_is_taken(const char *listen);

bool self_check_is_unix(const char *listen); /* "unix:PATH" or "unix-abstract:NAME"? */

#endif
