#ifndef SLUICE_STORAGE_SERVER_WORK_FAIR_QUEUE_H
#define SLUICE_STORAGE_SERVER_WORK_FAIR_QUEUE_H

#include "base/worker_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Jobs of several clients (flows) in front of workers, so that none starves.  A flow belongs to a
 * host, the address that it comes from: hosts share the workers equally, and within a host its
 * flows do.  So ten connections of one host get no more than one connection of another.
 *
 * Hierarchical start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) with equal weights, in
 * CPU time.  A start tag is the CPU time that a host or flow has had.  The host with the least is
 * served next, and of its flows the one with the least; first come, first served within a flow.
 * Who begins to wait gets a tag of at least that of the one served last, so it saves nothing up
 * while it has no jobs.
 *
 * What a job costs is known only when it is done.  So a job is charged at its start with the mean
 * of its flow's jobs, and the tags are corrected at its end; otherwise many workers would all take
 * from the same flow.
 *
 * Places are limited too: a host may hold an equal part of them, and a flow an equal part of its
 * host's.  Of many places a quarter is kept free for those that are new, on either level.
 *
 * Taking a job costs time proportional to the number of hosts, and then of this host's flows, that
 * have one.
 *
 * Threads: none of its own; whoever holds a queue locks it. */

/* A host among hosts, or a flow among those of its host. */
struct sluice_fair_share {
    size_t depth;         /* jobs that wait */
    unsigned num_running; /* taken, not yet done */
    uint64_t served_ns;   /* the start tag: CPU time it had, started jobs included */
    struct sluice_fair_share *next, **link; /* among those with jobs that wait */
};

struct sluice_fair_level {
    struct sluice_fair_share *waiting;
    unsigned num_active; /* those with jobs that wait or run */
    uint64_t served_ns;  /* the virtual time: the start tag of the job that was taken last */
};

struct sluice_flow_host {
    struct sluice_fair_share share;
    struct sluice_fair_level flows;
};

struct sluice_flow {
    struct sluice_fair_share share;
    struct sluice_flow_host *host;
    struct sluice_job *first, **end;
    uint64_t expected_ns; /* of a job; a running mean */
};

struct sluice_fair_queue {
    struct sluice_fair_level hosts;
    size_t capacity, depth;
    uint64_t expected_ns; /* of a job of a flow that is not known yet */
};

/* For jobs of up to `capacity` >= 1 that wait. */
struct sluice_fair_queue sluice_fair_queue_init(size_t capacity);

/* The memory of both stays where it is while they have jobs that wait or run; a host's as long as
 * its flows'.  A host that is {0} is initialised. */
void sluice_flow_init(struct sluice_flow *flow, struct sluice_flow_host *host);

/* False: there is no room, or the flow or its host holds its part; the job is still the caller's.
 */
bool sluice_fair_queue_push(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            struct sluice_job *job);

/* NULL if none waits.  *cost_ns is what the flow was charged.  Once the job is done, call
 * sluice_fair_queue_done() with that flow and cost, and with the CPU time it really took. */
struct sluice_job *sluice_fair_queue_pop(struct sluice_fair_queue *queue, struct sluice_flow **flow,
                                         uint64_t *cost_ns);
void sluice_fair_queue_done(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            uint64_t cost_ns, uint64_t spent_ns);

/* Takes the flow's waiting jobs for which is_meant() says so out of the queue, without a charge.
 * Returns them as a chain by their `next`, in order; *count is their number. */
struct sluice_job *
sluice_fair_queue_remove(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                         bool (*is_meant)(const struct sluice_job *job, const void *ctx),
                         const void *ctx, size_t *count);

#endif
