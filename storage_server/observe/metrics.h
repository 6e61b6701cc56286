#ifndef SLUICE_STORAGE_SERVER_OBSERVE_METRICS_H
#define SLUICE_STORAGE_SERVER_OBSERVE_METRICS_H

#include "base/worker_pool.h"
#include "metrics/exposition.h"
#include "rpc/rpc.h"
#include "storage_server/isolation/decoders.h"
#include "storage_server/observe/stats.h"
#include "storage_server/session/client_table.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/session/security.h"
#include "store/store_cache.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The server's page for monitoring systems (metrics/metrics_server.h).
 * docs/operations/server-metrics.md lists the series; their names are a promise to dashboards.
 *
 * Threads: pure functions. */

/* Everything that the page shows. */
struct sluice_server_counts {
    struct sluice_wire_stats stats;
    struct sluice_service_stats service;
    struct sluice_client_row clients[CLIENT_TABLE_ROWS + 1];
    size_t num_clients;
    struct sluice_rpc_connections connections;
    struct sluice_memory_stats memory;
    uint64_t resident_bytes; /* 0: unknown */
    struct {
        const char *id; /* borrowed */
        uint64_t samples, classes, bytes;
    } dataset;
    struct sluice_worker_pool_stats groups[2]; /* by enum sluice_worker_group */
    uint64_t unanswered;                       /* requests that were accepted */
    uint64_t timeouts;                         /* --sample-timeout */
    struct sluice_refusals refused_calls;
    int64_t certificate_end; /* seconds of Unix time; 0: no TLS */
    unsigned hanging;        /* workers */
    bool has_decoders;       /* --isolate-decoders; if set, their counts: */
    struct sluice_decoder_counts decoders;
    bool has_cache; /* --cache; if set, its counts: */
    struct sluice_store_cache_counts cache;
    bool is_serving, has_root; /* has_root: the roots are in their places */
};

void sluice_metrics_write(const struct sluice_server_counts *counts,
                          struct sluice_exposition *page);

#endif
