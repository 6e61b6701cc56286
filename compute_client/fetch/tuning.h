#ifndef SLUICE_COMPUTE_CLIENT_FETCH_TUNING_H
#define SLUICE_COMPUTE_CLIENT_FETCH_TUNING_H

/* The tuned constants of fetching, from one server (fetcher.h) or from several (replicas.h,
 * servers.h); those of all loaders are in load/tuning.h.  Chosen by reasoning, but for what
 * docs/results says. */

/* How often a sample is blamed for the end of a stream until it is asked for as a file, and until
 * it is given up.  With a link that is cut within one in seven of its replies, as where it is cut
 * every 4 MB and a sample has 600 kB, five times in a row hit one lone sample in 17,000; where the
 * last three are files of 100 kB, one in 3,000,000.  Half: such a link costs samples that are good;
 * twice: a sample that ends servers ends twice as many streams. */
#define TUNING_BLAMES_BEFORE_RAW 2
#define TUNING_BLAMES_BEFORE_END 5

/* ns over which the rate of a server's answers is a mean, and in which what is known of a server
 * that is asked nothing counts half as much.  MEMORY: longer than a burst of replies.  Half: the
 * rate is noisier; twice: one that becomes slow gets too many requests for longer.  FORGET, half: a
 * slow server gets twice as many single requests to show that it still is; twice: one that is fast
 * again stands idle for longer. */
#define TUNING_REPLICA_MEMORY_NS 500000000.0
#define TUNING_REPLICA_FORGET_NS 500000000.0

/* ns: a replica that owes answers is suspected after this silence, in addition to its usual one:
 * others are asked for the same; looked at so often in that time.  After CUT more its connection is
 * ended.  Long enough that a busy server's scheduling or a lost packet (200 ms) does not count;
 * short against what a trainer has ready.  Half: more is asked for twice; twice: a server that
 * hangs holds an epoch up for longer.  A false suspicion doubles both; that is forgotten after
 * ALARM_FORGET. */
#define TUNING_FAILOVER_NS 400000000ull
#define TUNING_LOOKS_IN_FAILOVER 8
#define TUNING_CUT_NS 2000000000ull
#define TUNING_ALARM_FORGET_NS 60000000000ull

/* A false suspicion doubles the two times above, at most this many times: to 3.2 s and 16 s.  Half:
 * a server that is slow for long is doubted again and again; twice: one that hangs holds an epoch
 * up for up to 25 s. */
#define TUNING_MOST_ALARMS 3

/* An item of several replicas that was lost with this number of streams is a suspect (replicas.h).
 * Half: each lost stream makes suspects of all that was asked, which go one by one; twice: an item
 * that ends servers ends twice as many before it is found. */
#define TUNING_LOSSES_BEFORE_SUSPECT 2

/* A replica with this number of failures in a row fails: as errors are made fast, it would soon get
 * all items.  Half: one bad sample sends the others elsewhere; twice: more items are asked for
 * twice.
 */
#define TUNING_FAILURES_IN_A_ROW 2

/* Round trips that are remembered, and fewer of which say nothing of what is usual.  Half: the
 * quantile of hedging is that of a moment; twice: it follows a change after more than 500 items. */
#define TUNING_TRIPS 256
#define TUNING_LEAST_TRIPS 32

/* s: replies that come closer together are of one burst: of one message, as a rule.  Half: a
 * message whose replies are handed on slowly counts as two; twice: small replies of a fast server
 * run together. */
#define TUNING_REPLY_BURST_S 0.001

/* ns until items are looked at that wait behind one for which all replicas have enough to do.
 * Half: the table is walked twice as often; twice: a free replica may wait 40 ms. */
#define TUNING_BUSY_LOOK_NS 20000000ull

/* Hedging (Dean and Barroso, The Tail at Scale, 2013): an item is asked for twice if it takes
 * longer than QUANTILE of the round trips of late, and FACTOR times their median, so that nothing
 * is where all take about as long; at most SHARE of all items: the slowest in a hundred.  Half the
 * share: half of what is slow waits; twice: up to a fiftieth more work for the servers. */
#define TUNING_HEDGE_QUANTILE 0.99
#define TUNING_HEDGE_FACTOR 2
#define TUNING_HEDGE_SHARE 0.01

/* Late binding: a replica is asked for what it answers in AHEAD seconds, or in AHEAD_TRIPS round
 * trips if that is longer, and for LEAST items at least; what is left waits for whoever is free
 * first.  Without a bound all of a burst is bound to the replicas that are there when it begins, by
 * their rates of that moment.  Half: a replica on a long way, or one that sends few large messages,
 * may have nothing to do for a moment; twice: a burst ends later where rates change. */
#define TUNING_REPLICA_AHEAD_S 0.25
#define TUNING_REPLICA_AHEAD_TRIPS 2
#define TUNING_REPLICA_LEAST_AHEAD 8

/* ns: a server that cannot be reached is tried again after so long at the latest, one that refused
 * us after so long.  A server that is back is used within 5 s.  Half: twice as many connections of
 * every client while a server is away; twice: a server that is back stands idle for longer. */
#define TUNING_REPLICA_WAIT_NS 1000000000ull
#define TUNING_REPLICA_REFUSED_NS 2000000000ull

/* s between two look-ups of a name of which every address is a replica.  A new replica is used
 * within 5 s: a look-up, a connection, and one more look-up where the name server is slow.  Half:
 * twice as many questions for the name server; twice: later. */
#define TUNING_LOOKUP_S 2

/* s for which the start of a run waits for further replicas once each shard has one.  A connection
 * to a server that is there takes some ms, one to a machine that is not takes for ever.  Half: a
 * replica that is busy is left out at first; twice: one that is dead delays each start by so long.
 */
#define TUNING_REPLICA_GRACE_S 1

/* Samples of the shortest list that is kept on the client's disk (list_cache.h).  By ten million of
 * them, which take 1.8 s more without, so that these take some 12 ms.  Not swept; half, twice: 6
 * and 24 ms of a start are not saved. */
#define TUNING_LIST_CACHE_LEAST 65536

/* Lists that are kept, of 60 MB for each million samples.  By reasoning, not swept.  Half: who goes
 * from one dataset to another soon fetches lists anew; twice: as much more of the disk. */
#define TUNING_LIST_CACHE_FILES 8

/* Seconds after which a list that is not whole was left by a process that was killed: no list takes
 * so long to be written.  By reasoning, not swept.  Half: a very slow link may lose its list while
 * it comes; twice: it takes disk for longer. */
#define TUNING_LIST_ABANDONED_S 3600

#endif
