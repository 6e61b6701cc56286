#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_REPLAN_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_REPLAN_H

#include "compute_client/loader/choose/chooser.h"
#include "compute_client/replan/controller.h"

#include <stdint.h>

/* remote_auto's chooser: the controller (controller.h) with a clock and a lock.
 *
 * Workers leave what they saw; the prefetcher's thread hands it to the controller at every
 * interval, before it asks for an item, and says in the log what the plan changed and why.
 *
 * Threads: begin and the counters belong to the thread that starts epochs, between them; the
 * chooser's functions as chooser.h says. */

struct sluice_replan;

SLUICE_MUST_USE sluice_status sluice_replan_create(const struct sluice_controller_options *options,
                                                   struct sluice_replan **replan,
                                                   struct sluice_err *err);

/* After the prefetcher's last epoch is finished.  NULL is allowed. */
void sluice_replan_destroy(struct sluice_replan *replan);

/* Plans for an epoch (borrowed until the next begins), logs the plan, and gives what the prefetcher
 * asks. */
SLUICE_MUST_USE sluice_status sluice_replan_begin(struct sluice_replan *replan,
                                                  const struct sluice_plan_epoch *epoch,
                                                  struct sluice_chooser *face,
                                                  struct sluice_err *err);

/* Changes of the plan in this epoch, and the CPU time that it took for itself. */
struct sluice_plan_stats {
    uint64_t replans;          /* changes of the prices that were told */
    uint64_t looks;            /* intervals that were looked at */
    uint64_t solves;           /* solutions of the LP, the first plan's among them */
    double first_s;            /* for the first plan */
    double looks_s;            /* for all looks */
    double choices_s;          /* for all choices, from every 64th */
    struct sluice_rates rates; /* as estimated now */
};
struct sluice_plan_stats sluice_replan_stats(const struct sluice_replan *replan);

#endif
