#ifndef SLUICE_PLAN_PLANNER_LP_H
#define SLUICE_PLAN_PLANNER_LP_H

#include "base/error.h"
#include "plan/menu.h"

#include <stdint.h>

/* The plan that minimises the time of the slowest resource, with a lower bound for every plan: a
 * linear program, solved by cutting planes on its Lagrangian dual.
 *
 * For capacities b (units per second) and menus a, choose c(i) for every sample:
 *
 *     minimise  T   so that   sum_i a[i][c(i)][r] <= T b[r]   for every resource r
 *
 * Give every resource a dual, p >= 0 and sum p = 1: the weight of a second of
 * this resource in T.  Then
 *
 *     D(p) = sum_i  min_c  sum_r  p[r] a[i][c][r] / b[r]   <=   T of any plan,
 *
 * and the maximum of D is the T that could be reached if samples could be
 * divided.  Cutting planes find it: each pass over the samples at some duals
 * gives a plan, its loads, and a plane above D.  The best mixture of those plans
 * is rounded sample by sample, so that the error stays at the size of a few
 * samples.
 *
 * A resource shared with others may have an external cost q, in seconds of T for
 * each unit of a load.  Then T + sum_r q[r] load[r] is minimised, and
 *
 *     D(p) = sum_i  min_c  sum_r  (p[r] / b[r] + q[r]) a[i][c][r].
 *
 * A resource that all choices of each sample load equally (PCIe and the GPU, where CPUs decode; the
 * disk, where all choices read the whole file) has a time that no plan changes.  Without external
 * costs, T is minimised over the other resources alone: if such a resource is the bottleneck, many
 * plans are equally fast, and this takes the one whose slowest other resource is fastest.
 *
 * If both nodes are one machine, the sum of both CPU loads is one more load, against the cores that
 * they share; the two CPUs stay separate loads, too, because each side has its own workers.
 *
 * Pure: no I/O, clock, randomness or threads, and only IEEE operations: equal
 * input gives the equal plan on every machine. */

struct sluice_capacities {
    /* Units of the load; > 0; INFINITY: never the limit. */
    double per_s[SLUICE_NUM_RESOURCES];
    double shared_cores; /* of SLUICE_SHARED_CPU; 0: never the limit */
    /* q: the external cost of a unit of the load; >= 0, finite. */
    double external_cost_s[SLUICE_NUM_RESOURCES];
};

/* Capacities for costs in seconds of the disk, or, if disk_bytes_per_s is above 0, in bytes of
 * files; without external costs.  The GPU's capacity is 1 s each second: the training step is in
 * the costs (sluice_rates_step_s()).  A rate that is not above 0 is copied, so that the planner
 * refuses it. */
struct sluice_capacities sluice_capacities_of(const struct sluice_rates *rates);

/* A compact plan: several duals, each with its share of the samples on which
 * they disagree.  A sample's menu then gives its choice. */
struct sluice_dual_plan {
    unsigned num_duals;
    float weight[SLUICE_NUM_LOADS + 1][SLUICE_NUM_LOADS]; /* of a unit of each load */
    double part[SLUICE_NUM_LOADS + 1];                    /* sum to 1 */
    double scale[SLUICE_NUM_LOADS]; /* weight of an error on each load in rounding */
};

struct sluice_lp_result {
    double primal_s;   /* the slowest resource under this plan, plus external_s */
    double dual_s;     /* lower bound of primal_s for every plan */
    double external_s; /* the external cost of its loads; 0 without any */
    double gap;        /* primal_s / dual_s - 1; 0 if both are 0 */
    double busy_s[SLUICE_NUM_LOADS];
    double dual[SLUICE_NUM_LOADS]; /* at dual_s; sum to 1 */
    enum sluice_resource slowest;  /* or SLUICE_SHARED_CPU */
    unsigned num_passes;           /* over all the samples */
    struct sluice_dual_plan plan;
};

/* Writes the plan to choice[0 .. num_samples).  With NULL, memory does not grow
 * with the number of samples, and sluice_dual_plan_choose() gives the choices
 * later.  With `choice`, a local search exchanges the last few samples, so
 * primal_s may be lower.
 *
 * It takes some 10 to 40 passes over the samples.  The gap is under 0.001 with
 * 10,000 samples of similar size or more (with few samples the plan is worse
 * than one that divides them).  dual_s is lowered by 4e-6 of itself (1e-5 with
 * more than 16 choices), more than the rounding errors of the sums.
 *
 * SLUICE_E_INVALID, with the reason in err, if a capacity is not positive or an
 * external cost negative or not finite;
 * SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_plan_lp(const struct sluice_menu_source *source,
                                             const struct sluice_capacities *capacities,
                                             uint8_t *choice, struct sluice_lp_result *result,
                                             struct sluice_err *err);

/* Chooses for one sample after the other, and carries the rounding error along; {0}
 * at the start.  In the order 0, 1, ... this is exactly the plan of the result. */
struct sluice_dual_balance {
    double error[SLUICE_NUM_LOADS];
};
unsigned sluice_dual_plan_choose(const struct sluice_dual_plan *plan,
                                 struct sluice_dual_balance *balance,
                                 const struct sluice_menu *menu);

#endif
