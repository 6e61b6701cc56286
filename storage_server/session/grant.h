#ifndef SLUICE_STORAGE_SERVER_SESSION_GRANT_H
#define SLUICE_STORAGE_SERVER_SESSION_GRANT_H

#include "base/error.h"
#include "datasets/manifest/manifest.h"
#include "storage_server/session/token_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limits of a token: its subsets, and its shares of cores, link and connections.  All clients
 * of the token share the limits.
 *
 * Cores and link are token buckets (https://en.wikipedia.org/wiki/Token_bucket), in CPU seconds and
 * in bytes, that may go into debt: the rate over any span is exact to one burst plus the work in
 * progress.
 *
 * A server without tokens has the grant NULL, which limits nothing.
 *
 * Threads: any. */

struct sluice_grant;

/* A new one, with one reference.  Copies `entry` except its roots. */
SLUICE_MUST_USE sluice_status sluice_grant_create(const struct sluice_token_entry *entry,
                                                  uint64_t now_ns, struct sluice_grant **grant,
                                                  struct sluice_err *err);
struct sluice_grant *sluice_grant_ref(struct sluice_grant *grant);
void sluice_grant_unref(struct sluice_grant *grant);

/* Sets other limits, which hold at once. */
void sluice_grant_update(struct sluice_grant *grant, const struct sluice_token_entry *entry);
/* The token is no longer in the file. */
void sluice_grant_revoke(struct sluice_grant *grant);
bool sluice_grant_is_revoked(const struct sluice_grant *grant);

const char *sluice_grant_name(const struct sluice_grant *grant); /* NULL: "" */
bool sluice_grant_may_read(struct sluice_grant *grant, enum sluice_subset subset);
double sluice_grant_cores(struct sluice_grant *grant); /* 0: no limit */

/* A call of a connection (by its peer) begins or ends.  False: one connection too many. */
bool sluice_grant_enter(struct sluice_grant *grant, const char *peer);
void sluice_grant_leave(struct sluice_grant *grant, const char *peer);

/* Call it before a piece of work.  Reserves the average CPU time of one; *reserved_ns is for
 * settle.  False: the cores are used up for the moment. */
bool sluice_grant_take_cpu(struct sluice_grant *grant, uint64_t now_ns, uint64_t *reserved_ns);
/* Settles the reservation; used_ns is the CPU time of the work, 0 if it did not run. */
void sluice_grant_settle_cpu(struct sluice_grant *grant, uint64_t reserved_ns, uint64_t used_ns);

/* 0: a message may be sent.  Otherwise the time in ns after which to ask again. */
uint64_t sluice_grant_wait_ns(struct sluice_grant *grant, uint64_t now_ns);
void sluice_grant_spend(struct sluice_grant *grant, size_t bytes);

#endif
