#include "storage_server/rate_limit.h"

/* Long enough that a late wake-up (a few ms on a busy machine) loses nothing, short
 * enough that it is 2 % of one second. */
#define BURST_SECONDS 0.020
#define MIN_BURST_BYTES 16384.0

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

uint64_t sluice_rate_limit_take(struct sluice_rate_limit *limit, size_t bytes, uint64_t now_ns)
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
    if (limit->tokens >= 0)
        limit->tokens -= (double)bytes;
    else
        wait_ns = (uint64_t)(-limit->tokens / limit->bytes_per_s * 1e9) + 1;
    pthread_mutex_unlock(&limit->lock);
    return wait_ns;
}
