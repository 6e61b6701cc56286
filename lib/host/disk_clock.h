#ifndef SLUICE_HOST_DISK_CLOCK_H
#define SLUICE_HOST_DISK_CLOCK_H

#include <pthread.h>
#include <stdint.h>

/* Processor sharing of the disk's busy time among concurrent reads.
 *
 * The disk is busy while at least one read waits for it.  At each moment the reads under way share
 * the busy time equally, so the shares of all reads add up to the busy time.  Summed over an epoch
 * they say how long the disk needs for the epoch at this concurrency; the reads' own times do not,
 * because they overlap.  A read came from the page cache if its thread did not sleep meanwhile: it
 * costs nothing, however long the thread waited for a CPU.
 *
 * Threads: any; a read starts and stops on the same thread.  Cannot fail. */

struct sluice_disk_clock {
    pthread_mutex_t lock;
    unsigned num_reads; /* under way */
    uint64_t at_ns;     /* part_ns is up to date as of this moment */
    double part_ns;     /* share of a read that had been under way since the clock was made */
};

#define SLUICE_DISK_CLOCK_INITIALIZER                                                              \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

struct sluice_disk_read {
    uint64_t start_ns;
    double part_ns;
    long sleeps;
};

/* Both are 0 for a read from the page cache. */
struct sluice_disk_time {
    uint64_t wait_ns; /* from its start to its stop */
    uint64_t busy_ns; /* its share of the disk's busy time */
};

void sluice_disk_clock_start(struct sluice_disk_clock *clock, struct sluice_disk_read *read);
struct sluice_disk_time sluice_disk_clock_stop(struct sluice_disk_clock *clock,
                                               const struct sluice_disk_read *read);

#endif
