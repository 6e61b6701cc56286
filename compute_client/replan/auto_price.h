#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_PRICE_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_AUTO_PRICE_H

#include "compute_client/replan/rate_watch.h"
#include "plan/planner_lp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much of the storage node's cores a client uses, at the price that their server asks.
 *
 * A plan is made for so many cores.  What one more of them is worth to the client follows from
 * that plan's own price of storage CPU: with T what a million samples take, x the cores, and p the
 * part of T that they are the limit of (T (1 - p d) with x (1 + d) of them),
 *
 *     worth = -dT/dx = p T / x        seconds that a million samples take less with a core more
 *
 * which falls as x grows.  Where it is the same for all clients, parting the cores otherwise makes
 * no sum of their T less.  While the price is below it the client uses more, above it less:
 *
 *     d log(x) / dt  =  FOLLOW * log(worth / price)
 *
 * so near the right use its steps become small.  A best answer to the price would not do: many
 * samples are worth about the same, so that at one price all of them come and at the next all of
 * them go, and the price could never rest.
 *
 * Threads: one at a time; a plain value. */

#define SLUICE_PRICED_SAMPLES 1e6

struct sluice_auto_price {
    double heard;      /* as of the last row */
    double used;       /* cores, of late; 0: not seen */
    double use;        /* cores, that the plan in force is for; 0: it follows no price */
    double worth;      /* of a core more, under the plan in force; 0: it leaves some unused */
    double last_worth; /* above 0 */
    uint64_t moved_ns;
};

/* What rows say of the price. */
void sluice_auto_price_hear(struct sluice_auto_price *price, const struct sluice_row_seen *rows,
                            size_t num_rows);

/* There is a price that matters. */
bool sluice_auto_price_is_followed(const struct sluice_auto_price *price);

/* The cores that were used of late, of an interval more. */
void sluice_auto_price_see_used(struct sluice_auto_price *price, double cores);

/* The cores to plan for, of those that there are, from now_ns on; 0: there is no price to follow,
 * and the plan may use what it likes. */
double sluice_auto_price_next_use(struct sluice_auto_price *price, uint64_t now_ns, double cores);

/* The plan of num_items, for so many of the storage node's cores: how much of them is used, and
 * what they are worth. */
void sluice_auto_price_planned(struct sluice_auto_price *price, double cores,
                               const struct sluice_lp_result *result, size_t num_items);

#endif
