#include "host/disk_clock.h"

#include "base/clock.h"

#include <stdbool.h>
#include <sys/resource.h>

/* Voluntary context switches of this thread: how often it slept. */
static long num_sleeps(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* Brings part_ns up to date.  The lock is held.  Returns the time now. */
static uint64_t advance(struct sluice_disk_clock *clock)
{
    const uint64_t now = sluice_clock_ns();
    if (clock->num_reads > 0)
        clock->part_ns += (double)(now - clock->at_ns) / clock->num_reads;
    clock->at_ns = now;
    return now;
}

void sluice_disk_clock_start(struct sluice_disk_clock *clock, struct sluice_disk_read *read)
{
    pthread_mutex_lock(&clock->lock);
    read->start_ns = advance(clock);
    read->part_ns = clock->part_ns;
    clock->num_reads++;
    pthread_mutex_unlock(&clock->lock);
    read->sleeps = num_sleeps(); /* after the lock, on which it may have slept */
}

struct sluice_disk_time sluice_disk_clock_stop(struct sluice_disk_clock *clock,
                                               const struct sluice_disk_read *read)
{
    const bool has_slept = num_sleeps() > read->sleeps;
    pthread_mutex_lock(&clock->lock);
    const uint64_t now = advance(clock);
    const double part_ns = clock->part_ns - read->part_ns;
    clock->num_reads--;
    pthread_mutex_unlock(&clock->lock);
    if (!has_slept)
        return (struct sluice_disk_time){0};
    return (struct sluice_disk_time){.wait_ns = now - read->start_ns, .busy_ns = (uint64_t)part_ns};
}
