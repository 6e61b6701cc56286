#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_QUEUES_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_QUEUES_H

#include "compute_client/load/chooser.h"
#include "plan/menu.h"

#include <stddef.h>

/* How long the work is that stands before the storage node's cores, the link and this node's cores,
 * and what follows for the prices of the next choices.
 *
 * A plan keeps every resource that is a limit at work on average.  Between two looks costs and
 * rates change, and only so many items may be under way: all of them soon stand before what has
 * become slower, and the others have nothing to do.  So a resource that more work waits for than
 * for the others is dearer at once, and one that less waits for cheaper:
 *
 *     price[r] * exp(GAIN * (queue[r] - mean of the queues of all that are a limit))
 *
 * which is how queues part work where nobody knows the rates (backpressure: Tassiulas and
 * Ephremides, Stability properties of constrained queueing systems, 1992).  Where two resources are
 * the limit many samples are worth about the same on either, so that a few per cent move many.
 *
 * Of what is under way nobody tells where it is until it arrives.  What has not arrived counts
 * before the storage node and before the link by the parts of the time until they arrived that
 * items were there of late; and before this node counts what is not in its batch, less what it does
 * in the time until work for it arrives.
 *
 * Threads: one at a time; a plain value. */

struct sluice_auto_queues {
    double storage_part, link_part; /* of the time until items arrived, by storage CPU and bytes */
    double compute_away_s;          /* the time until items arrived, by compute CPU */
    bool has_seen;
};

/* Learns from rows that came in. */
void sluice_auto_queues_see(struct sluice_auto_queues *queues, const struct sluice_row_seen *rows,
                            size_t num_rows);

/* by[r] gets what the price of a load is to be multiplied with, for plan prices (with sum 1) and
 * what each resource does by the second: 1 for all that are no limit, before anything was seen, and
 * where fewer than two of the three are a limit. */
void sluice_auto_queues_lean(const struct sluice_auto_queues *queues,
                             const struct sluice_expected *under_way,
                             const double price[SLUICE_NUM_RESOURCES],
                             const double per_s[SLUICE_NUM_RESOURCES],
                             double by[SLUICE_NUM_RESOURCES]);

#endif
