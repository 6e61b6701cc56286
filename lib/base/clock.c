#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>

/* CPU time of other processes on behalf of this thread, and of all.  Relaxed: a sum. */
static _Thread_local uint64_t added_ns;
static atomic_uint_fast64_t all_added_ns;

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t sluice_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t sluice_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID) + added_ns;
}

uint64_t sluice_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID) +
           atomic_load_explicit(&all_added_ns, memory_order_relaxed);
}

void sluice_clock_add_cpu_ns(uint64_t ns)
{
    added_ns += ns;
    atomic_fetch_add_explicit(&all_added_ns, ns, memory_order_relaxed);
}

struct timespec sluice_clock_timespec(uint64_t ns)
{
    return (struct timespec){
        .tv_sec = (time_t)(ns / 1000000000u),
        .tv_nsec = (long)(ns % 1000000000u),
    };
}

void sluice_clock_sleep_until(uint64_t ns)
{
    const struct timespec until = sluice_clock_timespec(ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}
