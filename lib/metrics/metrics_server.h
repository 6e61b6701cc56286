#ifndef SLUICE_METRICS_METRICS_SERVER_H
#define SLUICE_METRICS_METRICS_SERVER_H

#include "base/error.h"
#include "base/host_port.h"
#include "metrics/exposition.h"

#include <stdbool.h>

/* A program's state over HTTP, for monitoring systems:
 *
 *     /metrics   what the program writes, after sluice_build_info (exposition.h)
 *     /healthz   200 "ok", or 503 and why not
 *     /          a page that links both
 *
 * GET and HEAD; another method is 405, another path 404.
 *
 * Threads: create and destroy on one; the callbacks run on the HTTP server's own. */

struct sluice_metrics_server;

/* The most connections to it at once; there may be 4 from one host (base/host_port.h).  One more
 * ends the oldest of its host, or of all, so that nobody who sends slowly, or reads so, keeps the
 * pages from others.  An idle one is closed after 3 s. */
#define SLUICE_METRICS_CONNECTIONS 64

#define SLUICE_HEALTH_REASON 256

struct sluice_metrics_pages {
    const char *program; /* "offload_server"; as long as the server lives */
    void (*write)(void *ctx, struct sluice_exposition *page);
    /* False: not well, and reason[SLUICE_HEALTH_REASON] says why, in one line. */
    bool (*is_well)(void *ctx, char *reason);
    void *ctx;
};

/* Where to listen: "10.0.0.1:9464", "[::1]:9464", ":9464" for every address of this machine, "9464"
 * for this machine alone (127.0.0.1); port 0: a free one.  SLUICE_E_INVALID says what is wrong. */
SLUICE_MUST_USE sluice_status sluice_metrics_listen_parse(const char *listen,
                                                          struct sluice_host_port *address,
                                                          struct sluice_err *err);

/* Listens there.  SLUICE_E_IO names the address and says what is in the way. */
SLUICE_MUST_USE sluice_status sluice_metrics_server_create(const char *listen,
                                                           const struct sluice_metrics_pages *pages,
                                                           struct sluice_metrics_server **server,
                                                           struct sluice_err *err);
int sluice_metrics_server_port(const struct sluice_metrics_server *server); /* the bound one */
void sluice_metrics_server_destroy(struct sluice_metrics_server *server);   /* NULL is allowed */

#endif
