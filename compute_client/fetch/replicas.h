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
 * - Shortest expected delay.  An item goes to the replica of its shard with the least expected
 *   wait, from the answers that it owes, its recent rate and its round trip (replica_load.h).  So
 *   the length of a replica's queue is proportional to its rate.
 * - Late binding.  If a shard has several replicas, each gets the items that it answers in about
 *   TUNING_REPLICA_AHEAD_S; the rest waits for the replica that is free first.
 * - Failover.  The unanswered items of a lost replica go to others of its shard, or wait for it.
 *   The connection is retried without end, and used once the replica answers Hello.
 * - Suspicion.  A replica that owes answers and is silent for TUNING_FAILOVER_NS longer than usual
 *   gets no more items, and its unanswered ones are requested from others, too.  The first answer
 *   counts.  After TUNING_CUT_NS more it counts as lost.  So a false suspicion costs work, but no
 *   time; it doubles the time until the next one.  The only replica of a shard is not suspected:
 *   sample_timeout_s limits its silence (fetcher.h).
 * - Refusal.  A replica that refuses the client (another dataset, another pipeline, no token) is
 *   left out, and tried again now and then, while another one of its shard serves.
 * - Retry.  An item with a transient failure (sluice_retry_is_worth()) is requested from another
 *   replica if there is one, with backoff (retry.h), until retry_for_s after its first failure;
 *   then the failure is its answer.  An overdue item is requested as a file, because reading may
 *   work where decoding hangs.  A replica that fails repeatedly gets one item at a time while
 *   another one serves.
 * - Loss of a shard.  A shard without a replica waits for one until no item of it was answered for
 *   retry_for_s; then, or as soon as all replicas refuse, on_failed is called.  Time counts only
 *   while an item waits.
 * - Hedging, by option: an item that takes longer than most recent ones (TUNING_HEDGE_QUANTILE) is
 *   requested from a second replica as well, if that is expected to answer sooner; at most
 *   TUNING_HEDGE_SHARE of all items.  The first answer counts, the other one is dropped.
 * - Blame.  An item is a suspect if it was under way when the only server of its shard was lost, or
 *   twice when one of several was; it stays one until it is answered.  Suspects go to one replica
 *   of the shard, which gets nothing else meanwhile: one at a time, then 2, 4 and so on as they are
 *   answered (slow start), lowest ticket first.  So an item that ends connections is soon alone
 *   when that happens, and only then it is blamed.  A restarted server costs some round trips.  An
 *   item that is blamed twice is requested as a file; after three times more it is answered with
 *   SLUICE_E_INTERNAL, and the error names it.  The number is high because a link or a server that
 *   breaks at random may hit a lone item, too, but hardly the same one five times.
 *
 * The delivered samples do not depend on the replica that answers: a sample depends on its draw key
 * alone.
 *
 * storage_cores and storage_price of a result are those of all servers that are there: the sum of
 * their cores, and the mean price, weighted by cores.
 *
 * With several clients an outage in `live` means that a shard has no replica that is there; these
 * clients are created without `live`.  A single client reports its own outages, also before there
 * is a source.
 *
 *     request() --> items that wait, by shard --ask--> fetcher of a replica ==> server
 *                        ^                                |          |
 *                        +---- lost, failed: give back ---+          +-- result --> on_result
 *                                         [ watch: suspicion, hedging, deadlines ]
 *
 * Threads: as a source's, and one of its own, the watch. */

struct sluice_replica {
    struct sluice_client *client; /* borrowed, outlives the source or its removal */
    uint32_t shard;               /* 0 .. num_shards - 1 */
    const char *dataset_id;       /* of its shard, which its Hello must have; copied */
};

struct sluice_replicas_options {
    const struct sluice_replica *replicas; /* at least one of each shard; more may be added */
    size_t num_replicas;
    uint32_t num_shards;
    /* The shard and row of each sample id; borrowed, outlives the source.  NULL: there is one
     * shard, whose rows are the sample ids. */
    const struct sluice_manifest_place *places;
    /* Options of each fetcher; client, dataset_id and events are not used.  The fetchers share
     * window_bytes evenly, and max_items is the total of all. */
    struct sluice_fetcher_options fetcher;
    bool hedges;
    bool shows_outages; /* reports outages to `live`; false: the only client does */
    struct sluice_source_events events;
};

/* retry_for_s is the first client's.  SLUICE_E_INVALID: a shard without a replica. */
SLUICE_MUST_USE sluice_status sluice_replicas_create(const struct sluice_replicas_options *options,
                                                     struct sluice_source **source,
                                                     struct sluice_err *err);

/* In the functions below, `source` must come from sluice_replicas_create().  Do not call add and
 * remove at the same time as close. */

/* Adds a replica, which gets items once it has answered Hello. */
SLUICE_MUST_USE sluice_status sluice_replicas_add(struct sluice_source *source,
                                                  const struct sluice_replica *replica,
                                                  struct sluice_err *err);
/* Removes the replica with this client; its unanswered items go to others.  After it returns, the
 * client is not used.  It waits for a Hello under way; call sluice_client_stop() first to end that
 * at once. */
void sluice_replicas_remove(struct sluice_source *source, const struct sluice_client *client);

struct sluice_replicas_stats {
    /* Sums over all fetchers, removed ones included; `repeated` includes retries of failed items. */
    struct sluice_fetcher_stats fetchers;
    uint64_t failed_over;        /* items sent to another replica after a loss or on suspicion */
    uint64_t hedged, hedges_won; /* items requested twice; second answers that were first */
};

struct sluice_replicas_stats sluice_replicas_stats(struct sluice_source *source);

#endif
