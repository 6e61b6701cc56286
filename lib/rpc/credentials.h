#ifndef SLUICE_RPC_CREDENTIALS_H
#define SLUICE_RPC_CREDENTIALS_H

#include "base/error.h"
#include "crypto/certificates.h"
#include "rpc/rpc.h"

#include <grpc/grpc_security.h>

/* Private to lib/rpc: gRPC's TLS, TLS 1.2 at least (its own default), with certificates from files.
 *
 * A server reloads its files when they have changed, at the next connection (the check costs three
 * calls of stat(2)), and on request.  Invalid files are logged, and the old certificates stay in
 * use.  Existing connections keep theirs.
 *
 * Threads: any. */

struct rpc_identity;

/* Borrows the names. */
SLUICE_MUST_USE sluice_status rpc_identity_create(const struct sluice_tls_files *files,
                                                  struct rpc_identity **identity,
                                                  struct sluice_err *err);
/* Call it after the servers with its credentials are destroyed.  NULL is allowed. */
void rpc_identity_destroy(struct rpc_identity *identity);

/* With a CA, each client must present a certificate signed by it. */
grpc_server_credentials *rpc_identity_credentials(struct rpc_identity *identity);

/* The expiry of its first certificate, in seconds of Unix time. */
int64_t rpc_identity_certificate_end(struct rpc_identity *identity);

SLUICE_MUST_USE sluice_status rpc_identity_reload(struct rpc_identity *identity,
                                                  struct sluice_err *err);

/* A client's credentials for one channel, from the current content of its files; NULL `tls`: no
 * TLS. */
SLUICE_MUST_USE sluice_status rpc_client_credentials(const struct sluice_rpc_client_tls *tls,
                                                     grpc_channel_credentials **credentials,
                                                     struct sluice_err *err);

#endif
