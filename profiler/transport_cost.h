#ifndef SLUICE_PROFILER_TRANSPORT_COST_H
#define SLUICE_PROFILER_TRANSPORT_COST_H

#include "profiler/menu.h"

/* CPU time that a sample takes on either node beside its ops: reading the file, handing it from
 * thread to thread, sending and receiving, the digest.  Where a node's CPU is the limit, these
 * threads share the cores with those that run the ops, so a plan has to add them.
 *
 * What a compute node receives from a server goes through one thread, which however many cores do
 * not make faster: a load of its own.
 *
 * Threads: pure functions; a plain value. */

struct sluice_transport_cost {
    double
        storage_s_per_sample;  /* reading is in it; a file takes no more than this and its bytes */
    double storage_s_per_job;  /* more for what a prep worker has worked on */
    double storage_s_per_byte; /* of payload */
    double compute_s_per_sample;
    double compute_s_per_job; /* more for what a prep worker sent: it comes one by one */
    double compute_s_per_byte;
    double receive_s_per_sample; /* of these, the receiving thread's while there is always more */
    double receive_s_per_byte;
};

/* Of one core of an AMD EPYC (Zen 4); the .c says how it was measured. */
struct sluice_transport_cost sluice_transport_cost_default(void);

/* Brings the receiving thread to the speed at which it takes the bytes of a probe, which nobody
 * works on: `probed_s_per_byte` of its CPU time.  What is far from the usual counts as a quarter or
 * four times of it. */
void sluice_transport_cost_set_receive(struct sluice_transport_cost *transport,
                                       double probed_s_per_byte);

/* Brings it to machines that a profile has seen: reading a file took the storage node read_s, and
 * samples that are expected to take the compute node expected_s in an epoch took it spent_s beside
 * the work on them in the profile's pass, which is less crowded.  What is far from the usual counts
 * as half or twice of it. */
void sluice_transport_cost_fit(struct sluice_transport_cost *transport, double read_s,
                               double expected_s, double spent_s);

/* Adds to the cost of a choice of form_menu.h's list, whose payload is cost[SLUICE_LOAD_NET_DOWN].
 */
void sluice_transport_cost_add(const struct sluice_transport_cost *transport, unsigned choice,
                               double cost[SLUICE_NUM_LOADS]);

#endif
