#ifndef SLUICE_STORAGE_SERVER_SERVICES_HEALTH_H
#define SLUICE_STORAGE_SERVER_SERVICES_HEALTH_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* gRPC health checking (grpc.health.v1): Check answers once, Watch reports every change.  The
 * services are "" (the server), "sluice.v1.Offload" and "DataTransfer"; others are NOT_FOUND for
 * Check and SERVICE_UNKNOWN for Watch, as the protocol demands.
 *
 * Threads: any. */

struct sluice_health;
struct sluice_rpc_method;

/* The numbers of the protocol. */
enum sluice_serving_status {
    SLUICE_SERVING = 1,
    SLUICE_NOT_SERVING = 2,
    SLUICE_SERVICE_UNKNOWN = 3,
};

/* Starts as SERVING.  has_data_transfer: the original's service is there, too. */
SLUICE_MUST_USE sluice_status sluice_health_create(bool has_data_transfer,
                                                   struct sluice_health **health,
                                                   struct sluice_err *err);
void sluice_health_destroy(struct sluice_health *health); /* NULL is allowed; no call is left */

/* Adds Check and Watch to the server's table, and returns the table's end. */
struct sluice_rpc_method *sluice_health_methods(struct sluice_health *health,
                                                struct sluice_rpc_method *end);

/* Reasons why the server cannot serve. */
enum sluice_health_cause {
    SLUICE_HEALTH_ROOT,    /* the data is not where it was */
    SLUICE_HEALTH_WORKERS, /* a worker hangs */
};

/* Watchers get a message when the first cause comes and when the last one goes.  One thread at a
 * time, so that the last message is the last state. */
void sluice_health_set(struct sluice_health *health, enum sluice_health_cause cause, bool is_well);

bool sluice_health_has(struct sluice_health *health, enum sluice_health_cause cause);

/* False: NOT_SERVING, and reason[room] says why. */
bool sluice_health_read(struct sluice_health *health, char *reason, size_t room);

/* Sets NOT_SERVING for good: watchers get it, and their calls end. */
void sluice_health_stop(struct sluice_health *health);

#endif
