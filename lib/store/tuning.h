#ifndef SLUICE_STORE_TUNING_H
#define SLUICE_STORE_TUNING_H

/* Tuned constants of remote stores, each with its unit and origin. */

/* Reads at a time.  By Little's law this number of round trips of 20 ms with 100 kB each fills 2.5
 * Gbit/s.  Half: 1.3 Gbit/s; twice: twice the connections at the store, and 64 waiting threads. */
#define STORE_PARALLEL_READS 64

/* Concurrent reads of a folder: threads that read in addition to those that preprocess, which read
 * their own files. */
#define STORE_PARALLEL_READS_OF_DISKS 2

/* Bytes between two parts of an object below which one request asks for both.  A request costs both
 * ends some 0.1 ms of CPU and 1 kB of headers, in which 1 Gbit/s carries 12 kB.  Half: some files
 * take a request more; twice: at most 16 kB more of a file are read in vain. */
#define STORE_MERGE_GAP_BYTES (16u << 10)

/* ms, the longest wait before the first retry; it doubles with each retry.  The same as in AWS's
 * SDKs. Full jitter: each wait is uniform between 0 and that
 * (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). */
#define STORE_BACKOFF_MS 50
#define STORE_MAX_BACKOFF_MS 2000

/* Tries of one request.  Half: a request to a restarting store fails after at most 0.15 s instead
 * of 0.75 s; twice: after 10 s, unless its total time ends first. */
#define STORE_MAX_TRIES 5

/* Retry budget (https://sre.google/sre-book/handling-overload/): each request adds RATIO of a
 * retry, up to MAX, and each retry takes one.  So a store that is down or overloaded gets 1.1 times
 * the requests, not STORE_MAX_TRIES times.  Half: 1.05 times, and more rare failures reach the
 * client; twice: 1.2 times. */
#define STORE_RETRY_RATIO 0.1
#define STORE_MAX_RETRIES_SAVED 100.0

/* Hedge budget (hedging.h): each request adds RATIO of a hedge, up to MAX.  So the store gets at
 * most 1.02 times the requests, and 10 more in a burst.  Half: hedges cover half of a tail of 2 %;
 * twice: all of a tail of 4 %. */
#define STORE_HEDGE_RATIO 0.02
#define STORE_MAX_HEDGES_SAVED 10.0

/* ms; the shortest time before a hedge: twice a round trip within a city.  Half: requests of 1 ms
 * to a store next to the server are hedged when a core was busy; twice: a tail of 20 ms stays. */
#define STORE_HEDGE_FLOOR_MS 10

/* Bytes; longer requests are not hedged: their length makes them slow, and a second one costs as
 * much of the link. */
#define STORE_MAX_HEDGED_BYTES (4u << 20)

/* A full cache admits one of this number of misses.  With a dataset twice as large as the cache,
 * which holds half of it, an epoch replaces 1/32; the next epoch hits 47 %, against 0 % with LRU
 * (test_store_cache.c).  Half: 44 %; twice: 49 %, but unused pieces leave half as fast. */
#define STORE_CACHE_ADMIT_ONE_OF 16

#endif
