#ifndef SLUICE_COMPUTE_CLIENT_LOAD_STALL_H
#define SLUICE_COMPUTE_CLIENT_LOAD_STALL_H

#include "plan/resource.h"

#include <stdint.h>

/* Why a trainer had to wait.
 *
 * Threads: pure functions. */

/* What a trainer can have waited for; the GPU stands for the trainer itself, on whatever device. */
#define SLUICE_STALLS                                                                              \
    (1u << SLUICE_DISK | 1u << SLUICE_STORAGE_CPU | 1u << SLUICE_NETWORK |                         \
     1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_GPU)
/* "disk", "storage_cpu", "network", "compute_cpu", "trainer". */
const char *sluice_stall_name(enum sluice_resource resource);

/* The largest; of equals the first. */
enum sluice_resource sluice_stall_largest(const uint64_t ns[SLUICE_NUM_RESOURCES]);

/* What became of a sample when.  What a machine far away says of its own part is taken up to what
 * fits between request and arrival. */
struct sluice_sample_times {
    uint64_t requested_ns, arrived_ns, done_ns; /* on one clock, in this order */
    uint64_t backlog_ns; /* waited behind other samples, for whatever those waited for */
    uint64_t disk_ns;    /* its file was read */
    uint64_t storage_ns; /* waited for a storage node's worker, and was worked on */
    uint64_t queue_ns;   /* of storage_ns, the wait */
};

/* Puts the wait [from, to) for a sample down to what the sample was waiting for:
 *
 *     requested -- storage -- disk -- network -- arrived -- compute CPU -- done
 *
 * `network` is what is left between request and arrival.  The wait for a worker was for what
 * workers do: read files and work on them, in the proportion in which this sample's did.  The
 * backlog waited for the same things as the sample after it, in the same proportion, and so they
 * are stretched to cover it.  The part
 * of the wait outside [requested, done) goes to where the sample itself spent most: before it was
 * asked for, the read-ahead was full of others in the same state.  Adds to ns[], in sum to - from.
 */
void sluice_stall_attribute(const struct sluice_sample_times *times, uint64_t from, uint64_t to,
                            uint64_t ns[SLUICE_NUM_RESOURCES]);

#endif
