#ifndef SLUICE_COMPUTE_CLIENT_FETCH_CLIENT_CALL_H
#define SLUICE_COMPUTE_CLIENT_FETCH_CLIENT_CALL_H

#include "compute_client/fetch/client.h"

/* Private to client.c, client_sizes.c and client_streams.c: retries of a call. */

/* One attempt.  Sets *is_passing, which is initially false, if the failure is transient. */
typedef sluice_status sluice_client_attempt_fn(struct sluice_client *client, void *ctx,
                                               bool *is_passing, struct sluice_err *err);

/* Repeats the attempt, with exponential backoff, until it succeeds, fails permanently, retry_for_s
 * is over, or the client is stopped. */
SLUICE_MUST_USE sluice_status sluice_client_call(struct sluice_client *client,
                                                 sluice_client_attempt_fn *attempt, void *ctx,
                                                 struct sluice_err *err);
/* The same, for at most patience_s seconds. */
SLUICE_MUST_USE sluice_status sluice_client_call_for(struct sluice_client *client,
                                                     double patience_s,
                                                     sluice_client_attempt_fn *attempt, void *ctx,
                                                     struct sluice_err *err);

/* Waits; false: the client was stopped. */
bool sluice_client_wait(struct sluice_client *client, uint64_t ns);

#endif
