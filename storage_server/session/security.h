#ifndef SLUICE_STORAGE_SERVER_SESSION_SECURITY_H
#define SLUICE_STORAGE_SERVER_SESSION_SECURITY_H

#include "base/error.h"
#include "rpc/rpc_server.h"
#include "storage_server/options.h"
#include "storage_server/session/grant.h"

#include <stdint.h>

/* Who may call the server: the tokens of --tokens, and what the log hears of those who are refused.
 *
 * Every method asks, so who has no token learns nothing from any of them.  A token is compared by
 * its SHA-256, with each of the file, in a time that does not depend on the bytes.
 *
 * Refusals are a line of the log with the peer and the reason, at most one a second of each client
 * (peer.h), of up to 32 of them; it counts those between.
 *
 * Threads: any. */

struct sluice_security;

/* Reads options->tokens; *security is NULL without one: all may call.  SLUICE_E_INVALID: also for a
 * limit that this server cannot keep. */
SLUICE_MUST_USE sluice_status sluice_security_open(const struct sluice_server_options *options,
                                                   struct sluice_security **security,
                                                   struct sluice_err *err);
void sluice_security_close(struct sluice_security *security); /* no call is left; NULL is allowed */

/* Reads the file again.  Tokens that are gone are revoked, and the limits of the others hold at
 * once.  After a failure all is as before.  NULL: nothing to do. */
SLUICE_MUST_USE sluice_status sluice_security_reload(struct sluice_security *security,
                                                     struct sluice_err *err);

/* For struct sluice_rpc_server_options: who has a token gets its grant, a reference. */
enum sluice_rpc_code sluice_security_admit(struct sluice_security *security,
                                           const struct sluice_rpc_caller *caller,
                                           struct sluice_grant **grant, struct sluice_err *why);
void sluice_security_release(struct sluice_grant *grant, const char *peer);

/* A token was revoked while its call went on: what the client is told. */
#define SLUICE_TOKEN_REVOKED "the token is not valid any more"

enum sluice_refusal {
    SLUICE_REFUSED_NO_TOKEN,
    SLUICE_REFUSED_UNKNOWN_TOKEN,
    SLUICE_REFUSED_OTHER_DATA,  /* the token is for another root */
    SLUICE_REFUSED_CONNECTIONS, /* the token has as many as it may have */
    SLUICE_NUM_REFUSALS,
};
struct sluice_refusals {
    uint64_t calls[SLUICE_NUM_REFUSALS]; /* since the start */
};
struct sluice_refusals sluice_security_refusals(struct sluice_security *security); /* NULL: 0 */

#endif
