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
    /* When a GPU has made the batch; without a GPU done_ns. */
    uint64_t made_ns;
    /* How long a lane of the GPU had the batch, and the part of this that it waited for the GPU. */
    uint64_t lane_ns, gpu_ns;
    uint64_t backlog_ns; /* wait behind other samples, before the storage node queued this one */
    uint64_t disk_ns;    /* wait for the disk */
    uint64_t storage_ns; /* wait for a worker of the storage node, and its work */
    uint64_t queue_ns;   /* the wait for a worker, a part of storage_ns */
    bool is_local;       /* the sample is a file of this machine */
};

/* Attributes the wait [from, to) for a sample to the resources that the sample waited for:
 *
 *     requested -- storage -- disk -- network -- arrived -- compute CPU -- done -- GPU -- made
 *
 * - `network` is the rest of the time between request and arrival.  For a local sample that rest is
 *   compute CPU: opening the file and copying from the page cache, or waiting for the thread that
 *   does so.
 * - The wait for a worker is divided between disk and storage CPU in the proportion of this
 *   sample's own time with the worker, because workers both read files and run ops.
 * - The backlog is divided between storage CPU, disk and network in the proportion of the rest of
 *   the time between request and arrival: the samples ahead waited for the same resources.
 * - The time from done to made, including the wait for a lane, is divided between compute CPU,
 *   which assembles the batch, and the GPU in the proportion of the lane's time with this batch.
 * - The part of the wait outside [requested, made) counts for the resource on which the sample
 *   spent the most time: prefetched samples before it waited for that resource, too.
 *
 * Adds to ns[]; the sum of what it adds is to - from. */
void sluice_stall_attribute(const struct sluice_sample_times *times, uint64_t from, uint64_t to,
                            uint64_t ns[SLUICE_NUM_RESOURCES]);

#endif
