#ifndef SLUICE_STORAGE_SERVER_SERVING_H
#define SLUICE_STORAGE_SERVER_SERVING_H

#include "base/error.h"
#include "base/host_port.h"
#include "storage_server/options.h"
#include "storage_server/server.h"

#include <stdint.h>

/* A server together with the parts that its options ask for: limits of its threads, metrics, and
 * the self-check.  offload_server runs one; a program that embeds a server runs one for each.
 *
 * Threads: one. */

struct sluice_disk_gate;
struct sluice_metrics_server;
struct sluice_self_watch;

/* The caller fills in the first four fields; the struct must not move until close. */
struct sluice_serving {
    const struct sluice_server_options *options; /* borrowed until close */
    struct sluice_server_parts parts;            /* the caller sets decoders and owns_process */
    void (*on_deaf)(void *ctx);                  /* self_watch.h */
    void *ctx;

    struct sluice_disk_gate *gates[SLUICE_MAX_ROOTS]; /* by root; one for all of a disk */
    struct sluice_storage_server *server;
    struct sluice_metrics_server *metrics; /* NULL: not asked for */
    struct sluice_self_watch *watch;       /* NULL: not asked for */
    char address[SLUICE_HOST_PORT_BYTES];  /* the address that it listens on */
};

/* Call it first.  Opens the tracer and the cache's folder, and sets the disk gates and the limits
 * on workers. */
SLUICE_MUST_USE sluice_status sluice_serving_limit(struct sluice_serving *serving,
                                                   struct sluice_err *err);

/* Starts the server, and logs what it serves. */
SLUICE_MUST_USE sluice_status sluice_serving_open(struct sluice_serving *serving,
                                                  struct sluice_err *err);

/* Answers accepted requests within the grace period.  Returns the number of requests that were not
 * answered.  Call it at most once, between open and close. */
uint64_t sluice_serving_stop(struct sluice_serving *serving);

/* Frees everything, also after a failure.  Waits for workers that hang; after stop
 * sluice_storage_server_num_hanging() counts them. */
void sluice_serving_close(struct sluice_serving *serving);

#endif
