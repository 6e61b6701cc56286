#ifndef SLUICE_STORAGE_SERVER_SERVER_H
#define SLUICE_STORAGE_SERVER_SERVER_H

#include "base/error.h"
#include "base/host_port.h"
#include "metrics/metrics_server.h"
#include "storage_server/options.h"
#include "wire/wire.h"

#include <stdbool.h>

/* The server as a whole.  It serves from its creation until it is stopped.  A stop answers all
 * accepted requests.
 *
 * Threads: create, stop and destroy on one thread; the rest from any.
 *
 * Lock order of the whole server.  A thread that holds a lock takes only locks further to the
 * right:
 *
 *     sluice_fetch.lock  ->  sluice_fetch_stream.lock          (fetch/stream.h)
 *     sluice_fetch_stream.lock  ->  sluice_memory_budget.lock  (memory_budget.h)
 *     sluice_workers.lock  ->  the lock of a base/worker_pool  (workers.c)
 *     sluice_workers.lock  ->  sluice_sessions.lock            (session.c)
 *     sluice_security.lock  ->  sluice_grant.lock              (security.c)
 *
 * Each of these locks is a leaf and taken alone: sluice_watchdog.lock, sluice_root_watch.lock,
 * sluice_core_watch.lock, sluice_sample_lists.lock, sluice_relist.lock, sluice_stats.lock,
 * sluice_client_table.lock, sluice_health.lock, sluice_rate_limit.lock, sluice_probe_line.lock,
 * sluice_disk_gate.lock, sluice_decoders.fork_lock, sluice_decoders.lock, sluice_tracer.lock, and
 * those of host/disk_clock and the pool of base/buf.  lib/rpc has its own locks.  It holds none of
 * them during a callback, and the server holds none of its locks while it calls lib/rpc. */

struct sluice_decoders;
struct sluice_prep_limits;
struct sluice_storage_server;
struct sluice_store;
struct sluice_tracer;

/* The parts that are opened before the server is created. */
struct sluice_server_parts {
    struct sluice_store *store; /* the samples' files; taken, whatever create returns */
    struct sluice_store *cache; /* the same pointer if it is a store_cache.h; otherwise NULL */

    /* Borrowed as long as the server lives; NULL: not used. */
    struct sluice_prep_limits *limits;
    struct sluice_tracer *tracer;
    struct sluice_decoders *decoders; /* NULL: images are decoded in this process */

    bool owns_process; /* the server may tune malloc (memory_limit.h) */
};

/* Reads the manifest or scans the files, starts all threads, listens.  Errors name the root or the
 * address. */
SLUICE_MUST_USE sluice_status sluice_storage_server_create(
    const struct sluice_server_options *options, const struct sluice_server_parts *parts,
    struct sluice_storage_server **server, struct sluice_err *err);

int sluice_storage_server_port(const struct sluice_storage_server *server);
/* The address as it was given, with the port that was bound. */
void sluice_storage_server_address(const struct sluice_storage_server *server, const char *listen,
                                   char out[SLUICE_HOST_PORT_BYTES]);

/* Logs what the server serves, and to whom (introduction.h).  `options` are those of create. */
void sluice_storage_server_introduce(struct sluice_storage_server *server,
                                     const struct sluice_server_options *options);

/* Connects to the server through its own address (sluice_rpc_server_check). */
SLUICE_MUST_USE sluice_status sluice_storage_server_check(struct sluice_storage_server *server,
                                                          unsigned timeout_ms,
                                                          struct sluice_err *err);

/* Reads certificates and tokens again before it returns, and the list of samples on another thread
 * (relist.h). */
void sluice_storage_server_reread(struct sluice_storage_server *server);

struct sluice_wire_stats sluice_storage_server_stats(struct sluice_storage_server *server);

/* Serves the metrics at options->metrics while the server lives: destroy *metrics first. */
SLUICE_MUST_USE sluice_status
sluice_storage_server_serve_metrics(struct sluice_storage_server *server, const char *listen,
                                    struct sluice_metrics_server **metrics, struct sluice_err *err);

/* The counters as one line of JSON (stats.h); free() it. */
SLUICE_MUST_USE sluice_status sluice_storage_server_stats_json(struct sluice_storage_server *server,
                                                               char **json, struct sluice_err *err);

/* Sets health to NOT_SERVING, refuses new calls and requests, answers accepted requests within the
 * grace period, and cancels the rest.  Returns when no call is left.  Call it at most once. */
void sluice_storage_server_stop(struct sluice_storage_server *server);

/* Accepted requests without an answer; after a stop, the requests that were cut off. */
uint64_t sluice_storage_server_num_unanswered(struct sluice_storage_server *server);

/* Workers that hang (watchdog.h), for which destroy would wait. */
unsigned sluice_storage_server_num_hanging(struct sluice_storage_server *server);

/* Stops the server first unless it was stopped.  NULL is allowed. */
void sluice_storage_server_destroy(struct sluice_storage_server *server);

#endif
