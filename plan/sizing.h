#ifndef SLUICE_PLAN_SIZING_H
#define SLUICE_PLAN_SIZING_H

#include "base/error.h"
#include "plan/form_menu.h"

#include <stdbool.h>

/* The machines needed for a rate: the planner's inverse.
 *
 * Loaders are alike: each has an equal part of the samples, the link and the cores of both nodes,
 * and a receiving thread of its own.  Disk and GPU are never the limit here, whatever the menu says
 * of them: the rate that is asked for is the GPUs', and how fast files come depends on how many of
 * them the page cache holds.
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
    /* By the forecast: with storage_cores or, where the rate is not met, with any number of them.
     * INFINITY: nothing limits it. */
    double samples_per_s;
    double storage_cores; /* 0 where the rate is not met */
    /* What the plan takes of both at the rate that was asked for or, where another is the answer,
     * at samples_per_s. */
    double compute_cores, link_bytes_per_s;
    /* What the plan has none left of then, of the link, the compute cores and the receiving
     * threads: why fewer storage cores do not do or, where the rate is not met, why it is not. */
    unsigned binds;
};

/* The least storage cores at which the plan over all resources meets the rate.  Its forecast with
 * storage_cores meets it; with 1 % fewer the bound of the planner says that no plan does, if its
 * gap (planner_lp.h) is below 0.4 %.  SLUICE_E_INVALID, with the reason in err, if a number is out
 * of range, or the table has no row; SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_size_storage(const struct sluice_form_menu *menu,
                                                  const struct sluice_sizing_ask *ask,
                                                  struct sluice_sizing *sizing,
                                                  struct sluice_err *err);

/* The rate that the plan reaches with so many storage cores, which limits it, too, where `binds`
 * says so; is_met: it is no less than was asked for.  The same errors. */
SLUICE_MUST_USE sluice_status sluice_size_rate(const struct sluice_form_menu *menu,
                                               const struct sluice_sizing_ask *ask,
                                               double storage_cores, struct sluice_sizing *sizing,
                                               struct sluice_err *err);

/* What every sample takes where all are asked for by one choice; as sluice_size_storage(). */
SLUICE_MUST_USE sluice_status sluice_size_choice(const struct sluice_form_menu *menu,
                                                 const struct sluice_sizing_ask *ask,
                                                 unsigned choice, struct sluice_sizing *sizing,
                                                 struct sluice_err *err);

#endif
