#ifndef SLUICE_COMPUTE_CLIENT_LOADER_TUNING_H
#define SLUICE_COMPUTE_CLIENT_LOADER_TUNING_H

#include <stddef.h>

/* The tuned constants of the client: of the running plan (compute_client/replan) and of the
 * prefetch depth.  docs/results/controller.md shows the effect of half and twice each value, in
 * simulated time (bench_controller --sweep).  The comment at a constant says why it exists and
 * where its value comes from.
 *
 * Threads: a value. */

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
    /* An interval of this many rows would replace all that older intervals saw of the disk; but it
     * keeps at least this share of that. */
    double disk_rows, disk_kept;
    /* Bytes per second above which a disk is not a bottleneck but memory: ten times the fastest
     * drives of today. */
    double memory_bytes_per_s;

    /* --- cost_correction --- */

    /* Rows over which a correction is a mean; or 1 / (1 - kept) intervals where those have more. */
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
     * has a price.  Of several plans that are equally fast the LP then takes the one that uses
     * least. */
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
    /* Least share of the cores: a share of 0 could not grow, as its steps are factors. */
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

/* Looks at what is overdue within one --sample-timeout: what is late is given up by a tenth of the
 * timeout late at most, and what arrives need not wake who looks.  Half: a fifth; twice: more
 * wake-ups. */
#define TUNING_LOOKS_IN_TIMEOUT 10

/* bytes/s: 1 Mbit/s, the slowest link on which --sample-timeout keeps its meaning, as what comes of
 * a message before its end is not seen.  Half: a silence is noticed later where messages are large;
 * twice: slower links need a longer timeout. */
#define TUNING_SLOWEST_LINK_BYTES_PER_S 125000

/* ns between two lines of the log: of samples that are asked for again, of an outage whose cause
 * has changed (AGAIN), and of a silence.  Often enough that a person who watches does not take the
 * run for dead.  Half: more lines; twice: fewer.
 */
#define TUNING_TELL_AGAIN_NS 5000000000ull
#define TUNING_TELL_QUIET_NS 10000000000ull

/* ns: a link that flaps is told of once in this time, in the long run, and so many times at once
 * before.  A person who reads both lines of an outage misses none that matters; the log of a night
 * has some thousand lines at most.  Half: twice as many lines; twice: an outage that follows others
 * is told of later. */
#define TUNING_TELL_OUTAGE_NS 10000000000ull
#define TUNING_OUTAGES_AT_ONCE 4

/* bytes/s: a link within one machine that the probe finds faster is memory, and never the limit:
 * what waits for it waits for a core or for the receiving thread.  Only a --link-limit makes one
 * slower.  Half: a --link-limit of 4 to 8 Gbit/s there is not seen; twice: a slow machine's memory
 * is taken for a link. */
#define TUNING_LOOPBACK_BYTES_PER_S 1e9

/* Of the cores that both nodes share, they have used at least this part where busy cores are what
 * limits them.  With less, other programs keep the cores busy, and a fair scheduler would give both
 * nodes more if they asked for it.  Half: beside a program that takes most of the cores a slow link
 * is noticed late; twice: beside one that takes half of them, a busy CPU is taken for a slow link.
 */
#define TUNING_LEAST_SHARED_PART 0.25

/* A new plan is told of, beside the debug log, if another resource limits it or this share of the
 * samples goes another way, and so many ns after the last line at the earliest: what a person who
 * watches wants to know of.  Half: more lines; twice: fewer. */
#define TUNING_TELL_PLAN_SHARE 0.1
#define TUNING_TELL_PLAN_NS 5000000000ull

/* Of a device that decodes all the time, the share of it that still counts as the trainer's: more
 * than nine tenths of decoding cannot be told apart from all of it.  By reasoning, not swept. Half:
 * a trainer beside much decoding counts as up to 20 times as fast as its batches came; twice: 5
 * times.
 */
#define TUNING_LEAST_TRAINER_SHARE 0.1

/* Batches of a trainer, the first of all, whose time says nothing of its rate: its device loads its
 * kernels then.  One took 387 ms of AlexNet's in CUDA, and the next ones 8 ms.  By that, not swept.
 * 0: the plan believes in a slow trainer for the first 2 s; 2: it knows the rate a batch later. */
#define TUNING_WARM_UP_BATCHES 1

/* --- memory of batches --- */

/* Blocks beyond the prefetcher's own that stay when they are returned: a trainer works with one
 * batch while the next is uploaded, and holds a third for a moment.  One that lets go of k batches
 * at once, again and again, allocates k - 1 less this many blocks each time.  Counted over 125
 * batches: for k = 3 2 allocations (half: 42, twice: 2), for 4 33 (63, 3), for 8 79 (94, 49).
 * Twice: two batches more stay in memory. */
#define TUNING_SPARE_BATCHES 2

/* --- the GPU (gpu/place.h) --- */

/* MCUs from one restart marker of a cut file to the next.  One thread of the device decodes what is
 * between two, and the longest segment of a batch decides.  256 crops of ImageNet photographs on an
 * H200: 187,000 images/s for 0.9 % more bytes than one marker a row of MCUs, some 30, takes, which
 * gives 125,000.  Half: 197,000 for 1.9 %, and 23 us of a core to put an image into a batch, not
 * 17; twice: 157,000, 0.3 %. */
#define TUNING_GPU_RESTART 8

/* Batches that are made at once: one is uploaded while the device decodes others.  Each takes 1.3
 * GB of the device's memory for batches of 256.  By an H200 and local files with an index, two
 * rounds with 16 workers: 96,000 and 98,000 images/s with 2 lanes, 123,000 and 134,000 with 3,
 * 123,000 and 124,000 with 5. */
#define TUNING_GPU_LANES 3

/* Batches whose files workers prepare in page-locked memory, beside those that are made: what comes
 * of a batch when none is free is copied by a lane, 6 us for 56 kB.  Samples arrive nearly in
 * order, so two batches gather at once.  Half: the first samples of each batch are copied; twice:
 * 70 MB more page-locked memory for batches of 256. */
#define TUNING_GPU_STAGINGS 2

/* Batches on the device beside those that are made: one that is ready, and the trainer's, who may
 * hold a few.  Their rows alone, 38 MB for batches of 256.  Half: who holds three has no memory for
 * the next; twice: 150 MB more of the device's memory. */
#define TUNING_GPU_READY 4

#endif
