#include "rpc/rpc.h"

#include <malloc.h>
#include <string.h>

const char *sluice_rpc_code_name(enum sluice_rpc_code code)
{
    switch (code) {
    case SLUICE_RPC_OK:
        return "OK";
    case SLUICE_RPC_CANCELLED:
        return "CANCELLED";
    case SLUICE_RPC_UNKNOWN:
        return "UNKNOWN";
    case SLUICE_RPC_INVALID_ARGUMENT:
        return "INVALID_ARGUMENT";
    case SLUICE_RPC_DEADLINE_EXCEEDED:
        return "DEADLINE_EXCEEDED";
    case SLUICE_RPC_NOT_FOUND:
        return "NOT_FOUND";
    case SLUICE_RPC_ALREADY_EXISTS:
        return "ALREADY_EXISTS";
    case SLUICE_RPC_PERMISSION_DENIED:
        return "PERMISSION_DENIED";
    case SLUICE_RPC_RESOURCE_EXHAUSTED:
        return "RESOURCE_EXHAUSTED";
    case SLUICE_RPC_FAILED_PRECONDITION:
        return "FAILED_PRECONDITION";
    case SLUICE_RPC_ABORTED:
        return "ABORTED";
    case SLUICE_RPC_OUT_OF_RANGE:
        return "OUT_OF_RANGE";
    case SLUICE_RPC_UNIMPLEMENTED:
        return "UNIMPLEMENTED";
    case SLUICE_RPC_INTERNAL:
        return "INTERNAL";
    case SLUICE_RPC_UNAVAILABLE:
        return "UNAVAILABLE";
    case SLUICE_RPC_DATA_LOSS:
        return "DATA_LOSS";
    case SLUICE_RPC_UNAUTHENTICATED:
        return "UNAUTHENTICATED";
    }
    return "no such code";
}

sluice_status sluice_rpc_code_to_status(enum sluice_rpc_code code)
{
    switch (code) {
    case SLUICE_RPC_OK:
        return SLUICE_OK;
    case SLUICE_RPC_UNAVAILABLE:
    case SLUICE_RPC_DEADLINE_EXCEEDED:
    case SLUICE_RPC_CANCELLED:
    case SLUICE_RPC_ABORTED:
        return SLUICE_E_IO;
    case SLUICE_RPC_INVALID_ARGUMENT:
    case SLUICE_RPC_FAILED_PRECONDITION:
    case SLUICE_RPC_OUT_OF_RANGE:
    case SLUICE_RPC_ALREADY_EXISTS:
    case SLUICE_RPC_PERMISSION_DENIED:
    case SLUICE_RPC_UNAUTHENTICATED:
        return SLUICE_E_INVALID;
    case SLUICE_RPC_NOT_FOUND:
        return SLUICE_E_NOT_FOUND;
    case SLUICE_RPC_RESOURCE_EXHAUSTED:
        return SLUICE_E_NO_MEMORY;
    case SLUICE_RPC_UNIMPLEMENTED:
        return SLUICE_E_UNSUPPORTED;
    case SLUICE_RPC_DATA_LOSS:
        return SLUICE_E_CORRUPT;
    case SLUICE_RPC_UNKNOWN:
    case SLUICE_RPC_INTERNAL:
        return SLUICE_E_INTERNAL;
    }
    return SLUICE_E_INTERNAL;
}

enum sluice_rpc_code sluice_rpc_code_from_status(sluice_status status)
{
    switch (status) {
    case SLUICE_OK:
        return SLUICE_RPC_OK;
    case SLUICE_E_INVALID:
        return SLUICE_RPC_INVALID_ARGUMENT;
    case SLUICE_E_CORRUPT:
        return SLUICE_RPC_DATA_LOSS;
    case SLUICE_E_UNSUPPORTED:
        return SLUICE_RPC_UNIMPLEMENTED;
    case SLUICE_E_NOT_FOUND:
        return SLUICE_RPC_NOT_FOUND;
    case SLUICE_E_NO_MEMORY:
        return SLUICE_RPC_RESOURCE_EXHAUSTED;
    case SLUICE_E_IO:
    case SLUICE_E_AGAIN:
    case SLUICE_E_CLOSED:
        return SLUICE_RPC_UNAVAILABLE;
    case SLUICE_E_STALE:
        return SLUICE_RPC_FAILED_PRECONDITION;
    case SLUICE_E_INTERNAL:
        break;
    }
    return SLUICE_RPC_INTERNAL;
}

/* A server of TLS closes a connection without, or without a certificate that it trusts. */
#define CLOSED_AT_ONCE                                                                             \
    "the connection is closed at once: it wants TLS (--tls), or another certificate than this "    \
    "client's (--cert, --key), or takes no more connections; or it is another program"

#define OTHER_NAME                                                                                 \
    "its certificate is for another name: check --host, or say with --server-name which name the " \
    "certificate has"

const char *sluice_rpc_why_unreachable(enum sluice_rpc_code code, const char *text)
{
    /* Messages of the gRPC C core 1.51; the first match counts. */
    static const struct {
        const char *mark, *why;
    } reasons[] = {
        {"DNS resolution failed", "the name does not resolve"},
        {"certificate verify failed",
         "its certificate is not of a CA that is known here, or has expired: check --ca FILE, both "
         "machines' clocks, and that this is your server"},
        {"is not in peer certificate", OTHER_NAME},
        {"Verify peer callback", OTHER_NAME}, /* credentials.c */
        {"wrong version number", "it does not speak TLS: leave --tls out, or give offload_server "
                                 "--tls-cert and --tls-key"},
        {"Could not get default pem root certs", "this system has no CAs: give --ca FILE"},
        {"Ssl handshake failed", "the TLS handshake failed: check that both sides have TLS 1.2 or "
                                 "newer, and --cert and --key if the server wants them"},
        {"Connection refused", "connection refused: is offload_server running there?"},
        {"is unreachable", "no route leads to this address"},
        {"No route to host", "no route leads to this address"},
        {"http1.x server", "another program listens there, not offload_server"},
        {"Failed parsing HTTP/2", "another program listens there, not offload_server"},
        {"http2 header with status: 50", "a proxy answers, which does not reach offload_server"},
        {"http2 header with status", "another program listens there, not offload_server"},
        {"imed out", "no answer: is that host up, and the port open to this one?"},
        {"handshaker shutdown", "no answer: is that host up, and the port open to this one?"},
        {"Timeout occurred", "no answer: is that host up, and the port open to this one?"},
        {"Socket closed", CLOSED_AT_ONCE},
        {"Connection reset", CLOSED_AT_ONCE},
    };
    /* The name's resolution counts, too. */
    if (code == SLUICE_RPC_DEADLINE_EXCEEDED)
        return "no answer: is that host up, its name known, and the port open to this one?";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(reasons); i++) {
        if (code != SLUICE_RPC_OK && strstr(text, reasons[i].mark))
            return reasons[i].why;
    }
    return code == SLUICE_RPC_UNIMPLEMENTED ? "another program listens there, not offload_server"
                                            : NULL;
}

void sluice_rpc_process_init(void)
{
    /* The threshold for mmap is the largest that glibc takes; the trim threshold is far above
     * what a node has in flight. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
}

enum sluice_rpc_code sluice_rpc_code_of_request(sluice_status status)
{
    switch (status) {
    case SLUICE_E_NO_MEMORY:
        return SLUICE_RPC_RESOURCE_EXHAUSTED;
    case SLUICE_E_IO: /* damaged on its way */
        return SLUICE_RPC_DATA_LOSS;
    default:
        return SLUICE_RPC_INVALID_ARGUMENT;
    }
}
