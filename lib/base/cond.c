#include "base/cond.h"

#include "base/clock.h"

#include <errno.h>
#include <time.h>

void sluice_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool sluice_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX)
        return pthread_cond_wait(cond, lock) == 0;
    const struct timespec until = sluice_clock_timespec(until_ns);
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}
