#ifndef SLUICE_PLAN_MIXTURE_H
#define SLUICE_PLAN_MIXTURE_H

#include "plan/resource.h"

#include <stdbool.h>

/* The best mixture of a few plans: the master problem of the linear program's search
 * (plan/planner_lp.c), solved by the simplex method.
 *
 * Threads: pure functions. */

#define SLUICE_MAX_CUTS 96

/* A plan of least cost at some duals: what it loads (seconds) and at which duals.  Since the plan
 * is cheapest there, loads . p is D(p), and above D at all other duals.  What the plan costs at the
 * external costs is in every load: the duals p sum to 1, so it is in loads . p once. */
struct sluice_cut {
    double load_s[SLUICE_NUM_LOADS];
    double dual[SLUICE_NUM_LOADS];
    bool is_estimate; /* made from a part of the samples */
};

struct sluice_mixture {
    double part[SLUICE_MAX_CUTS];  /* of each cut; sum to 1 */
    double dual[SLUICE_NUM_LOADS]; /* where the lowest of the planes is highest */
    double worst_s;                /* the slowest resource under the mixture */
};

/* Mixes num_cuts plans, at least one, so that the slowest resource is as fast as can be.  Without
 * has_estimates only exact cuts count; there is at least one. */
void sluice_mixture_solve(const struct sluice_cut *cuts, unsigned num_cuts, bool has_estimates,
                          struct sluice_mixture *mixture);

/* The largest of the loads. */
double sluice_slowest_of(const double busy_s[SLUICE_NUM_LOADS]);

#endif
