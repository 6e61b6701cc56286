#ifndef SLUICE_STORAGE_SERVER_METRICS_H
#define SLUICE_STORAGE_SERVER_METRICS_H

#include "base/error.h"
#include "wire/wire.h"

/* The counters for a monitoring system: Prometheus' text format under http://HOST:PORT/metrics.
 *
 * Threads: create and destroy on one; `read` is called on the HTTP server's own. */

struct sluice_metrics;

/* The most connections to it at once; there may be 4 from one address, and an idle one is closed
 * after 3 s. */
#define SLUICE_METRICS_CONNECTIONS 64

/* Listens on `listen` ("127.0.0.1:9464", "[::1]:9464", ":9464" for every address; port 0: a free
 * one).  SLUICE_E_INVALID and SLUICE_E_IO name the address. */
SLUICE_MUST_USE sluice_status sluice_metrics_create(const char *listen,
                                                    struct sluice_wire_stats (*read)(void *ctx),
                                                    void *ctx, struct sluice_metrics **metrics,
                                                    struct sluice_err *err);
int sluice_metrics_port(const struct sluice_metrics *metrics); /* the bound one */
void sluice_metrics_destroy(struct sluice_metrics *metrics);   /* NULL is allowed */

/* The page itself, as text format 0.0.4; free() it.  NULL: no memory. */
char *sluice_metrics_text(const struct sluice_wire_stats *stats);

#endif
