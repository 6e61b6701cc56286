#ifndef SLUICE_STORAGE_SERVER_SESSION_RATE_LIMIT_H
#define SLUICE_STORAGE_SERVER_SESSION_RATE_LIMIT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A token bucket on bytes (https://en.wikipedia.org/wiki/Token_bucket), for --link-limit, which
 * clients share equally.
 *
 * While the bucket is not in debt, a message of any size may go, and may put it into debt.  So
 * messages larger than the burst pass, and the rate over any span is exact to one message and one
 * burst.  A timer that slept too long loses nothing, up to the burst.
 *
 * Waiting clients are served by start-time fair queueing (fair_queue.h) in bytes: the client that
 * received least goes first.  So a client's streams and connections share one part, a client that
 * asks for little gets it at once, and a part that one client does not use goes to the others.
 *
 * Threads: any. */

/* A client's share, within its session; {0} at first. */
struct sluice_rate_share {
    double served_bytes;                    /* the start tag: bytes sent to it */
    uint64_t until_ns;                      /* when it asks again; 0: it does not wait */
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

/* Returns 0 if `bytes` may go now; they are taken from the bucket.  Otherwise takes nothing and
 * returns the time in ns after which to ask again; if the client is late, others wait for it no
 * more than 20 ms.  `share` NULL: waits for nobody.  `now_ns` is sluice_clock_ns(), or a test's
 * clock. */
uint64_t sluice_rate_limit_take(struct sluice_rate_limit *limit, struct sluice_rate_share *share,
                                size_t bytes, uint64_t now_ns);

#endif
