#ifndef SLUICE_STORAGE_SERVER_SESSION_RATE_LIMIT_H
#define SLUICE_STORAGE_SERVER_SESSION_RATE_LIMIT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A token bucket on bytes (https://en.wikipedia.org/wiki/Token_bucket), for --link-limit, which
 * clients share equally.
 *
 * A message of any size may go while the bucket is not in debt, and may put it into debt.  So
 * messages larger than the burst pass, and the rate over any span is exact to one message and one
 * burst.  A timer that slept too long loses nothing, up to the burst.
 *
 * Among clients that wait, start-time fair queueing (fair_queue.h) in bytes: the one that was sent
 * least goes first.  So a client's streams and connections share one part, and a client that asks
 * for little has all it asks for at once.  What one does not use, others have.
 *
 * Threads: any. */

/* A client's share, within its session; {0} at first. */
struct sluice_rate_share {
    double served_bytes;                    /* the start tag: what it was sent */
    uint64_t until_ns;                      /* it waits, and asks again then; 0: it does not wait */
    size_t num_joined;                      /* connections */
    struct sluice_rate_share *next, **link; /* of those that have joined */
};

struct sluice_rate_limit {
    pthread_mutex_t lock;
    double tokens; /* bytes; negative: in debt */
    uint64_t last_ns;
    double served_bytes; /* the virtual time: the start tag of what was sent last */
    struct sluice_rate_share *joined;

    double bytes_per_s; /* constant from here; 0: no limit */
    double burst_bytes;
};

/* The burst is 20 ms of the rate, but at least 16 KiB; the bucket starts empty. */
void sluice_rate_limit_init(struct sluice_rate_limit *limit, double bytes_per_s, uint64_t now_ns);
void sluice_rate_limit_clear(struct sluice_rate_limit *limit); /* nobody is joined */

/* A connection of the share's client comes or goes. */
void sluice_rate_limit_join(struct sluice_rate_limit *limit, struct sluice_rate_share *share);
void sluice_rate_limit_leave(struct sluice_rate_limit *limit, struct sluice_rate_share *share);

/* 0: `bytes` may go now and are taken from the bucket.  Otherwise nothing is taken; ask again after
 * so many ns: who does not is waited for no more than 20 ms longer.  `share` NULL: one that waits
 * for nobody.  `now_ns` is sluice_clock_ns(), or a test's own clock. */
uint64_t sluice_rate_limit_take(struct sluice_rate_limit *limit, struct sluice_rate_share *share,
                                size_t bytes, uint64_t now_ns);

#endif
