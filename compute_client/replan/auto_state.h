#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_STATE_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_STATE_H

#include "compute_client/replan/auto_costs.h"
#include "compute_client/replan/rate_watch.h"
#include "plan/planner_lp.h"

#include <stdbool.h>
#include <stddef.h>

/* What a running plan (auto_plan.h) follows from, how far it moved, and how that is said.
 *
 * Pure.  Threads: values. */

/* Every rate, every factor of a cost, the price of storage CPU, which counts in comparison with
 * what a core can be worth, and the factor of what is read of files. */
#define SLUICE_AUTO_NUM_FACTORS (SLUICE_MAX_CHOICES * SLUICE_NUM_RESOURCES)
#define SLUICE_AUTO_STATE_PRICE (SLUICE_NUM_RESOURCES + SLUICE_AUTO_NUM_FACTORS)
#define SLUICE_AUTO_STATE_READ (SLUICE_AUTO_STATE_PRICE + 1)
#define SLUICE_AUTO_NUM_STATES (SLUICE_AUTO_STATE_READ + 1)

struct sluice_auto_state {
    double of[SLUICE_AUTO_NUM_STATES];
};

struct sluice_auto_state sluice_auto_state_of(const struct sluice_rate_watch *watch,
                                              const struct sluice_auto_costs *costs,
                                              double storage_price);

/* A resource whose part of the prices is above this is a limit. */
#define SLUICE_AUTO_PRICED 0.01

/* What each resource has to do for an item, and its price, under some plan. */
struct sluice_auto_burden {
    double load[SLUICE_NUM_RESOURCES], price[SLUICE_NUM_RESOURCES];
};

/* For an item, by the resource that takes longest; *slowest, unless NULL, is that one. */
double sluice_auto_slowest_s(const double load[SLUICE_NUM_RESOURCES],
                             const struct sluice_capacities *capacities,
                             enum sluice_resource *slowest);

/* Whether something moved so far that other prices may be better: by 5 %, of a resource that has a
 * price or, as things are now, takes nine tenths or more of the slowest one's time.  Of any other,
 * it is of no concern how fast it is. */
bool sluice_auto_state_has_moved(const struct sluice_auto_state *before,
                                 const struct sluice_auto_state *now,
                                 const struct sluice_auto_burden *burden,
                                 const struct sluice_capacities *capacities);

/* What moved most, an index into of[], among what counts under the plan before or the new one. */
size_t sluice_auto_state_moved_most(const struct sluice_auto_state *before,
                                    const struct sluice_auto_state *now,
                                    const struct sluice_auto_burden *burden_before,
                                    const struct sluice_auto_burden *burden_now,
                                    const struct sluice_capacities *capacities,
                                    const struct sluice_auto_costs *costs);

/* "link 940 -> 96.4 Mbit/s, ...": that one first, then whatever else of it moved by a tenth. */
void sluice_auto_state_reason(const struct sluice_auto_state *before,
                              const struct sluice_auto_state *now,
                              const struct sluice_auto_burden *burden_before,
                              const struct sluice_auto_burden *burden_now,
                              const struct sluice_capacities *capacities,
                              const struct sluice_auto_costs *costs, char *chars, size_t size);

#endif
