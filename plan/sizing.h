#ifndef SLUICE_PLAN_SIZING_H
#define SLUICE_PLAN_SIZING_H

#include "base/error.h"
#include "plan/form_menu.h"

#include <stdbool.h>

/* The machines needed for a rate: the planner's inverse.
 *
 * Loaders are alike: each has an equal part of the samples, the link and the cores of both nodes,
 * and its own receiving thread.  Disk and GPU are never the limit here, whatever their costs in the
 * menu: the requested rate is that of the GPUs, and the disk's depends on the number of files in
 * the page cache.
 *
 * Threads: pure functions. */

struct sluice_sizing_ask {
    double samples_per_s; /* of all loaders together; > 0, finite */
    unsigned num_loaders; /* > 0 */
    /* Capacities for all loaders together; > 0; INFINITY: never the limit. */
    double link_bytes_per_s, compute_cores;
};

struct sluice_sizing {
    bool is_met;
    /* The forecast, with storage_cores or, if the rate is not met, with any number of them.
     * INFINITY: nothing limits the rate. */
    double samples_per_s;
    double storage_cores; /* 0 if the rate is not met */
    /* The plan's use of both at the requested rate, or, where another rate is the answer, at
     * samples_per_s. */
    double compute_cores, link_bytes_per_s;
    /* Mask of the resources that the plan uses fully at that rate, among link, compute cores and
     * receiving threads: why fewer storage cores do not suffice, or why the rate is not met. */
    unsigned binds;
};

/* The least number of storage cores with which the plan over all resources meets the rate.  The
 * forecast with storage_cores meets it; with 1 % fewer cores the planner's bound proves that no
 * plan does, if its gap (planner_lp.h) is below 0.4 %.  SLUICE_E_INVALID, with the reason in err,
 * if a number is out of range or the table is empty; SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_size_storage(const struct sluice_form_menu *menu,
                                                  const struct sluice_sizing_ask *ask,
                                                  struct sluice_sizing *sizing,
                                                  struct sluice_err *err);

/* The rate that the plan reaches with this number of storage cores.  `binds` may have storage CPU,
 * too.  is_met: the rate is at least the requested one.  The same errors. */
SLUICE_MUST_USE sluice_status sluice_size_rate(const struct sluice_form_menu *menu,
                                               const struct sluice_sizing_ask *ask,
                                               double storage_cores, struct sluice_sizing *sizing,
                                               struct sluice_err *err);

/* As sluice_size_storage(), if all samples are requested in one choice. */
SLUICE_MUST_USE sluice_status sluice_size_choice(const struct sluice_form_menu *menu,
                                                 const struct sluice_sizing_ask *ask,
                                                 unsigned choice, struct sluice_sizing *sizing,
                                                 struct sluice_err *err);

#endif
