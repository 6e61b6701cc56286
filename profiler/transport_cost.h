#ifndef SLUICE_PROFILER_TRANSPORT_COST_H
#define SLUICE_PROFILER_TRANSPORT_COST_H

#include "profiler/menu.h"

/* CPU time that a sample takes on either node beside its ops: reading the file, handing it from
 * thread to thread, sending and receiving, the digest.  Where a node's CPU is the limit, these
 * threads share the cores with those that run the ops, so a plan has to add them.
 *
 * Threads: pure functions; a plain value. */

struct sluice_transport_cost {
    double
        storage_s_per_sample;  /* what is sent as its file takes no more than this and its bytes */
    double storage_s_per_job;  /* more for what a prep worker has worked on */
    double storage_s_per_byte; /* of payload */
    double compute_s_per_sample;
    double compute_s_per_byte;
};

/* Of one core of an AMD EPYC (Zen 4); the .c says how it was measured. */
struct sluice_transport_cost sluice_transport_cost_default(void);

/* Adds to the cost of a choice of form_menu.h's list, whose payload is cost[SLUICE_LOAD_NET_DOWN].
 */
void sluice_transport_cost_add(const struct sluice_transport_cost *transport, unsigned choice,
                               double cost[SLUICE_NUM_LOADS]);

#endif
