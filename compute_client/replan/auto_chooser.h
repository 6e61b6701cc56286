#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_CHOOSER_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_CHOOSER_H

#include "compute_client/load/chooser.h"
#include "compute_client/replan/auto_plan.h"

#include <stdint.h>

/* remote_auto's chooser: a plan (auto_plan.h) with a clock and a lock.
 *
 * Workers leave what they saw; the loader's thread looks at it every quarter of a second, before
 * it asks for an item, and says in the log what it changed and why.
 *
 * Threads: begin and the counters belong to the thread that starts epochs, between them; the
 * chooser's functions as chooser.h says. */

struct sluice_auto_chooser;

SLUICE_MUST_USE sluice_status
sluice_auto_chooser_create(const struct sluice_auto_plan_options *options,
                           struct sluice_auto_chooser **chooser, struct sluice_err *err);
/* After the loader's last epoch is finished.  NULL is allowed. */
void sluice_auto_chooser_destroy(struct sluice_auto_chooser *chooser);

/* Plans for an epoch (borrowed until the next begins), logs the plan, and gives what the loader
 * asks. */
SLUICE_MUST_USE sluice_status sluice_auto_chooser_begin(struct sluice_auto_chooser *chooser,
                                                        const struct sluice_auto_epoch *epoch,
                                                        struct sluice_chooser *face,
                                                        struct sluice_err *err);

/* What the plan changed in this epoch, and the CPU time that it took for itself. */
struct sluice_plan_stats {
    uint64_t replans;          /* changes of the prices */
    uint64_t looks;            /* at what was seen */
    uint64_t solves;           /* looks at which other prices were weighed, and the first plan */
    double first_s;            /* for the first plan */
    double looks_s;            /* for all looks */
    double choices_s;          /* for all choices, from every 64th */
    struct sluice_rates rates; /* what is believed now */
};
struct sluice_plan_stats sluice_auto_chooser_stats(const struct sluice_auto_chooser *chooser);

#endif
