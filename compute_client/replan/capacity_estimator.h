#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_CAPACITY_ESTIMATOR_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_CAPACITY_ESTIMATOR_H

#include "compute_client/loader/choose/chooser.h"
#include "compute_client/loader/tuning.h"
#include "plan/resource.h"
#include "plan/transport_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Estimates what the disk, the link, the cores of both nodes and the trainer can do from what they
 * did: bottleneck detection by waiting times, then an EWMA.
 *
 * A resource shows its capacity only while somebody waits for it.  Each row says when it waited for
 * which:
 *
 *     requested - storage queue - work - link - arrived - worker's queue - started
 *                 ^^^^^^^^^^^^^          ^^^^             ^^^^^^^^^^^^^^
 *
 * Where the waits of all rows together cover nearly all of an interval, the resource was the limit,
 * and what it did was its capacity.  Elsewhere what it did is a lower bound.  Nothing probes for
 * more: backpressure (backpressure.h) moves work to whatever has a short queue, and there it shows.
 *
 * - The link's wait is the time away that the storage node does not account for, beyond the link's
 *   latency: the least that any row of the epoch had.  (The link is empty when an epoch begins.)
 * - The storage node says how many cores it has; when that number changes the estimate changes as
 *   much.  While the cores have a price, the price divides them (cpu_share.h), and each client
 *   takes all of them to be there.
 * - The disk's rate is what was read over the time it was busy with it, which the storage node
 *   tells (0 for files in memory), or over the whole interval where it was waited for all of it.
 * - The trainer's rate is its samples over its time between two waits for a batch, less the share
 *   in which its device decoded: the two take turns, as far as anybody can tell, and each of them
 *   counts once, so that steps and decoding never add up to more than the time there was.  Assumed:
 *   decoding is spread evenly, and the trainer waits for its device between two batches.
 * - The CPU time of transport, which rows do not report, counts as done by the cores.
 * - Where both nodes are one machine, its cores are the limit while the machine says that they are
 *   busy and both nodes use a fair part of them.  The CPU time of the rows in that interval is then
 *   the capacity.  A busy CPU delays the network and the workers too, so their estimates stay.
 * - A link of INFINITY, within one machine, stays so.
 *
 * Pure: the times come with the rows.  Threads: one at a time; a plain value. */

/* The estimated rates: bytes a second of files read and of payload, cores, samples a second. */
#define SLUICE_ESTIMATED                                                                           \
    (1u << SLUICE_DISK | 1u << SLUICE_NETWORK | 1u << SLUICE_STORAGE_CPU |                         \
     1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_GPU)

struct sluice_capacity_estimator {
    const struct sluice_tuning *tuning; /* borrowed */
    struct sluice_transport_cost transport;
    bool is_local; /* what comes, comes from this node's disk: no link, no storage cores */
    /* The estimates, INFINITY: never the limit, and what none of them exceeds. */
    double per_s[SLUICE_NUM_RESOURCES], most_per_s[SLUICE_NUM_RESOURCES];
    double heard_cores;                     /* of the storage node; 0: never */
    double read_bytes, read_s;              /* of files, of late; and the time they took */
    double shared_cores, most_shared_cores; /* of both nodes on one machine; 0: there are two */
    uint64_t latency_ns;                    /* UINT64_MAX: not seen in this epoch */
    uint64_t last_ns[SLUICE_NUM_RESOURCES]; /* where the next interval begins, for each */
};

/* Observations of one interval.  It ends with its last row, not when somebody looked. */
struct sluice_interval {
    double seconds; /* until the last row arrived; 0: nothing was seen */
    size_t num_rows;
    double used_per_s[SLUICE_NUM_RESOURCES];
    double waited[SLUICE_NUM_RESOURCES]; /* share of the time that something waited for it */
    double read_bytes, read_s;
    double storage_cores, storage_price; /* as the last row heard them; 0: not said */
    double shared_used; /* cores of one machine that both nodes and receiving took */
    double shared_busy; /* share of those cores that was busy, by whomever; < 0: not known */
};

/* The trainer's work: the samples that it took, its time without waiting for them, and that wait;
 * and what its device decoded meanwhile. */
struct sluice_trainer_seen {
    uint64_t samples;
    uint64_t busy_ns, waited_ns;
    uint64_t decoded; /* samples */
    double decode_s;
    double shared_busy; /* of a machine that is both nodes: the share of its cores that was busy */
};

/* Scratch for one row. */
struct sluice_wait_span {
    uint64_t from_ns, to_ns;
};

struct sluice_capacity_estimator
sluice_capacity_estimator_init(const struct sluice_rates *believed, const struct sluice_rates *most,
                               const struct sluice_transport_cost *transport,
                               const struct sluice_tuning *tuning);

/* An epoch begins: so does the next interval, and the link is empty. */
void sluice_capacity_estimator_begin(struct sluice_capacity_estimator *estimator, uint64_t now_ns);

/* Observations by the rows that are done since the last call, in any order; `spans` has room for as
 * many. */
struct sluice_interval sluice_capacity_estimator_see(struct sluice_capacity_estimator *estimator,
                                                     const struct sluice_row_seen *rows,
                                                     size_t num_rows,
                                                     const struct sluice_trainer_seen *trainer,
                                                     struct sluice_wait_span *spans);

/* Moves the estimates by what was seen. */
void sluice_capacity_estimator_learn(struct sluice_capacity_estimator *estimator,
                                     const struct sluice_interval *interval);

/* The trainer's work after the last interval of an epoch: `part`, 0 to 1, of its time in that. */
void sluice_capacity_estimator_learn_trainer(struct sluice_capacity_estimator *estimator,
                                             const struct sluice_trainer_seen *rest, double part);

struct sluice_rates
sluice_capacity_estimator_rates(const struct sluice_capacity_estimator *estimator);

#endif
