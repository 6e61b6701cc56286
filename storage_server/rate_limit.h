#ifndef SLUICE_STORAGE_SERVER_RATE_LIMIT_H
#define SLUICE_STORAGE_SERVER_RATE_LIMIT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A token bucket on bytes (https://en.wikipedia.org/wiki/Token_bucket), for --link-limit.
 *
 * A message of any size may go while the bucket is not in debt, and may put it into debt.  So
 * messages larger than the burst pass, and the rate over any span is exact to one message and one
 * burst.  A timer that slept too long loses nothing, up to the burst.
 *
 * Threads: any. */

struct sluice_rate_limit {
    pthread_mutex_t lock;
    double tokens; /* bytes; negative: in debt */
    uint64_t last_ns;

    double bytes_per_s; /* constant from here; 0: no limit */
    double burst_bytes;
};

/* The burst is 20 ms of the rate, but at least 16 KiB; the bucket starts empty. */
void sluice_rate_limit_init(struct sluice_rate_limit *limit, double bytes_per_s, uint64_t now_ns);
void sluice_rate_limit_clear(struct sluice_rate_limit *limit);

/* 0: `bytes` may go now and are taken from the bucket.  Otherwise nothing is taken; ask again after
 * so many ns.  `now_ns` is sluice_clock_ns(), or a test's own clock. */
uint64_t sluice_rate_limit_take(struct sluice_rate_limit *limit, size_t bytes, uint64_t now_ns);

#endif
