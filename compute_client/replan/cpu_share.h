#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_CPU_SHARE_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_CPU_SHARE_H

#include "compute_client/loader/tuning.h"
#include "plan/planner_lp.h"

#include <stddef.h>
#include <stdint.h>

/* How many of the storage node's cores a client plans for, at the price that their server asks
 * (storage_server/work/cpu_price.h): the client's half of a tatonnement.
 *
 * The value of one more core follows from the plan's dual of storage CPU: with T what a million
 * samples take, x the cores, and p that dual (T (1 - p d) with x (1 + d) of them),
 *
 *     worth = -dT/dx = p T / x        seconds that a million samples take less with a core more
 *
 * which falls as x grows.  Where it is the same for all clients, parting the cores otherwise makes
 * no sum of their T less.  While the price is below it the client uses more, above it less:
 *
 *     d log(x) / dt  =  follow * log(worth / price)
 *
 * so near the right share its steps become small.  A best answer to the price would not do: many
 * samples are worth about the same, so that at one price all of them come and at the next all of
 * them go, and the price could never rest.
 *
 * Threads: one at a time; a plain value. */

#define SLUICE_PRICED_SAMPLES 1e6

struct sluice_cpu_share {
    const struct sluice_tuning *tuning; /* borrowed */
    double price;                       /* of a core, as last received; 0: no price */
    double used;                        /* cores, of late; 0: not seen */
    double cores;                       /* that the plan in force is for; 0: it follows no price */
    double worth;      /* of a core more, under the plan in force; 0: it leaves some unused */
    double last_worth; /* above 0 */
    uint64_t moved_ns;
};

/* Observations of an interval: the price, and the cores that were used in it. */
void sluice_cpu_share_see(struct sluice_cpu_share *share, double price, double used);

/* The cores to plan for, of those that there are, from now_ns on; 0: there is no price to follow,
 * and the plan may use what it likes. */
double sluice_cpu_share_next(struct sluice_cpu_share *share, uint64_t now_ns, double all_cores);

/* The plan of num_items, for so many of the storage node's cores: how much of them is used, and
 * what one more is worth. */
void sluice_cpu_share_planned(struct sluice_cpu_share *share, double cores,
                              const struct sluice_lp_result *result, size_t num_items);

#endif
