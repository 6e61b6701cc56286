#ifndef SLUICE_COMPUTE_CLIENT_LOAD_TUNING_H
#define SLUICE_COMPUTE_CLIENT_LOAD_TUNING_H

#include <stddef.h>

/* The tuned constants of the client: of the running plan (compute_client/replan) and of how far it
 * reads ahead.  docs/results/controller.md shows what half and twice of each do, in simulated time
 * (bench_controller --sweep); what stands beside a constant is why it is there and where its value
 * comes from.
 *
 * Threads: a value. */

struct sluice_tuning {
    /* --- when the plan is looked at --- */

    /* Seconds between two intervals.  Long enough that what a link or a core did in it is no
     * accident; short enough that a change costs little before it is seen. */
    double interval_s;
    /* Rows that an interval needs; with fewer it goes on, up to 8 intervals. */
    double min_rows;

    /* --- capacity_estimator --- */

    /* Weight of the last interval in every running mean (EWMA). */
    double ewma_weight;
    /* Largest factor by which one interval moves an estimate.  A single odd interval must not carry
     * it away. */
    double max_factor;
    /* Seconds of a wait that do not count: scheduling of threads and batching of messages. */
    double wait_margin_s;
    /* Share of an interval for which somebody must wait for a resource before that is taken to be
     * the limit, and what it did to be its capacity. */
    double limited_share;
    /* Growth of an estimate in an interval in which a resource did nearly all that it is taken to
     * do, and nobody waited for it. */
    double growth;
    /* Rows, and share at least, of what was seen of the disk that an interval replaces. */
    double disk_rows, disk_kept;

    /* --- cost_correction --- */

    /* Rows over which a correction is a mean; or 1 / (1 - kept) intervals where those have more. */
    double correction_rows, correction_kept;
    /* Rows that a choice needs before its own correction counts as much as its resource's. */
    double prior_rows;
    /* The most that one row counts for, over what the model says. */
    double max_row_factor;
    /* Seconds of CPU time below which the reading of a clock would be corrected, not the work. */
    double least_work_s;

    /* --- controller --- */

    /* Samples over which the LP finds the first prices of an epoch, and later ones. */
    double first_samples, samples;
    /* Factor - 1 by which an estimate must move for prices to be found anew. */
    double solve_change;
    /* Share of the duals above which a resource is a limit. */
    double limit_dual;
    /* A cost of each resource beside its dual, in seconds of a second, where storage CPU has a
     * price: of plans that are as fast, the one that leaves most of everything. */
    double thrift;

    /* --- backpressure --- */

    /* Change of a resource's price, as a logarithm, for each second that its queue is longer than
     * the others'. */
    double gain_per_s;

    /* --- what may be under way --- */

    /* Seconds of work before a link that is the limit, and before one that is not.  What was asked
     * for at old prices has to come through a link that thins. */
    double ahead_s, free_link_ahead_s;
    /* Seconds of work that may wait on this node beside that. */
    double here_s;
    /* Most seconds that an item counts for in the hands of disk and workers. */
    double max_in_hand_s;

    /* --- cpu_share --- */

    /* Speed, 1/s, at which a client's share of the storage cores follows their price, and the most
     * that it moves in one interval, as a logarithm. */
    double follow_per_s, max_share_step;
    /* Least share of the cores; from nothing no step leads anywhere. */
    double least_share;

    /* --- prefetch_depth --- */

    /* Seconds of the trainer's work that are read ahead, and over which its rate is a mean. */
    double prefetch_s, prefetch_memory_s;
};

const struct sluice_tuning *sluice_tuning_default(void);

/* Names of the fields in their order, for sweeps and debug output; NULL past the last. */
const char *sluice_tuning_name(size_t index);
double *sluice_tuning_field(struct sluice_tuning *tuning, size_t index);

#endif
