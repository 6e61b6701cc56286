#ifndef SLUICE_PLAN_MIXTURE_H
#define SLUICE_PLAN_MIXTURE_H

#include "plan/resource.h"

#include <stdbool.h>

/* The best mixture of a few plans: the master problem of the linear program's search
 * (plan/planner_lp.c), solved by the simplex method.
 *
 * Threads: pure functions. */

#define SLUICE_MAX_CUTS 96

/* A plan of least cost at some duals p: its loads (seconds), and these duals.  Because the plan is
 * cheapest there, loads . p is D(p), and it is at least D at all other duals.  The plan's external
 * cost is added to every load: the duals sum to 1, so loads . p has it once. */
struct sluice_cut {
    double load_s[SLUICE_NUM_LOADS];
    double dual[SLUICE_NUM_LOADS];
    bool is_estimate; /* made from a part of the samples */
};

struct sluice_mixture {
    double part[SLUICE_MAX_CUTS];  /* of each cut; sum to 1 */
    double dual[SLUICE_NUM_LOADS]; /* where the minimum over the planes is highest */
    double worst_s;                /* the slowest resource under the mixture */
};

/* Mixes num_cuts plans, at least one, so that the slowest resource takes the least time.  Without
 * has_estimates only exact cuts count, of which there is at least one. */
void sluice_mixture_solve(const struct sluice_cut *cuts, unsigned num_cuts, bool has_estimates,
                          struct sluice_mixture *mixture);

/* The largest of the loads. */
double sluice_slowest_of(const double busy_s[SLUICE_NUM_LOADS]);

#endif
