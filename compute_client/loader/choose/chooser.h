#ifndef SLUICE_COMPUTE_CLIENT_LOADER_CHOOSE_CHOOSER_H
#define SLUICE_COMPUTE_CLIENT_LOADER_CHOOSE_CHOOSER_H

#include "base/error.h"
#include "compute_client/loader/order/sampler.h"
#include "plan/choices.h"

#include <stddef.h>
#include <stdint.h>

/* A chooser decides the choice (split and form) of each sample at the moment when the prefetcher
 * requests it, and receives the outcome.  A prefetcher has one chooser for each epoch.
 *
 * Threads: see each function.  None is called with a lock held. */

/* The expected use by an item: CPU seconds of each node, and bytes on the link. */
struct sluice_expected {
    double storage_s, bytes, compute_s;
};

/* How one item is requested. */
struct sluice_ask {
    struct sluice_choice choice;
    /* The prefetcher delays the request while this many items were requested and have not
     * arrived, or are not in their batch.  Low bounds keep the queues short, so that a new plan
     * takes effect soon.  0 counts as 1. */
    uint32_t max_away, max_unfinished;
    double storage_worth; /* source.h */
    struct sluice_expected expected;
    /* The prices of resources that decided the choice (plan/planner_lp.h); borrowed until the next
     * choice; NULL: prices did not decide it. */
    const double *prices;
};

/* The times of one item, from the request to its row in the batch.
 *
 *     requested - backlog - storage queue - disk - work - network - arrived - started - done
 *
 * storage_ns is the storage queue and the work. */
struct sluice_row_seen {
    size_t index; /* in the epoch's items */
    struct sluice_choice asked, got;
    sluice_status status; /* of the row; `got` is valid only with SLUICE_OK */
    size_t payload_bytes;
    uint64_t read_bytes; /* of the file */
    uint64_t requested_ns, arrived_ns;
    uint64_t started_ns, done_ns; /* by a worker; equal if no worker ran it */
    uint64_t backlog_ns;          /* source.h */
    uint64_t storage_ns, storage_queue_ns;
    uint64_t disk_ns, disk_busy_ns;          /* source.h */
    uint64_t storage_cpu_ns, compute_cpu_ns; /* of the work alone */
    double storage_price, storage_cores;     /* source.h */
};

struct sluice_chooser {
    /* Called once per item, in the order of the items, on the prefetcher's thread.  *under_way is
     * the expected use by items under way: storage CPU and bytes of items that have not arrived,
     * compute CPU of items that are not in their batch. */
    struct sluice_ask (*choose)(void *ctx, size_t index, const struct sluice_sampler_item *item,
                                const struct sluice_expected *under_way);
    /* Called when an item is done, on any thread.  NULL is allowed. */
    void (*on_row)(void *ctx, const struct sluice_row_seen *row);
    /* Called when the trainer gets a batch of n samples at now_ns, after it waited waited_ns for
     * the batch; on the trainer's thread.  NULL is allowed. */
    void (*on_batch)(void *ctx, unsigned n, uint64_t waited_ns, uint64_t now_ns);
    /* Called when the device has decoded n samples of the epoch in device_s, on a lane's thread.
     * NULL is allowed. */
    void (*on_decoded)(void *ctx, unsigned n, double device_s);
    void *ctx;
};

/* Requests choices[position] (borrowed), with no bound on the items under way. */
struct sluice_chooser sluice_chooser_fixed(const struct sluice_choice *choices);

#endif
