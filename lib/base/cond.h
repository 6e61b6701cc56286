#ifndef SLUICE_BASE_COND_H
#define SLUICE_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Condition variables with deadlines on the monotonic clock (sluice_clock_ns()), which a change of
 * the system's time does not move.  Threads: as for any pthread_cond_t. */

/* Destroy it with pthread_cond_destroy(). */
void sluice_cond_init(pthread_cond_t *cond);

/* False: the deadline `until_ns` has passed.  True: woken before, perhaps spuriously as with
 * pthread_cond_wait(): test the condition again.  UINT64_MAX: no deadline. */
bool sluice_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

#endif
