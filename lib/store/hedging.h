#ifndef SLUICE_STORE_HEDGING_H
#define SLUICE_STORE_HEDGING_H

#include <stdint.h>

/* Private to lib/store: when a request that takes long is worth a second one (hedged requests: Dean
 * and Barroso, "The Tail at Scale", CACM 2013).
 *
 * After the 99th percentile of the last requests; where more than one in a hundred is slow that is
 * a slow one, and so after three times the 90th at most.  But not before twice the median, nor a
 * floor; and out of a budget (tuning.h), so that a store that is slow as a whole is not asked
 * twice.
 *
 * Threads: one at a time. */

#define SLUICE_HEDGING_WINDOW 512 /* requests */

struct sluice_hedging {
    uint32_t took_us[SLUICE_HEDGING_WINDOW]; /* a ring */
    uint32_t num_noted, num_new;             /* in all; since `after_ns` was found */
    uint64_t after_ns;                       /* UINT64_MAX: too few are known */
    double saved;                            /* requests that may be sent twice */
};

struct sluice_hedging sluice_hedging_init(void);
/* One more request; it adds its share to the budget. */
void sluice_hedging_count(struct sluice_hedging *hedging);
/* A request took so long from being sent to its end, or to its second's. */
void sluice_hedging_note(struct sluice_hedging *hedging, uint64_t took_ns);
/* How long a request runs before it is sent again; UINT64_MAX: none is now. */
uint64_t sluice_hedging_after_ns(const struct sluice_hedging *hedging);
/* One was sent again. */
void sluice_hedging_spend(struct sluice_hedging *hedging);

#endif
