#ifndef SLUICE_STORAGE_SERVER_FAIR_QUEUE_H
#define SLUICE_STORAGE_SERVER_FAIR_QUEUE_H

#include "base/worker_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Jobs of several clients (flows) in front of workers, so that none starves.
 *
 * Next comes a job of the flow that has had the least CPU time.  A flow without
 * jobs that wait saves nothing up: with its next one it counts as having had what
 * the one served last had.  A job is charged when it starts, with what the flow's
 * jobs cost on average, and put right when it is done, so that many workers do not
 * all take from the same flow.  Within a flow, first come, first served.
 *
 * A flow may hold an equal part of the places; of many places a quarter is kept
 * free for those who come anew.
 *
 * Taking a job looks at each flow that has one.
 *
 * Threads: none of its own; whoever holds a queue locks it. */

struct sluice_flow {
    struct sluice_job *first, **end;
    size_t depth;                     /* jobs that wait */
    unsigned num_running;             /* taken, not yet done */
    uint64_t served_ns;               /* what it had, started jobs included */
    uint64_t expected_ns;             /* of a job; a running mean */
    struct sluice_flow *next, **link; /* among those with jobs that wait */
};

struct sluice_fair_queue {
    struct sluice_flow *waiting;
    size_t capacity, depth;
    unsigned num_active;  /* flows with jobs that wait or run */
    uint64_t served_ns;   /* of the flow that was served last, when it was */
    uint64_t expected_ns; /* of a job of a flow that is not known yet */
};

/* For jobs of up to `capacity` >= 1 that wait. */
struct sluice_fair_queue sluice_fair_queue_init(size_t capacity);

/* A flow's memory stays where it is while it has jobs that wait or run. */
void sluice_flow_init(struct sluice_flow *flow);

/* False: there is no room, or the flow has its part; the job is still the caller's. */
bool sluice_fair_queue_push(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            struct sluice_job *job);

/* NULL if none waits.  Follow with sluice_fair_queue_done(), what it really cost, for that flow.
 * *cost_ns, to be handed back then, is what it was charged. */
struct sluice_job *sluice_fair_queue_pop(struct sluice_fair_queue *queue, struct sluice_flow **flow,
                                         uint64_t *cost_ns);
void sluice_fair_queue_done(struct sluice_fair_queue *queue, struct sluice_flow *flow,
                            uint64_t cost_ns, uint64_t spent_ns);

#endif
