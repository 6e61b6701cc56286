#ifndef SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_RETRY_H
#define SLUICE_COMPUTE_CLIENT_LOADER_SOURCE_RETRY_H

#include "base/error.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

/* Exponential backoff with jitter, and a deadline.
 *
 * The waits' upper bounds double from 50 ms to 2 s.  Each wait is drawn from the upper half of its
 * range, so that the clients of a restarted server do not all return at the same moment.  The
 * deadline is patience_ns after the first failure since the last success.
 *
 * Threads: one at a time. */

struct sluice_retry {
    uint64_t patience_ns;
    uint64_t since_ns; /* time of the first failure since the last success; 0: no failure */
    unsigned attempt;
    struct sluice_rng rng;
};

/* patience_s 0: the first failure is the last. */
struct sluice_retry sluice_retry_init(double patience_s, uint64_t jitter_seed);

/* Records a failure at now_ns.  True: try again *wait_ns later, which is not after the deadline.
 * False: the deadline has passed. */
bool sluice_retry_failed(struct sluice_retry *retry, uint64_t now_ns, uint64_t *wait_ns);

void sluice_retry_succeeded(struct sluice_retry *retry);

/* Whether a sample that failed with this status is worth a retry.  Failures of the data itself
 * (corrupt, unsupported, not found, invalid) are permanent.  All others may pass, and a sample is
 * retried until the deadline. */
bool sluice_retry_is_worth(sluice_status status);

#endif
