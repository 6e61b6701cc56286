#ifndef SLUICE_METRICS_METRICS_SERVER_H
#define SLUICE_METRICS_METRICS_SERVER_H

#include "base/error.h"
#include "base/host_port.h"
#include "metrics/exposition.h"

#include <stdbool.h>

/* A program's state over HTTP, for monitoring systems:
 *
 *     /metrics   sluice_build_info, then the program's metrics (exposition.h)
 *     /healthz   200 "ok", or 503 and the reason
 *     /          a page that links both
 *
 * GET and HEAD; another method is 405, another path 404.
 *
 * Threads: create and destroy on one; the callbacks run on the HTTP server's own. */

struct sluice_metrics_server;

/* The most concurrent connections; 4 from one host (base/host_port.h).  One more closes the oldest
 * of its host, or of all, so that slow clients do not block others.  Idle connections are closed
 * after 3 s. */
#define SLUICE_METRICS_CONNECTIONS 64

#define SLUICE_HEALTH_REASON 256

struct sluice_metrics_pages {
    const char *program; /* "offload_server"; as long as the server lives */
    void (*write)(void *ctx, struct sluice_exposition *page);
    /* Whether the program is healthy.  False: reason[SLUICE_HEALTH_REASON] has one line. */
    bool (*is_well)(void *ctx, char *reason);
    void *ctx;
};

/* Where to listen: "10.0.0.1:9464", "[::1]:9464", ":9464" for every address of this machine, "9464"
 * for this machine alone (127.0.0.1); port 0: a free one.  SLUICE_E_INVALID says what is wrong. */
SLUICE_MUST_USE sluice_status sluice_metrics_listen_parse(const char *listen,
                                                          struct sluice_host_port *address,
                                                          struct sluice_err *err);

/* Listens at the address.  SLUICE_E_IO has the address and the reason. */
SLUICE_MUST_USE sluice_status sluice_metrics_server_create(const char *listen,
                                                           const struct sluice_metrics_pages *pages,
                                                           struct sluice_metrics_server **server,
                                                           struct sluice_err *err);
int sluice_metrics_server_port(const struct sluice_metrics_server *server); /* the bound one */
void sluice_metrics_server_destroy(struct sluice_metrics_server *server);   /* NULL is allowed */

#endif
