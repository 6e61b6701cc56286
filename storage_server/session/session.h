#ifndef SLUICE_STORAGE_SERVER_SESSION_SESSION_H
#define SLUICE_STORAGE_SERVER_SESSION_SESSION_H

#include "rpc/peer.h"
#include "storage_server/session/rate_limit.h"
#include "storage_server/work/fair_queue.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A client of the server: an address (rpc/peer.h) with calls or connections, and its shares of the
 * resources that are divided among clients.  The session is registered here, once.  Each mechanism
 * keeps its share in the session, under its own lock.
 *
 *     cpu        work/workers.h           two queues of jobs
 *     memory     session/memory_budget.h  bytes held
 *     link       session/rate_limit.h     bytes sent
 *     probes     services/probe.c         the line of probes that wait
 *
 * Threads: any. */

struct sluice_probe;
struct sluice_sessions;

struct sluice_probe_line {
    pthread_mutex_t lock;              /* a leaf */
    struct sluice_probe *turn;         /* the probe that sends; NULL: none sends or waits */
    struct sluice_probe *first, **end; /* waiting probes, the oldest first */
    size_t num_waiting;
};

struct sluice_session {
    struct sluice_flow_host cpu[2]; /* by enum sluice_worker_group */
    uint64_t memory_used;           /* by all of its holders */
    struct sluice_rate_share link;
    struct sluice_probe_line probes;

    struct sluice_sessions *sessions; /* the rest is private */
    size_t refs;                      /* under its lock */
    struct sluice_session *next, **before;
    char host[SLUICE_PEER_HOST]; /* constant */
};

SLUICE_MUST_USE sluice_status sluice_sessions_create(struct sluice_sessions **sessions,
                                                     struct sluice_err *err);
/* Sessions may still be open: the last one frees the table.  NULL is allowed. */
void sluice_sessions_destroy(struct sluice_sessions *sessions);

/* Returns a reference to the session of a peer (as in rpc_server.h); NULL: no memory. */
struct sluice_session *sluice_session_open(struct sluice_sessions *sessions, const char *peer);
struct sluice_session *sluice_session_ref(struct sluice_session *session);
void sluice_session_unref(struct sluice_session *session); /* NULL is allowed */

#endif
