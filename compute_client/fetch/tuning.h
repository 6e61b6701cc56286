#ifndef SLUICE_COMPUTE_CLIENT_FETCH_TUNING_H
#define SLUICE_COMPUTE_CLIENT_FETCH_TUNING_H

/* The tuned constants of fetching, from one server (fetcher.h) or from several (replicas.h,
 * servers.h); those of all loaders are in compute_client/loader/tuning.h.  Chosen by reasoning,
 * except those in docs/results. */

/* The number of times that a sample is blamed for the end of a stream until it is requested as a
 * file, and until it is given up.  If a link is cut within one in seven replies (every 4 MB, with
 * samples of 600 kB), five cuts in a row hit one lone sample in 17,000; if the last three are files
 * of 100 kB, one in 3,000,000.  Half: such a link costs good samples; twice: a sample that ends
 * servers ends twice as many streams. */
#define TUNING_BLAMES_BEFORE_RAW 2
#define TUNING_BLAMES_BEFORE_END 5

/* ns.  MEMORY: time constant of the EWMA of a server's rate, longer than a burst of replies.  Half:
 * the rate is noisier; twice: a server that becomes slow gets too many requests for longer.
 * FORGET: half-life of the expected wait of a server without requests.  Half: a slow server gets
 * twice as many single requests that test it; twice: a server that is fast again is idle for
 * longer. */
#define TUNING_REPLICA_MEMORY_NS 500000000.0
#define TUNING_REPLICA_FORGET_NS 500000000.0

/* ns: a replica that owes answers is suspected after a silence of FAILOVER beyond its usual one,
 * which is checked LOOKS times in that time; then others are asked for the same items.  After CUT
 * more its connection is ended.  Long enough that a busy server's scheduling or a lost packet (200
 * ms) does not count; short compared with the trainer's prefetched batches.  Half: more items are
 * requested twice; twice: a server that hangs delays an epoch for longer.  A false suspicion
 * doubles both, for ALARM_FORGET. */
#define TUNING_FAILOVER_NS 400000000ull
#define TUNING_LOOKS_IN_FAILOVER 8
#define TUNING_CUT_NS 2000000000ull
#define TUNING_ALARM_FORGET_NS 60000000000ull

/* A false suspicion doubles the two times above, at most this many times: to 3.2 s and 16 s.  Half:
 * a server that is slow for long is suspected again and again; twice: one that hangs delays an
 * epoch by up to 25 s. */
#define TUNING_MOST_ALARMS 3

/* If a shard has several replicas, an item that was under way when this number of streams was lost
 * is a suspect (replicas.h).  Half: each lost stream makes all of its items suspects, which go one
 * by one; twice: an item that ends servers ends twice as many before it is found. */
#define TUNING_LOSSES_BEFORE_SUSPECT 2

/* A replica with this number of failures in a row counts as failing: errors come fast, so it would
 * soon get all items.  Half: one bad sample sends the others elsewhere; twice: more items are
 * requested twice. */
#define TUNING_FAILURES_IN_A_ROW 2

/* Round trips that are stored for the quantile of hedging, and the least number that it needs.
 * Half: the quantile is noisy; twice: it follows a change after more than 500 items. */
#define TUNING_TRIPS 256
#define TUNING_LEAST_TRIPS 32

/* s: replies that come closer together than this are one burst, usually one message.  Half: a
 * message whose replies are handed on slowly counts as two; twice: small replies of a fast server
 * are merged. */
#define TUNING_REPLY_BURST_S 0.001

/* ns until items are checked again that wait behind one for which all replicas are busy.
 * Half: the table is walked twice as often; twice: a free replica may wait 40 ms. */
#define TUNING_BUSY_LOOK_NS 20000000ull

/* Hedging (Dean and Barroso, The Tail at Scale, 2013): an item is requested twice if it takes
 * longer than QUANTILE of the recent round trips, and than FACTOR times their median, so that none
 * is hedged if all take about the same time; at most SHARE of all items: the slowest in a hundred.
 * Half the share: half of the slow items wait; twice: up to a fiftieth more work for the servers.
 */
#define TUNING_HEDGE_QUANTILE 0.99
#define TUNING_HEDGE_FACTOR 2
#define TUNING_HEDGE_SHARE 0.01

/* Late binding: a replica gets the items that it answers in AHEAD seconds, or in AHEAD_TRIPS round
 * trips if that is longer, and at least LEAST items; the rest waits for the replica that is free
 * first.  Without this bound a whole burst is assigned when it begins, by the rates of that moment.
 * Half: a distant replica, or one that sends few large messages, may be idle for a moment; twice: a
 * burst ends later if rates change. */
#define TUNING_REPLICA_AHEAD_S 0.25
#define TUNING_REPLICA_AHEAD_TRIPS 2
#define TUNING_REPLICA_LEAST_AHEAD 8

/* ns: longest wait before a server that cannot be reached is tried again, and wait after a refusal.
 * A server that is back is used within 5 s.  Half: twice as many connections of every client while
 * a server is away; twice: a server that is back is idle for longer. */
#define TUNING_REPLICA_WAIT_NS 1000000000ull
#define TUNING_REPLICA_REFUSED_NS 2000000000ull

/* s between two look-ups of a name of which every address is a replica.  A new replica is used
 * within 5 s: a look-up, a connection, and one more look-up where the name server is slow.  Half:
 * twice as many questions for the name server; twice: later. */
#define TUNING_LOOKUP_S 2

/* s for which the start of a run waits for further replicas once each shard has one.  A connection
 * to a running server takes some ms; one to a missing machine may never be answered.  Half: a busy
 * replica is left out at first; twice: a dead one delays each start by 2 s. */
#define TUNING_REPLICA_GRACE_S 1

/* Samples of the shortest list that is cached on the client's disk (list_cache.h).  Ten million
 * samples take 1.8 s more without the cache, so 65536 take some 12 ms.  Not swept; half, twice: 6
 * and 24 ms of a start are not saved. */
#define TUNING_LIST_CACHE_LEAST 65536

/* Lists in the cache, of 60 MB for each million samples.  By reasoning, not swept.  Half: users of
 * many datasets fetch lists again; twice: twice the disk space. */
#define TUNING_LIST_CACHE_FILES 8

/* Age in seconds from which a partial list is removed, because a killed process must have left it:
 * no list takes an hour to write.  By reasoning, not swept.  Half: on a very slow link a list may
 * be removed while it arrives; twice: partial lists take disk space for longer. */
#define TUNING_LIST_ABANDONED_S 3600

#endif
