#include "storage_server/session/rate_limit.h"

#include <stdbool.h>

/* Long enough that a late wake-up (a few ms on a busy machine) loses nothing, short
 * enough that it is 2 % of one second. */
#define BURST_SECONDS 0.020
#define MIN_BURST_BYTES 16384.0

/* Bursts that a client which asked for little may later be sent ahead of its turn. */
#define SAVED_BURSTS 4

/* ns.  A client whose turn it is not asks again after this. */
#define TURN_NS 1000000u

/* ns.  The longest time for which others wait for a client that is late.  Within the burst, so that
 * the rate loses nothing. */
#define LATE_NS 20000000u

void sluice_rate_limit_init(struct sluice_rate_limit *limit, double bytes_per_s, uint64_t now_ns)
{
    const double burst = bytes_per_s * BURST_SECONDS;
    *limit = (struct sluice_rate_limit){
        .last_ns = now_ns,
        .bytes_per_s = bytes_per_s,
        .burst_bytes = burst > MIN_BURST_BYTES ? burst : MIN_BURST_BYTES,
    };
    pthread_mutex_init(&limit->lock, NULL);
}

void sluice_rate_limit_clear(struct sluice_rate_limit *limit)
{
    pthread_mutex_destroy(&limit->lock);
}

void sluice_rate_limit_join(struct sluice_rate_limit *limit, struct sluice_rate_share *share)
{
    pthread_mutex_lock(&limit->lock);
    if (share->num_joined++ == 0) {
        share->next = limit->joined;
        share->link = &limit->joined;
        if (share->next)
            share->next->link = &share->next;
        limit->joined = share;
    }
    pthread_mutex_unlock(&limit->lock);
}

void sluice_rate_limit_leave(struct sluice_rate_limit *limit, struct sluice_rate_share *share)
{
    pthread_mutex_lock(&limit->lock);
    if (--share->num_joined == 0) {
        *share->link = share->next;
        if (share->next)
            share->next->link = share->link;
    }
    pthread_mutex_unlock(&limit->lock);
}

/* Under the lock: whether a client that was sent less waits. */
static bool is_before(const struct sluice_rate_limit *limit, const struct sluice_rate_share *share,
                      uint64_t now_ns)
{
    for (const struct sluice_rate_share *s = limit->joined; s; s = s->next) {
        if (s != share && s->until_ns && now_ns < s->until_ns + LATE_NS &&
            s->served_bytes < share->served_bytes)
            return true;
    }
    return false;
}

uint64_t sluice_rate_limit_take(struct sluice_rate_limit *limit, struct sluice_rate_share *share,
                                size_t bytes, uint64_t now_ns)
{
    if (limit->bytes_per_s <= 0)
        return 0;

    uint64_t wait_ns = 0;
    pthread_mutex_lock(&limit->lock);
    /* Callers read the clock before they take the lock, so time may go back a little. */
    if (now_ns > limit->last_ns) {
        limit->tokens += (double)(now_ns - limit->last_ns) * 1e-9 * limit->bytes_per_s;
        if (limit->tokens > limit->burst_bytes)
            limit->tokens = limit->burst_bytes;
        limit->last_ns = now_ns;
    }
    /* It saves up no more than this while it asks for less than its part. */
    const double least = limit->served_bytes - SAVED_BURSTS * limit->burst_bytes;
    if (share && share->served_bytes < least)
        share->served_bytes = least;

    if (limit->tokens < 0)
        wait_ns = (uint64_t)(-limit->tokens / limit->bytes_per_s * 1e9) + 1;
    else if (share && is_before(limit, share, now_ns))
        wait_ns = TURN_NS;
    else
        limit->tokens -= (double)bytes;
    if (share) {
        share->until_ns = wait_ns ? now_ns + wait_ns : 0;
        if (!wait_ns) {
            if (limit->served_bytes < share->served_bytes)
                limit->served_bytes = share->served_bytes;
            share->served_bytes += (double)bytes;
        }
    }
    pthread_mutex_unlock(&limit->lock);
    return wait_ns;
}
