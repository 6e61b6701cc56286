#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_REPLAN_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_REPLAN_H

#include "compute_client/loader/choose/chooser.h"
#include "compute_client/replan/controller.h"

#include <stdint.h>

/* remote_auto's chooser: the controller (controller.h) with a clock and a lock.
 *
 * Workers store rows; at every interval the prefetcher's thread hands them to the controller,
 * before it requests an item, and logs changes of the plan with their cause.
 *
 * Threads: begin and the counters belong to the thread that starts epochs, between them; the
 * chooser's functions as chooser.h says. */

struct sluice_replan;

SLUICE_MUST_USE sluice_status sluice_replan_create(const struct sluice_controller_options *options,
                                                   struct sluice_replan **replan,
                                                   struct sluice_err *err);

/* After the prefetcher's last epoch is finished.  NULL is allowed. */
void sluice_replan_destroy(struct sluice_replan *replan);

/* Plans for an epoch (borrowed until the next begins), logs the plan, and sets *face to the chooser
 * for the prefetcher. */
SLUICE_MUST_USE sluice_status sluice_replan_begin(struct sluice_replan *replan,
                                                  const struct sluice_plan_epoch *epoch,
                                                  struct sluice_chooser *face,
                                                  struct sluice_err *err);

/* Changes of the plan in this epoch, and the CPU time of planning. */
struct sluice_plan_stats {
    uint64_t replans;          /* changes of the prices that were reported */
    uint64_t looks;            /* calls of the controller's update(), one for each interval */
    uint64_t solves;           /* solutions of the LP, including the first plan */
    double first_s;            /* CPU time of the first plan */
    double looks_s;            /* of all updates */
    double choices_s;          /* of all choices, estimated from every 64th */
    struct sluice_rates rates; /* as estimated now */
};
struct sluice_plan_stats sluice_replan_stats(const struct sluice_replan *replan);

#endif
