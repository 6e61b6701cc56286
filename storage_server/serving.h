#ifndef SLUICE_STORAGE_SERVER_SERVING_H
#define SLUICE_STORAGE_SERVER_SERVING_H

#include "base/error.h"
#include "base/host_port.h"
#include "storage_server/options.h"
#include "storage_server/server.h"

#include <stdint.h>

/* A server with all that its options ask for around it: the limits of its threads, its metrics, and
 * its watch on itself.  offload_server is one; so is each server within another program.
 *
 * Threads: one. */

struct sluice_disk_gate;
struct sluice_metrics_server;
struct sluice_self_watch;

/* The caller fills in the first part; it stays where it is until close. */
struct sluice_serving {
    const struct sluice_server_options *options; /* borrowed until close */
    struct sluice_server_parts parts;            /* decoders and owns_process alone */
    void (*on_deaf)(void *ctx);                  /* self_watch.h */
    void *ctx;

    struct sluice_disk_gate *gates[SLUICE_MAX_ROOTS]; /* by root; one for all of a disk */
    struct sluice_storage_server *server;
    struct sluice_metrics_server *metrics; /* NULL: not asked for */
    struct sluice_self_watch *watch;       /* NULL: not asked for */
    char address[SLUICE_HOST_PORT_BYTES];  /* that it listens on */
};

/* First: the tracer, the cache's folder, the disk gates and the limits on workers. */
SLUICE_MUST_USE sluice_status sluice_serving_limit(struct sluice_serving *serving,
                                                   struct sluice_err *err);

/* Serves, and says so in the log. */
SLUICE_MUST_USE sluice_status sluice_serving_open(struct sluice_serving *serving,
                                                  struct sluice_err *err);

/* Answers what was accepted, within the grace period.  Returns how many requests were not answered.
 * At most once, between open and close. */
uint64_t sluice_serving_stop(struct sluice_serving *serving);

/* Frees all that is there, also after a failure.  Waits for workers that hang, which
 * sluice_storage_server_num_hanging() counts after stop. */
void sluice_serving_close(struct sluice_serving *serving);

#endif
