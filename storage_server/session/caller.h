#ifndef SLUICE_STORAGE_SERVER_SESSION_CALLER_H
#define SLUICE_STORAGE_SERVER_SESSION_CALLER_H

#include "base/error.h"
#include "rpc/rpc_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The caller of an RPC: the client at its address, and the holder of its token.  Each call has one
 * from its admission (sluice_rpc_call_client()) to its end.
 *
 * Threads: any. */

struct sluice_grant;
struct sluice_memory_budget;
struct sluice_rate_limit;
struct sluice_security;
struct sluice_session;
struct sluice_sessions;

struct sluice_caller {
    struct sluice_session *session; /* a reference */
    struct sluice_grant *grant;     /* a reference; NULL: everything is allowed */
};

/* Borrows all of it. */
struct sluice_admission {
    struct sluice_security *security; /* NULL: whoever connects may call */
    struct sluice_sessions *sessions;
    struct sluice_rate_limit *link;
    struct sluice_memory_budget *memory;
};

/* Hooks of struct sluice_rpc_server_options; their ctx is the admission.  The client's share of the
 * link and the token's rate limit the bytes that may be sent. */
enum sluice_rpc_code sluice_caller_admit(void *ctx, const struct sluice_rpc_caller *who,
                                         void **caller, struct sluice_err *why);
void sluice_caller_release(void *ctx, void *caller, const char *peer);
uint64_t sluice_caller_pace(void *ctx, void *caller, size_t bytes);
bool sluice_caller_is_over(void *ctx); /* sluice_memory_is_beyond() */

#endif
