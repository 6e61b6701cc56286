#ifndef SLUICE_COMPUTE_CLIENT_LOADER_BATCH_LIVE_H
#define SLUICE_COMPUTE_CLIENT_LOADER_BATCH_LIVE_H

#include "op/form_words.h"
#include "op/pipeline.h"
#include "plan/resource.h"

#include <stdatomic.h>
#include <stdint.h>

/* Live counters of a run for its observers: the line on a terminal and the metrics page.
 * Counters only grow, from the program's start, over all epochs and both subsets.
 *
 * Prefetcher, fetcher, client and the loop over batches write them, unless their options have NULL.
 * Relaxed atomics: each value is independent of the others and publishes no other data.
 *
 * Threads: any; reading takes no lock and waits for nobody. */

struct sluice_live {
    /* Counters. */
    _Atomic uint64_t samples;                   /* handed to the trainer */
    _Atomic uint64_t batches;                   /* that the trainer has finished */
    _Atomic uint64_t errors;                    /* samples that failed, in delivered batches */
    _Atomic uint64_t failed[SLUICE_NUM_STATUS]; /* the same by status */
    _Atomic uint64_t rows; /* samples that are ready, or failed: ahead of `samples` */
    _Atomic uint64_t
        taken; /* those of `rows` in batches that were handed out, skipped or thrown away */
    _Atomic uint64_t wire_bytes; /* of the messages received */
    _Atomic uint64_t choices[SLUICE_PIPELINE_MAX_OPS + 1][SLUICE_MAX_FORMS]; /* what arrived */
    _Atomic uint64_t on_gpu[SLUICE_MAX_FORMS]; /* samples of split 0 that the device decoded */
    /* The trainer's waits for batches, by the resource that they waited for; [SLUICE_GPU]: the
     * time that it did not wait. */
    _Atomic uint64_t stall_ns[SLUICE_NUM_RESOURCES];
    /* Times that the server was lost; with replicas: that a shard had no reachable replica. */
    _Atomic uint64_t outages;
    /* As in fetcher.h's stats, of all fetchers. */
    _Atomic uint64_t lost_streams, repeated, hash_errors;
    /* As in replicas.h's stats. */
    _Atomic uint64_t failed_over, hedged;

    /* States. */
    _Atomic uint64_t waits_since_ns; /* the trainer waits for a batch; 0: it does not */
    _Atomic uint64_t lost_since_ns;  /* the server is lost; 0: it is not */
};

static inline void sluice_live_add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static inline void sluice_live_set(_Atomic uint64_t *state, uint64_t value)
{
    atomic_store_explicit(state, value, memory_order_relaxed);
}

static inline uint64_t sluice_live_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Seconds since a time such as lost_since_ns; 0 while that is 0. */
static inline double sluice_live_seconds_since(uint64_t since_ns, uint64_t now_ns)
{
    return since_ns && now_ns > since_ns ? (double)(now_ns - since_ns) * 1e-9 : 0;
}

#endif
