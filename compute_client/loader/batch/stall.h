#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_STALL_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_STALL_H

#include "plan/resource.h"

#include <stdbool.h>
#include <stdint.h>

/* Stall attribution: which resource a trainer waited for.
 *
 * Threads: pure functions. */

/* The times of one sample.  The durations that the storage node reports are cut to what fits
 * between request and arrival. */
struct sluice_sample_times {
    uint64_t requested_ns, arrived_ns, done_ns; /* on one clock, in this order */
    /* Where a GPU makes the batch, when that is made; else done_ns. */
    uint64_t made_ns;
    /* How long a lane of the GPU had the batch, and for how long of this it waited for the GPU. */
    uint64_t lane_ns, gpu_ns;
    uint64_t backlog_ns; /* waited behind other samples, before the storage node queued it */
    uint64_t disk_ns;    /* waited for the disk */
    uint64_t storage_ns; /* waited for a worker of the storage node, and was worked on */
    uint64_t queue_ns;   /* of storage_ns, the wait for a worker */
    bool is_local;       /* the sample is a file of this machine */
};

/* Attributes the wait [from, to) for a sample to the resources that the sample waited for:
 *
 *     requested -- storage -- disk -- network -- arrived -- compute CPU -- done -- GPU -- made
 *
 * - `network` is the rest of the time between request and arrival.  Of a local sample that is
 *   compute CPU: opening the file and copying what the page cache has, or the wait for the thread
 *   that does so.
 * - The wait for a worker is divided between disk and storage CPU as this sample's own time with
 *   the worker is, since workers read files and work on them.
 * - The backlog is divided between storage CPU, disk and network as the rest of the time between
 *   request and arrival is: the samples ahead in the queue waited for the same resources.
 * - The time from done to made, with the wait for a lane, is divided between compute CPU, which
 *   puts the batch together, and the GPU as the lane's time with this batch is.
 * - The part of the wait outside [requested, made) counts for the resource that the sample spent
 *   the most time on: before it was requested, the prefetched samples waited for that one too.
 *
 * Adds to ns[]; the sum of what it adds is to - from. */
void sluice_stall_attribute(const struct sluice_sample_times *times, uint64_t from, uint64_t to,
                            uint64_t ns[SLUICE_NUM_RESOURCES]);

#endif
