#ifndef SLUICE_STORAGE_SERVER_SESSION_PACER_H
#define SLUICE_STORAGE_SERVER_SESSION_PACER_H

#include <stddef.h>
#include <stdint.h>

/* The limits on what one call may send: its client's share of the link (rate_limit.h) and its
 * token's own rate (grant.h).  For the hooks of struct sluice_rpc_server_options.
 *
 * Threads: any. */

struct sluice_grant;
struct sluice_pacer;
struct sluice_rate_limit;
struct sluice_sessions;

/* A call of this peer begins.  Borrows the limit and the sessions; `grant` NULL: no token.  NULL:
 * no memory. */
struct sluice_pacer *sluice_pacer_open(struct sluice_rate_limit *limit,
                                       struct sluice_sessions *sessions, const char *peer,
                                       struct sluice_grant *grant);
void sluice_pacer_close(struct sluice_pacer *pacer);

/* 0: the bytes may go now, and are counted.  Otherwise nothing is counted; ask again after so many
 * ns.  `pacer` NULL: one that waits for nobody, and has no token. */
uint64_t sluice_pacer_take(struct sluice_rate_limit *limit, struct sluice_pacer *pacer,
                           size_t bytes, uint64_t now_ns);

#endif
