#ifndef SLUICE_COMPUTE_CLIENT_FETCH_REPLICAS_H
#define SLUICE_COMPUTE_CLIENT_FETCH_REPLICAS_H

#include "base/error.h"
#include "compute_client/fetch/fetcher.h"
#include "compute_client/loader/source/source.h"
#include "datasets/manifest/join.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The source over the servers of a dataset, one or several: a fetcher for each, one answer for each
 * item.  Retries, blame, failover and the failure of the source are decided here alone.
 *
 * The servers of one shard have the same list of samples (replicas); an item may go to any of them.
 * Shards have different samples; an item goes to the shard that has it.
 *
 * - Shortest expected delay.  An item goes to the replica of its shard where it is expected to wait
 *   least: by what that owes, the rate at which it answered of late, and its round trip
 *   (replica_load.h).  So the queue of a slow one stays as short as its rate.
 * - Late binding.  Where a shard has several replicas, each is asked for what it answers in
 *   TUNING_REPLICA_AHEAD_S or so; what is left waits for whichever is free first.
 * - Failover.  What a lost replica owes goes to others of its shard, or waits for it.  It is tried
 *   again for ever, and used again once it answers Hello.
 * - Doubt.  A replica that owes answers and is silent for TUNING_FAILOVER_NS longer than is usual
 *   for it is asked nothing more, and others are asked for what it owes as well.  The first answer
 *   counts.  After TUNING_CUT_NS more it counts as lost.  So a false suspicion costs work, but
 *   no time; it doubles the time until the next one.  The only one of its shard is not doubted: its
 *   silence is sample_timeout's (fetcher.h).
 * - Refusal.  A replica that refuses us (another dataset, another pipeline, no token) is left out,
 *   and asked again now and then, while another one of its shard serves.
 * - Retry.  An item that fails in a way that may pass (sluice_retry_is_worth()) is asked of another
 *   replica if there is one, with backoff (retry.h), until retry_for_s after its first failure;
 *   then the failure is its answer.  One without an answer in time is asked for as a file: reading
 *   may be all right where decoding hangs.  A replica that fails again and again is asked for one
 *   item at a time while another one serves.
 * - A shard of which no replica is there waits for one until no item of it was answered for
 *   retry_for_s; then, or as soon as all refuse, on_failed comes.  Time counts from when somebody
 *   waits.
 * - Hedging, by option: an item that takes longer than nearly all of late (TUNING_HEDGE_QUANTILE)
 *   is asked of a second replica as well, if that is expected to answer sooner; at most
 *   TUNING_HEDGE_SHARE of all items.  The first answer counts, the other one is dropped.
 * - Blame.  An item that was under way when the only server of its shard was lost, or one of
 *   several, twice, is a suspect until it is answered.  Suspects go to one replica of the shard,
 *   which is asked for nothing else meanwhile: one at a time, then 2, 4 and so on as they are
 *   answered (slow start), lowest ticket first.  So one that ends connections is soon alone when
 *   that happens, and only then it is blamed.  A restarted server costs some round trips.  An item
 *   that is blamed twice is asked for as a file; after three times more it is named and answered
 *   with SLUICE_E_INTERNAL.  Why so often: a link or a server that breaks at random may hit a lone
 *   item as well, but hardly five times the same.
 *
 * Which replica answers never shows in what is delivered: a sample depends on its draw key alone.
 *
 * Rows say storage_cores and storage_price of the whole: the sum of the cores of the servers that
 * are there, and the mean price, weighted with their cores.
 *
 * An outage in `live` is that no replica of some shard is there: several clients are made without
 * it.  That of a single server its client shows, before there is a source, too.
 *
 *     request() --> items that wait, by shard --ask--> fetcher of a replica ==> server
 *                        ^                                |          |
 *                        +---- lost, failed: give back ---+          +-- result --> on_result
 *                                         [ watch: doubts, hedges, ends of patience ]
 *
 * Threads: as a source's, and one of its own, the watch. */

struct sluice_replica {
    struct sluice_client *client; /* borrowed, outlives the source or its removal */
    uint32_t shard;               /* 0 .. num_shards - 1 */
    const char *dataset_id;       /* of its shard: what its Hello must say; copied */
};

struct sluice_replicas_options {
    const struct sluice_replica *replicas; /* at least one of each shard; more may be added */
    size_t num_replicas;
    uint32_t num_shards;
    /* By sample id of the whole list, borrowed, outlives the source; NULL: one shard, whose list it
     * is. */
    const struct sluice_manifest_place *places;
    /* Options of each fetcher; client, dataset_id and events are not used.
     * window_bytes is the whole source's: its fetchers share it evenly.  max_items is of all. */
    struct sluice_fetcher_options fetcher;
    bool hedges;
    bool shows_outages; /* in live; false: the only client does */
    struct sluice_source_events events;
};

/* retry_for_s is the first client's.  SLUICE_E_INVALID: a shard without a replica. */
SLUICE_MUST_USE sluice_status sluice_replicas_create(const struct sluice_replicas_options *options,
                                                     struct sluice_source **source,
                                                     struct sluice_err *err);

/* `source` must come from sluice_replicas_create() in what follows.  add and remove: not at the
 * same time as close. */

/* One more replica, from now on: it gets items once it has answered Hello. */
SLUICE_MUST_USE sluice_status sluice_replicas_add(struct sluice_source *source,
                                                  const struct sluice_replica *replica,
                                                  struct sluice_err *err);
/* The replica with this client gets no more items; what it owes goes to others.  When it returns
 * the client is not used any more, which takes as long as a Hello under way; sluice_client_stop()
 * before it ends that at once. */
void sluice_replicas_remove(struct sluice_source *source, const struct sluice_client *client);

struct sluice_replicas_stats {
    /* Sums, of those that are gone, too; `repeated` also has what was asked for again after a
     * failure. */
    struct sluice_fetcher_stats fetchers;
    uint64_t failed_over;        /* items asked of another replica after a loss or on suspicion */
    uint64_t hedged, hedges_won; /* asked twice; the second answer came first */
};

struct sluice_replicas_stats sluice_replicas_stats(struct sluice_source *source);

#endif
