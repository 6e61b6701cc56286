#ifndef SLUICE_COMPUTE_CLIENT_LOAD_RETRY_H
#define SLUICE_COMPUTE_CLIENT_LOAD_RETRY_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

/* When to try again, and when to give up.
 *
 * Waits double from 50 ms to 2 s; each is drawn from the upper half of its range,
 * so that many clients of a restarted server do not come back together.  The
 * patience is counted from the first failure after the last success.
 *
 * Threads: belongs to one thread at a time. */

struct sluice_retry {
    uint64_t patience_ns;
    uint64_t since_ns; /* of the first failure; 0: none since the last success */
    unsigned attempt;
    struct sluice_rng rng;
};

/* patience_s 0: the first failure is the last. */
struct sluice_retry sluice_retry_init(double patience_s, uint64_t jitter_seed);

/* Notes a failure at now_ns.  True: try again *wait_ns later (never beyond the end of
 * the patience).  False: the patience is over. */
bool sluice_retry_failed(struct sluice_retry *retry, uint64_t now_ns, uint64_t *wait_ns);

void sluice_retry_succeeded(struct sluice_retry *retry);

#endif
