#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_CONTROLLER_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_CONTROLLER_H

#include "base/error.h"
#include "compute_client/replan/capacity_estimator.h"
#include "datasets/manifest/manifest.h"
#include "host/machine.h"
#include "op/form_words.h"
#include "op/pipeline.h"
#include "plan/choice_cost.h"
#include "plan/resource.h"
#include "plan/transport_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The running plan of remote_auto: dual ascent on the plan's LP, with estimates made as it runs.
 *
 *     costs, as corrected  (cost_correction.h) ----+
 *     capacities, as seen  (capacity_estimator.h) -+--> LP over a sample of the items left
 *          ^                                                          |
 *          |                                                        duals
 *          |                                                          |
 *          |      queues under way (backpressure.h) -- factors --> choose(): the cheapest
 *          |                                                       choice, item by item
 *          +--------- rows, as they come in <-- (the prefetcher) <--------+
 *
 * - choose() takes the choice that is cheapest at the duals in force, each times a factor that
 *   grows with the queue before its resource.
 * - update() learns from an interval's rows, and solves the LP anew once an estimate has moved by
 *   solve_change: model predictive control with a receding horizon.
 * - Where the model has choices of a GPU that decodes, its time is shared: each sample's training
 *   step, at the trainer's rate, and decoding.  Where the step alone is the limit CPUs decode.
 * - The storage node's cores are shared.  While they have a price, the plan is for so many of them
 *   as cpu_share.h says, and is made anew at every interval; there is no backpressure then, as it
 *   would use the cores that are left to others.
 *
 * docs/PLANNER.md has the algorithm, docs/results/controller.md what each part is worth.
 *
 * Pure: no clock, I/O, threads or randomness but the seed's; the times come with the rows.
 * Threads: one at a time. */

struct sluice_controller;

struct sluice_controller_options {
    struct sluice_choice_model model; /* of epoch 0 */
    struct sluice_transport_cost transport;
    uint32_t forms; /* bits 1 << enum sluice_form that may be asked for in addition to the plain */
    struct sluice_rates rates; /* to begin with; PCIe's stays */
    struct sluice_rates most;  /* no estimate exceeds them */
    bool is_fixed;             /* the first plan stays, whatever is seen */
    /* Where rates.shared_cores is above 0: this process's machine and the servers', for replan.h,
     * which looks how busy their cores are. */
    struct sluice_machine here, servers;
    /* There is no server: files alone are chosen, and neither a link nor storage cores are ever the
     * limit.  Their rates are INFINITY. */
    bool is_local;
    const struct sluice_tuning *tuning; /* borrowed; NULL: the default */
};

SLUICE_MUST_USE sluice_status
sluice_controller_create(const struct sluice_controller_options *options,
                         struct sluice_controller **controller, struct sluice_err *err);
void sluice_controller_destroy(struct sluice_controller *controller); /* NULL is allowed */

/* The items of an epoch to plan for, borrowed until the next one begins. */
struct sluice_plan_epoch {
    const struct sluice_pipeline *pipeline;
    const struct sluice_manifest *manifest;
    const uint32_t *ids; /* by position */
    uint64_t seed;
    uint32_t schedule; /* the epoch of the training */
    const struct sluice_sampler_item *items;
    size_t num_items, first_item;
    bool is_brief; /* one of very many: its plan is told in the debug log */
};

/* A plan that is in force from now on. */
struct sluice_plan_forecast {
    double rest_s;     /* the items that are left take this long ... */
    double bound_s;    /* ... and no plan takes less */
    double gap;        /* of the items that were looked at */
    double wire_bytes; /* of the items that are left */
    double dual[SLUICE_NUM_RESOURCES];
    enum sluice_resource slowest;
    struct sluice_rates rates;
    uint64_t forms[SLUICE_MAX_FORMS]; /* of the items that were looked at, by their choice's form */
    uint64_t on_gpu;                  /* of them, to be decoded by the GPU */
    char reason[160]; /* the estimate that moved most, from what to what; "" for the first plan */
    char words[160];  /* the same for a person, without prices */
};

/* Solves the LP for the epoch by the estimates of now. */
SLUICE_MUST_USE sluice_status sluice_controller_begin(struct sluice_controller *controller,
                                                      const struct sluice_plan_epoch *epoch,
                                                      uint64_t now_ns,
                                                      struct sluice_plan_forecast *forecast,
                                                      struct sluice_err *err);

/* The choice of the epoch's item, in order, as a place in the model's choices, and *expected
 * (unless NULL) what it takes.  under_way: as chooser.h says; NULL: nothing is. */
unsigned sluice_controller_choose(struct sluice_controller *controller, size_t index,
                                  const struct sluice_expected *under_way,
                                  struct sluice_expected *expected);

/* Learns from rows[0 .. num_rows), the trainer and the decoder on its GPU; true: there is a new
 * plan for the items from `next_item` on, and *forecast tells of it.  While a price is followed,
 * one that uses about as much of the storage cores as the last that was told is not told. */
bool sluice_controller_update(struct sluice_controller *controller, uint64_t now_ns,
                              size_t next_item, const struct sluice_row_seen *rows, size_t num_rows,
                              const struct sluice_trainer_seen *trainer,
                              struct sluice_plan_forecast *forecast);

/* The trainer's work after the last interval of an epoch, when nothing was left to be asked for:
 * `part` of its time in that epoch.  Between two epochs. */
void sluice_controller_see_rest(struct sluice_controller *controller,
                                const struct sluice_trainer_seen *trainer, double part);

/* The item that was chosen for last waits while max_away items have not arrived, or max_unfinished
 * (no fewer) are not finished: enough to keep every resource at work, and no more, so that prices
 * act soon.  A fixed plan has no such bounds.  num_done: items that were done since the last
 * update; until the first one of an epoch, for each of them one more may be under way. */
struct sluice_plan_bounds {
    uint32_t max_away, max_unfinished;
};
struct sluice_plan_bounds sluice_controller_bounds(const struct sluice_controller *controller,
                                                   size_t num_done);

/* The value of one more storage core under the plan, and the server's price of one: cpu_share.h
 * has the unit. */
double sluice_controller_storage_worth(const struct sluice_controller *controller);
double sluice_controller_storage_price(const struct sluice_controller *controller);

/* The dual prices of the plan in force, by resource: s an epoch for each s of the resource; as long
 * as the controller, and changed by begin and update. */
const double *sluice_controller_prices(const struct sluice_controller *controller);

/* How often the LP was solved in this epoch. */
uint64_t sluice_controller_solves(const struct sluice_controller *controller);

struct sluice_rates sluice_controller_rates(const struct sluice_controller *controller);

/* By what the model's cost is multiplied, from what has been seen. */
double sluice_controller_correction(const struct sluice_controller *controller, unsigned choice,
                                    enum sluice_resource resource);

#endif
