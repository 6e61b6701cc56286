#ifndef SLUICE_TESTS_PROPERTY_PLANNER_CASES_H
#define SLUICE_TESTS_PROPERTY_PLANNER_CASES_H

#include "base/rng.h"
#include "plan/planner_lp.h"

/* Menus of every awkward sort, for tests of the plan over all resources. */

#define PLANNER_NUM_KINDS 9
#define PLANNER_KIND_GIVEN 7     /* no choice changes ... */
#define PLANNER_GIVEN SLUICE_GPU /* ... this one, nor the disk */

#define PLANNER_CHOICES 12 /* of most tests */

/* Of so many choices, of which some samples have fewer: their others are the first again.
 * Kind: 0 anything; 1 samples that differ in size alone; 2 all samples equal; 3 like photographs;
 * 4 half of the costs zero; 5 one resource alone matters; 6 each choice burdens one resource;
 * 7 two resources are loaded by every choice alike, the first of them more than enough to be the
 * limit; 8 one sample outweighs all others.  No prices from outside. */
void planner_make_case(struct sluice_rng *rng, int kind, size_t num_samples, unsigned num_choices,
                       struct sluice_menu *menus, struct sluice_capacities *capacities);

/* Prices from outside for some of the loads: from what hardly matters to what rules everything. */
void planner_make_prices(struct sluice_rng *rng, struct sluice_capacities *capacities);

/* Both nodes become one machine, with fewer cores than their workers could use. */
void planner_make_shared(struct sluice_rng *rng, struct sluice_capacities *capacities);
/* Of a load; that of SLUICE_SHARED_CPU is INFINITY where nothing is shared. */
double planner_capacity_of(const struct sluice_capacities *capacities, int load);

/* What a plan is judged by: its slowest resource and what it costs at the prices from outside. */
double planner_cost_of(const struct sluice_menu *menus, size_t num_samples,
                       const struct sluice_capacities *capacities, const uint8_t *choice);

#endif
