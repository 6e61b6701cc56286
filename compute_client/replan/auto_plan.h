#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_PLAN_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_PLAN_H

#include "base/error.h"
#include "compute_client/replan/rate_watch.h"
#include "datasets/manifest.h"
#include "pipeline/pipeline.h"
#include "plan/choice_cost.h"
#include "plan/planner_lp.h"
#include "plan/transport_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The plan of remote_auto while it runs: prices, and what they were made from.
 *
 *     what is known of each sample --+
 *     costs, as they are seen -------+--> LP over some of the items left --> prices
 *     rates, as they are seen -------+                                         |
 *          ^                                                                   v
 *          +--- rows, as they come in <--- (the loader) <--- choose(), sample by sample
 *
 * tick() learns from the rows of an interval: what each resource can do (rate_watch.h), and what
 * the choices cost (auto_costs.h).  If either moved, for a resource that is a limit or nearly one,
 * the prices are found anew over a bounded sample of the items that are left; they replace the old
 * ones only if that makes the rest faster by a few per cent, so that noise moves nothing.
 *
 * Between two looks the prices in force lean to whatever has the least to do (auto_queues.h).
 *
 * Where the link has not been empty for 10 s, two items are asked for with nothing else under way,
 * to see its latency.
 *
 * What is shared has a price from outside: the storage node's cores.  Where there is one, the plan
 * is for so many of the cores as it says (auto_price.h), and follows it at every tick.
 *
 * Pure: no clock, I/O, threads or randomness but the seed's; the times come with the rows.
 * Threads: one at a time. */

struct sluice_auto_plan;

struct sluice_auto_plan_options {
    struct sluice_choice_model model;
    struct sluice_transport_cost transport;
    uint32_t forms; /* bits 1 << enum sluice_form that may be asked for beside the plain */
    struct sluice_rates rates; /* to begin with; PCIe's stays */
    struct sluice_rates most;  /* none is believed to be higher */
    bool is_fixed;             /* the first plan stays, whatever is seen */
    size_t sample_items;       /* over which prices are found; 0: the default */
    const char *without;       /* layers to leave out, to measure them; NULL: none */
};

SLUICE_MUST_USE sluice_status
sluice_auto_plan_create(const struct sluice_auto_plan_options *options,
                        struct sluice_auto_plan **plan, struct sluice_err *err);
void sluice_auto_plan_destroy(struct sluice_auto_plan *plan); /* NULL is allowed */

/* What is planned for: the items of an epoch, borrowed until the next one begins. */
struct sluice_auto_epoch {
    const struct sluice_pipeline *pipeline;
    const struct sluice_manifest *manifest;
    const uint32_t *ids; /* by position */
    uint64_t seed;
    const struct sluice_sampler_item *items;
    size_t num_items, first_item;
};

/* A plan that is in force from now on. */
struct sluice_auto_forecast {
    double rest_s;     /* the items that are left take this long ... */
    double bound_s;    /* ... and no plan takes less, ... */
    double kept_s;     /* ... and with the prices before it would be this; 0: there were none */
    double gap;        /* of the items that were looked at */
    double wire_bytes; /* of the items that are left */
    double price[SLUICE_NUM_RESOURCES];
    enum sluice_resource slowest;
    struct sluice_rates rates;
    char reason[256]; /* what moved, from what to what */
};

/* Finds prices for the epoch from what is believed now. */
SLUICE_MUST_USE sluice_status sluice_auto_plan_begin(struct sluice_auto_plan *plan,
                                                     const struct sluice_auto_epoch *epoch,
                                                     uint64_t now_ns,
                                                     struct sluice_auto_forecast *forecast,
                                                     struct sluice_err *err);

/* The choice of the epoch's item, in order, as its place in the model's choices; *expected (unless
 * NULL) gets what it takes.  under_way: as chooser.h says; NULL: nothing is. */
unsigned sluice_auto_plan_choose(struct sluice_auto_plan *plan, size_t index,
                                 const struct sluice_expected *under_way,
                                 struct sluice_expected *expected);

/* Learns from rows[0 .. num_rows) and the trainer, and finds new prices for the items from
 * `next_item` on if that pays.  True: there are new prices, and *forecast says why. */
bool sluice_auto_plan_tick(struct sluice_auto_plan *plan, uint64_t now_ns, size_t next_item,
                           const struct sluice_row_seen *rows, size_t num_rows,
                           const struct sluice_trainer_seen *trainer,
                           struct sluice_auto_forecast *forecast);

/* What the trainer did after the last tick of an epoch, when nothing was left to be asked for:
 * `part` of its time in that epoch.  Between two epochs. */
void sluice_auto_plan_see_rest(struct sluice_auto_plan *plan,
                               const struct sluice_trainer_seen *trainer, double part);

/* What the plan in force waits for as things are now, and what the items from `next_item` on take
 * by it.  Another resource is the limit once it takes a tenth longer at two ticks in a row. */
struct sluice_auto_limit {
    enum sluice_resource load;
    double rest_s;
};
struct sluice_auto_limit sluice_auto_plan_limit(const struct sluice_auto_plan *plan,
                                                size_t next_item);

/* What a storage core more is worth under the plan, and what the server asks for one: auto_price.h
 * has the unit. */
double sluice_auto_plan_storage_worth(const struct sluice_auto_plan *plan);
double sluice_auto_plan_storage_price(const struct sluice_auto_plan *plan);

/* How often prices were looked for in this epoch, the first ones among them. */
uint64_t sluice_auto_plan_solves(const struct sluice_auto_plan *plan);

/* As the item that was chosen for last may be asked for: while max_away items have not arrived, or
 * max_unfinished (no fewer) are not finished, it waits.  Items that are enough to keep every
 * resource at work, and no more; a fixed plan, which does not look at how fast they are done, has
 * no such bounds.  num_done: items that were done since the last tick; until the first one of an
 * epoch it says how fast that goes, and for each of them one more may be under way. */
struct sluice_auto_bounds {
    uint32_t max_away, max_unfinished;
};
struct sluice_auto_bounds sluice_auto_plan_bounds(const struct sluice_auto_plan *plan,
                                                  size_t num_done);

/* What is believed now. */
struct sluice_rates sluice_auto_plan_rates(const struct sluice_auto_plan *plan);

/* By what the model's cost is multiplied, from what has been seen. */
double sluice_auto_plan_correction(const struct sluice_auto_plan *plan, unsigned choice,
                                   enum sluice_resource side);

#endif
