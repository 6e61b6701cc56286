#ifndef SLUICE_RPC_RPC_H
#define SLUICE_RPC_RPC_H

#include "base/error.h"

#include <stdint.h>

/* The parts of the gRPC C core that client and server share, without its headers: the
 * library's start and stop, status codes, and how they map to ours.
 *
 * Only lib/rpc includes <grpc/...>. */

/* gRPC's canonical status codes; the numbers are the wire's. */
enum sluice_rpc_code {
    SLUICE_RPC_OK = 0,
    SLUICE_RPC_CANCELLED = 1,
    SLUICE_RPC_UNKNOWN = 2,
    SLUICE_RPC_INVALID_ARGUMENT = 3,
    SLUICE_RPC_DEADLINE_EXCEEDED = 4,
    SLUICE_RPC_NOT_FOUND = 5,
    SLUICE_RPC_ALREADY_EXISTS = 6,
    SLUICE_RPC_PERMISSION_DENIED = 7,
    SLUICE_RPC_RESOURCE_EXHAUSTED = 8,
    SLUICE_RPC_FAILED_PRECONDITION = 9,
    SLUICE_RPC_ABORTED = 10,
    SLUICE_RPC_OUT_OF_RANGE = 11,
    SLUICE_RPC_UNIMPLEMENTED = 12,
    SLUICE_RPC_INTERNAL = 13,
    SLUICE_RPC_UNAVAILABLE = 14,
    SLUICE_RPC_DATA_LOSS = 15,
    SLUICE_RPC_UNAUTHENTICATED = 16,
};

const char *sluice_rpc_code_name(enum sluice_rpc_code code); /* "UNAVAILABLE" */

/* UNAVAILABLE, DEADLINE_EXCEEDED and CANCELLED are SLUICE_E_IO (worth a retry), FAILED_PRECONDITION
 * and INVALID_ARGUMENT SLUICE_E_INVALID, and so on; a number that is not a code is
 * SLUICE_E_INTERNAL.
 */
sluice_status sluice_rpc_code_to_status(enum sluice_rpc_code code);
/* The inverse: a status survives the way to a code and back, except that SLUICE_E_AGAIN and
 * SLUICE_E_CLOSED travel as UNAVAILABLE, which is SLUICE_E_IO at the other end. */
enum sluice_rpc_code sluice_rpc_code_from_status(sluice_status status);
/* The code for a request that could not be read: malformed, damaged in transit, or out of memory.
 */
enum sluice_rpc_code sluice_rpc_code_of_request(sluice_status status);

/* Why a client's first call did not reach an offload_server, for people ("connection refused: is
 * offload_server running there?"); NULL: unknown, so show `text`, the library's.  Static. */
const char *sluice_rpc_why_unreachable(enum sluice_rpc_code code, const char *text);

/* Names of PEM files; borrowed until the server or channel that gets them is destroyed. */
struct sluice_rpc_server_tls {
    const char *cert, *key;
    const char
        *client_ca; /* clients must present a certificate signed by it; NULL: they need none */
};
struct sluice_rpc_client_tls {
    const char *ca;          /* NULL: those of the system */
    const char *cert, *key;  /* for a server that wants one; NULL: none */
    const char *server_name; /* in the server's certificate; NULL: the host of the target */
};

/* Why a connection was closed on arrival. */
enum sluice_rpc_refusal {
    SLUICE_RPC_REFUSED_FULL,      /* max_connections */
    SLUICE_RPC_REFUSED_HOST_FULL, /* max_connections_per_host */
    SLUICE_RPC_REFUSED_PAUSED,    /* a connection of this host was cut just before */
    SLUICE_RPC_REFUSED_NO_DESCRIPTOR,
    SLUICE_RPC_NUM_REFUSALS,
};
struct sluice_rpc_connections {
    unsigned open; /* now */
    /* Since the start: closed on arrival; cut for flooding or for memory. */
    uint64_t refused[SLUICE_RPC_NUM_REFUSALS], cut;
};

/* For a program's main, before threads start: tunes malloc for megabyte messages that come and go
 * (M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD).  Without it glibc gives the heap back and faults
 * it in again.  Not for libsluice, whose process belongs to others. */
void sluice_rpc_process_init(void);

#endif
