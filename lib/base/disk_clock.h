#ifndef SLUICE_BASE_DISK_CLOCK_H
#define SLUICE_BASE_DISK_CLOCK_H

#include <pthread.h>
#include <stdint.h>

/* What reads cost the disk, when several run at once and some need no disk.
 *
 * A disk is busy while any read waits for it.  Of that time every read that is under way has an
 * equal part, so the parts add up to it: summed over an epoch they say how long the disk needs for
 * the epoch with as many reads at once, which neither the reads' own times do (they overlap) nor
 * their number alone.  A read during which its thread never slept came from memory and costs
 * nothing, however long its thread waited for a CPU.
 *
 * Threads: any; a read starts and stops on one.  Cannot fail. */

struct sluice_disk_clock {
    pthread_mutex_t lock;
    unsigned num_reads; /* under way */
    uint64_t at_ns;     /* up to which part_ns stands */
    double part_ns;     /* of one that has been under way all the time */
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

/* Both 0 for a read that came from memory. */
struct sluice_disk_time {
    uint64_t wait_ns; /* from its start to its stop */
    uint64_t busy_ns; /* its part of the disk's busy time */
};

void sluice_disk_clock_start(struct sluice_disk_clock *clock, struct sluice_disk_read *read);
struct sluice_disk_time sluice_disk_clock_stop(struct sluice_disk_clock *clock,
                                               const struct sluice_disk_read *read);

#endif
