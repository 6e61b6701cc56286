#ifndef SLUICE_RPC_SELF_CHECK_H
#define SLUICE_RPC_SELF_CHECK_H

#include "base/error.h"
#include "rpc/door.h"

#include <stdbool.h>

/* Private to lib/rpc: a server connects to itself, to learn whether others can.  It speaks HTTP/2
 * by hand, because a channel of gRPC in the same process costs all others CPU time.
 *
 * Threads: one at a time for each door. */

/* Connects to what listens at `listen` (as in rpc_server.h) with the port that was
 * bound, and waits for the answer to a PING.  SLUICE_E_IO says what went wrong. */
SLUICE_MUST_USE sluice_status self_check(const char *listen, int port, struct door *door,
                                         unsigned timeout_ms, struct sluice_err *err);

bool self_check_is_unix(const char *listen); /* "unix:PATH" or "unix-abstract:NAME"? */

#endif
