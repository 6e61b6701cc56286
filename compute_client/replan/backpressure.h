#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_BACKPRESSURE_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_BACKPRESSURE_H

#include "compute_client/loader/choose/chooser.h"
#include "compute_client/loader/tuning.h"
#include "plan/resource.h"

#include <stdbool.h>
#include <stddef.h>

/* Backpressure: a resource with a longer queue than the others is dearer at once (L. Tassiulas and
 * A. Ephremides, Stability properties of constrained queueing systems, IEEE Trans. Automatic
 * Control 37(12), 1992).  A queue is the integral of what was asked of a resource beyond what it
 * could do, so this is dual ascent on the plan's LP, begun at its duals:
 *
 *     price[r] * exp(gain * (queue_s[r] - mean of the queues of all that are a limit))
 *
 * The LP keeps every limit at work on average.  Between two solutions costs and capacities change,
 * and only so many items may be under way: without this all of them soon stand before what has
 * become slower, and the others have nothing to do.
 *
 * Nobody tells where an item under way is until it arrives.  What has not arrived counts before the
 * storage node and before the link by the shares of the time away that items spent there of late;
 * before this node counts what is not in its batch, less what it does until work for it arrives.
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

/* Learns from rows that came in. */
void sluice_backpressure_see(struct sluice_backpressure *backpressure,
                             const struct sluice_row_seen *rows, size_t num_rows);

/* factor[r] gets what the price of a resource is to be multiplied with, for duals (with sum 1) and
 * what each resource does by the second: 1 for all that are no limit, before anything was seen, and
 * where fewer than two of storage CPU, network and compute CPU are a limit. */
void sluice_backpressure_factors(const struct sluice_backpressure *backpressure,
                                 const struct sluice_expected *under_way,
                                 const double dual[SLUICE_NUM_RESOURCES],
                                 const double per_s[SLUICE_NUM_RESOURCES],
                                 double factor[SLUICE_NUM_RESOURCES]);

#endif
