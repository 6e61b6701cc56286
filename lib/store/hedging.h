#ifndef SLUICE_STORE_HEDGING_H
#define SLUICE_STORE_HEDGING_H

#include <stdint.h>

/* Private to lib/store: hedged requests (Dean and Barroso, "The Tail at Scale", CACM 2013). Decides
 * when a slow request is sent a second time.
 *
 * The threshold is the 99th percentile of the last requests, at most three times the 90th (if more
 * than 1 % are slow, the 99th percentile is a slow request itself), and at least twice the median
 * and a floor.  A budget (tuning.h) limits hedges, so that a store that is slow as a whole does not
 * get every request twice.
 *
 * Threads: one at a time. */

#define SLUICE_HEDGING_WINDOW 512 /* requests */

struct sluice_hedging {
    uint32_t took_us[SLUICE_HEDGING_WINDOW]; /* a ring */
    uint32_t num_noted, num_new;             /* in all; since `after_ns` was computed */
    uint64_t after_ns; /* the threshold; UINT64_MAX: too few requests so far */
    double saved;      /* the budget: requests that may be sent twice */
};

struct sluice_hedging sluice_hedging_init(void);
/* Counts a request and adds its share to the budget. */
void sluice_hedging_count(struct sluice_hedging *hedging);
/* Notes a request's time from sending it to its end, or to its hedge's end. */
void sluice_hedging_note(struct sluice_hedging *hedging, uint64_t took_ns);
/* The time after which a request is sent again; UINT64_MAX: do not hedge now. */
uint64_t sluice_hedging_after_ns(const struct sluice_hedging *hedging);
/* Takes a hedge that was sent out of the budget. */
void sluice_hedging_spend(struct sluice_hedging *hedging);

#endif
