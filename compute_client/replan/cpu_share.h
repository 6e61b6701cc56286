#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_CPU_SHARE_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_CPU_SHARE_H

#include "compute_client/loader/tuning.h"
#include "plan/planner_lp.h"

#include <stddef.h>
#include <stdint.h>

/* CPU share: the number of the storage node's cores that a client plans for, at the price that the
 * server asks (storage_server/work/cpu_price.h): the client's half of a tatonnement.
 *
 * The worth of one more core follows from the plan's dual of storage CPU.  Let T be the time of a
 * million samples, x the number of cores, and p that dual: x (1 + d) cores take T (1 - p d).
 *
 *     worth = -dT/dx = p T / x        seconds that one more core saves for a million samples
 *
 * It falls as x grows.  If it is equal for all clients, no other division of the cores makes the
 * sum of their T smaller.  While the price is below the worth, the client's share grows; above it,
 * the share shrinks:
 *
 *     d log(x) / dt  =  follow * log(worth / price)
 *
 * so steps become small near the right share.  A best response to the price would oscillate: many
 * samples have about the same worth, so at one price all of them would be preprocessed remotely,
 * at the next none, and the price would never settle.
 *
 * Threads: one at a time; a plain value. */

#define SLUICE_PRICED_SAMPLES 1e6

struct sluice_cpu_share {
    const struct sluice_tuning *tuning; /* borrowed */
    double price;                       /* of a core, as last received; 0: no price */
    double used;                        /* cores used recently; 0: unknown */
    double cores;                       /* that the current plan is for; 0: no price is followed */
    double worth;      /* of one more core, in the current plan; 0: it leaves cores unused */
    double last_worth; /* above 0 */
    uint64_t moved_ns;
};

/* Observations of an interval: the price, and the cores that were used in it. */
void sluice_cpu_share_see(struct sluice_cpu_share *share, double price, double used);

/* The number of storage cores that a plan made at now_ns may use, at most all_cores.  0: the server
 * sent no price, and the plan may use all cores. */
double sluice_cpu_share_next(struct sluice_cpu_share *share, uint64_t now_ns, double all_cores);

/* Records the plan of num_items items for this number of storage cores: its use of them, and the
 * worth of one more. */
void sluice_cpu_share_planned(struct sluice_cpu_share *share, double cores,
                              const struct sluice_lp_result *result, size_t num_items);

#endif
