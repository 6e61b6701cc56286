#ifndef SLUICE_COMPUTE_CLIENT_LOAD_CHOOSER_H
#define SLUICE_COMPUTE_CLIENT_LOAD_CHOOSER_H

#include "base/error.h"
#include "compute_client/load/choice.h"
#include "compute_client/load/sampler.h"

#include <stddef.h>
#include <stdint.h>

/* Who says what each sample is asked for, at the moment that it is, and is told
 * what came of it.  A loader has one for each epoch.
 *
 * Threads: stand beside each function; none is called with a lock held. */

/* What an item is expected to take: CPU seconds of either node, and bytes over the link. */
struct sluice_expected {
    double storage_s, bytes, compute_s;
};

/* What an item is asked for.  It waits while max_away items were asked for and have not arrived, or
 * max_unfinished are not in their batch, so that a chooser that changes its mind does not wait for
 * what was asked before; 0 counts as 1. */
struct sluice_ask {
    struct sluice_choice choice;
    uint32_t max_away, max_unfinished;
    double storage_worth; /* source.h */
    struct sluice_expected expected;
};

/* The way of one item, from the request to its row in the batch.
 *
 *     requested - backlog - storage queue - disk - work - network - arrived - started - done
 *
 * storage_ns is the storage queue and the work. */
struct sluice_row_seen {
    size_t index; /* in the epoch's items */
    struct sluice_choice asked, got;
    sluice_status status; /* of the row; `got` only if it is SLUICE_OK */
    size_t payload_bytes;
    uint64_t read_bytes; /* of the file */
    uint64_t requested_ns, arrived_ns;
    uint64_t started_ns, done_ns; /* by a worker; equal if none had it */
    uint64_t backlog_ns;          /* behind other items, before the storage node took it up */
    uint64_t storage_ns, storage_queue_ns;
    uint64_t disk_ns, disk_busy_ns;          /* source.h */
    uint64_t storage_cpu_ns, compute_cpu_ns; /* of the work alone */
    double storage_price, storage_cores;     /* source.h */
};

struct sluice_chooser {
    /* Once per item, in the order of the items, on the loader's thread.  under_way: the sums of
     * what was expected of items, storage CPU and bytes of those that have not arrived, compute CPU
     * of those that are not in their batch. */
    struct sluice_ask (*choose)(void *ctx, size_t index, const struct sluice_sampler_item *item,
                                const struct sluice_expected *under_way);
    /* Any thread; NULL: not wanted. */
    void (*on_row)(void *ctx, const struct sluice_row_seen *row);
    /* The trainer gets a batch of n samples at now_ns, for which it waited so long; on its
     * thread; NULL: not wanted. */
    void (*on_batch)(void *ctx, unsigned n, uint64_t waited_ns, uint64_t now_ns);
    void *ctx;
};

/* choices[position], borrowed, and as many as there is room for. */
struct sluice_chooser sluice_chooser_fixed(const struct sluice_choice *choices);

#endif
