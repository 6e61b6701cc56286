#ifndef SLUICE_STORAGE_SERVER_WORK_FAIR_QUEUE_H
#define SLUICE_STORAGE_SERVER_WORK_FAIR_QUEUE_H

#include "base/worker_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A queue of several clients' jobs (flows) in front of workers, in which no client starves.  A flow
 * belongs to a host, the address of its client.  Hosts share the workers equally, and so do the
 * flows of a host.  So ten connections of one host get no more than one connection of another.
 *
 * Hierarchical start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) with equal weights, in
 * CPU time.  A start tag is the CPU time that a host or flow has had.  The host with the lowest tag
 * is served next, and of its flows the one with the lowest tag; jobs of one flow are served in
 * order.  A host or flow that begins to wait gets at least the tag of the one served last, so it
 * saves up nothing while it has no jobs.
 *
 * The cost of a job is known only at its end.  So a flow is charged the mean cost of its jobs when
 * a job starts, and the tags are corrected when it ends; otherwise many workers would all take from
 * the same flow.
 *
 * Places in the queue are limited too: a host may hold an equal part of them, and a flow an equal
 * part of its host's.  A quarter of many places is kept free for newcomers, on either level.
 *
 * Taking a job costs time proportional to the number of hosts with waiting jobs, plus the number of
 * the chosen host's flows with waiting jobs.
 *
 * Threads: none of its own; the owner of a queue locks it. */

/* A host among hosts, or a flow among those of its host. */
struct sluice_fair_share {
    size_t depth;         /* jobs that wait */
    unsigned num_running; /* taken, not yet done */
    uint64_t served_ns;   /* the start tag: CPU time it had, started jobs included */
    struct sluice_fair_share *next, **link; /* in the list of shares with waiting jobs */
};

struct sluice_fair_level {
    struct sluice_fair_share *waiting;
    unsigned num_active; /* shares with jobs that wait or run */
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
    uint64_t expected_ns; /* of a job of a new flow */
};

/* `capacity` >= 1: the number of jobs that may wait. */
struct sluice_fair_queue sluice_fair_queue_init(size_t capacity);

/* Neither struct may move while it has jobs that wait or run, and a host must outlive its flows.
 * Initialises a host that is {0}. */
void sluice_flow_init(struct sluice_flow *flow, struct sluice_flow_host *host);

/* False: the queue is full, or the flow or its host holds its full part; the caller keeps the job.
 */
bool sluice_fair_queue_push(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            struct sluice_job *job);

/* NULL: no job waits.  *cost_ns is the charge to the flow.  Once the job is done, call
 * sluice_fair_queue_done() with that flow and charge, and with the CPU time that it took. */
struct sluice_job *sluice_fair_queue_pop(struct sluice_fair_queue *queue, struct sluice_flow **flow,
                                         uint64_t *cost_ns);
void sluice_fair_queue_done(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            uint64_t cost_ns, uint64_t spent_ns);

/* Removes the flow's waiting jobs for which is_meant() returns true, without a charge.  Returns
 * them as a chain by their `next`, in order; *count is their number. */
struct sluice_job *
sluice_fair_queue_remove(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                         bool (*is_meant)(const struct sluice_job *job, const void *ctx),
                         const void *ctx, size_t *count);

#endif
