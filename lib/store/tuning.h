#ifndef SLUICE_STORE_TUNING_H
#define SLUICE_STORE_TUNING_H

/* The tuned constants of the stores that are reached over a network, each with its unit and where
 * it comes from. */

/* Reads at a time.  By Little's law so many round trips of 20 ms with 100 kB each fill 2.5 Gbit/s.
 * Half: 1.3 Gbit/s; twice: as many connections more at the store, and 64 threads that wait. */
#define STORE_PARALLEL_READS 64

/* The same of a folder: threads that read beside those that preprocess, which read for themselves.
 */
#define STORE_PARALLEL_READS_OF_DISKS 2

/* Bytes between two parts of an object below which one request asks for both.  A request costs both
 * ends some 0.1 ms of CPU and 1 kB of headers, in which 1 Gbit/s carries 12 kB.  Half: some files
 * take a request more; twice: 16 kB more of a file are read for nothing at most. */
#define STORE_MERGE_GAP_BYTES (16u << 10)

/* ms, the longest wait before the first retry; it doubles with each.  As the SDKs of AWS have it.
 * Full jitter: each wait is uniform between 0 and that
 * (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). */
#define STORE_BACKOFF_MS 50
#define STORE_MAX_BACKOFF_MS 2000

/* Tries of one request.  Half: a store that restarts is given up on after 0.15 s rather than 0.75 s
 * at most; twice: after 10 s, which the total time of a request may cut. */
#define STORE_MAX_TRIES 5

/* Retry budget (https://sre.google/sre-book/handling-overload/): each request adds RATIO of a
 * retry, up to MAX, and each retry takes one.  A store that is down or overloaded so gets 1.1 times
 * the requests rather than STORE_MAX_TRIES times.  Half: 1.05 times, and more of rare failures go
 * back to the client; twice: 1.2 times. */
#define STORE_RETRY_RATIO 0.1
#define STORE_MAX_RETRIES_SAVED 100.0

/* A second request for one that takes long (hedging.h): each one adds RATIO of a second one, up to
 * MAX.  So the store gets 1.02 times the requests at most, and 10 more in a moment.  Half: of a
 * tail of 2 % half is cut; twice: of one of 4 % all. */
#define STORE_HEDGE_RATIO 0.02
#define STORE_MAX_HEDGES_SAVED 10.0

/* ms; no request is sent again before.  Twice a round trip within a city; half: requests to a store
 * beside the server, which take 1 ms, are sent again when a core was busy; twice: a tail of 20 ms
 * stays. */
#define STORE_HEDGE_FLOOR_MS 10

/* Bytes; longer bodies take long because they are long.  A second one costs as much of the link. */
#define STORE_MAX_HEDGED_BYTES (4u << 20)

/* A full cache takes one miss of so many in the place of something else.  Of a dataset twice as
 * large as the cache, of which it has half, an epoch so changes a 32nd; the next one hits 47 %
 * rather than the none of LRU (test_store_cache.c).  Half: 44 %; twice: 49 %, and what is read no
 * more goes half as fast.
 */
#define STORE_CACHE_ADMIT_ONE_OF 16

#endif
