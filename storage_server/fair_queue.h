#ifndef SLUICE_STORAGE_SERVER_FAIR_QUEUE_H
#define SLUICE_STORAGE_SERVER_FAIR_QUEUE_H

#include "base/worker_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Jobs of several clients (flows) in front of workers, so that none starves.
 *
 * Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) with equal weights, in CPU time.  A
 * flow's start tag is the CPU time that it has had; the flow with the least is served next, first
 * come, first served within it.  A flow that begins to wait gets a tag of at least that of the flow
 * served last, so it saves nothing up while it has no jobs.
 *
 * What a job costs is known only when it is done.  So a job is charged at its start with the mean
 * of its flow's jobs, and the tag is corrected at its end; otherwise many workers would all take
 * from the same flow.
 *
 * Places are limited too: a flow may hold an equal part of them, and of many places a quarter is
 * kept free for flows that are new.
 *
 * Taking a job costs time proportional to the number of flows that have one.
 *
 * Threads: none of its own; whoever holds a queue locks it. */

struct sluice_flow {
    struct sluice_job *first, **end;
    size_t depth;                     /* jobs that wait */
    unsigned num_running;             /* taken, not yet done */
    uint64_t served_ns;               /* the start tag: CPU time it had, started jobs included */
    uint64_t expected_ns;             /* of a job; a running mean */
    struct sluice_flow *next, **link; /* among those with jobs that wait */
};

struct sluice_fair_queue {
    struct sluice_flow *waiting;
    size_t capacity, depth;
    unsigned num_active;  /* flows with jobs that wait or run */
    uint64_t served_ns;   /* the virtual time: the start tag of the job that was taken last */
    uint64_t expected_ns; /* of a job of a flow that is not known yet */
};

/* For jobs of up to `capacity` >= 1 that wait. */
struct sluice_fair_queue sluice_fair_queue_init(size_t capacity);

/* A flow's memory stays where it is while it has jobs that wait or run. */
void sluice_flow_init(struct sluice_flow *flow);

/* False: there is no room, or the flow holds its part; the job is still the caller's. */
bool sluice_fair_queue_push(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            struct sluice_job *job);

/* NULL if none waits.  *cost_ns is what the flow was charged.  Once the job is done, call
 * sluice_fair_queue_done() with that flow and cost, and with the CPU time it really took. */
struct sluice_job *sluice_fair_queue_pop(struct sluice_fair_queue *queue, struct sluice_flow **flow,
                                         uint64_t *cost_ns);
void sluice_fair_queue_done(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            uint64_t cost_ns, uint64_t spent_ns);

#endif
