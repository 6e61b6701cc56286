#ifndef SLUICE_COMPUTE_CLIENT_LOADER_TUNING_H
#define SLUICE_COMPUTE_CLIENT_LOADER_TUNING_H

#include <stddef.h>

/* The tuned constants of the client: of the running plan (compute_client/replan) and of the
 * prefetch depth.  docs/results/controller.md shows the effect of half and twice each value, in
 * simulated time (bench_controller --sweep).  The comment at a constant says why it exists and
 * where its value comes from.
 *
 * Threads: constant data. */

struct sluice_tuning {
    /* --- intervals --- */

    /* Length of an interval, in seconds; the plan is updated at the end of each.  Long enough that
     * the measured rate of a link or a core is not noise; short enough that a change costs little
     * before the plan reacts. */
    double interval_s;
    /* Rows that an interval needs.  With fewer it is extended, up to max_intervals times
     * interval_s. */
    double min_rows, max_intervals;

    /* --- capacity_estimator --- */

    /* Weight of the last interval in every running mean (EWMA). */
    double ewma_weight;
    /* Largest factor by which one interval changes an estimate, so that a single outlier has little
     * effect. */
    double max_factor;
    /* Seconds of each wait that are not counted: scheduling of threads and batching of messages. */
    double wait_margin_s;
    /* A resource counts as a bottleneck, and its rate as its capacity, if somebody waited for it
     * for this share of the interval. */
    double limited_share;
    /* Growth of a capacity estimate in an interval in which the resource ran close to the estimate
     * and nobody waited for it. */
    double growth;
    /* An interval of disk_rows rows would replace the older estimate of the disk entirely, but the
     * older estimate keeps at least the weight disk_kept. */
    double disk_rows, disk_kept;
    /* Bytes per second above which a disk is not a bottleneck but memory: ten times the fastest
     * drives of today. */
    double memory_bytes_per_s;

    /* --- cost_correction --- */

    /* A correction is a mean over correction_rows rows, or over 1 / (1 - correction_kept) intervals
     * if they have more rows. */
    double correction_rows, correction_kept;
    /* Rows that a choice needs before its own correction counts as much as its resource's. */
    double prior_rows;
    /* A row's measured cost counts at most this many times the model's. */
    double max_row_factor;
    /* Seconds of CPU time below which a row is not used: the cost of reading the clock would weigh
     * more than the work. */
    double least_work_s;

    /* --- controller --- */

    /* Samples in the LP: of the first solution of an epoch, and of later ones. */
    double first_samples, samples;
    /* The LP is solved again if an estimate changed by this factor - 1. */
    double solve_change;
    /* Share of the sum of the duals above which a resource counts as a bottleneck. */
    double limit_dual;
    /* An external cost of each resource, in seconds per second of its use, added while storage CPU
     * has a price.  So the LP takes the plan that uses least among equally fast ones. */
    double thrift;

    /* --- backpressure --- */

    /* Backpressure multiplies a resource's dual by exp(gain_per_s * seconds by which its queue is
     * longer than the mean queue). */
    double gain_per_s;

    /* --- bounds on the items under way --- */

    /* Seconds of work queued for the link, if the link is a bottleneck and if it is not.  Short,
     * because items that were requested under old duals still have to pass a link that has become
     * slower. */
    double ahead_s, free_link_ahead_s;
    /* Seconds of work that may wait on this node in addition. */
    double here_s;
    /* The time that an item spends at the disk and at workers counts up to this many seconds. */
    double max_in_hand_s;

    /* --- cpu_share --- */

    /* Speed, 1/s, at which a client's share of the storage cores follows the CPU price, and the
     * largest change of the share's logarithm in one interval. */
    double follow_per_s, max_share_step;
    /* Least share of the cores: a share of 0 could not grow, because its steps are factors. */
    double least_share;

    /* --- prefetch_depth --- */

    /* Seconds of the trainer's work that are prefetched; time constant of the mean of its rate. */
    double prefetch_s, prefetch_memory_s;
};

const struct sluice_tuning *sluice_tuning_default(void);

/* Names of the fields in their order, for sweeps and debug output; NULL past the last. */
const char *sluice_tuning_name(size_t index);
double *sluice_tuning_field(struct sluice_tuning *tuning, size_t index);

/* --- patience: of the sources over servers, the local source and the client's calls ---
 *
 * Chosen by reasoning, not swept: the simulator has no failures.  "Half" and "twice" say what half
 * and twice the value do. */

/* Checks for overdue samples within one --sample-timeout.  A late sample is given up at most a
 * tenth of the timeout late, and arriving samples need not wake the thread that checks.  Half: a
 * fifth; twice: more wake-ups. */
#define TUNING_LOOKS_IN_TIMEOUT 10

/* bytes/s: 1 Mbit/s, the slowest link on which --sample-timeout keeps its meaning, because parts of
 * a message are not seen before its end.  Half: a silence is noticed later where messages are
 * large; twice: slower links need a longer timeout. */
#define TUNING_SLOWEST_LINK_BYTES_PER_S 125000

/* ns between two lines of the log: about retried samples or an outage whose cause has changed
 * (AGAIN), and about a silence (QUIET).  Often enough that a person who watches sees that the run
 * is alive.  Half: more lines; twice: fewer. */
#define TUNING_TELL_AGAIN_NS 5000000000ull
#define TUNING_TELL_QUIET_NS 10000000000ull

/* Token bucket for the log lines of outages of a link that flaps: one outage in OUTAGE_NS ns, in
 * bursts of OUTAGES_AT_ONCE at most.  Outages that matter are all logged; the log of a night has
 * some thousand lines at most.  Half: twice as many lines; twice: an outage that follows others is
 * logged later. */
#define TUNING_TELL_OUTAGE_NS 10000000000ull
#define TUNING_OUTAGES_AT_ONCE 4

/* bytes/s: a link within one machine that the probe finds faster than this is memory, and never the
 * bottleneck: waits for it are waits for a core or for the receiving thread.  Only a --link-limit
 * makes such a link slower.  Half: a --link-limit of 4 to 8 Gbit/s is not seen there; twice: a slow
 * machine's memory is taken for a link. */
#define TUNING_LOOPBACK_BYTES_PER_S 1e9

/* Least part of the cores that both nodes share which the nodes must have used for busy cores to be
 * their bottleneck.  If they used less, other programs keep the cores busy, and a fair scheduler
 * would give both nodes more if they asked for it.  Half: next to a program that takes most of the
 * cores, a slow link is noticed late; twice: next to one that takes half of them, a busy CPU is
 * taken for a slow link. */
#define TUNING_LEAST_SHARED_PART 0.25

/* A new plan gets a line in the log, not only in the debug log, if another resource limits it or
 * at least SHARE of the samples change their choice, and the last such line is PLAN_NS ns old: the
 * changes that a person who watches wants to see.  Half: more lines; twice: fewer. */
#define TUNING_TELL_PLAN_SHARE 0.1
#define TUNING_TELL_PLAN_NS 5000000000ull

/* Least share of a device's time that counts as the trainer's while the device decodes all the
 * time: a share of decoding above nine tenths cannot be told apart from the whole.  By reasoning,
 * not swept.  Half: a trainer next to much decoding counts as up to 20 times as fast as its batches
 * came; twice: 5 times. */
#define TUNING_LEAST_TRAINER_SHARE 0.1

/* A trainer's first batches that are not used for its rate, because its device loads kernels then.
 * AlexNet's first batch in CUDA took 387 ms, and the next ones 8 ms.  From that, not swept.  0: the
 * plan assumes a slow trainer for the first 2 s; 2: the rate is known one batch later. */
#define TUNING_WARM_UP_BATCHES 1

/* --- memory of batches --- */

/* Blocks in addition to the prefetcher's that are kept when they are returned: a trainer works with
 * one batch while the next is uploaded, and holds a third for a moment.  A trainer that releases k
 * batches at once, again and again, allocates k - 1 - SPARE_BATCHES blocks each time.  Allocations
 * in 125 batches: for k = 3 2 (half: 42, twice: 2), for 4 33 (63, 3), for 8 79 (94, 49).  Twice:
 * two batches more stay in memory. */
#define TUNING_SPARE_BATCHES 2

/* --- the GPU (gpu/place.h) --- */

/* MCUs between two restart markers of a JPEG crop.  One thread of the device decodes the segment
 * between two markers, and the longest segment of a batch decides its time.  256 crops of ImageNet
 * photographs on an H200: 187,000 images/s, for 0.9 % more bytes than with one marker for each row
 * of some 30 MCUs, which gives 125,000.  Half: 197,000 for 1.9 %, and 23 us of a core to put an
 * image into a batch instead of 17; twice: 157,000, 0.3 %. */
#define TUNING_GPU_RESTART 8

/* Batches that are made at once: one is uploaded while the device decodes others.  Each takes 1.3
 * GB of the device's memory for batches of 256.  Measured on an H200 with local files with an
 * index, two runs with 16 workers: 96,000 and 98,000 images/s with 2 lanes, 123,000 and 134,000
 * with 3, 123,000 and 124,000 with 5. */
#define TUNING_GPU_LANES 3

/* Batches whose files workers prepare in page-locked memory, in addition to those that are being
 * made.  Files that arrive while no staging buffer is free are copied by a lane, 6 us for 56 kB.
 * Samples arrive nearly in order, so two batches gather at once.  Half: the first samples of each
 * batch are copied; twice: 70 MB more page-locked memory for batches of 256. */
#define TUNING_GPU_STAGINGS 2

/* Batches on the device in addition to those that are being made: one that is ready, and those that
 * the trainer holds.  They take memory for their rows alone, 38 MB for batches of 256.  Half: a
 * trainer that holds three batches gets no further one; twice: 150 MB more of the device's memory.
 */
#define TUNING_GPU_READY 4

#endif
