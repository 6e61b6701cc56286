#ifndef SLUICE_PLAN_PLANNER_LP_H
#define SLUICE_PLAN_PLANNER_LP_H

#include "base/error.h"
#include "plan/menu.h"

#include <stdint.h>

/* The plan that makes the slowest resource as fast as can be, and the proof.
 *
 * For capacities b (units per second) and menus a, choose c(i) for every sample:
 *
 *     minimise  T   so that   sum_i a[i][c(i)][r] <= T b[r]   for every resource r
 *
 * Give every resource a dual, p >= 0 and sum p = 1, the share that a second of
 * it has in a second of T.  Then
 *
 *     D(p) = sum_i  min_c  sum_r  p[r] a[i][c][r] / b[r]   <=   T of any plan,
 *
 * and the highest D is what T would be if samples could be divided.  It is found
 * by cutting planes: each pass over the samples at some duals gives a plan, its
 * loads, and a plane above D.  The best mixture of those plans is rounded sample
 * by sample, so that the error stays at the size of a few samples.
 *
 * A resource shared with others may have an external cost q, in seconds of T for
 * each unit of a load.  Then T + sum_r q[r] load[r] is minimised, and
 *
 *     D(p) = sum_i  min_c  sum_r  (p[r] / b[r] + q[r]) a[i][c][r].
 *
 * A resource that every choice of each sample loads the same (PCIe and the GPU, where CPUs decode;
 * the disk, where all of them read the whole file) has a part in T that no plan changes.  Without
 * external costs, T is minimised over the others by themselves: where such a resource is the limit,
 * and all plans below it as fast, the one is taken whose slowest other resource is the fastest.
 *
 * Where both nodes are one machine, what they do together is one load more, against the cores that
 * they share; the two CPUs stay loads of their own, as each side has its workers.
 *
 * Pure: no I/O, clock, randomness or threads, and only IEEE operations: equal
 * input gives the equal plan on every machine. */

struct sluice_capacities {
    /* Units of the load; > 0; INFINITY: never the limit. */
    double per_s[SLUICE_NUM_RESOURCES];
    double shared_cores; /* of SLUICE_SHARED_CPU; 0: never the limit */
    /* q: of a unit of the load, from outside; >= 0, finite. */
    double external_cost_s[SLUICE_NUM_RESOURCES];
};

/* Where costs are in seconds of the disk, or, if disk_bytes_per_s is above 0, bytes of files;
 * nothing has an external cost.  The GPU's seconds are one a second: what it takes to train is in
 * the costs (sluice_rates_step_s()), and a rate that is not above 0 stands here as it is, to be
 * refused. */
struct sluice_capacities sluice_capacities_of(const struct sluice_rates *rates);

/* A plan in a few hundred bytes: duals, each with its share of the samples on
 * which they disagree.  Everything else follows from a sample's menu. */
struct sluice_dual_plan {
    unsigned num_duals;
    float weight[SLUICE_NUM_LOADS + 1][SLUICE_NUM_LOADS]; /* of a unit of each load */
    double part[SLUICE_NUM_LOADS + 1];                    /* sum to 1 */
    double scale[SLUICE_NUM_LOADS]; /* what an error on each load counts for in rounding */
};

struct sluice_lp_result {
    double primal_s;   /* the slowest resource under this plan, plus external_s */
    double dual_s;     /* no plan has less */
    double external_s; /* the external cost of its loads; 0 without any */
    double gap;        /* primal_s / dual_s - 1; 0 if both are 0 */
    double busy_s[SLUICE_NUM_LOADS];
    double dual[SLUICE_NUM_LOADS]; /* at dual_s; sum to 1: all of it where no choice counts */
    enum sluice_resource slowest;  /* or SLUICE_SHARED_CPU */
    unsigned num_passes;           /* over all the samples */
    struct sluice_dual_plan plan;
};

/* choice[0 .. num_samples) gets the plan; if it is NULL, memory stays constant
 * whatever the number of samples, and sluice_dual_plan_choose() gives the
 * choices later.  With `choice`, the last few samples are exchanged one by one
 * while that helps, so primal_s may be lower then.
 *
 * The time is some 10 to 40 passes.  The gap is under 0.001 at 10,000 samples of
 * like size and more (with few samples the plan cannot be as good as one that
 * divides them).  dual_s is lowered by 4e-6 of itself (1e-5 with more than 16
 * choices), more than the rounding of the sums can be.
 *
 * SLUICE_E_INVALID, with the reason in err, if a capacity is not positive or an
 * external cost negative or not finite;
 * SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_plan_lp(const struct sluice_menu_source *source,
                                             const struct sluice_capacities *capacities,
                                             uint8_t *choice, struct sluice_lp_result *result,
                                             struct sluice_err *err);

/* Chooses for samples one after the other: carries the rounding error along, {0} at
 * the start.  In the order 0, 1, ... this is exactly the plan that was forecast. */
struct sluice_dual_balance {
    double error[SLUICE_NUM_LOADS];
};
unsigned sluice_dual_plan_choose(const struct sluice_dual_plan *plan,
                                 struct sluice_dual_balance *balance,
                                 const struct sluice_menu *menu);

#endif
