#ifndef SLUICE_BASE_COND_H
#define SLUICE_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Waiting with a deadline of sluice_clock_ns(), which changes of the system's time do not move.
 * Threads: as pthread_cond_t, which it is but for its clock. */

/* pthread_cond_destroy() ends it. */
void sluice_cond_init(pthread_cond_t *cond);

/* False: it has become `until_ns`.  True: something changed before, or nothing did, as with
 * pthread_cond_wait(), so whoever waits looks again.  UINT64_MAX: there is no deadline. */
bool sluice_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

#endif
