#ifndef SLUICE_STORAGE_SERVER_RATE_LIMIT_H
#define SLUICE_STORAGE_SERVER_RATE_LIMIT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A token bucket on bytes: what leaves the server keeps to a rate.
 *
 * A message may go while the bucket is not in debt, whatever its size, and puts
 * it into debt by what the bucket lacked.  So the rate over any span is met to
 * one message and one burst, and messages larger than the burst pass as well.
 * Whoever comes late (a timer that slept too long) finds the time it lost in the
 * bucket, up to the burst.
 *
 * Threads: any. */

struct sluice_rate_limit {
    pthread_mutex_t lock;
    double tokens; /* bytes; negative: in debt */
    uint64_t last_ns;

    double bytes_per_s; /* constant from here; 0: no limit */
    double burst_bytes;
};

/* The burst is what the rate gives in 20 ms, but at least 16 KiB; the bucket starts empty. */
void sluice_rate_limit_init(struct sluice_rate_limit *limit, double bytes_per_s, uint64_t now_ns);
void sluice_rate_limit_clear(struct sluice_rate_limit *limit);

/* 0: `bytes` may go now and are spent; else nothing is spent and it is worth asking
 * again in so many ns.  `now_ns` is sluice_clock_ns(), or a test's own clock. */
uint64_t sluice_rate_limit_take(struct sluice_rate_limit *limit, size_t bytes, uint64_t now_ns);

#endif
