#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_BACKPRESSURE_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_BACKPRESSURE_H

#include "compute_client/loader/choose/chooser.h"
#include "compute_client/loader/tuning.h"
#include "plan/resource.h"

#include <stdbool.h>
#include <stddef.h>

/* Backpressure: the price of a resource rises at once while its queue is longer than the others'
 * (L. Tassiulas and A. Ephremides, Stability properties of constrained queueing systems, IEEE
 * Trans. Automatic Control 37(12), 1992).  A queue is the integral of demand above capacity, so
 * this is dual ascent on the plan's LP, started at the LP's duals:
 *
 *     price[r] * exp(gain * (queue_s[r] - mean of the queues of all bottlenecks))
 *
 * The LP keeps every bottleneck busy on average.  Between two solutions costs and capacities
 * change, and the number of items under way is bounded: without backpressure all of them would soon
 * wait for the resource that has become slower, and the others would be idle.
 *
 * The place of an item under way is unknown until it arrives.  Items that have not arrived are
 * divided between the queues of storage node and link in the proportion of the time that recent
 * items spent there.  The queue of this node is the items that are not in their batch, less its
 * work until new items arrive.
 *
 * Threads: one at a time; a plain value. */

struct sluice_backpressure {
    const struct sluice_tuning *tuning; /* borrowed */
    /* Shares of the time until items arrived, weighted by storage CPU and by bytes. */
    double storage_share, link_share;
    /* The time until items arrived, weighted by compute CPU. */
    double away_s;
    bool has_seen;
};

/* Updates the shares from rows that arrived. */
void sluice_backpressure_see(struct sluice_backpressure *backpressure,
                             const struct sluice_row_seen *rows, size_t num_rows);

/* Sets factor[r], by which the price of resource r is multiplied, for given duals (with sum 1) and
 * rates per_s.  It is 1 for resources that are not a bottleneck, before the first row, and if fewer
 * than two of storage CPU, network and compute CPU are a bottleneck. */
void sluice_backpressure_factors(const struct sluice_backpressure *backpressure,
                                 const struct sluice_expected *under_way,
                                 const double dual[SLUICE_NUM_RESOURCES],
                                 const double per_s[SLUICE_NUM_RESOURCES],
                                 double factor[SLUICE_NUM_RESOURCES]);

#endif
