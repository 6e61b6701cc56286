#include "storage_server/session/rate_limit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Long enough that a late wake-up (a few ms on a busy machine) loses nothing, short
 * enough that it is 2 % of one second. */
#define BURST_SECONDS 0.020
#define MIN_BURST_BYTES 16384.0

/* What a client that asked for little may be sent ahead of its turn later: so many bursts. */
#define SAVED_BURSTS 4

/* ns.  A client whose turn it is not asks again after this. */
#define TURN_NS 1000000u

/* ns.  A client that does not come back is waited for so long after it was told to: within the
 * burst, so that nothing of the rate is lost. */
#define LATE_NS 20000000u

struct sluice_rate_client {
    double served_bytes; /* the start tag: what it was sent */
    uint64_t until_ns;   /* it waits, and asks again then; 0: it does not wait */
    size_t refs;
    struct sluice_rate_client *next, **link;
    char name[];
};

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

struct sluice_rate_client *sluice_rate_limit_join(struct sluice_rate_limit *limit, const char *name)
{
    const size_t size = strlen(name) + 1;
    pthread_mutex_lock(&limit->lock);
    struct sluice_rate_client *client = limit->clients;
    while (client && strcmp(client->name, name) != 0)
        client = client->next;
    if (!client && (client = calloc(1, sizeof(*client) + size))) {
        memcpy(client->name, name, size);
        client->next = limit->clients;
        client->link = &limit->clients;
        if (client->next)
            client->next->link = &client->next;
        limit->clients = client;
    }
    if (client)
        client->refs++;
    pthread_mutex_unlock(&limit->lock);
    return client;
}

void sluice_rate_limit_leave(struct sluice_rate_limit *limit, struct sluice_rate_client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&limit->lock);
    const bool is_last = --client->refs == 0;
    if (is_last) {
        *client->link = client->next;
        if (client->next)
            client->next->link = client->link;
    }
    pthread_mutex_unlock(&limit->lock);
    if (is_last)
        free(client);
}

/* Under the lock: whether a client that was sent less waits. */
static bool is_before(const struct sluice_rate_limit *limit,
                      const struct sluice_rate_client *client, uint64_t now_ns)
{
    for (const struct sluice_rate_client *c = limit->clients; c; c = c->next) {
        if (c != client && c->until_ns && now_ns < c->until_ns + LATE_NS &&
            c->served_bytes < client->served_bytes)
            return true;
    }
    return false;
}

uint64_t sluice_rate_limit_take(struct sluice_rate_limit *limit, struct sluice_rate_client *client,
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
    if (client && client->served_bytes < least)
        client->served_bytes = least;

    if (limit->tokens < 0)
        wait_ns = (uint64_t)(-limit->tokens / limit->bytes_per_s * 1e9) + 1;
    else if (client && is_before(limit, client, now_ns))
        wait_ns = TURN_NS;
    else
        limit->tokens -= (double)bytes;
    if (client) {
        client->until_ns = wait_ns ? now_ns + wait_ns : 0;
        if (!wait_ns) {
            if (limit->served_bytes < client->served_bytes)
                limit->served_bytes = client->served_bytes;
            client->served_bytes += (double)bytes;
        }
    }
    pthread_mutex_unlock(&limit->lock);
    return wait_ns;
}
