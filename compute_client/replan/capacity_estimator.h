#ifndef SLUICE_COMPUTE_CLIENT_REPLAN_CAPACITY_ESTIMATOR_H
#define SLUICE_COMPUTE_CLIENT_REPLAN_CAPACITY_ESTIMATOR_H

#include "compute_client/loader/choose/chooser.h"
#include "compute_client/loader/tuning.h"
#include "plan/resource.h"
#include "plan/transport_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Estimates the capacity of the disk, the link, the cores of both nodes and the trainer from their
 * observed rates: bottleneck detection by waiting times, then an EWMA.
 *
 * A resource shows its capacity only while items wait for it.  Each row has the times at which it
 * waited for each resource:
 *
 *     requested - storage queue - work - link - arrived - worker's queue - started
 *                 ^^^^^^^^^^^^^          ^^^^             ^^^^^^^^^^^^^^
 *
 * If the waits of all rows together cover nearly all of an interval, the resource was the
 * bottleneck, and its rate was its capacity.  Else its rate is a lower bound of its capacity.
 * Nothing probes for more: backpressure (backpressure.h) moves work to resources with short queues,
 * and then their capacity shows.
 *
 * - The wait for the link is the time between request and arrival that the storage node does not
 *   account for, less the link's latency: the least such time of any row of the epoch.  (The link
 *   is empty when an epoch begins.)
 * - The storage node reports its number of cores; when the number changes, the estimate changes by
 *   the same factor.  While the cores have a price, the price divides them among clients
 *   (cpu_share.h), and each client's estimate is all of them.
 * - The disk's rate is the bytes read over its busy time, which the storage node reports (0 for
 *   files in memory), or over the whole interval if items waited for the disk throughout.
 * - The trainer's rate is its samples over its time between two waits for a batch, less the share
 *   in which its device decoded.  Training steps and decoding are assumed to take turns, so that
 *   their times never add up to more than the measured time.  Assumed, too: decoding is spread
 *   evenly, and the trainer waits for its device between two batches.
 * - The CPU time of transport, which rows do not report, counts as done by the cores.
 * - If both nodes are one machine, its cores are the bottleneck while the machine reports that they
 *   are busy and both nodes use a fair part of them.  The CPU time of the rows in that interval is
 *   then the capacity.  A busy CPU delays the network and the workers too, so their estimates stay.
 * - A link of INFINITY, within one machine, keeps this rate.
 *
 * Pure: the times come with the rows.  Threads: one at a time; a plain value. */

/* The resources with an estimate: bytes/s of files read and of payload, cores, samples/s. */
#define SLUICE_ESTIMATED                                                                           \
    (1u << SLUICE_DISK | 1u << SLUICE_NETWORK | 1u << SLUICE_STORAGE_CPU |                         \
     1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_GPU)

struct sluice_capacity_estimator {
    const struct sluice_tuning *tuning; /* borrowed */
    struct sluice_transport_cost transport;
    bool is_local; /* samples are read from this node's disk, without a link and storage cores */
    /* The estimates (INFINITY: never the limit), and their upper bounds. */
    double per_s[SLUICE_NUM_RESOURCES], most_per_s[SLUICE_NUM_RESOURCES];
    double heard_cores;                     /* that the storage node reported; 0: none yet */
    double read_bytes, read_s;              /* EWMA of the bytes of files read, and of their time */
    double shared_cores, most_shared_cores; /* of both nodes on one machine; 0: there are two */
    uint64_t latency_ns;                    /* UINT64_MAX: not seen in this epoch */
    uint64_t last_ns[SLUICE_NUM_RESOURCES]; /* where the next interval begins, for each */
};

/* Observations of one interval, which ends with its last row, not with the call. */
struct sluice_interval {
    double seconds; /* until the last row arrived; 0: nothing was seen */
    size_t num_rows;
    double used_per_s[SLUICE_NUM_RESOURCES];
    double waited[SLUICE_NUM_RESOURCES]; /* share of the time in which an item waited for it */
    double read_bytes, read_s;
    double storage_cores, storage_price; /* of the last row; 0: unknown */
    double shared_used; /* cores of one machine that both nodes and receiving took */
    double shared_busy; /* share of those cores that was busy with any process; < 0: unknown */
};

/* The trainer's work: the samples that it took, its time without waits and its waits for them, and
 * the work of its device as a decoder in that time. */
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

/* Begins an epoch, and with it an interval; the link is empty. */
void sluice_capacity_estimator_begin(struct sluice_capacity_estimator *estimator, uint64_t now_ns);

/* Observations from the rows that were done since the last call, in any order; `spans` has room for
 * num_rows. */
struct sluice_interval sluice_capacity_estimator_see(struct sluice_capacity_estimator *estimator,
                                                     const struct sluice_row_seen *rows,
                                                     size_t num_rows,
                                                     const struct sluice_trainer_seen *trainer,
                                                     struct sluice_wait_span *spans);

/* Updates the estimates. */
void sluice_capacity_estimator_learn(struct sluice_capacity_estimator *estimator,
                                     const struct sluice_interval *interval);

/* Updates the trainer's rate with its work after the last interval of an epoch; `part`, 0 to 1, is
 * the share of its time in the epoch. */
void sluice_capacity_estimator_learn_trainer(struct sluice_capacity_estimator *estimator,
                                             const struct sluice_trainer_seen *rest, double part);

struct sluice_rates
sluice_capacity_estimator_rates(const struct sluice_capacity_estimator *estimator);

#endif
