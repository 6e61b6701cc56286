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

/* The running plan of remote_auto: model predictive control with a receding horizon.  The LP is
 * solved again as estimates of costs and capacities move; its duals decide each sample's choice.
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
 * - choose() takes the cheapest choice at the current duals, each multiplied by a factor that grows
 *   with its resource's queue.
 * - update() learns from an interval's rows, and solves the LP again once an estimate has moved by
 *   solve_change.
 * - If the model has choices of a GPU that decodes, the GPU's time is shared between each sample's
 *   training step, at the trainer's rate, and decoding.  If the step alone is the bottleneck, CPUs
 *   decode.
 * - The storage node's cores are shared among clients.  While they have a price, the plan uses the
 *   number of cores that cpu_share.h gives, and is made again at every interval.  Backpressure is
 *   off then, because it would use cores that are left to other clients.
 *
 * docs/PLANNER.md has the algorithm, docs/results/controller.md what each part is worth.
 *
 * Pure: no clock, I/O, threads or randomness but the seed's; the times come with the rows.
 * Threads: one at a time. */

struct sluice_controller;

struct sluice_controller_options {
    struct sluice_choice_model model; /* of epoch 0 */
    struct sluice_transport_cost transport;
    uint32_t forms; /* bits 1 << enum sluice_form that the server offers beyond the plain forms */
    struct sluice_rates rates; /* first estimates; PCIe's is constant */
    struct sluice_rates most;  /* upper bounds of the estimates */
    bool is_fixed;             /* the first plan is never changed */
    /* If rates.shared_cores is above 0: this process's machine and the servers'; replan.h measures
     * how busy their cores are. */
    struct sluice_machine here, servers;
    /* Without a server: only whole files are chosen; link and storage cores are never the limit,
     * and their rates are INFINITY. */
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
    bool is_brief; /* one of very many short epochs: only the debug log has its plan */
};

/* The forecast of a plan that was just adopted. */
struct sluice_plan_forecast {
    double rest_s;     /* time of the items that are left */
    double bound_s;    /* lower bound of that time for every plan */
    double gap;        /* on the items in the LP */
    double wire_bytes; /* of the items that are left */
    double dual[SLUICE_NUM_RESOURCES];
    enum sluice_resource slowest;
    struct sluice_rates rates;
    uint64_t forms[SLUICE_MAX_FORMS]; /* number of items in the LP by form */
    uint64_t on_gpu;                  /* number of items in the LP that the GPU decodes */
    char reason[160]; /* the estimate that moved most, from what to what; "" for the first plan */
    char words[160];  /* the same for a person, without prices */
};

/* Solves the LP for the epoch with the current estimates. */
SLUICE_MUST_USE sluice_status sluice_controller_begin(struct sluice_controller *controller,
                                                      const struct sluice_plan_epoch *epoch,
                                                      uint64_t now_ns,
                                                      struct sluice_plan_forecast *forecast,
                                                      struct sluice_err *err);

/* The choice of an item of the epoch, as a place in the model's choices; *expected (unless NULL)
 * gets its costs.  Items are passed in order.  under_way: see chooser.h; NULL: no items. */
unsigned sluice_controller_choose(struct sluice_controller *controller, size_t index,
                                  const struct sluice_expected *under_way,
                                  struct sluice_expected *expected);

/* Learns from rows[0 .. num_rows), the trainer and the decoder on its GPU.  True: there is a new
 * plan for the items from `next_item` on, with its *forecast.  While a price is followed, a new
 * plan that uses about the same number of storage cores as the last reported one is not
 * reported. */
bool sluice_controller_update(struct sluice_controller *controller, uint64_t now_ns,
                              size_t next_item, const struct sluice_row_seen *rows, size_t num_rows,
                              const struct sluice_trainer_seen *trainer,
                              struct sluice_plan_forecast *forecast);

/* Learns from the trainer's work after the last interval of an epoch, when no item was left to
 * request; `part` is the share of its time in that epoch.  Call it between two epochs. */
void sluice_controller_see_rest(struct sluice_controller *controller,
                                const struct sluice_trainer_seen *trainer, double part);

/* Bounds on the items under way: the next request waits while max_away items have not arrived, or
 * max_unfinished (>= max_away) are not finished.  They are just high enough to keep every resource
 * busy, so that new prices act soon.  A fixed plan has no bounds.  num_done is the number
 * of items finished since the last update.  Before the first update of an epoch, each of these
 * items raises the bounds by one. */
struct sluice_plan_bounds {
    uint32_t max_away, max_unfinished;
};
struct sluice_plan_bounds sluice_controller_bounds(const struct sluice_controller *controller,
                                                   size_t num_done);

/* The value of one more storage core under the plan, and the server's price of one: cpu_share.h
 * has the unit. */
double sluice_controller_storage_worth(const struct sluice_controller *controller);
double sluice_controller_storage_price(const struct sluice_controller *controller);

/* The dual prices of the current plan, by resource: seconds of the epoch for each second of the
 * resource.  Valid as long as the controller; begin and update change them. */
const double *sluice_controller_prices(const struct sluice_controller *controller);

/* The number of times that the LP was solved in this epoch. */
uint64_t sluice_controller_solves(const struct sluice_controller *controller);

struct sluice_rates sluice_controller_rates(const struct sluice_controller *controller);

/* The factor by which the model's cost is multiplied (cost_correction.h). */
double sluice_controller_correction(const struct sluice_controller *controller, unsigned choice,
                                    enum sluice_resource resource);

#endif
