#ifndef SLUICE_STORAGE_SERVER_SESSION_SECURITY_H
#define SLUICE_STORAGE_SERVER_SESSION_SECURITY_H

#include "base/error.h"
#include "rpc/rpc_server.h"
#include "storage_server/options.h"
#include "storage_server/session/grant.h"

#include <stdint.h>

/* Authorisation by the tokens of --tokens, and the log of refused calls.
 *
 * Every method checks the token, so a caller without one learns nothing.  The SHA-256 of a token is
 * compared with that of each token of the file, in a time that does not depend on the bytes.
 *
 * The log gets a line for a refusal, with the peer and the reason: at most one a second for each
 * client (peer.h), for up to 32 clients.  The line counts the refusals since the one before.
 *
 * Threads: any. */

struct sluice_security;

/* Reads options->tokens.  Without that file *security is NULL: everybody may call.
 * SLUICE_E_INVALID: the file is wrong, or has a limit that this server cannot enforce. */
SLUICE_MUST_USE sluice_status sluice_security_open(const struct sluice_server_options *options,
                                                   struct sluice_security **security,
                                                   struct sluice_err *err);
void sluice_security_close(struct sluice_security *security); /* no call is left; NULL is allowed */

/* Reads the file again.  Tokens that are not in it any more are revoked; the limits of the others
 * hold at once.  A failure changes nothing.  NULL: does nothing. */
SLUICE_MUST_USE sluice_status sluice_security_reload(struct sluice_security *security,
                                                     struct sluice_err *err);

/* For struct sluice_rpc_server_options.  A caller with a valid token gets a reference to its grant.
 */
enum sluice_rpc_code sluice_security_admit(struct sluice_security *security,
                                           const struct sluice_rpc_caller *caller,
                                           struct sluice_grant **grant, struct sluice_err *why);
void sluice_security_release(struct sluice_grant *grant, const char *peer);

/* The client's error if its token is revoked during a call. */
#define SLUICE_TOKEN_REVOKED "the token is not valid any more"

enum sluice_refusal {
    SLUICE_REFUSED_NO_TOKEN,
    SLUICE_REFUSED_UNKNOWN_TOKEN,
    SLUICE_REFUSED_OTHER_DATA,  /* the token is for another root */
    SLUICE_REFUSED_CONNECTIONS, /* the token has its maximum of connections */
    SLUICE_NUM_REFUSALS,
};
struct sluice_refusals {
    uint64_t calls[SLUICE_NUM_REFUSALS]; /* since the start */
};
struct sluice_refusals sluice_security_refusals(struct sluice_security *security); /* NULL: 0 */

#endif
