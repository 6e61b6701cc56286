#include "storage_server/session/grant.h"

#include "storage_server/tuning.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct bucket {
    double rate; /* a second; 0: no limit */
    double held; /* negative: in debt */
    uint64_t filled_ns;
};

/* A connection with calls. */
struct connection {
    struct connection *next;
    unsigned num_calls;
    char peer[];
};

struct sluice_grant {
    pthread_mutex_t lock;
    struct bucket cpu;  /* seconds */
    double usual_s;     /* of a piece of work: EWMA */
    struct bucket link; /* bytes */
    bool may_train, may_val;
    struct connection *connections;
    unsigned num_connections, max_connections;

    atomic_uint refs;
    atomic_bool is_revoked;             /* a flag that orders nothing */
    char name[SLUICE_TOKEN_NAME_BYTES]; /* constant */
};

/* --- under the lock --- */

static void fill(struct bucket *bucket, uint64_t now_ns)
{
    if (now_ns <= bucket->filled_ns) /* clocks are read before the lock is taken */
        return;
    bucket->held += (double)(now_ns - bucket->filled_ns) * 1e-9 * bucket->rate;
    bucket->filled_ns = now_ns;
    if (bucket->held > bucket->rate * GRANT_BURST_S)
        bucket->held = bucket->rate * GRANT_BURST_S;
}

static void take_limits(struct sluice_grant *grant, const struct sluice_token_entry *entry)
{
    grant->cpu.rate = entry->cores;
    grant->link.rate = entry->bytes_per_s;
    grant->may_train = entry->may_train;
    grant->may_val = entry->may_val;
    grant->max_connections = entry->connections;
}

static struct connection **find(struct sluice_grant *grant, const char *peer)
{
    struct connection **link = &grant->connections;
    while (*link && strcmp((*link)->peer, peer) != 0)
        link = &(*link)->next;
    return link;
}

/* --- without it --- */

sluice_status sluice_grant_create(const struct sluice_token_entry *entry, uint64_t now_ns,
                                  struct sluice_grant **grant, struct sluice_err *err)
{
    struct sluice_grant *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a token");
    pthread_mutex_init(&made->lock, NULL);
    atomic_init(&made->refs, 1);
    atomic_init(&made->is_revoked, false);
    memcpy(made->name, entry->name, sizeof(made->name));
    made->usual_s = GRANT_FIRST_CPU_S;
    made->cpu.filled_ns = made->link.filled_ns = now_ns;
    take_limits(made, entry);
    *grant = made;
    return SLUICE_OK;
}

struct sluice_grant *sluice_grant_ref(struct sluice_grant *grant)
{
    if (grant)
        atomic_fetch_add_explicit(&grant->refs, 1, memory_order_relaxed);
    return grant;
}

void sluice_grant_unref(struct sluice_grant *grant)
{
    /* Acquire and release: the last one sees what the others wrote. */
    if (!grant || atomic_fetch_sub_explicit(&grant->refs, 1, memory_order_acq_rel) != 1)
        return;
    while (grant->connections) {
        struct connection *next = grant->connections->next;
        free(grant->connections);
        grant->connections = next;
    }
    pthread_mutex_destroy(&grant->lock);
#ifndef __clang_analyzer__ /* it does not understand reference counts and reports later uses */
    free(grant);
#endif
}

void sluice_grant_update(struct sluice_grant *grant, const struct sluice_token_entry *entry)
{
    pthread_mutex_lock(&grant->lock);
    take_limits(grant, entry);
    pthread_mutex_unlock(&grant->lock);
}

void sluice_grant_revoke(struct sluice_grant *grant)
{
    atomic_store(&grant->is_revoked, true);
}

bool sluice_grant_is_revoked(const struct sluice_grant *grant)
{
    return grant && atomic_load(&grant->is_revoked);
}

const char *sluice_grant_name(const struct sluice_grant *grant)
{
    return grant ? grant->name : "";
}

bool sluice_grant_may_read(struct sluice_grant *grant, enum sluice_subset subset)
{
    if (!grant)
        return true;
    pthread_mutex_lock(&grant->lock);
    const bool may_read = subset == SLUICE_SUBSET_VAL ? grant->may_val : grant->may_train;
    pthread_mutex_unlock(&grant->lock);
    return may_read;
}

double sluice_grant_cores(struct sluice_grant *grant)
{
    if (!grant)
        return 0;
    pthread_mutex_lock(&grant->lock);
    const double cores = grant->cpu.rate;
    pthread_mutex_unlock(&grant->lock);
    return cores;
}

bool sluice_grant_enter(struct sluice_grant *grant, const char *peer)
{
    if (!grant)
        return true;
    bool is_admitted = true;
    pthread_mutex_lock(&grant->lock);
    struct connection **link = find(grant, peer);
    if (*link) {
        (*link)->num_calls++;
    } else if (grant->max_connections && grant->num_connections >= grant->max_connections) {
        is_admitted = false;
    } else {
        struct connection *added = malloc(sizeof(*added) + strlen(peer) + 1);
        is_admitted = added != NULL;
        if (added) {
            *added = (struct connection){.num_calls = 1};
            memcpy(added->peer, peer, strlen(peer) + 1);
            *link = added;
            grant->num_connections++;
        }
    }
    pthread_mutex_unlock(&grant->lock);
    return is_admitted;
}

void sluice_grant_leave(struct sluice_grant *grant, const char *peer)
{
    if (!grant)
        return;
    pthread_mutex_lock(&grant->lock);
    struct connection **link = find(grant, peer), *gone = NULL;
    if (*link && --(*link)->num_calls == 0) {
        gone = *link;
        *link = gone->next;
        grant->num_connections--;
    }
    pthread_mutex_unlock(&grant->lock);
    free(gone);
}

bool sluice_grant_take_cpu(struct sluice_grant *grant, uint64_t now_ns, uint64_t *reserved_ns)
{
    *reserved_ns = 0;
    if (!grant)
        return true;
    pthread_mutex_lock(&grant->lock);
    const bool is_limited = grant->cpu.rate > 0;
    fill(&grant->cpu, now_ns);
    const bool may_begin = !is_limited || grant->cpu.held >= 0;
    if (is_limited && may_begin) {
        *reserved_ns = (uint64_t)(grant->usual_s * 1e9);
        grant->cpu.held -= (double)*reserved_ns * 1e-9;
    }
    pthread_mutex_unlock(&grant->lock);
    return may_begin;
}

void sluice_grant_settle_cpu(struct sluice_grant *grant, uint64_t reserved_ns, uint64_t used_ns)
{
    if (!grant)
        return;
    pthread_mutex_lock(&grant->lock);
    if (grant->cpu.rate > 0)
        grant->cpu.held += ((double)reserved_ns - (double)used_ns) * 1e-9;
    if (used_ns)
        grant->usual_s += ((double)used_ns * 1e-9 - grant->usual_s) * GRANT_CPU_GAIN;
    pthread_mutex_unlock(&grant->lock);
}

uint64_t sluice_grant_wait_ns(struct sluice_grant *grant, uint64_t now_ns)
{
    if (!grant)
        return 0;
    uint64_t wait_ns = 0;
    pthread_mutex_lock(&grant->lock);
    fill(&grant->link, now_ns);
    if (grant->link.rate > 0 && grant->link.held < 0)
        wait_ns = (uint64_t)(-grant->link.held / grant->link.rate * 1e9) + 1;
    pthread_mutex_unlock(&grant->lock);
    return wait_ns;
}

void sluice_grant_spend(struct sluice_grant *grant, size_t bytes)
{
    if (!grant)
        return;
    pthread_mutex_lock(&grant->lock);
    if (grant->link.rate > 0)
        grant->link.held -= (double)bytes;
    pthread_mutex_unlock(&grant->lock);
}
